"""A scale over an HX711 that keeps time, and resets when an interrupt stretches a clock pulse."""

import sys
import unittest

from fake_bus import Installed, Wiring
from fake_chips import Hx711, gross, readings_of_a_wake
from station.guard import guarded

PINS = {"dout": 16, "sck": 17}


class Scale:
    """with Scale(raw, settings) as scale: a driver that has settled, and its chip."""

    def __init__(self, raw, **given):
        self.wiring = Wiring()
        self.chip = Hx711(self.wiring, 16, 17, raw)
        self._given = dict(PINS, **given)

    def __enter__(self):
        self._installed = Installed(self.wiring)
        desk = self._installed.__enter__()
        self.sensor = desk.sensor(driver="hx711", **self._given)
        self.ticks_ms = desk.ticks_ms
        self.driver = self.sensor.open()
        self.wiring.now_ms += 500
        return self

    def __exit__(self, *error):
        self._installed.__exit__(*error)


class TestHx711(unittest.TestCase):
    def test_weight_and_raw(self):
        for raw, given, expected in (
            (0, {}, [0, 0]),
            (150_000, {"tare": 50_000}, [1000, 150_000]),
            (-150_000, {"tare": 50_000}, [-2000, -150_000]),
            (-150_000, {"counts_per_kg": -100_000}, [1500, -150_000]),
            (0x7FFFFE, {"tare": -0x800000, "counts_per_kg": 100}, [167_772_140, 0x7FFFFE]),
            (-0x7FFFFF, {"counts_per_kg": 10_000_000}, [-838, -0x7FFFFF]),
        ):
            with Scale(raw, **given) as scale:
                self.assertEqual(scale.driver.read(), expected)

    def test_the_gain_is_set_and_has_settled_at_the_first_reading(self):
        for gain in (128, 64):
            with Scale(200_000, gain=str(gain)) as scale:
                found = [scale.driver.read()[1] for _ in range(3)]
                self.assertEqual((found, scale.chip.gain), ([200_000 * gain // 128] * 3, gain))

    def test_nothing_before_it_has_settled_and_no_fault(self):
        with Scale(100_000) as scale:
            (guard,), _ = guarded([scale.sensor], scale.ticks_ms, scale.ticks_ms)
            guard.measure()
            self.assertEqual((guard.fault, guard.values), (0, [None, None]))
            scale.wiring.now_ms += scale.sensor.settle_ms
            guard.measure()
            self.assertEqual((guard.fault, guard.values), (0, [1000, 100_000]))

    def test_a_wake_from_deep_sleep_waits_until_then(self):
        with Scale(100_000, gain="64") as scale:
            channels = guarded([scale.sensor], scale.ticks_ms, scale.ticks_ms)[1]
            self.assertEqual(readings_of_a_wake(channels, scale.wiring), [500, 50_000])

    def test_a_reading_takes_no_longer_than_its_conversions(self):
        with Scale(100_000, samples=7) as scale:
            began_ms = scale.wiring.now_ms
            scale.driver.read()
            self.assertTrue(scale.wiring.now_ms - began_ms <= 700, str(scale.wiring.now_ms))

    def test_interrupts_are_on_again_after_a_reading(self):
        with Scale(100_000) as scale:
            scale.driver.read()
            self.assertTrue(scale.wiring.may_interrupt)

    def test_faults(self):
        with Scale(100_000) as scale:
            for raw in (0x7FFFFF, -0x800000):
                scale.chip.raw = raw
                with self.assertRaises(ValueError):
                    scale.driver.read()
            for fault in ("is_stuck", "is_grounded"):
                setattr(scale.chip, fault, True)
                with self.assertRaises(OSError):
                    scale.driver.read()
                setattr(scale.chip, fault, False)
        for given in ({"counts_per_kg": 0}, {"counts_per_kg": -99}):
            with self.assertRaises(ValueError):
                Scale(0, **given).__enter__()

    def test_absent(self):
        wiring = Wiring()
        with Installed(wiring) as desk, self.assertRaises(OSError):
            desk.sensor(driver="hx711", **PINS).open()
        self.assertTrue(wiring.now_ms <= 500)


class TestHeap(unittest.TestCase):
    def test_a_reading_takes_none(self):
        if sys.implementation.name != "micropython":
            raise unittest.SkipTest("the heap exists only in MicroPython")
        with Scale(-0x7FFFFF, samples=7, tare=0x7FFFFF, counts_per_kg=100) as scale:
            scale.driver.read()
            self.assertEqual(gross(scale.driver.read), 0)


if __name__ == "__main__":
    unittest.main()
