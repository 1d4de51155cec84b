"""The client's link on a desktop: a TCP socket, with TLS if the settings say so.

Connecting blocks, at most 3 s for each address of the name: `localhost` may be ::1 first, where no
broker listens. Knows no board and no flash, so that programs that need only the link (benchmarks)
can use it. Allocates when it connects; under MicroPython the stream is the socket itself.
"""

import socket
import sys

from host_clock import ticks_ms

_DNS_FAILED = -44
_CONNECT_MS = 3000
_TCP, _NODELAY = 6, 1
_IS_MICROPYTHON = sys.implementation.name == "micropython"


def yes():
    return True


def open_link(settings, time_is_set=yes):
    """The callable with which the client opens its stream.

    time_is_set: callable, false while the dates of certificates cannot be checked. Raises
    ValueError: one line that names the key.
    """
    host, name = settings.get("broker_host"), settings.get("server_name")
    if not host:
        raise ValueError("settings: key 'broker_host' is missing; add it")
    port = settings.get("broker_port", 8883 if settings.get("tls") else 1883)

    def open_socket():
        try:
            addresses = socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM)
        except OSError:  # with numbers of getaddrinfo(), not errno
            raise OSError(_DNS_FAILED)
        refused = OSError(_DNS_FAILED)
        for address in addresses:
            try:
                return _connected(address)
            except OSError as error:
                refused = error
        raise refused

    if settings.get("tls"):
        return _secure(settings, name or host, open_socket, time_is_set)
    return open_socket if _IS_MICROPYTHON else lambda: _CPythonStream(open_socket())


def _connected(address):
    sock = socket.socket(address[0], address[1])
    try:
        sock.settimeout(_CONNECT_MS / 1000)
        sock.connect(address[-1])
        # A packet is one write, which should not wait for the ACK of the previous one.
        sock.setsockopt(_TCP, _NODELAY, 1)
        sock.setblocking(False)
    except OSError:
        sock.close()
        raise
    return sock


def _secure(settings, name, open_socket, time_is_set):
    from support.tls_link import TlsLink, client_context

    if _IS_MICROPYTHON:
        context = client_context(settings)
    else:
        from cpython_tls import client_context as cpython_context

        context = cpython_context(settings)
    return TlsLink(open_socket, context, name, time_is_set, ticks_ms)


class _CPythonStream:
    """A CPython socket with the methods of a MicroPython stream."""

    def __init__(self, sock):
        self._socket = sock

    def write(self, buf, offset, length):
        try:
            return self._socket.send(memoryview(buf)[offset : offset + length])
        except BlockingIOError:
            return None

    def readinto(self, buf):
        try:
            return self._socket.recv_into(buf)
        except BlockingIOError:
            return None

    def close(self):
        self._socket.close()
