"""The DS18B20 over fakes of micropython-lib's drivers: the data sheet's readings, faults, no
sensor.

The chips' own sensors and their ADC are in test_boards.py.
"""

import sys
import unittest

from support import chip_sensors

# Degrees Celsius times 16, as the data sheet's table 1 has them, and ten-thousandths of a degree.
SHEET = ((0x07D0, 1_250_000), (0x0191, 250_625), (0, 0), (0xFFF8, -5000), (0xFC90, -550_000))


class OneWireError(Exception):
    pass


class Bus:
    """ds18x20.DS18X20. raw: what the sensor measures; None: it is gone. roms: of those there."""

    raw, roms = 0, [b"first", b"second"]
    asked, scratch, converted = [], b"", 0

    def __init__(self, wire):
        self._measured = None

    def scan(self):
        return Bus.roms

    def convert_temp(self):
        if Bus.raw is None:
            raise OneWireError
        Bus.converted += 1
        self._measured = Bus.raw

    def read_scratch(self, rom):
        Bus.asked.append(rom)
        if Bus.raw is None:
            raise OneWireError
        low, high = self._measured & 255, self._measured >> 8
        return Bus.scratch or bytes((low, high, 75, 70, 0x7F, 0xFF, 0x10 - (low & 15), 0x10, 0))


class Drivers:
    DS18X20 = Bus

    def OneWire(self, pin):
        return pin


class Machine:
    def Pin(self, number):
        if number > 48:
            raise ValueError("invalid pin")  # as the ports
        return number


def sensor(name="ds18b20@22"):
    """As the settings name it."""
    kept = {name: sys.modules[name] for name in ("ds18x20", "onewire") if name in sys.modules}
    sys.modules["ds18x20"] = sys.modules["onewire"] = Drivers()
    try:
        return chip_sensors.choose([name], [], Machine(), None)[0]
    finally:
        sys.modules.pop("ds18x20")
        sys.modules.pop("onewire")
        sys.modules.update(kept)


class TestDs18b20(unittest.TestCase):
    def setUp(self):
        Bus.raw, Bus.roms, Bus.asked = 0, [b"first", b"second"], []
        Bus.scratch = b""

    def test_its_name_unit_and_time_to_settle(self):
        found = sensor()
        self.assertEqual((found.name, found.unit, found.exponent), (b"ds18b20_22", b"Cel", -4))
        self.assertTrue(found.settle_ms >= 750)

    def test_a_reading_is_what_the_one_before_it_began(self):
        found = sensor()
        Bus.raw = SHEET[0][0]
        self.assertTrue(found.read() is None)
        for (_, expected), (raw, _) in zip(SHEET, SHEET[1:] + SHEET[:1]):
            Bus.raw = raw
            self.assertEqual(found.read(), expected)
        self.assertEqual(set(Bus.asked), {b"first"})

    def test_a_fault_is_no_reading_and_the_next_one_is_good(self):
        found = sensor()
        found.read()
        Bus.raw = None
        self.assertTrue(found.read() is None)
        Bus.raw = 16
        found.read()
        self.assertEqual(found.read(), 10_000)

    def test_a_pin_that_is_none_is_told_with_the_sensor_that_names_it(self):
        with self.assertRaises(ValueError) as caught:
            sensor("ds18b20@99")
        self.assertEqual(str(caught.exception), "sensors: 'ds18b20@99': invalid pin")

    def test_without_a_sensor_there_is_no_reading(self):
        Bus.roms = []
        found = sensor()
        self.assertTrue(found.read() is None and found.read() is None)
        self.assertEqual(Bus.asked, [])

    def test_one_that_is_plugged_in_later_is_found(self):
        Bus.roms = []
        found = sensor()
        self.assertTrue(found.read() is None)
        Bus.roms, Bus.raw = [b"first"], 16
        self.assertTrue(found.read() is None)
        self.assertEqual(found.read(), 10_000)

    def test_at_ground_or_without_power_it_has_no_reading_and_measures_again(self):
        """Nine zeros have a good checksum; 85 degrees are what it has at power-on."""
        found = sensor()
        found.read()
        for scratch in (bytes(9), b"\x50\x05\x4b\x46\x7f\xff\x0c\x10\x1c"):
            Bus.scratch = scratch
            self.assertTrue(found.read() is None)
            Bus.scratch, converted = b"", Bus.converted
            self.assertTrue(found.read() is None and Bus.converted > converted)
            self.assertEqual(found.read(), 0)


if __name__ == "__main__":
    unittest.main()
