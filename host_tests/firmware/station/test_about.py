"""What a board tells of itself: each at its place, none where health has one, and no heap."""

import gc
import sys
import unittest

import micropython

from fake_flash import flash_in_ram
from outpost import __version__
from outpost.outbox import Outbox
from station.about import About, number_of


class Reading:
    def __init__(self, name, unit, value):
        self.name, self.unit, self.exponent, self.value = name, unit, 0, value

    def read(self):
        return self.value


class Health:
    reported_seq = -1


class Rig:
    def __init__(self, cause=None, signal=None):
        self.outbox = Outbox(flash_in_ram(8))
        self.outbox.format(b"3fa9c1d2")
        self.health, self.interval_s = Health(), 600
        of_board = [Reading(b"reset_cause", b"", cause)] if cause is not None else []
        of_board += [Reading(b"signal", b"dBm", signal)] if signal is not None else []
        self.about = About(self.outbox, self.health, "1.2.3", self.report_s, of_board)

    def report_s(self):
        return self.interval_s

    def told(self, count, stored=True):
        found = []
        for _ in range(count):
            value = self.about.read()
            if value is not None:
                found.append((self.outbox.next_seq, self.about.name, value))
            if stored:
                self.store()
        return found

    def store(self):
        self.outbox.append(b"t", b"x", 1)
        self.outbox.discard_through(self.outbox.next_seq - 1)


def run(rig, count):
    for _ in range(count):
        rig.about.read()
        rig.store()


class TestAbout(unittest.TestCase):
    def test_each_has_its_place_in_64_messages(self):
        rig = Rig(4, -60)  # it woke from deep sleep: nothing to tell at once
        signals = [(seq, b"signal", -60) for seq in (5, 21, 37, 53, 69)]
        first = [(1, b"firmware", 10203), (2, b"report_s", 600), (3, b"reset_cause", 4)]
        again = [(65, b"firmware", 10203), (66, b"report_s", 600), (67, b"reset_cause", 4)]
        self.assertEqual(rig.told(70), sorted(first + again + signals))

    def test_a_reset_is_told_by_the_first_message_that_may_have_it(self):
        rig = Rig(3)
        for _ in range(30):
            rig.store()
        self.assertEqual(rig.told(4), [(30, b"reset_cause", 3), (31, b"report_s", 600)])
        first = [(1, b"firmware", 10203), (2, b"report_s", 600), (3, b"reset_cause", 3)]
        self.assertEqual(Rig(3).told(5), first)

    def test_a_reset_is_told_again_when_its_message_was_refused(self):
        rig = Rig(3)
        for _ in range(4):
            rig.store()
        self.assertEqual(rig.told(2, stored=False), [(4, b"reset_cause", 3)] * 2)

    def test_missing_memory_is_told_once_and_again_after_a_change(self):
        rig = Rig()
        lack = Reading(b"no_memory", b"", 1)  # the run before ended that way
        rig.about = About(rig.outbox, rig.health, "1.2.3", rig.report_s, [lack])
        told = [one for one in rig.told(64) if one[1] == b"no_memory"]
        self.assertEqual(told, [(3, b"no_memory", 1)])
        lack.value = 4
        self.assertEqual(rig.told(2, stored=False), [])  # the message of the flash's wear
        rig.store()
        self.assertEqual(rig.told(2, stored=False), [(65, b"firmware", 10203)] * 2)
        for _ in range(2):
            rig.store()
        self.assertEqual(rig.told(2, stored=False), [(67, b"no_memory", 4)] * 2)
        self.assertEqual(rig.told(40), [(67, b"no_memory", 4)])

    def test_a_reset_waits_where_health_has_a_reading(self):
        rig = Rig(3)
        rig.told(5)
        rig = Rig(3)
        for _ in range(6):
            rig.store()
        rig.health.reported_seq = 6
        self.assertEqual(rig.told(3), [(7, b"reset_cause", 3), (8, b"report_s", 600)])

    def test_how_often_it_reports_is_told_at_once_when_a_command_changed_it(self):
        rig = Rig(4)
        rig.told(4)
        rig.interval_s = 3600
        self.assertEqual(rig.told(2, stored=False), [(4, b"report_s", 3600)] * 2)
        self.assertEqual(rig.told(9), [(4, b"report_s", 3600)])

    def test_without_radio_and_cause_the_rest_is_told(self):
        self.assertEqual(Rig().told(60), [(1, b"firmware", 10203), (2, b"report_s", 600)])

    def test_the_version_is_the_packages(self):
        self.assertEqual(number_of("1.2.3"), 10203)
        self.assertTrue(0 < number_of(__version__) < 1 << 30)

    def test_reading_takes_no_heap(self):
        if sys.implementation.name != "micropython":
            raise unittest.SkipTest("the heap exists only in MicroPython")
        rig = Rig(3, -60)
        run(rig, 5)
        gc.collect()
        net, gross = gc.mem_alloc(), micropython.mem_total()
        micropython.heap_lock()
        run(rig, 200)
        micropython.heap_unlock()
        self.assertEqual((gc.mem_alloc() - net, micropython.mem_total() - gross), (0, 0))


if __name__ == "__main__":
    unittest.main()
