"""Each driver over registers of its data sheet: values, checksums, a chip that is absent or another
one; and no heap where it says so.
"""

import sys
import unittest

from fake_bus import (
    HUMIDITY,
    RAW,
    WORDS,
    Bosch,
    Commanded,
    FakeWiredAdcEsp32,
    Installed,
    Wiring,
    bme280,
)
from fake_chips import gross, with_checksums
from station.guard import guarded
from support.sensor_bus import crc8

BUS = {"scl": 5, "sda": 4}


def by_the_sheet(raw, words=WORDS, humidity=HUMIDITY):
    """The floating-point formulas of the data sheet (BST-BME280-DS002, 8.1)."""
    t1, t2, t3, p1, p2, p3, p4, p5, p6, p7, p8, p9 = words
    one = (raw[1] / 16384 - t1 / 1024) * t2
    two = (raw[1] / 131072 - t1 / 8192) ** 2 * t3
    fine = one + two
    one = fine / 2 - 64000
    two = one * one * p6 / 32768 + one * p5 * 2
    two = two / 4 + p4 * 65536
    one = (p3 * one * one / 524288 + p2 * one) / 524288
    one = (1 + one / 32768) * p1
    pressure = (1048576 - raw[0] - two / 4096) * 6250 / one
    one = p9 * pressure * pressure / 2147483648
    pressure += (one + pressure * p8 / 32768 + p7) / 16
    h1, h2, h3, h4, h5, h6 = humidity
    x = fine - 76800
    x = (raw[2] - (h4 * 64 + h5 / 16384 * x)) * (
        h2 / 65536 * (1 + h6 / 67108864 * x * (1 + h3 / 67108864 * x))
    )
    x *= 1 - h1 * x / 524288
    return fine / 5120, min(max(x, 0), 100), pressure


class TestBosch(unittest.TestCase):
    def test_the_example_of_the_data_sheet(self):
        wiring = Wiring()
        wiring.chips[0x76] = Bosch(0x58, WORDS, RAW)
        with Installed(wiring) as desk:
            found = desk.sensor(driver="bme280", **BUS).open().read()
        self.assertEqual((found[0], found[1]), (2508, None))
        # the 32-bit formulas are good for some Pa (data sheet, 8.2)
        self.assertTrue(abs(found[2] - 100_653) <= 6, str(found))

    def test_over_the_whole_range_it_is_the_floating_point_formula(self):
        wiring = Wiring()
        chip = wiring.chips[0x76] = Bosch(0x60, WORDS, RAW, HUMIDITY)
        checked = 0
        with Installed(wiring) as desk:
            driver = desk.sensor(driver="bme280", **BUS).open()
            for temperature in range(320_000, 720_000, 10_000):
                for pressure in range(200_000, 600_000, 50_000):
                    for humidity in range(15_000, 50_000, 5000):
                        raw = (pressure, temperature, humidity)
                        chip.measure(raw)
                        expected, found = by_the_sheet(raw), driver.read()
                        if not (30_000 < expected[2] < 110_000 and -40 < expected[0] < 85):
                            continue
                        checked += 1
                        self.assertTrue(abs(found[0] - 100 * expected[0]) < 2, str(raw))
                        self.assertTrue(abs(found[1] - 100 * expected[1]) < 10, str(raw))
                        self.assertTrue(abs(found[2] - expected[2]) < 30, str((raw, found)))
        self.assertTrue(checked > 500, str(checked))

    def test_another_chip_an_empty_one_and_one_that_has_not_measured(self):
        for chip, says in (
            (Bosch(0x55, WORDS, RAW), "0x55"),
            (Bosch(0x58, (0,) * 12, RAW), "calibration"),
            (Bosch(0x58, (0xFFFF,) * 12, RAW), "calibration"),
            (Bosch(0x58, WORDS, (0x80000, 0x80000, 0)), "not measured"),
        ):
            wiring = Wiring()
            wiring.chips[0x76] = chip
            with Installed(wiring) as desk, self.assertRaises(OSError) as caught:
                desk.sensor(driver="bme280", **BUS).open().read()
            self.assertTrue(says in str(caught.exception), str(caught.exception))

    def test_a_measurement_that_never_ends_takes_no_longer_than_60_ms(self):
        wiring = Wiring()
        chip = wiring.chips[0x76] = Bosch(0x58, WORDS, RAW)
        with Installed(wiring) as desk:
            driver = desk.sensor(driver="bme280", **BUS).open()
            chip.set(0xF3, b"\x08")
            before = wiring.now_ms
            with self.assertRaises(OSError):
                driver.read()
        self.assertTrue(wiring.now_ms - before <= 60)


class TestHumidity(unittest.TestCase):
    def test_sensirions_checksum_is_that_of_the_data_sheet(self):
        self.assertEqual(crc8(b"\xbe\xef", 0, 2), 0x92)

    def test_sht3x_and_sht4x(self):
        for driver, command, words, expected in (
            ("sht3x", b"\x24\x00", (0, 0), [-4500, 0]),
            ("sht3x", b"\x24\x00", (0xFFFF, 0xFFFF), [13_000, 10_000]),
            ("sht3x", b"\x24\x00", (0x6666, 0x8000), [2500, 5000]),
            ("sht4x", b"\xfd", (0x6666, 0x8000), [2500, 5650]),
            ("sht4x", b"\xfd", (0, 0), [-4500, 0]),
            ("sht4x", b"\xfd", (0xFFFF, 0xFFFF), [13_000, 10_000]),
        ):
            wiring = Wiring()
            chip = wiring.chips[0x44] = Commanded(with_checksums(*words))
            with Installed(wiring) as desk:
                sensor = desk.sensor(driver=driver, **BUS)
                opened = sensor.open()
                self.assertEqual((opened.read(), chip.commands), (expected, [command]), driver)
                chip.data = chip.data[:2] + bytes((chip.data[2] ^ 1,)) + chip.data[3:]
                with self.assertRaises(ValueError):
                    opened.read()

    def test_aht20(self):
        """20 bits each: half of 2^20 is 50 %, and 50 degrees."""
        data = b"\x18\x80\x00\x08\x00\x00"
        wiring = Wiring()
        chip = wiring.chips[0x38] = Commanded(data + bytes((crc8(data, 0, 6),)))
        with Installed(wiring) as desk:
            driver = desk.sensor(driver="aht20", **BUS).open()
            self.assertEqual(driver.read(), [5000, 5000])
            self.assertEqual(chip.commands, [b"\xac\x33\x00"])
            chip.data = data + b"\x00"
            with self.assertRaises(ValueError):
                driver.read()
            chip.data = b"\x98" + data[1:] + b"\x00"
            with self.assertRaises(OSError):
                driver.read()

    def test_one_that_was_never_calibrated_is_told_to(self):
        wiring = Wiring()
        chip = wiring.chips[0x38] = Commanded(b"\x00")
        with Installed(wiring) as desk:
            desk.sensor(driver="aht20", **BUS).open()
        self.assertEqual(chip.commands, [b"\xbe\x08\x00"])


class Dht:
    """The port's module `dht`. buf: what the chip sends; the checksum is the port's business."""

    buf = b""
    fault = None

    def DHT22(self, pin):
        return self

    def measure(self):
        if self.fault:
            raise self.fault


class OneWire:
    """The port's `onewire` and `ds18x20`. degrees16: of each sensor, times 16. scratch: in place of
    what the data sheet has."""

    scratch = b""

    def __init__(self, degrees16):
        self.degrees16 = degrees16
        self.DS18X20 = self.OneWire = lambda what: self
        self._measured = {}

    def scan(self):
        return [bytearray(rom) for rom in sorted(self.degrees16)]

    def convert_temp(self):
        self._measured = dict(self.degrees16)

    def read_scratch(self, rom):
        raw = self._measured[bytes(rom)]
        low, high, rest = raw & 255, raw >> 8 & 255, 0x10 - (raw & 15)
        return self.scratch or bytes((low, high, 75, 70, 0x7F, 0xFF, rest, 0x10, 0))


# Degrees times 16, as the data sheet's table 1 has them, and ten-thousandths of a degree
SHEET = ((0x07D0, 1_250_000), (0x0191, 250_625), (0, 0), (0xFFF8, -5000), (0xFC90, -550_000))


class TestPins(unittest.TestCase):
    def test_dht22_as_its_data_sheet_has_it_and_no_more_than_each_2_s(self):
        wiring, chip = Wiring(), Dht()
        with Installed(wiring, dht=chip) as desk:
            driver = desk.sensor(driver="dht22", pin=15).open()
            self.assertEqual(driver.read(), [None, None])
            for data, expected in (
                (b"\x02\x8c\x01\x5f\xee", [351, 652]),
                (b"\x02\x8c\x80\x65\x73", [-101, 652]),
            ):
                chip.buf = data
                wiring.now_ms += 2000
                self.assertEqual(driver.read(), expected)
            self.assertEqual(driver.read(), [None, None])
            chip.fault = OSError(110)
            wiring.now_ms += 2000
            with self.assertRaises(OSError):
                driver.read()

    def test_ds18b20_as_its_data_sheet_has_it(self):
        wire = OneWire({b"\x28\x01": 0, b"\x28\x02": 16})
        wiring = Wiring()
        with Installed(wiring, ds18x20=wire, onewire=wire) as desk:
            driver = desk.sensor(driver="ds18b20", pin=22).open()
            self.assertTrue(driver.read() is None)
            wire.degrees16[b"\x28\x01"] = SHEET[0][0]
            wiring.now_ms += 800
            driver.read()
            for (_, expected), (raw, _) in zip(SHEET, SHEET[1:] + SHEET[:1]):
                wire.degrees16[b"\x28\x01"] = raw
                wiring.now_ms += 800
                self.assertEqual(driver.read(), expected)
            second = desk.sensor(driver="ds18b20", pin=22, rom="2802").open()
            wiring.now_ms += 800
            self.assertEqual(second.read(), 10_000)
            with self.assertRaises(OSError):
                desk.sensor(driver="ds18b20", pin=22, rom="2803").open()

    def test_a_ds18s20_counts_halves(self):
        """Its data sheet's table 1: 85, 25, -0.5 and -55 degrees."""
        wire = OneWire({b"\x10\x01": 0})
        wiring = Wiring()
        with Installed(wiring, ds18x20=wire, onewire=wire) as desk:
            driver = desk.sensor(driver="ds18b20", pin=22).open()
            for raw, expected in (
                (0x00AA, 850_000),
                (0x0032, 250_000),
                (0xFFFF, -5000),
                (0xFF92, -550_000),
            ):
                low, high = raw & 255, raw >> 8
                wire.scratch = bytes((low, high, 75, 70, 0xFF, 0xFF, 0x10, 0x10, 0))
                wiring.now_ms += 800
                self.assertEqual(driver.read(), expected)

    def test_a_ds18b20_at_ground_or_without_power_has_no_reading(self):
        """Nine zeros have a good checksum; 85 degrees are what it has at power-on."""
        wire = OneWire({b"\x28\x01": 0x0550})
        wiring = Wiring()
        with Installed(wiring, ds18x20=wire, onewire=wire) as desk:
            driver = desk.sensor(driver="ds18b20", pin=22).open()
            for scratch in (bytes(9), b"\x50\x05\x4b\x46\x7f\xff\x0c\x10\x1c"):
                wire.scratch = scratch
                wiring.now_ms += 800
                with self.assertRaises(OSError):
                    driver.read()
            wire.scratch = b""
            driver = desk.sensor(driver="ds18b20", pin=22).open()
            wiring.now_ms += 800
            self.assertEqual(driver.read(), 850_000)  # it is that hot

    def test_what_takes_longer_than_the_interval_is_read_as_often_as_it_can(self):
        """One that says nothing for longer than that is a fault."""
        wire, chip = OneWire({b"\x28\x01": 16}), Dht()
        chip.buf = b"\x02\x8c\x01\x5f\xee"
        for name, every_ms in (("dht22", 2000), ("ds18b20", 800)):
            wiring = Wiring()
            with Installed(wiring, ds18x20=wire, onewire=wire, dht=chip) as desk:
                sensor = desk.sensor(driver=name, pin=22)
                (guard,), _ = guarded([sensor], desk.ticks_ms, desk.ticks_ms)
                found = 0
                while wiring.now_ms < 60_000:
                    guard.measure()
                    found += guard.has_values()
                    wiring.now_ms += 200
                self.assertEqual((guard.faults, found), (0, 60_000 // every_ms - 1), name)
                nothing = [None] * len(guard.values)
                guard._driver.read = lambda nothing=nothing: nothing
                while wiring.now_ms < 70_000:
                    guard.measure()
                    if guard.fault:
                        break
                    wiring.now_ms += 200
                self.assertEqual((guard.fault, guard.faults), (3, 1), name)

    def test_adc_with_scale_and_divider(self):
        wiring = Wiring()
        wiring.millivolts[26] = 1500
        with Installed(wiring) as desk:
            for given, expected in (
                ({}, 1499),
                ({"top_ohm": 100_000, "bottom_ohm": 47_000}, 4688),
                ({"times": 1, "over": 2, "plus": -250, "unit": "bar", "exponent": -2}, 499),
            ):
                sensor = desk.sensor(driver="adc", pin=26, **given)
                self.assertEqual(sensor.open().read(), expected)
            self.assertEqual(sensor.readings, [("", "bar", -2)])

    def test_adc_of_esp32_is_read_over_the_whole_range_of_the_pin(self):
        wiring = Wiring(FakeWiredAdcEsp32)
        with Installed(wiring) as desk:
            driver = desk.sensor(driver="adc", pin=34).open()
            for millivolts in (0, 949, 2500):
                wiring.millivolts[34] = millivolts
                self.assertEqual(driver.read(), millivolts)

    def test_a_battery_in_volts_and_percent(self):
        wiring = Wiring()
        with Installed(wiring) as desk:
            lipo = desk.sensor(driver="battery", pin=26).open()
            cells = desk.sensor(
                driver="battery", pin=26, curve="linear", empty_mv=2000, full_mv=3000, top_ohm=0
            ).open()
            for at_pin, volts, percent, linear in (
                (1000, 1998, 0, 0),
                (1636, 3270, 0, 0),
                (1921, 3840, 50, 0),
                (2101, 4200, 100, 10),
                (2502, 5000, 100, 50),
                (3200, 6396, 100, 100),
            ):
                wiring.millivolts[26] = at_pin
                found = lipo.read()
                self.assertTrue(abs(found[0] - volts) <= 4 and abs(found[1] - percent) <= 1, found)
                self.assertTrue(abs(cells.read()[1] - linear) <= 1, cells.read())

    def test_pulses_are_counted_and_bounces_are_not(self):
        wiring = Wiring()
        with Installed(wiring) as desk:
            driver = desk.sensor(driver="pulse", pin=9).open()
            wiring.now_ms = 100
            for _ in range(3):
                for pause_ms in (1, 1, 98):
                    wiring.edge(9)
                    wiring.now_ms += pause_ms
            self.assertEqual(driver.read(), 3)

    def test_the_first_pulse_after_a_week_without_one_counts(self):
        wiring = Wiring()
        with Installed(wiring) as desk:
            driver = desk.sensor(driver="pulse", pin=9).open()
            for day in range(1, 14):
                wiring.now_ms += day * 86_400_000
                wiring.edge(9)
                self.assertEqual(driver.read(), day)

    def test_a_contact(self):
        wiring = Wiring()
        with Installed(wiring) as desk:
            driver = desk.sensor(driver="digital", pin=7, invert=1).open()
            self.assertEqual(driver.read(), 0)  # pulled up: open
            wiring.levels[7] = 0
            self.assertEqual(driver.read(), 1)


class TestAbsent(unittest.TestCase):
    def test_a_chip_that_is_not_there_is_an_oserror_and_one_bus_serves_all(self):
        wiring = Wiring()
        with Installed(wiring) as desk:
            for driver in ("bme280", "sht3x", "sht4x", "aht20"):
                with self.assertRaises(OSError):
                    desk.sensor(driver=driver, **BUS).open()
        self.assertEqual(wiring.buses, 1)


def of_each_driver(wiring, desk):
    wiring.chips[0x76] = bme280()
    wiring.chips[0x44] = Commanded(with_checksums(0x6666, 0x8000))
    data = b"\x18\x80\x00\x08\x00\x00"
    wiring.chips[0x38] = Commanded(data + bytes((crc8(data, 0, 6),)))
    wiring.millivolts[26] = 1900
    return [
        ("bme280", BUS),
        ("sht3x", BUS),
        ("sht4x", BUS),
        ("aht20", BUS),
        ("adc", {"pin": 26}),
        ("battery", {"pin": 26}),
        ("pulse", {"pin": 9}),
        ("digital", {"pin": 7}),
    ]


class TestHeap(unittest.TestCase):
    def test_a_reading_takes_none(self):
        """The fake bus hands out views, which the slices of Bosch take: so much is allowed there,
        and taken off."""
        if sys.implementation.name != "micropython":
            raise unittest.SkipTest("the heap exists only in MicroPython")
        wiring = Wiring()
        with Installed(wiring) as desk:
            for name, given in of_each_driver(wiring, desk):
                driver = desk.sensor(driver=name, **given).open()
                driver.read()
                for temperature in (420_000, 519_888, 620_000) if name == "bme280" else (0,):
                    wiring.chips[0x76].measure((415148, temperature, 29000))
                    own = gross(wiring.chips[0x76].reads) if temperature else 0
                    taken = gross(driver.read) - own
                    self.assertTrue(taken <= 0, name + " " + str((temperature, taken)))

    def test_nor_does_one_at_the_end_of_the_range(self):
        """Whose product would need more than 30 bits: 130 degrees."""
        if sys.implementation.name != "micropython":
            raise unittest.SkipTest("the heap exists only in MicroPython")
        wiring = Wiring()
        wiring.chips[0x44] = Commanded(with_checksums(0xFFFF, 0xFFFF))
        with Installed(wiring) as desk:
            for name in ("sht3x", "sht4x"):
                driver = desk.sensor(driver=name, **BUS).open()
                driver.read()
                self.assertEqual((name, gross(driver.read)), (name, 0))


if __name__ == "__main__":
    unittest.main()
