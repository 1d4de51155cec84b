"""The board tells that it is there once a connection, as soon as nothing else goes out, without
heap; its will is in CONNECT."""

import unittest

from fake_flash import flash_in_ram
from outpost.client import Client
from outpost.outbox import Outbox
from outpost.session import Session
from station.state import State
from virtual.clock import Clock
from virtual.world import World

TOPIC = b"outpost/b/state"
ONLINE = b"\x31\x17\x00\x0foutpost/b/stateonline"


class StateTest(unittest.TestCase):
    def setUp(self):
        outbox = Outbox(flash_in_ram(4, 256))
        outbox.format(b"01234567")
        will = TOPIC, b"offline", 1, True
        self.world = World({})
        self.world.on_effect = self.note
        self.ticks_ms = Clock(self.world).ticks_ms
        self.sent, self.streams = [], []
        self.client = Client(self.link, Session(outbox, b"b", will=will))
        self.state = State(self.client, TOPIC)

    def tearDown(self):
        self.assertEqual(self.world.broker.violations, [])

    def note(self, world, kind, details):
        self.sent.append(details)

    def link(self):
        self.streams.append(self.world.broker.accept())
        return self.streams[-1]

    def turns(self, count=40):
        for _ in range(count):
            self.world.sleep_us(16_000)
            self.client.poll(self.ticks_ms())
            self.state.tell()

    def told(self):
        return [packet for packet in self.sent if packet and packet[0] & 0xF0 == 0x30]

    def test_once_a_connection_retained_with_qos_0(self):
        self.turns()
        self.assertEqual(self.told(), [ONLINE])
        self.streams[-1].end()
        self.turns(400)
        self.assertEqual(self.told(), [ONLINE, ONLINE])
        self.assertEqual(self.world.broker.retained, {TOPIC: b"online"})

    def test_not_before_a_connection(self):
        self.assertFalse(self.state.tell())
        self.assertEqual((self.streams, self.sent), ([], []))

    def test_the_will_is_retained(self):
        self.turns()
        connect = self.sent[0]
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
