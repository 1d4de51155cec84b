"""Drivers of BH1750, SCD4x, INA219 and INA226 over chips that keep time and refuse what their data
sheets say they refuse: the sheets' examples, faults, a board that restarts, deep sleep, no heap.
"""

import sys
import unittest

from fake_bus import Installed, Wiring
from fake_chips import (
    Bh1750,
    Scd4x,
    gross,
    ina219,
    ina226,
    readings_of_a_wake,
    with_checksums,
)
from station.guard import guarded
from support.sensor_bus import scaled

BUS = {"scl": 5, "sda": 4}
NOTHING = [None, None, None]
# 500 ppm, 25 degrees and 37 %: the example of the data sheet
EXAMPLE = (0x01F4, 0x6667, 0x5EB9)
# 12 V, 10 A, 2 milliohms: SBOS448G, 9.2 (of 10 uV and 4 mV), and SBOS547, table 1 (2.5 uV, 1.25 mV)
INA219 = {"r01": 0x07D0, "r02": 0x5D98}
INA226 = {"r01": 0x1F40, "r02": 0x2570}


def with_chip(address, chip, wiring):
    wiring.chips[address] = chip
    return chip


class TestScaled(unittest.TestCase):
    def test_it_is_the_exact_product_towards_zero(self):
        for value, times, over in (
            (0, 5, 7), (1, 1, 1), (7, 5, 3), (-7, 5, 3), (32_000, 1_000_000, 100),
            (-32_000, 1_000_000, 10_000_000), (320_000_000, 32_000, 100_000), (12, 0, 5),
            (1_000_000, 11_980, 100_000), (-9999, 999_999, 3333), (65_535, 250_000, 1500),
        ):  # fmt: skip
            exact = abs(value) * times // over
            self.assertEqual(scaled(value, times, over), -exact if value < 0 else exact)

    def test_it_takes_no_heap(self):
        if sys.implementation.name != "micropython":
            raise unittest.SkipTest("the heap exists only in MicroPython")
        self.assertEqual(gross(lambda: scaled(-32_000, 1_000_000, 100)), 0)
        self.assertEqual(gross(lambda: scaled(320_000_000, 32_000, 100_000)), 0)


class TestScd4x(unittest.TestCase):
    def test_the_example_of_the_data_sheet(self):
        self.assertEqual(with_checksums(*EXAMPLE), b"\x01\xf4\x33\x66\x67\xa2\x5e\xb9\x3c")
        wiring = Wiring()
        chip = with_chip(0x62, Scd4x(wiring, *EXAMPLE), wiring)
        with Installed(wiring) as desk:
            driver = desk.sensor(driver="scd4x", **BUS).open()
            self.assertEqual(driver.read(), NOTHING)
            wiring.now_ms += 5000
            self.assertEqual(driver.read(), [500, 2500, 3700])
            for words, expected in (
                ((1, 0, 0), [1, -4500, 0]),
                ((40_000, 0xFFFF, 0xFFFF), [40_000, 13_000, 10_000]),
            ):
                chip.measure(*words)
                wiring.now_ms += 5000
                self.assertEqual(driver.read(), expected)
        self.assertEqual(chip.settings, {0x2427: 0, 0x2416: 1})

    def test_its_settings(self):
        wiring = Wiring()
        chip = with_chip(0x62, Scd4x(wiring, *EXAMPLE), wiring)
        with Installed(wiring) as desk:
            given = {"altitude_m": 1950, "self_calibration": "off"}
            desk.sensor(driver="scd4x", **dict(BUS, **given)).open()
        # 1,950 m is the data sheet's own example: 0x079E with the checksum 0x09
        self.assertEqual(with_checksums(1950), b"\x07\x9e\x09")
        self.assertEqual(chip.settings, {0x2427: 1950, 0x2416: 0})

    def test_between_two_measurements_the_last_one_is_repeated(self):
        wiring = Wiring()
        chip = with_chip(0x62, Scd4x(wiring, *EXAMPLE), wiring)
        with Installed(wiring) as desk:
            driver = desk.sensor(driver="scd4x", **BUS).open()
            wiring.now_ms += 5000
            driver.read()
            chip.measure(600, 0x6667, 0x5EB9)
            wiring.now_ms += 1000
            self.assertEqual(driver.read()[0], 500)
            wiring.now_ms += 4000
            self.assertEqual(driver.read()[0], 600)

    def test_a_chip_that_measures_since_before_the_board_started_takes_new_settings(self):
        wiring = Wiring()
        chip = with_chip(0x62, Scd4x(wiring, *EXAMPLE), wiring)
        with Installed(wiring) as desk:
            desk.sensor(driver="scd4x", **BUS).open()
            wiring.now_ms += 2000
            began_ms = wiring.now_ms
            desk.sensor(driver="scd4x", altitude_m=600, **BUS).open()
            self.assertTrue(500 <= wiring.now_ms - began_ms <= 520, str(wiring.now_ms))
        self.assertEqual((chip.settings[0x2427], chip.period_ms), (600, 5000))

    def test_low_power_has_its_first_reading_as_early(self):
        wiring = Wiring()
        chip = with_chip(0x62, Scd4x(wiring, *EXAMPLE), wiring)
        with Installed(wiring) as desk:
            driver = desk.sensor(driver="scd4x", mode="low_power", **BUS).open()
            wiring.now_ms += 5000
            self.assertEqual((driver.read()[0], chip.period_ms), (500, 30_000))
            chip.measure(600, 0x6667, 0x5EB9)
            wiring.now_ms += 29_000
            self.assertEqual(driver.read()[0], 500)
            wiring.now_ms += 1000
            self.assertEqual((driver.read()[0], chip.period_ms), (600, 30_000))

    def test_faults(self):
        wiring = Wiring()
        with Installed(wiring) as desk:
            with self.assertRaises(OSError):
                desk.sensor(driver="scd4x", **BUS).open()
            chip = with_chip(0x62, Scd4x(wiring, *EXAMPLE), wiring)
            driver = desk.sensor(driver="scd4x", **BUS).open()
            chip.data = chip.data[:8] + b"\x00"
            wiring.now_ms += 5000
            with self.assertRaises(ValueError):
                driver.read()

    def test_one_that_stops_measuring_is_noticed_after_two_measurements(self):
        """After a dip of its supply the chip is idle, and says only that nothing is ready."""
        for mode, late_ms in (("periodic", 12_000), ("low_power", 72_000)):
            wiring = Wiring()
            chip = with_chip(0x62, Scd4x(wiring, *EXAMPLE), wiring)
            with Installed(wiring) as desk:
                driver = desk.sensor(driver="scd4x", mode=mode, **BUS).open()
                wiring.now_ms += 5000
                driver.read()
                chip.is_stuck = True
                wiring.now_ms += late_ms - 100
                self.assertEqual(driver.read()[0], 500)
                wiring.now_ms += 200
                with self.assertRaises(OSError):
                    driver.read()

    def test_no_co2_is_out_of_range_and_the_rest_is_kept(self):
        wiring = Wiring()
        with_chip(0x62, Scd4x(wiring, 0, 0x6667, 0x5EB9), wiring)
        with Installed(wiring) as desk:
            (guard,), _ = guarded(
                [desk.sensor(driver="scd4x", **BUS)], desk.ticks_ms, desk.ticks_ms
            )
            guard.measure()
            wiring.now_ms += 6000
            guard.measure()
        self.assertEqual((guard.fault, guard.values), (6, [None, 2500, 3700]))

    def test_at_any_interval_it_is_without_a_fault(self):
        for mode in ("periodic", "low_power"):
            for every_ms in (200, 1000, 5000, 7000, 30_000, 60_000):
                wiring = Wiring()
                with_chip(0x62, Scd4x(wiring, *EXAMPLE), wiring)
                with Installed(wiring) as desk:
                    sensor = desk.sensor(driver="scd4x", mode=mode, **BUS)
                    (guard,), _ = guarded([sensor], desk.ticks_ms, desk.ticks_ms)
                    while wiring.now_ms < 300_000:
                        guard.measure()
                        wiring.now_ms += every_ms
                    self.assertEqual((guard.faults, guard.values[0]), (0, 500), str(every_ms))


class TestDeepSleep(unittest.TestCase):
    def test_a_wake_has_a_reading_after_the_time_to_settle(self):
        """The chip measures on through the sleep; every wake begins with it anew."""
        for mode in ("periodic", "low_power"):
            wiring = Wiring()
            with_chip(0x62, Scd4x(wiring, *EXAMPLE), wiring)
            with Installed(wiring) as desk:
                for _ in range(3):
                    sensor = desk.sensor(driver="scd4x", mode=mode, **BUS)
                    channels = guarded([sensor], desk.ticks_ms, desk.ticks_ms)[1]
                    began_ms = wiring.now_ms
                    self.assertEqual(readings_of_a_wake(channels, wiring), [500, 2500, 3700])
                    self.assertTrue(wiring.now_ms - began_ms < 7500, str(wiring.now_ms))
                    wiring.now_ms += 600_000


class TestBh1750(unittest.TestCase):
    def test_the_example_of_its_technical_note(self):
        """0x8390 is 28,067 lx."""
        wiring = Wiring()
        with_chip(0x23, Bh1750(wiring, 280_667), wiring)
        with Installed(wiring) as desk:
            driver = desk.sensor(driver="bh1750", **BUS).open()
            self.assertEqual((driver.read(), bytes(driver._raw)), (28_067, b"\x83\x90"))

    def test_from_darkness_to_sunlight(self):
        wiring = Wiring()
        chip = with_chip(0x5C, Bh1750(wiring, 0), wiring)
        with Installed(wiring) as desk:
            driver = desk.sensor(driver="bh1750", address=0x5C, **BUS).open()
            for lux in (0, 1, 10, 1000, 54_000, 54_612, 54_613, 60_000, 100_000, 121_000, 500, 0):
                chip.lux10 = lux * 10
                found = driver.read()
                self.assertTrue(abs(found - lux) <= 2, str((lux, found)))
            chip.lux10 = 1_300_000
            began_ms = wiring.now_ms
            with self.assertRaises(ValueError):
                driver.read()
            self.assertTrue(wiring.now_ms - began_ms < 300, str(wiring.now_ms))

    def test_absent_and_an_address_that_it_cannot_have(self):
        with Installed(Wiring()) as desk:
            with self.assertRaises(OSError):
                desk.sensor(driver="bh1750", **BUS).open()
            with self.assertRaises(ValueError):
                desk.sensor(driver="bh1750", address=0x40, **BUS).open()


# name, chip, registers, options of the example, millivolts, milliwatts
METERS = (("ina219", ina219, INA219), ("ina226", ina226, INA226))


class TestIna(unittest.TestCase):
    def test_the_examples_of_the_data_sheets(self):
        """11.98 V and 10 A; the power register's 119.82 W are of a step of 25 mW."""
        for name, chip, registers in METERS:
            wiring = Wiring()
            with_chip(0x40, chip(wiring, **registers), wiring)
            with Installed(wiring) as desk:
                driver = desk.sensor(driver=name, shunt_uohm=2000, **BUS).open()
                self.assertEqual(driver.read(), [11_980, 1_000_000, 119_800], name)

    def test_shunts_and_signs(self):
        """Negative: the current flows back, as into a battery."""
        for name, chip, _ in METERS:
            steps, bus = (10, 0x1F40) if name == "ina219" else (2.5, 0x6400)
            for shunt_uohm in (100, 1500, 2000, 75_000, 100_000, 1_000_000, 10_000_000):
                for count in (0, 1, 7, 31_999):
                    for sign in (1, -1):
                        wiring = Wiring()
                        word = sign * count & 0xFFFF
                        bus_word = bus << 3 if name == "ina219" else bus
                        with_chip(0x40, chip(wiring, r01=word, r02=bus_word), wiring)
                        with Installed(wiring) as desk:
                            sensor = desk.sensor(driver=name, shunt_uohm=shunt_uohm, **BUS)
                            found = sensor.open().read()
                        ampere = sign * count * steps / shunt_uohm
                        self.assertEqual(found[0], 32_000)
                        self.assertTrue(abs(found[1] - ampere * 1e5) <= 1, str((word, found)))
                        self.assertTrue(abs(found[2] - ampere * 32e3) <= 2, str((word, found)))

    def test_a_current_beyond_the_range_is_an_error(self):
        for name, chip, registers in METERS:
            ends = (32_000, 0x10000 - 32_000) if name == "ina219" else (0x7FFF, 0x8000, 0x8001)
            for word in ends:
                wiring = Wiring()
                one = with_chip(0x40, chip(wiring, **registers), wiring)
                with Installed(wiring) as desk:
                    driver = desk.sensor(driver=name, shunt_uohm=100_000, **BUS).open()
                    one.put(1, word)
                    with self.assertRaises(ValueError):
                        driver.read()

    def test_absent_or_never_ready(self):
        for name, chip, registers in METERS:
            wiring = Wiring()
            with Installed(wiring) as desk:
                with self.assertRaises(OSError):
                    desk.sensor(driver=name, shunt_uohm=100_000, **BUS).open()
                one = with_chip(0x40, chip(wiring, **registers), wiring)
                driver = desk.sensor(driver=name, shunt_uohm=100_000, **BUS).open()
                one.is_stuck = True
                began_ms = wiring.now_ms
                with self.assertRaises(OSError):
                    driver.read()
                self.assertTrue(wiring.now_ms - began_ms < 100)

    def test_an_ina219_is_no_ina226(self):
        wiring = Wiring()
        one = with_chip(0x40, ina219(wiring, **INA219), wiring)
        for maker, die in ((0xFFFF, 0xFFFF), (0x5449, 0x2770), (0, 0)):
            one.put(0xFE, maker)
            one.put(0xFF, die)
            with Installed(wiring) as desk, self.assertRaises(OSError):
                desk.sensor(driver="ina226", shunt_uohm=100_000, **BUS).open()


class TestHeap(unittest.TestCase):
    def test_a_reading_takes_none(self):
        if sys.implementation.name != "micropython":
            raise unittest.SkipTest("the heap exists only in MicroPython")
        wiring = Wiring()
        chip = with_chip(0x62, Scd4x(wiring, 40_000, 0xFFFF, 0xFFFF), wiring)
        light = with_chip(0x23, Bh1750(wiring, 1_000_000), wiring)
        with_chip(0x40, ina219(wiring, r01=0x8400, r02=0xFFF8), wiring)
        with_chip(0x41, ina226(wiring, r01=0x8400, r02=0x7FFF), wiring)
        with Installed(wiring) as desk:
            for name, given in (
                ("scd4x", {"mode": "low_power"}),
                ("bh1750", {}),
                ("ina219", {"shunt_uohm": 100}),
                ("ina226", {"shunt_uohm": 100, "address": 0x41}),
            ):
                driver = desk.sensor(driver=name, **dict(BUS, **given)).open()
                driver.read()
                for _ in range(3):
                    wiring.now_ms += 30_000
                    self.assertEqual((name, gross(driver.read)), (name, 0))
        self.assertEqual((chip.period_ms, light.lux10), (30_000, 1_000_000))


if __name__ == "__main__":
    unittest.main()
