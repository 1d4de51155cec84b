"""What a board says of its own health: in which message, how often, and how long it makes them."""

import gc
import json
import sys
import unittest

import micropython

from fake_flash import flash_in_ram
from outpost.outbox import Outbox
from station import flash_wear
from station.clock import Clock
from station.health import COUNTERS, Health
from station.station import Station
from station.telemetry import Pack

TOPIC = b"outpost/board-1/data"
MOST_PACKET_BYTES = 364  # above, a silent path may block RP2's network stack (rp2_board.py)


class Sensor:
    def __init__(self, name, unit, value, exponent=0):
        self.name, self.unit, self.value, self.exponent = name, unit, value, exponent

    def read(self):
        return self.value


def chip_sensors():
    """The Pico W's four, at the longest that they say."""
    return [
        Sensor(b"temperature", b"Cel", -105, -1),
        Sensor(b"memory", b"B", 146_700),
        Sensor(b"signal", b"dBm", -100),
        Sensor(b"reset_cause", b"", 3),
    ]


class Client:
    """publish() as the client has it, into the outbox alone; full: it refuses."""

    def __init__(self, outbox):
        self.outbox, self.session, self.full = outbox, self, False
        self.takeovers = 0

    def publish(self, topic, payload, qos=1, retain=False, length=None):
        return -1 if self.full else self.outbox.append(topic, payload, length)


class Silent:
    def __init__(self, hours):
        self._hours = hours

    def hours(self):
        return self._hours


class Rig:
    """A station that measures by hand. stored: what is in the messages, by their number."""

    def __init__(self, sensors=(), device=b"board-1", clock=None, first_seq=0):
        self.outbox = Outbox(flash_in_ram(8))
        self.outbox.format(b"3fa9c1d2", first_seq=first_seq)
        self.lost = 0
        self.client, self.longest = Client(self.outbox), 0
        self.health = Health(self.outbox, lambda: self.lost)
        sensors = list(sensors) or [Sensor(b"load", b"", 42, -2)]
        sensors += flash_wear.sensors(self.outbox) + [self.health]
        pack = Pack(device, 400)
        self.station = Station(self.client, pack, clock or Clock(0), sensors, TOPIC, 1000, 0)
        self.health.station = self.station

    def measure(self, count=1):
        """[(number, {name: value} of the health counters)] of those that were stored."""
        found = []
        for _ in range(count):
            self.station.measure()
            if self.station.status == 0:
                pack = self.station.pack
                records = json.loads(bytes(pack.buffer[: pack.length]).decode())
                told = {one["n"]: one["v"] for one in records if one["n"].encode() in COUNTERS}
                found.append((self.outbox.next_seq - 1, told))
                self.longest = max(self.longest, len(TOPIC) + pack.length + 7)
                self.outbox.discard_through(self.outbox.next_seq - 1)
        return found


def told(messages):
    return [(seq, one) for seq, one in messages if one]


class TestHealth(unittest.TestCase):
    def test_a_board_in_good_health_says_that_no_block_is_out_and_nothing_is_aside(self):
        self.assertEqual(
            told(Rig().measure(129)),
            [
                (8, {"left_out": 0}), (16, {"aside": 0}), (24, {"pins_lost": 0}),
                (44, {"unheard": 0}),
                (72, {"left_out": 0}), (80, {"aside": 0}), (88, {"pins_lost": 0}),
                (108, {"unheard": 0}),
            ],
        )  # fmt: skip

    def test_a_counter_that_changes_is_in_the_next_message_and_then_in_its_place_of_64(self):
        rig = Rig()
        rig.measure(5)
        rig.outbox.left_out = 1
        self.assertEqual(
            [one for one in told(rig.measure(80)) if "left_out" in one[1]],
            [(5, {"left_out": 1}), (8, {"left_out": 1}), (72, {"left_out": 1})],
        )

    def test_each_counter_has_its_name(self):
        for name, change in (
            ("left_out", lambda rig: setattr(rig.outbox, "left_out", 7)),
            ("aside", lambda rig: setattr(rig.outbox, "aside", 7)),
            ("pins_lost", lambda rig: setattr(rig, "lost", 7)),
            ("unheard", lambda rig: setattr(rig.health, "unheard", Silent(7))),
            ("not_published", lambda rig: setattr(rig.station, "not_published", 7)),
            ("unreadable", lambda rig: setattr(rig.outbox, "unreadable", 7)),
            ("mended", lambda rig: setattr(rig.outbox, "mended", 7)),
            ("torn", lambda rig: setattr(rig.outbox, "sealed_torn", 7)),
            ("takeovers", lambda rig: setattr(rig.client, "takeovers", 7)),
            ("ahead", lambda rig: setattr(rig.client, "ahead", 7)),
            ("cut_short", lambda rig: setattr(rig.outbox, "cut_short", 7)),
            ("not_passed", lambda rig: setattr(rig.client, "not_passed", 7)),
        ):
            rig = Rig()
            rig.measure(1)
            change(rig)
            self.assertEqual(rig.measure(1), [(1, {name: 7})])
            others = [one for one in told(rig.measure(63)) if name in one[1]]
            self.assertEqual([one[1] for one in others], [{name: 7}], name)

    def test_several_come_one_a_message_and_none_with_the_wear(self):
        rig = Rig()
        rig.measure(63)
        rig.outbox.left_out, rig.outbox.aside, rig.outbox.mended = 1, 2, 3
        self.assertEqual(
            rig.measure(5),
            [(63, {"left_out": 1}), (64, {}), (65, {"aside": 2}), (66, {"mended": 3}), (67, {})],
        )

    def test_refused_measurements_are_told_by_the_first_that_is_stored(self):
        rig = Rig()
        rig.measure(3)
        rig.client.full = True
        self.assertEqual(rig.measure(4), [])
        rig.client.full = False
        self.assertEqual(rig.measure(2), [(3, {"not_published": 4}), (4, {})])

    def test_what_was_told_in_a_message_that_was_refused_is_told_again(self):
        rig = Rig()
        rig.measure(3)
        rig.outbox.left_out = 2
        rig.client.full = True
        rig.measure(1)
        rig.client.full = False
        self.assertEqual(rig.measure(2), [(3, {"left_out": 2}), (4, {"not_published": 1})])

    def test_one_that_went_back_to_zero_is_told(self):
        rig = Rig()
        rig.outbox.aside = 3
        rig.measure(4)
        rig.outbox.aside = 0
        self.assertEqual(rig.measure(2), [(4, {"aside": 0}), (5, {})])


class TestSize(unittest.TestCase):
    def test_no_message_of_the_default_sensors_passes_the_bound(self):
        """With all that may be in it at once: a number of 10 digits, time and time since the boot,
        a counter of 10 digits."""
        clock = Clock(0)
        clock.set(20_413, 45_296_007, 0)
        clock.up_day = 99
        rig = Rig(chip_sensors(), b"kitchen-01", clock, (1 << 30) - 200)
        rig.station.pack._with_uptime = True
        rig.outbox.boot = 65_535
        for name in ("left_out", "aside", "unreadable", "mended", "sealed_torn"):
            setattr(rig.outbox, name, (1 << 30) - 1)
        rig.station.not_published = rig.lost = rig.client.takeovers = (1 << 30) - 1
        names = set()
        for _, one in rig.measure(128):
            names.update(one)
        self.assertEqual(len(names), 9)
        print("longest PUBLISH of the default sensors with a health counter:", rig.longest)
        self.assertTrue(rig.longest <= MOST_PACKET_BYTES, str(rig.longest))


class TestHeap(unittest.TestCase):
    def test_measuring_takes_none_whether_a_counter_is_told_or_not(self):
        if sys.implementation.name != "micropython":
            raise unittest.SkipTest("the heap exists only in MicroPython")
        rig = Rig(chip_sensors())
        rig.measure(2)
        gc.collect()
        net, gross = gc.mem_alloc(), micropython.mem_total()
        micropython.heap_lock()
        measure_all(rig, 300)
        micropython.heap_unlock()
        net, gross = gc.mem_alloc() - net, micropython.mem_total() - gross
        self.assertEqual((net, gross, rig.outbox.next_seq), (0, 0, 302))


def measure_all(rig, count):
    for number in range(count):
        if number % 10 == 0:
            rig.outbox.mended += 1
        rig.station.measure()
        rig.outbox.discard_through(rig.outbox.next_seq - 1)


if __name__ == "__main__":
    unittest.main()
