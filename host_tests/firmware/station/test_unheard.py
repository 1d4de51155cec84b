"""Hours without a confirmation: while connected, with messages held; heap 0."""

import gc
import sys
import unittest

import micropython

from station.clock import Clock
from station.unheard import Unheard, after_wake

HOUR_MS = 3_600_000


class Session:
    def __init__(self):
        self.session = self.outbox = self
        self.confirmations = self.oldest_seq = 0
        self.next_seq, self.state = 5, 2


def look(unheard, clock, ms, count):
    hours = 0
    for _ in range(count):
        clock.up_ms += ms
        hours = unheard.hours()
    return hours


class TestUnheard(unittest.TestCase):
    def setUp(self):
        self.session, self.clock = Session(), Clock(0)
        self.unheard = Unheard(self.session, self.clock)

    def look(self, ms, count=1):
        return look(self.unheard, self.clock, ms, count)

    def test_an_hour_with_no_confirmation(self):
        self.assertEqual(self.look(60_000, 59), 0)
        self.assertEqual(self.look(60_000), 1)
        self.assertEqual(self.look(HOUR_MS), 2)

    def test_a_confirmation_ends_it(self):
        self.look(HOUR_MS)
        self.session.confirmations += 1
        self.assertEqual(self.look(1), 0)
        self.assertEqual(self.look(HOUR_MS), 1)

    def test_an_outage_does_not_count(self):
        self.look(1000)
        self.session.state = 0
        self.assertEqual(self.look(HOUR_MS, 10), 0)
        self.session.state = 2
        self.assertEqual(self.look(HOUR_MS), 1)

    def test_with_nothing_held_there_is_nothing_to_confirm(self):
        self.session.oldest_seq = self.session.next_seq
        self.assertEqual(self.look(HOUR_MS, 10), 0)

    def test_over_days(self):
        self.look(HOUR_MS)
        self.clock.up_day, self.clock.up_ms = 3, 0
        self.assertEqual(self.look(0), 72)

    def test_after_a_wake_the_held_messages_say_for_how_long(self):
        def hours(held, interval_ms):
            self.session.next_seq = held
            return after_wake(self.session, interval_ms)

        self.assertEqual([hours(held, HOUR_MS) for held in (0, 1, 2, 25)], [0, 0, 1, 24])
        self.assertEqual([hours(held, 60_000) for held in (60, 61, 121)], [0, 1, 2])
        self.assertEqual(hours(3, 24 * HOUR_MS), 2)  # two days: at least
        forty = [hours(held, 2_400_000) for held in (2, 3, 5)]  # minutes: 40, 80, 160
        self.assertEqual(forty, [0, 1, 2])

    def test_after_a_wake_without_link_or_with_a_confirmation_nothing_is_told(self):
        self.session.next_seq = 100
        self.session.state = 0
        self.assertEqual(after_wake(self.session, HOUR_MS), 0)
        self.session.state, self.session.confirmations = 2, 1
        self.assertEqual(after_wake(self.session, HOUR_MS), 0)

    def test_it_takes_no_heap_and_says_so_each_hour(self):
        if sys.implementation.name != "micropython":
            raise unittest.SkipTest("the heap exists only in MicroPython")
        self.look(1000)
        gc.collect()
        net, gross = gc.mem_alloc(), micropython.mem_total()
        micropython.heap_lock()
        hours = look(self.unheard, self.clock, 600_000, 12)
        micropython.heap_unlock()
        self.assertEqual((gc.mem_alloc() - net, micropython.mem_total() - gross), (0, 0))
        self.assertEqual(hours, 2)


if __name__ == "__main__":
    unittest.main()
