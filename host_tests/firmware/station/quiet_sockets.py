"""Real sockets of unix MicroPython under the names that a board's `socket` and `select` have, for
hosts that do not answer.

A board connects to (address, port); unix wants an address from getaddrinfo(), which a board must
not ask. That is all that is changed on the way: every call goes to the real one, without heap of
its own. Ports 53 and 123 become those of the test.
"""

import select
import socket


def resolved(port):
    return socket.getaddrinfo("127.0.0.1", port)[0][-1]


def bound(kind):
    """A socket of that kind on a free port of the loopback; the port cannot be asked for."""
    port = 20_000
    while True:
        found = socket.socket(socket.AF_INET, kind)
        try:
            found.bind(resolved(port))
            return found, port
        except OSError:
            found.close()
            port += 1


class RealSockets:
    """ports: what a port of the board's is here. Counts the datagrams that were sent."""

    AF_INET, SOCK_STREAM, SOCK_DGRAM = socket.AF_INET, socket.SOCK_STREAM, socket.SOCK_DGRAM

    def __init__(self, ports):
        self.ports = ports
        self.sent = 0

    def socket(self, family, kind):
        return _Real(self, socket.socket(family, kind))


class _Real:
    def __init__(self, net, raw):
        self.net, self.raw = net, raw

    def setblocking(self, blocking):
        self.raw.setblocking(blocking)

    def setsockopt(self, level, option, value):
        self.raw.setsockopt(level, option, value)

    def connect(self, address):
        self.raw.connect(resolved(self.net.ports.get(address[1], address[1])))

    def send(self, data):
        self.net.sent += 1
        return self.raw.send(data)

    def recv(self, size):
        return self.raw.recv(size)

    def write(self, buf, offset, length):
        return self.raw.write(buf, offset, length)

    def readinto(self, buf):
        return self.raw.readinto(buf)

    def close(self):
        self.raw.close()


class RealSelect:
    POLLIN, POLLOUT, POLLERR, POLLHUP = 1, 4, 8, 16

    def poll(self):
        return _Poll(select.poll())


class _Poll:
    def __init__(self, raw):
        self._raw = raw

    def register(self, tcp, events):
        self._raw.register(tcp.raw, events)

    def poll(self, timeout_ms):
        return self._raw.poll(timeout_ms)

    def ipoll(self, timeout_ms):
        return self._raw.ipoll(timeout_ms)
