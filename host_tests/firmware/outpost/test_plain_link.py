"""The link without a board: a name with more than one address."""

import socket
import unittest

from outpost import plain_link


class Names:
    """The module `socket`, with a name service in which the broker has these addresses."""

    def __init__(self, addresses):
        self._addresses = addresses

    def __getattr__(self, name):
        return getattr(socket, name)

    def getaddrinfo(self, host, port, *hints):
        return self._addresses


def resolved(port):
    return socket.getaddrinfo("127.0.0.1", port, 0, socket.SOCK_STREAM)[0]


def listening():
    """A socket at a free port, its port."""
    server = socket.socket()
    for port in range(20_300, 20_400):
        try:
            server.bind(resolved(port)[-1])
        except OSError:
            continue
        server.listen(1)
        return server, port
    raise AssertionError("no port is free")


class TestAddresses(unittest.TestCase):
    def setUp(self):
        self.server, self.port = listening()
        closed, self.dead_port = listening()
        closed.close()

    def tearDown(self):
        self.server.close()
        plain_link.socket = socket

    def open(self, *ports):
        plain_link.socket = Names([resolved(port) for port in ports])
        return plain_link.plain_link("broker.test")()

    def test_the_next_address_is_tried_where_nothing_listens_at_the_first(self):
        self.open(self.dead_port, self.port).close()

    def test_the_last_refusal_is_told(self):
        with self.assertRaises(OSError):
            self.open(self.dead_port, self.dead_port)


if __name__ == "__main__":
    unittest.main()
