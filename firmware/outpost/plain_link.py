"""A link over plain TCP: for a desktop, or a board whose program joins the network itself.

    client = Client(plain_link("192.168.1.5"), session)

Connecting blocks, at most 3 s for each address of the name: `localhost` may be ::1 first, where no
broker listens. Under MicroPython the stream is the socket itself. Allocation: when it connects.
"""

import socket
import sys

from micropython import const

_DNS_FAILED = const(-44)
_CONNECT_MS = const(3000)
_TCP = const(6)
_NODELAY = const(1)


def plain_link(host, port=1883):
    """Returns the callable with which a Client opens its stream. host: name or address."""
    if sys.implementation.name == "micropython":
        return lambda: connected(host, port)
    return lambda: _CPythonStream(connected(host, port))


def connected(host, port):
    """Returns a non-blocking socket. Raises OSError: the last address's, or DNS_FAILED."""
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
