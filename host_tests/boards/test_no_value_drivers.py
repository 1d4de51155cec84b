"""No value of a driver is one that its chip has when it has none; and each number format below
zero.

For each of the drivers, what its head says. "None" is nothing: None, an exception, or a value that
READINGS excludes; it is decided where the program decides it, in a Guard.
"""

import sys
import unittest

from fake_bus import HUMIDITY, RAW, WORDS, Bosch, Commanded, Installed, Registers, Wiring
from fake_chips import Bh1750, Hx711, Scd4x, Serial, gross, ina219, ina226, with_checksums
from station.guard import guarded
from support.sensor_bus import crc8

BUS = {"scl": 5, "sda": 4}
UART = {"tx": 8, "rx": 9}


class Measured:
    """One reading through a Guard: `values`, `fault` (its number) and `detail`."""

    def __init__(self, desk, wiring, later_ms=0, **given):
        sensor = desk.sensor(**given)
        (guard,), _ = guarded([sensor], desk.ticks_ms, desk.ticks_ms)
        guard.measure()
        if later_ms:
            wiring.now_ms += later_ms
            guard.measure()
        self.values, self.fault, self.detail = guard.values, guard.fault, guard.detail


def measured(wiring, later_ms=0, modules=None, **given):
    with Installed(wiring, **(modules or {})) as desk:
        return Measured(desk, wiring, later_ms, **given)


class TestCase(unittest.TestCase):
    def assert_nothing(self, found, what=""):
        self.assertEqual(found.values, [None] * len(found.values), str((what, found.values)))
        self.assertTrue(found.fault in (1, 2, 6), str((what, found.fault, found.detail)))

    def assert_values(self, found, values, what=""):
        self.assertEqual((found.values, found.fault), (values, 0), str((what, found.detail)))


class TestBosch(TestCase):
    def one(self, chip):
        wiring = Wiring()
        wiring.chips[0x76] = chip
        return measured(wiring, driver="bme280", **BUS)

    def test_what_was_skipped(self):
        for raw in (
            (0x80000, 519_888, 29_000),
            (415_148, 0x80000, 29_000),
            (415_148, 519_888, 0x8000),  # was 66.45 %
            (0x80000, 0x80000, 0x8000),
        ):
            self.assert_nothing(self.one(Bosch(0x60, WORDS, raw, HUMIDITY)), raw)
        self.assert_nothing(self.one(Bosch(0x58, WORDS, (0x80000, 519_888, 0))))

    def test_a_measurement_that_happens_to_look_like_it_is_made_again(self):
        class Twice(Bosch):
            def set(self, register, data):
                Bosch.set(self, register, data)
                if register == 0xF4:
                    self.count = getattr(self, "count", 0) + 1
                    humidity = 0x8000 if self.count == 1 else 0x8001
                    self.measure((415_148, 519_888, humidity))

        found = self.one(Twice(0x60, WORDS, RAW, HUMIDITY))
        self.assertEqual((found.fault, found.values[0]), (0, 2508))
        self.assertTrue(found.values[1] is not None)

    def test_a_bmp280_has_no_humidity_to_skip(self):
        found = self.one(Bosch(0x58, WORDS, (415_148, 519_888, 0x8000)))
        self.assertEqual((found.fault, found.values[:2]), (0, [2508, None]))

    def test_below_zero(self):
        found = self.one(Bosch(0x60, WORDS, (415_148, 400_000, 29_000), HUMIDITY))
        self.assertEqual((found.fault, found.values[0]), (0, -1264))
        signed = (75, 362, 0, -324, -50, -30)
        self.assertTrue(self.one(Bosch(0x60, WORDS, RAW, signed)).values[1] is not None)


class TestSensirion(TestCase):
    def one(self, driver, data):
        wiring = Wiring()
        wiring.chips[0x44] = Commanded(data)
        return measured(wiring, driver=driver, **BUS)

    def test_a_dead_bus_and_a_chip_that_does_not_answer(self):
        for driver in ("sht3x", "sht4x"):
            self.assert_nothing(self.one(driver, bytes(6)), driver)
            self.assert_nothing(self.one(driver, b"\xff" * 6), driver)
            self.assert_nothing(measured(Wiring(), driver=driver, **BUS), driver)
            half = with_checksums(0x6666) + b"\xff\xff\xff"
            self.assert_nothing(self.one(driver, half), driver)

    def test_below_zero(self):
        for driver, humidity in (("sht3x", 5000), ("sht4x", 5650)):
            found = self.one(driver, with_checksums(0x2492, 0x8000))
            self.assert_values(found, [-2001, humidity], driver)

    def test_beyond_the_range_is_no_temperature(self):
        for driver in ("sht3x", "sht4x"):
            for raw in (0, 0xFFFF):
                found = self.one(driver, with_checksums(raw, 0x8000))
                self.assertEqual((found.fault, found.values[0]), (6, None))

    def test_scd4x(self):
        wiring = Wiring()
        chip = wiring.chips[0x62] = Scd4x(wiring, 500, 14_980, 0x5EB9)
        self.assert_values(measured(wiring, 6000, driver="scd4x", **BUS), [500, -500, 3700])
        with Installed(wiring) as desk:
            driver = desk.sensor(driver="scd4x", **BUS).open()
            self.assertEqual(driver.read(), [None, None, None])  # not ready
        for data in (bytes(9), b"\xff" * 9, chip.data[:6] + b"\x5e\xb9\x00"):
            wiring = Wiring()
            wiring.chips[0x62] = Scd4x(wiring, 500, 0x6667, 0x5EB9)
            wiring.chips[0x62].data = data
            self.assert_nothing(measured(wiring, 6000, driver="scd4x", **BUS), data)
        wiring = Wiring()
        wiring.chips[0x62] = Scd4x(wiring, 0, 0x6667, 0x5EB9)
        found = measured(wiring, 6000, driver="scd4x", **BUS)
        self.assertEqual((found.fault, found.values[0]), (6, None))


class TestAosong(TestCase):
    def aht20(self, data):
        wiring = Wiring()
        wiring.chips[0x38] = Commanded(data + bytes((crc8(data, 0, 6),)))
        return measured(wiring, driver="aht20", **BUS)

    def test_aht20(self):
        self.assert_nothing(self.aht20(b"\x98\x80\x00\x08\x00\x00"), "busy")
        self.assert_nothing(self.aht20(b"\x10\x80\x00\x08\x00\x00"), "not calibrated")
        self.assert_nothing(self.aht20(b"\x18\x00\x00\x00\x00\x00"), "five zeros")
        wiring = Wiring()
        wiring.chips[0x38] = Commanded(b"\xff" * 7)
        self.assert_nothing(measured(wiring, driver="aht20", **BUS), "ones")
        self.assert_values(self.aht20(b"\x18\x80\x00\x03\x33\x33"), [-1001, 5000], "below zero")

    def dht22(self, data):
        wiring = Wiring()
        return measured(wiring, 2100, {"dht": Dht(data)}, driver="dht22", pin=15)

    def test_dht22_has_nothing(self):
        self.assert_nothing(self.dht22(bytes(5)), "was 0 degrees and 0 %")
        for data in (b"\x02\x8c\x7f\xff\x0c", b"\x02\x8c\x81\x91\xa0", b"\x02\x8c\xfe\x6f\xfb"):
            found = self.dht22(data)
            self.assertEqual((found.fault, found.values[0]), (6, None), str(data))

    def test_dht22_below_zero_in_both_formats(self):
        for high, low, tenths in (
            (0x80, 0x65, -101),  # AM2302 data sheet
            (0x80, 0x01, -1), (0x80, 0x00, 0), (0x81, 0x90, -400),
            (0xFF, 0xFF, -1), (0xFF, 0x4D, -179), (0xFE, 0x70, -400),  # two's complement
            (0x00, 0x01, 1), (0x01, 0x5F, 351), (0x03, 0x20, 800), (0x00, 0x00, 0),
        ):  # fmt: skip
            found = self.dht22(bytes((0x02, 0x8C, high, low, 0)))
            self.assert_values(found, [tenths, 652], str((high, low)))


class Dht:
    def __init__(self, data):
        self.buf = data

    def DHT22(self, pin):
        return self

    def measure(self):
        pass


class OneWire:
    """The port's `onewire` and `ds18x20`: one sensor, with this scratch pad."""

    def __init__(self, family, scratch):
        self.rom, self.scratch = bytes((family, 1, 2, 3, 4, 5, 6, 7)), scratch
        self.DS18X20 = self.OneWire = lambda what: self

    def scan(self):
        return [bytearray(self.rom)]

    def convert_temp(self):
        pass

    def read_scratch(self, rom):
        if self.scratch is None:
            raise Exception("CRC error")  # as ds18x20.py
        return self.scratch


class TestDs18b20(TestCase):
    def one(self, family, scratch):
        wire = OneWire(family, scratch)
        modules = {"onewire": wire, "ds18x20": wire}
        return measured(Wiring(), 800, modules, driver="ds18b20", pin=22)

    def test_power_on_ground_and_checksum(self):
        self.assert_nothing(self.one(0x28, b"\x50\x05\x4b\x46\x7f\xff\x0c\x10\x1c"), "power-on")
        self.assert_nothing(self.one(0x10, b"\xaa\x00\x4b\x46\xff\xff\x0c\x10\x87"), "power-on")
        self.assert_nothing(self.one(0x28, bytes(9)), "ground")
        self.assert_nothing(self.one(0x28, None), "checksum")
        self.assert_nothing(self.one(0x28, b"\xff\x7f\x4b\x46\x7f\xff\x01\x10\x00"), "range")

    def test_below_zero_and_a_true_85(self):
        for family, low, high, rest, expected in (
            (0x28, 0x5E, 0xFF, 0x02, -101_250),
            (0x28, 0x90, 0xFC, 0x10, -550_000),
            (0x10, 0xFF, 0xFF, 0x10, -5000),
            (0x28, 0x50, 0x05, 0x10, 850_000),
        ):
            found = self.one(family, bytes((low, high, 75, 70, 0x7F, 0xFF, rest, 0x10, 0)))
            self.assert_values(found, [expected])


class TestSerial(TestCase):
    def pms5003(self, words):
        data = b"\x42\x4d\x00\x1c"
        for word in words + (0x9700,):  # version and error code
            data += bytes((word >> 8, word & 255))
        data += bytes((sum(data) >> 8, sum(data) & 255))
        wiring = Wiring()
        wiring.serial[9] = Serial(wiring, {b"\x42\x4d\xe2\x00\x00\x01\x71": data})
        return measured(wiring, 30_100, driver="pms5003", **UART)

    def test_pms5003(self):
        self.assert_nothing(self.pms5003((0,) * 12), "zeros")
        self.assert_nothing(self.pms5003((0xFFFF,) * 12), "ones")
        clean = (0, 0, 0, 0, 0, 0, 12, 4, 0, 0, 0, 0)
        self.assert_values(self.pms5003(clean), [0, 0, 0], "clean air")

    def mhz19(self, ppm):
        data = bytes((0xFF, 0x86, ppm >> 8, ppm & 255, 0, 0, 0, 0))
        data += bytes((-sum(data[1:]) & 255,))
        wiring = Wiring()
        ask = b"\xff\x01\x86\x00\x00\x00\x00\x00\x79"
        wiring.serial[9] = Serial(wiring, {ask: data})
        return measured(wiring, driver="mhz19", **UART)

    def test_mhz19(self):
        self.assert_nothing(self.mhz19(0), "0 ppm")
        self.assert_nothing(self.mhz19(0xFFFF), "ones")
        self.assert_values(self.mhz19(544), [544])


def answering(get, place, word):
    """The chip's get(), with this word in that register."""
    data = bytes((word >> 8, word & 255))
    return lambda register, count: data if register == place else get(register, count)


class TestMeters(TestCase):
    def one(self, name, chip, **registers):
        wiring = Wiring()
        wiring.chips[0x40] = chip(wiring, **registers)
        return measured(wiring, driver=name, shunt_uohm=2000, **BUS)

    def test_overflow_ends_and_a_dead_bus(self):
        for word in (0x7D00, 0x8300, 0x7FFF, 0x8000):
            self.assert_nothing(self.one("ina219", ina219, r01=word, r02=0x5D98), word)
        self.assert_nothing(self.one("ina219", ina219, r01=0x07D0, r02=0x5D99), "overflow")
        for word in (0x7FFF, 0x8000, 0x8001):
            self.assert_nothing(self.one("ina226", ina226, r01=word, r02=0x2570), word)
        for name, data in (("ina219", 0xFF), ("ina219", 0), ("ina226", 0xFF), ("ina226", 0)):
            wiring = Wiring()
            wiring.chips[0x40] = Registers(dict.fromkeys(range(256), data))
            self.assert_nothing(measured(wiring, driver=name, shunt_uohm=2000, **BUS), name)

    def test_ina226_overflow_and_ones_after_it_was_found(self):
        for place, word in ((6, 0x0C), (2, 0xFFFF)):
            wiring = Wiring()
            chip = wiring.chips[0x40] = ina226(wiring, r01=0x1F40, r02=0x2570)
            with Installed(wiring) as desk:
                driver = desk.sensor(driver="ina226", shunt_uohm=2000, **BUS).open()
                driver.read()
                chip.get = answering(chip.get, place, word)
                with self.assertRaises((OSError, ValueError)):
                    driver.read()

    def test_below_zero(self):
        for name, chip, shunt, bus in (
            ("ina219", ina219, 0x10000 - 0x07D0, 0x5D98),
            ("ina226", ina226, 0x10000 - 0x1F40, 0x2570),
        ):
            found = self.one(name, chip, r01=shunt, r02=bus)
            self.assert_values(found, [11_980, -1_000_000, -119_800], name)


class TestPins(TestCase):
    def hx711(self, raw, **faults):
        wiring = Wiring()
        chip = Hx711(wiring, 16, 17, raw)
        for name in faults:
            setattr(chip, name, True)
        return measured(wiring, 500, driver="hx711", dout=16, sck=17)

    def test_hx711(self):
        for raw in (0x7FFFFF, -0x800000):
            self.assert_nothing(self.hx711(raw), raw)
        self.assert_nothing(self.hx711(0, is_stuck=True))
        self.assert_nothing(self.hx711(0, is_grounded=True))
        self.assert_values(self.hx711(-150_000), [-1500, -150_000], "below zero")

    def test_battery(self):
        wiring = Wiring()
        self.assert_nothing(measured(wiring, driver="battery", pin=26), "was 0 %")
        wiring.millivolts[26] = 60
        self.assertEqual(measured(wiring, driver="battery", pin=26).values, [118, 0])

    def test_bh1750(self):
        wiring = Wiring()
        wiring.chips[0x23] = Bh1750(wiring, 1_300_000)
        self.assert_nothing(measured(wiring, driver="bh1750", **BUS), "beyond the range")
        wiring.chips[0x23] = Bh1750(wiring, 0)
        self.assert_values(measured(wiring, driver="bh1750", **BUS), [0], "darkness")

    def test_those_whose_chip_has_no_such_value(self):
        wiring = Wiring()
        wiring.millivolts[26] = 500
        given = {"plus": -1000}
        self.assert_values(measured(wiring, driver="adc", pin=26, **given), [-501], "below zero")
        self.assert_values(measured(wiring, driver="pulse", pin=9), [0])
        self.assert_values(measured(wiring, driver="digital", pin=7), [1])


class TestHeap(unittest.TestCase):
    def test_a_measurement_that_is_made_again_takes_none(self):
        if sys.implementation.name != "micropython":
            raise unittest.SkipTest("the heap exists only in MicroPython")
        wiring = Wiring()
        chip = wiring.chips[0x76] = Bosch(0x60, WORDS, RAW, HUMIDITY)
        with Installed(wiring) as desk:
            driver = desk.sensor(driver="bme280", **BUS).open()
            driver.read()
            taken = []
            for humidity in (29_000, 0x8000):
                chip.measure((415_148, 519_888, humidity))
                own = 2 * gross(chip.reads)  # the fake's slices
                taken.append(gross(driver._measure) + gross(driver._has_skipped) - own)
            self.assertTrue(max(taken) <= 0, str(taken))


if __name__ == "__main__":
    unittest.main()
