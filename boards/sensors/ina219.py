"""INA219: voltage, current and power of a load, by Texas Instruments, on I2C.

Each reading starts one measurement: the mean of 64 samples over 34 ms, first of the shunt, then of
the bus (data sheet SBOS448G, 8.6.2 and 8.6.3). The current is the shunt's voltage divided by its
resistance, shunt_uohm; most modules have 0.1 ohm. The chip's calibration, current and power
registers are not used: after a dip in the supply they are 0, which looks like a current of 0. A
shunt voltage of 0.32 V, the end of the chip's range, is an error. Not tried on hardware.

No reading (8.6.3.2, bus voltage register): the conversion-ready bit is 0 until the measurement has
ended; the overflow bit is 1 if a current is out of range, and also where the bus reads as ones.
Below zero: the shunt's voltage is in two's complement, the bus voltage has no sign.
"""

import time

from micropython import const

from support.sensor_bus import i2c, scaled

KEYS = {
    "i2c": (-1, 1, 0),
    "scl": (0, 48, None),
    "sda": (0, 48, None),
    "address": (0x40, 0x4F, 0x40),
    "shunt_uohm": (100, 10_000_000, 100_000),
}
READINGS = (
    ("voltage", "V", -3, 0, 32_000),
    ("current", "A", -5, -320_000_000, 320_000_000),  # 0.32 V at 100 millionths of an ohm
    ("power", "W", -3, -102_400_000, 102_400_000),
)

_CONFIGURATION = const(0)
_SHUNT = const(1)
_BUS = const(2)
_MEASURE = b"\x3f\x73"  # 32 V, 320 mV, 64 samples of both, once
_INA219_MS = const(77)  # at most 75.04 according to the data sheet
_INA219_IS_READY = const(2)
_INA219_OVERFLOW = const(1)
_INA219_MOST_SHUNT = const(32_000)  # of 10 uV


class Driver:
    def __init__(self, options):
        self._bus, self._address = i2c(options), options["address"]
        self._shunt_uohm = options["shunt_uohm"]
        self._raw, self._values = bytearray(2), [0, 0, 0]
        self.read()

    def read(self):
        self._bus.writeto_mem(self._address, _CONFIGURATION, _MEASURE)
        time.sleep_ms(_INA219_MS)
        values, bus = self._values, self._register(_BUS)
        if not bus & _INA219_IS_READY:
            raise OSError("the chip does not finish its measurement")
        shunt = self._register(_SHUNT)
        shunt -= (shunt & 0x8000) << 1
        if bus & _INA219_OVERFLOW or not -_INA219_MOST_SHUNT < shunt < _INA219_MOST_SHUNT:
            raise ValueError("the current is beyond the chip's range")
        values[0] = (bus >> 3) * 4
        values[1] = scaled(shunt, 1_000_000, self._shunt_uohm)
        values[2] = scaled(values[1], values[0], 100_000)
        return values

    def _register(self, number):
        self._bus.readfrom_mem_into(self._address, number, self._raw)
        return self._raw[0] << 8 | self._raw[1]
