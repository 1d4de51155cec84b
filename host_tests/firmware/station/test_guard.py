"""Whatever a sensor does: what the board sends, counts and prints, and that the others go on."""

import gc
import json
import sys
import unittest

import micropython

from fake_flash import flash_in_ram
from outpost.outbox import Outbox
from station import flash_wear
from station.clock import Clock
from station.guard import FAULTS, guarded
from station.health import Health
from station.sensor_notices import SensorNotices
from station.station import Station
from station.telemetry import Pack

IS_32_BIT = sys.maxsize < 1 << 32
TOPIC = b"outpost/board-1/data"
WEAR = ("erases", "outbox_blocks")
RANGE = (("", "Cel", -1, -400, 850),)


class Good:
    """A chip's own sensor."""

    name, unit, exponent = b"good", b"V", -2

    def read(self):
        return 42


class File:
    """A sensor of a driver file, as support/sensor_file.py has it. world: what the chip does."""

    settle_ms = 0

    def __init__(self, world, readings=RANGE, name=b"attic"):
        self.world, self.readings, self.name = world, readings, name

    def open(self):
        self.world.opened.append(self.world.now_ms)
        if self.world.open_fault:
            raise self.world.open_fault
        return Driver(self.world)


class Driver:
    def __init__(self, world):
        self.world = world

    def read(self):
        world = self.world
        world.reads += 1
        world.now_ms += world.takes_ms
        if isinstance(world.value, BaseException):
            raise world.value
        return world.value


class World:
    """value: what the driver's next read() returns, or raises. opened: when it was constructed."""

    def __init__(self):
        self.now_ms = self.takes_ms = self.reads = self.feeds = 0
        self.value, self.open_fault, self.opened = 215, None, []

    def ticks_ms(self):
        return self.now_ms

    def feed(self):
        self.feeds += 1


class Client:
    """publish() as the client has it, into the outbox alone."""

    takeovers = 0

    def __init__(self, outbox):
        self.outbox, self.session = outbox, self

    def publish(self, topic, payload, qos=1, retain=False, length=None):
        return self.outbox.append(topic, payload, length)


class Desk:
    """A station over one sensor of a driver file, between two of the chip's."""

    def __init__(self, world, readings=RANGE, others=True):
        self.world = world
        self.outbox = Outbox(flash_in_ram(8))
        self.outbox.format(b"3fa9c1d2")
        sensors = [Good(), File(world, readings), Good()] if others else [File(world, readings)]
        self.guards, channels = guarded(sensors, world.ticks_ms, world.feed)
        self.guard = self.guards[1 if others else 0]
        health = Health(self.outbox, lambda: 0)
        channels += flash_wear.sensors(self.outbox)
        channels.append(SensorNotices(self.outbox, self.guards, health))
        client, pack = Client(self.outbox), Pack(b"board-1", 400)
        self.station = Station(client, pack, Clock(0), channels, TOPIC, 1000, 0)
        health.station = self.station

    def measure(self, pause_ms=1000):
        """{name: value} of the message; {} where none was stored. A repeated name: its values."""
        before = self.outbox.next_seq
        self.station.measure()
        self.world.now_ms += pause_ms
        if self.outbox.next_seq == before:
            return {}
        self.outbox.discard_through(before)
        found = {}
        pack = self.station.pack  # of all but the wear, which every 64th message has
        for one in json.loads(bytes(pack.buffer[: pack.length]).decode()):
            name, value = one["n"], one["v"]
            if name not in WEAR:
                found[name] = value if name not in found else (found[name], value)
        return found


class NoText(Exception):
    def __str__(self):
        raise ValueError


BAD = (
    (OSError(19), "no answer"),
    (ValueError("crc"), "raised"),
    (NoText(), "raised"),
    (MemoryError(), "raised"),
    (RuntimeError("maximum recursion depth exceeded"), "raised"),
    (SystemExit(3), "raised"),
    (float("nan"), "not a number"),
    (float("inf"), "not a number"),
    (-float("inf"), "not a number"),
    (1e30, "out of range"),
    (86.0, "out of range"),
    (1 << 40, "out of range"),
    (-401, "out of range"),
    ("21.5", "garbage"),
    (b"21", "garbage"),
    ([], "garbage"),
    ((1, 2), "garbage"),
    ({}, "garbage"),
)


class TestFaults(unittest.TestCase):
    def test_the_others_go_on_and_the_fault_is_told_once_and_its_end_too(self):
        for value, fault in BAD:
            world = World()
            desk = Desk(world)
            self.assertEqual(desk.measure()["attic"], 21.5)
            world.value, good = value, (0.42, 0.42)
            number = FAULTS.index(fault)
            # number 1 is the first of the states
            self.assertEqual(desk.measure(), {"good": good, "attic.fault": number}, repr(value))
            self.assertEqual(desk.measure(), {"good": good}, repr(value))
            self.assertEqual((desk.guard.faults, desk.guard.fault), (2, number), repr(value))
            world.value = -5
            world.now_ms += 600_000
            told = desk.measure()
            self.assertEqual(told, {"good": good, "attic": -0.5, "attic.fault": 0}, repr(value))

    def test_a_float_is_rounded_to_the_exponent(self):
        for value, sent in ((21.46, 21.5), (-0.04, 0), (21, 2.1), (True, 0.1), (False, 0)):
            world = World()
            world.value = value
            self.assertEqual(Desk(world).measure()["attic"], sent)

    def test_several_values_come_from_one_reading_and_a_bad_one_leaves_the_others(self):
        readings = (("temperature", "Cel", -2), ("humidity", "%RH", -1), ("pressure", "Pa", 0))
        world = World()
        desk = Desk(world, readings, others=False)
        world.value = [2150, 45.25, None]
        found = desk.measure()
        self.assertEqual((found["attic_temperature"], found["attic_humidity"]), (21.5, 45.2))
        self.assertEqual((len(found), world.reads, desk.guard.fault), (2, 1, 0))
        world.value = (2151, float("nan"), 98_000)
        self.assertEqual(
            desk.measure(),
            {"attic_temperature": 21.51, "attic_pressure": 98_000, "attic.fault": 4},
        )
        desk.measure()
        self.assertEqual((world.reads, len(world.opened)), (3, 1))

    def test_a_sensor_alone_that_fails_does_not_silence_its_board(self):
        world = World()
        world.open_fault = OSError(5)
        desk = Desk(world, others=False)
        for _ in range(70):
            self.assertEqual(desk.measure(1).get("attic.fault", 1), 1)
        self.assertEqual(desk.outbox.next_seq, 70)

    def test_none_is_a_fault_at_the_third_time_and_never_of_the_chips_own(self):
        world = World()
        desk = Desk(world)
        world.value = None
        self.assertEqual([len(desk.measure()) for _ in range(3)], [1, 1, 2])
        self.assertEqual(FAULTS[desk.guard.fault], "no reading")
        silent = Good()
        silent.read = lambda: None
        guards, _ = guarded([silent], world.ticks_ms, world.feed)
        for _ in range(9):
            guards[0].measure()
        self.assertEqual((guards[0].fault, guards[0].faults), (0, 0))

    def test_one_of_the_chips_own_that_raises_is_told_and_read_again(self):
        world = World()
        bad = Good()

        def read():
            world.reads += 1
            raise OSError(5)

        bad.read = read
        guards, channels = guarded([bad], world.ticks_ms, world.feed)
        for _ in range(4):
            self.assertTrue(channels[0].read() is None)
            world.now_ms += 2000
        self.assertEqual((guards[0].fault, guards[0].faults, world.reads), (1, 4, 4))


class TestRetry(unittest.TestCase):
    def test_a_missing_chip_is_tried_at_growing_distances_and_comes_back(self):
        world = World()
        world.open_fault = OSError(19)
        desk = Desk(world)
        for _ in range(4000):
            desk.measure()
        gaps = [b - a for a, b in zip(world.opened, world.opened[1:])]
        self.assertEqual(gaps[:7], [1000, 1000, 2000, 4000, 8000, 16_000, 32_000])
        self.assertEqual((max(gaps), len(gaps)), (600_000, 15))
        world.open_fault = None
        back = 0
        while desk.measure().get("attic") != 21.5:
            back += 1
        self.assertTrue(back <= 600)
        world.value = OSError(19)  # the distances begin again
        for _ in range(5):
            desk.measure()
        last = world.opened[-3:]
        self.assertEqual((last[1] - last[0], last[2] - last[1]), (1000, 2000))

    def test_a_slow_one_is_kept_told_and_read_less_often_and_the_watchdog_is_fed(self):
        world = World()
        desk = Desk(world)
        desk.measure()
        world.takes_ms = 5000
        self.assertEqual(desk.measure(), {"good": (0.42, 0.42), "attic": 21.5, "attic.fault": 7})
        feeds = world.feeds
        self.assertEqual(["attic" in desk.measure() for _ in range(44)], [False] * 44)
        self.assertEqual((world.reads, desk.guard.detail), (2, "5000 ms"))
        self.assertTrue(feeds >= 6)
        world.takes_ms = 20
        world.now_ms += 5000
        self.assertEqual(desk.measure()["attic"], 21.5)
        self.assertEqual(desk.guard.fault, 0)


class TestHung(unittest.TestCase):
    def test_one_that_hung_until_the_watchdog_is_left_alone_for_an_hour_and_told(self):
        world, kept = World(), [0]

        def note(number=None):
            if number is not None:
                kept[0] = number
            return kept[0]

        sensors = [Good(), File(world), File(World(), name=b"cellar")]
        guards, channels = guarded(sensors, world.ticks_ms, world.feed, note)
        world.value = KeyboardInterrupt()  # the only way out of what never ends
        with self.assertRaises(KeyboardInterrupt):
            for channel in channels:
                channel.read()
        self.assertEqual(kept, [2])
        world.value = 215
        guards, channels = guarded(sensors, world.ticks_ms, world.feed, note)  # after the reset
        self.assertEqual([one.read() for one in channels], [42, None, 215])
        self.assertEqual((FAULTS[guards[1].fault], guards[1].faults, kept), ("hung", 1, [0]))
        world.now_ms += 3_599_999
        self.assertTrue(channels[1].read() is None)
        world.now_ms += 1
        self.assertEqual((channels[1].read(), guards[1].fault, kept), (215, 0, [0]))


class TestPlaces(unittest.TestCase):
    def test_in_64_messages_a_driver_says_that_it_is_well_and_one_that_failed_how_often(self):
        world = World()
        desk = Desk(world)
        told = [(number, desk.measure()) for number in range(128)]
        self.assertEqual(
            [number for number, one in told if "attic.fault" in one], [9, 73], "its place"
        )
        world.value = OSError(5)
        desk.measure()
        world.value = 215
        world.now_ms += 5000
        found = [desk.measure() for _ in range(128)]
        self.assertEqual([one["attic.faults"] for one in found if "attic.faults" in one], [1])

    def test_a_fault_that_comes_and_goes_leaves_the_health_of_the_board_its_place(self):
        world = World()
        desk = Desk(world)
        desk.measure()
        told = {}
        desk.outbox.mended = 7
        for number in range(130):
            world.value = "bad" if number & 1 else 215
            told.update(desk.measure(10_000))
        self.assertEqual((told["mended"], told["left_out"], told["pins_lost"]), (7, 0, 0))
        self.assertEqual((desk.guard.faults, told["attic.faults"] > 10), (65, True))

    def test_no_message_is_longer_than_with_a_health_counter(self):
        for seq in range(1, 64):
            names = [name for name in Desk(World()).measure() if "." in name]
            self.assertTrue(len(names) <= 1, seq)


class TestHeap(unittest.TestCase):
    """On 32-bit. Gross: with what is given back at once."""

    def test_readings_of_integers_take_none(self):
        self.check(lambda world: None, 0, 0)

    def test_a_float_takes_the_guard_one_object_of_16_bytes(self):
        if not IS_32_BIT:
            raise unittest.SkipTest("counted on 32-bit MicroPython")
        self.check(lambda world: setattr(world, "value", 21.5), 1600, 16)

    def check(self, prepare, net, gross_each):
        if sys.implementation.name != "micropython":
            raise unittest.SkipTest("the heap exists only in MicroPython")
        world = World()
        desk = Desk(world)
        prepare(world)
        steps(desk, 2)
        gc.collect()
        gc.disable()
        before, total = gc.mem_alloc(), micropython.mem_total()
        steps(desk, 100)
        total = micropython.mem_total() - total
        before = gc.mem_alloc() - before
        gc.enable()
        self.assertTrue(total <= gross_each * 100, str(total))
        self.assertEqual(before, net)
        print("heap of 100 readings, net and gross:", before, total)


def steps(desk, count):
    while count:
        count -= 1
        desk.station.measure()
        desk.outbox.discard_through(desk.outbox.next_seq - 1)


if __name__ == "__main__":
    unittest.main()
