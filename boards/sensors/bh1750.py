"""BH1750: illuminance, by Rohm, on I2C. Not tried on hardware.

Each reading starts one measurement at high resolution, after which the chip sleeps (technical note
2009.04, "Instruction Set Architecture"). At the end of the range, 54,612 lx, the measurement is
repeated with the shortest measurement time, whose range ends at 121,556 lx: direct sunlight.

No reading: 0xFFFF also with the shortest time is more light than that. The data register is 0 until
the first measurement ends, and the chip has no mark for it (technical note, "Block Diagram"), so
the driver waits for the longest time that a measurement takes. Below zero: nothing; 16 bits without
a sign.
"""

import time

from micropython import const

from support.sensor_bus import i2c

KEYS = {
    "i2c": (-1, 1, 0),
    "scl": (0, 48, None),
    "sda": (0, 48, None),
    "address": (0x23, 0x5C, 0x23),
}
READINGS = (("", "lx", 0, 0, 121_557),)

_POWER_ON = b"\x01"
_MEASURE = b"\x20"  # once, high resolution
_TIME_69 = b"\x42", b"\x65"  # measurement time, the default: 01000_MT[7:5], 011_MT[4:0]
_TIME_31 = b"\x40", b"\x7f"  # the shortest
_TIME_69_MS = const(181)  # at most 180 according to the technical note
_TIME_31_MS = const(82)
_SATURATED = const(0xFFFF)


class Driver:
    def __init__(self, options):
        if options["address"] not in (0x23, 0x5C):
            raise ValueError("'address' must be 35 (0x23) or 92 (0x5C)")
        self._bus, self._address = i2c(options), options["address"]
        self._raw = bytearray(2)
        self.read()

    def read(self):
        raw = self._measure(_TIME_69, _TIME_69_MS)
        if raw < _SATURATED:
            return (raw * 5 + 3) // 6  # raw / 1.2
        raw = self._measure(_TIME_31, _TIME_31_MS)
        if raw == _SATURATED:
            raise ValueError("brighter than 121,556 lx")
        return (raw * 115 + 31) // 62  # raw / 1.2 * 69 / 31

    def _measure(self, how_long, wait_ms):
        bus, address = self._bus, self._address
        bus.writeto(address, _POWER_ON)
        bus.writeto(address, how_long[0])
        bus.writeto(address, how_long[1])
        bus.writeto(address, _MEASURE)
        time.sleep_ms(wait_ms)
        bus.readfrom_into(address, self._raw)
        return self._raw[0] << 8 | self._raw[1]
