"""The board tells that it is there once a connection, as soon as nothing else goes out, without
heap; its will is in CONNECT."""

import unittest

from fake_flash import flash_in_ram
from outpost.client import Client
from outpost.outbox import Outbox
from outpost.session import Session
from station.state import State

TOPIC = b"outpost/b/state"
ONLINE = b"\x31\x17\x00\x0foutpost/b/stateonline"


class Server:
    """Takes everything, keeps what was PUBLISH; says CONNACK."""

    def __init__(self):
        self.packets, self.answer, self.is_open = [], b"", True

    def write(self, buf, offset, length):
        packet = bytes(buf[offset : offset + length])
        self.packets.append(packet)
        self.answer += b"\x20\x02\0\0" if packet[0] == 0x10 else b""
        return length

    def readinto(self, buf):
        if not self.is_open:
            return 0
        if not self.answer:
            return None
        length = len(self.answer)
        buf[:length] = self.answer
        self.answer = b""
        return length

    def close(self):
        pass


class StateTest(unittest.TestCase):
    def setUp(self):
        outbox = Outbox(flash_in_ram(4, 256))
        outbox.format(b"01234567")
        will = TOPIC, b"offline", 1, True
        self.servers = []
        self.client = Client(self.link, Session(outbox, b"b", will=will))
        self.state = State(self.client, TOPIC)
        self.now = 0

    def link(self):
        self.servers.append(Server())
        return self.servers[-1]

    def turns(self, count=40):
        for _ in range(count):
            self.now += 16
            self.client.poll(self.now)
            self.state.tell()

    def told(self):
        return [p for server in self.servers for p in server.packets if p[0] & 0xF0 == 0x30]

    def test_once_a_connection_retained_with_qos_0(self):
        self.turns()
        self.assertEqual(self.told(), [ONLINE])
        self.servers[-1].is_open = False
        self.turns(400)
        self.assertEqual(self.told(), [ONLINE, ONLINE])

    def test_not_before_a_connection(self):
        self.assertFalse(self.state.tell())
        self.assertEqual(self.servers, [])

    def test_the_will_is_retained(self):
        self.turns()
        connect = self.servers[0].packets[0]
        self.assertEqual(connect[9] & 0x3C, 0x2C)  # will, QoS 1, retain
        self.assertTrue(b"\0\x0foutpost/b/state\0\x07offline" in connect)

    def test_a_sleeping_board_says_so(self):
        self.state = State(self.client, TOPIC, b"asleep")
        self.turns()
        self.assertEqual(self.told(), [ONLINE[:-6] + b"asleep"])

    def test_before_an_orderly_end_it_says_that_it_goes(self):
        self.turns()
        self.state.leave()
        self.turns(1)
        self.assertEqual(self.told()[-1], b"\x31\x18\x00\x0foutpost/b/stateoffline")


if __name__ == "__main__":
    unittest.main()
