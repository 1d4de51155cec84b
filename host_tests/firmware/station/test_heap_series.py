# micropython-only: CPython has no mem_total
"""A station with series takes no heap while it measures, stores, closes records, sends them and is
acknowledged; over flash of both alignments."""

import unittest

from outpost.policies import DropOldest
from series_world import Thermometer, World
from test_heap_all import Server, measured

KINDS = ((4, False), (256, True))  # align, reprograms


class Loop(World):
    def __init__(self, kind, has_link=True, flash=None):
        self.parts = [Thermometer(b"a"), Thermometer(b"b", 0, None), Thermometer(b"c", 0, 101_325)]
        alarms = {"a": {"above": 22}}
        World.__init__(self, self.parts, flash, *kind, base=DropOldest, alarms=alarms)
        self.server = Server() if has_link else None
        self.client._link = self.link
        self.session = self.client.session
        self.count = self.alarms = 0

    def link(self):
        return self.server

    def turns(self, count):
        while count:
            count -= 1
            self.count += 1
            self.parts[0].value = 2150 + self.count % 5 + (self.count % 97 == 0) * 100
            self.parts[1].value = self.count & 63 if self.count % 3 else None
            self.turn()
            self.alarms += self.station.is_alarm
            self.client.poll(self.now_ms)
            self.client.poll(self.now_ms)


class TestHeap(unittest.TestCase):
    def test_measured_stored_sent_and_acknowledged(self):
        for kind in KINDS:
            loop = Loop(kind)
            loop.turns(400)
            sent, alarms = loop.session.acknowledged, loop.alarms
            self.assertEqual(measured(loop.turns, 3000), (0, 0), str(kind))
            self.assertTrue(loop.session.acknowledged - sent > 60, str(loop.session.acknowledged))
            self.assertTrue(loop.alarms - alarms > 50)
            self.assertEqual(loop.station.published, loop.count)

    def test_a_full_outbox_that_drops(self):
        for kind in KINDS:
            loop = Loop(kind, has_link=False)
            loop.turns(400)
            self.assertEqual(measured(loop.turns, 6000), (0, 0), str(kind))
            self.assertTrue(loop.outbox.dropped > 10, str(loop.outbox.dropped))


if __name__ == "__main__":
    unittest.main()
