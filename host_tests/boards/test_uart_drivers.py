"""Drivers of sensors on a UART: the frames of their manuals, garbage before, between and in them, a
sensor that is silent, and a bound on the time; no heap.
"""

import sys
import unittest

from fake_bus import Installed, Wiring
from fake_chips import Serial, gross, readings_of_a_wake
from station.guard import guarded

PINS = {"tx": 8, "rx": 9}
PASSIVE, ASK = b"\x42\x4d\xe1\x00\x00\x01\x70", b"\x42\x4d\xe2\x00\x00\x01\x71"
WARM_MS = 30_000


def frame(*words):
    """Of a PMS5003: 13 words behind the head, then the sum of all bytes."""
    words = words + (0x0101,) * (13 - len(words))
    found = b"\x42\x4d\x00\x1c"
    for word in words:
        found += bytes((word >> 8, word & 255))
    total = sum(found)
    return found + bytes((total >> 8, total & 255))


FRAME = frame(3, 5, 6, 2, 300, 4000, 0x424D)  # a count that looks like a head
VALUES = [2, 300, 4000]
DONE = b"\x42\x4d\x00\x04\xe1\x00\x01\x74"  # its answer to PASSIVE


class Pms:
    """with Pms(reply) as pms: a driver that is warm, and its sensor."""

    def __init__(self, reply, before=b""):
        self.wiring = Wiring()
        self.sensor = Serial(self.wiring, {PASSIVE: DONE, ASK: reply}, before)
        self.wiring.serial[9] = self.sensor

    def __enter__(self):
        self._installed = Installed(self.wiring)
        desk = self._installed.__enter__()
        self.driver = desk.sensor(driver="pms5003", **PINS).open()
        self.wiring.now_ms += WARM_MS
        return self

    def __exit__(self, *error):
        self._installed.__exit__(*error)


class TestPms5003(unittest.TestCase):
    def test_the_sum_of_the_manuals_commands(self):
        for command in (PASSIVE, ASK):
            self.assertEqual(sum(command[:5]), command[5] << 8 | command[6])

    def test_a_frame(self):
        with Pms(FRAME) as pms:
            self.assertEqual(pms.driver.read(), VALUES)
            self.assertEqual(pms.sensor.commands, [PASSIVE, ASK])
            pms.sensor.replies[ASK] = frame(0, 0, 0, 10, 20, 30)
            self.assertEqual(pms.driver.read(), [10, 20, 30])

    def test_none_until_the_fan_is_fast_and_no_fault(self):
        wiring = Wiring()
        wiring.serial[9] = Serial(wiring, {ASK: FRAME})
        with Installed(wiring) as desk:
            sensor = desk.sensor(driver="pms5003", **PINS)
            (guard,), _ = guarded([sensor], desk.ticks_ms, desk.ticks_ms)
            while wiring.now_ms < WARM_MS - 1000:
                guard.measure()
                self.assertEqual((guard.fault, guard.values), (0, [None, None, None]))
                wiring.now_ms += 500
            wiring.now_ms = sensor.settle_ms
            guard.measure()
        self.assertEqual((guard.faults, guard.values), (0, VALUES))

    def test_a_wake_from_deep_sleep_waits_until_then(self):
        wiring = Wiring()
        wiring.serial[9] = Serial(wiring, {ASK: FRAME})
        with Installed(wiring) as desk:
            sensor = desk.sensor(driver="pms5003", **PINS)
            channels = guarded([sensor], desk.ticks_ms, desk.ticks_ms)[1]
            self.assertEqual(readings_of_a_wake(channels, wiring), VALUES)

    def test_old_frames_and_garbage_that_wait_are_not_read(self):
        old = frame(0, 0, 0, 1, 1, 1)
        for before in (b"\x00", b"\xff" * 300, old * 9, old[:31], b"\x42", b"\x42\x4d"):
            with Pms(FRAME, before) as pms:
                self.assertEqual(pms.driver.read(), VALUES, str(before))

    def test_garbage_before_the_frame_is_skipped(self):
        for garbage in (b"\x00", b"\x42", b"\x42\x42\x4d", b"\x42\x4d\x00", DONE, b"\xff" * 64):
            with Pms(garbage + FRAME) as pms:
                self.assertEqual(pms.driver.read(), VALUES, str(garbage))

    def test_a_bad_frame_is_asked_for_again_once_it_is_known(self):
        bad = FRAME[:20] + bytes((FRAME[20] ^ 1,)) + FRAME[21:]
        with Pms(bad + FRAME) as pms:
            self.assertEqual(pms.driver.read(), VALUES)
        with Pms(bad) as pms:
            asked = []
            answer = pms.sensor.write

            def write(data):
                asked.append(data)
                pms.sensor.replies[ASK] = FRAME if len(asked) > 1 else bad
                answer(data)

            pms.sensor.write = write
            self.assertEqual((pms.driver.read(), asked), (VALUES, [ASK, ASK]))

    def test_never_a_good_frame(self):
        bad = FRAME[:31] + bytes((FRAME[31] ^ 1,))
        for reply in (bad, FRAME[:31], FRAME[1:], b"\x00", b"\x42\x4d" * 100, b"\xff" * 700):
            with Pms(reply) as pms:
                began_ms = pms.wiring.now_ms
                with self.assertRaises(ValueError):
                    pms.driver.read()
                self.assertTrue(pms.wiring.now_ms - began_ms <= 800, str(reply))
                pms.sensor.replies[ASK] = FRAME
                pms.sensor.come(b"")
                pms.wiring.now_ms += 2000
                self.assertEqual(pms.driver.read(), VALUES)

    def test_nothing_on_the_uart(self):
        wiring = Wiring()
        with Installed(wiring) as desk:
            driver = desk.sensor(driver="pms5003", **PINS).open()
            wiring.now_ms = WARM_MS
            with self.assertRaises(OSError):
                driver.read()
        self.assertTrue(wiring.now_ms - WARM_MS <= 800)

    def test_a_driver_that_is_constructed_again_takes_the_same_uart(self):
        with Pms(FRAME) as pms:
            pms._installed.sensor(driver="pms5003", **PINS).open()
            self.assertEqual(pms.wiring.buses, 1)


CO2 = b"\xff\x01\x86\x00\x00\x00\x00\x00\x79"
# 544 ppm: the example of the manual
ANSWER = b"\xff\x86\x02\x20\x00\x00\x00\x00\x58"


def mhz19(wiring, reply=ANSWER, before=b""):
    found = wiring.serial[9] = Serial(wiring, {CO2: reply}, before)
    return found


class TestMhz19(unittest.TestCase):
    def test_the_example_of_the_manual(self):
        wiring = Wiring()
        sensor = mhz19(wiring, before=ANSWER[:5])
        with Installed(wiring) as desk:
            self.assertEqual(desk.sensor(driver="mhz19", **PINS).open().read(), 544)
        self.assertEqual(sensor.commands, [CO2])

    def test_self_calibration_is_changed_where_the_settings_say_so(self):
        for word, command in (
            ("on", b"\xff\x01\x79\xa0\x00\x00\x00\x00\xe6"),
            ("off", b"\xff\x01\x79\x00\x00\x00\x00\x00\x86"),
        ):
            wiring = Wiring()
            sensor = mhz19(wiring)
            with Installed(wiring) as desk:
                desk.sensor(driver="mhz19", self_calibration=word, **PINS).open()
            self.assertEqual(sensor.commands, [command])

    def test_garbage_and_silence(self):
        wiring = Wiring()
        sensor = mhz19(wiring, b"\xff\x00\xff" + ANSWER)
        with Installed(wiring) as desk:
            driver = desk.sensor(driver="mhz19", **PINS).open()
            self.assertEqual(driver.read(), 544)
            for reply in (ANSWER[:8], ANSWER[:8] + b"\x59", b"\xff" * 20, b"\x86"):
                sensor.replies[CO2] = reply
                began_ms = wiring.now_ms
                with self.assertRaises(ValueError):
                    driver.read()
                self.assertTrue(wiring.now_ms - began_ms <= 300)
            sensor.replies.clear()
            wiring.now_ms += 1000
            with self.assertRaises(OSError):
                driver.read()


class TestHeap(unittest.TestCase):
    def test_a_reading_takes_none(self):
        if sys.implementation.name != "micropython":
            raise unittest.SkipTest("the heap exists only in MicroPython")
        with Pms(FRAME) as pms:
            pms.driver.read()
            self.assertEqual(gross(pms.driver.read), 0)
        wiring = Wiring()
        mhz19(wiring, b"\xff\xff" + ANSWER)
        with Installed(wiring) as desk:
            driver = desk.sensor(driver="mhz19", **PINS).open()
            driver.read()
            self.assertEqual(gross(driver.read), 0)


if __name__ == "__main__":
    unittest.main()
