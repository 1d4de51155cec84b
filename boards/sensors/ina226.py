"""INA226: voltage, current and power of a load, by Texas Instruments, on I2C.

Each reading starts one measurement: the mean of 16 samples over 18 ms, first of the shunt, then of
the bus (data sheet SBOS547, 7.1). The current is the shunt's voltage divided by its resistance,
shunt_uohm; if R100 is printed on the shunt, that is 0.1 ohm. The chip's calibration, current and
power registers are not used: after a dip in the supply they are 0, which looks like a current of 0.
A shunt voltage of 81.9 mV, the end of the chip's range, is an error. Not tried on hardware.

No reading (7.1.3, 7.1.7): the conversion-ready bit is 0 until the measurement has ended; the math
overflow bit says that current and power may be invalid; the highest bit of the bus voltage is
always 0, so a 1 is a bus that reads as ones. Below zero: the shunt's voltage is in two's
complement, the bus voltage has no sign.
"""

import time

from micropython import const

from support.sensor_bus import i2c, scaled

KEYS = {
    "i2c": (-1, 1, 0),
    "scl": (0, 48, None),
    "sda": (0, 48, None),
    "address": (0x40, 0x4F, 0x40),
    "shunt_uohm": (100, 10_000_000, None),
}
READINGS = (
    ("voltage", "V", -3, 0, 40_960),
    ("current", "A", -5, -81_920_000, 81_920_000),  # 81.92 mV at 100 millionths of an ohm
    ("power", "W", -3, -33_554_432, 33_554_432),
)

_CONFIGURATION = const(0)
_SHUNT = const(1)
_BUS = const(2)
_INA226_STATUS = const(6)
_MAKER = const(0xFE)
_DIE = const(0xFF)
_TEXAS_INSTRUMENTS = const(0x5449)
_INA226 = const(0x226)
_MEASURE = b"\x45\x23"  # 16 samples of 1.1 ms of both, once
_INA226_MS = const(40)  # at most 38.7 according to the data sheet
_INA226_IS_READY = const(8)
_INA226_OVERFLOW = const(4)
_INA226_MOST_SHUNT = const(0x7FFF)  # of 2.5 uV


class Driver:
    def __init__(self, options):
        self._bus, self._address = i2c(options), options["address"]
        self._shunt_uohm = options["shunt_uohm"]
        self._raw, self._values = bytearray(2), [0, 0, 0]
        if self._register(_MAKER) != _TEXAS_INSTRUMENTS or self._register(_DIE) >> 4 != _INA226:
            raise OSError("the chip is no INA226")

    def read(self):
        self._bus.writeto_mem(self._address, _CONFIGURATION, _MEASURE)
        time.sleep_ms(_INA226_MS)
        status = self._register(_INA226_STATUS)
        if not status & _INA226_IS_READY:
            raise OSError("the chip does not finish its measurement")
        values, shunt, bus = self._values, self._register(_SHUNT), self._register(_BUS)
        if bus & 0x8000:
            raise OSError("the bus reads as ones")
        shunt -= (shunt & 0x8000) << 1
        if status & _INA226_OVERFLOW or not -_INA226_MOST_SHUNT < shunt < _INA226_MOST_SHUNT:
            raise ValueError("the current is beyond the chip's range")
        values[0] = bus * 5 // 4
        values[1] = scaled(shunt, 250_000, self._shunt_uohm)
        values[2] = scaled(values[1], values[0], 100_000)
        return values

    def _register(self, number):
        self._bus.readfrom_mem_into(self._address, number, self._raw)
        return self._raw[0] << 8 | self._raw[1]
