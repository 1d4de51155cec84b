"""BME280 (temperature, humidity, pressure) and BMP280 (no humidity), by Bosch, on I2C.

The compensation uses the data sheets' 32-bit formulas (BST-BME280-DS002, 4.2.3; BST-BMP280-DS001,
8.2), in steps that stay within 30 bits and so do not allocate. Forced mode, one sample of each
value: each reading starts a measurement and returns its result. Not tried on hardware.

No reading (DS002, 5.4.3 and 5.4.5; DS001, 4.3.4): 0x80000 for temperature and pressure, 0x8000 for
humidity, are the registers' values before the first measurement and of one that is skipped, as
after a dip of the supply. Each is also a possible value, so the chip measures once more. Below
zero: raw values have no sign; those of the calibration are in two's complement, in 8, 12 or 16
bits.
"""

import time

from micropython import const

from support.sensor_bus import i2c

KEYS = {
    "i2c": (-1, 1, 0),
    "scl": (0, 48, None),
    "sda": (0, 48, None),
    "address": (0x76, 0x77, 0x76),
}
READINGS = (
    ("temperature", "Cel", -2, -4000, 8500),
    ("humidity", "%RH", -2, 0, 10000),
    ("pressure", "Pa", 0, 30_000, 110_000),
)

_ID = const(0xD0)
_RESET = const(0xE0)
_STATUS = const(0xF3)
_BME280 = const(0x60)
_BMP280 = (0x56, 0x57, 0x58)
_MEASURING = const(0x09)  # or copying its calibration
_SKIPPED = const(0x80000)  # in the registers before the first measurement
_SKIPPED_HUMIDITY = const(0x80)
_MOST_POLLS = const(50)  # of 1 ms: a measurement takes at most 9.3


class Driver:
    def __init__(self, options):
        self._bus, self._address = i2c(options), options["address"]
        self._byte, self._raw = bytearray(1), bytearray(8)
        chip = self._register(_ID)
        if chip != _BME280 and chip not in _BMP280:
            raise OSError("chip id " + hex(chip) + " is not that of a BME280 or BMP280")
        self._has_humidity = chip == _BME280
        self._bus.writeto_mem(self._address, _RESET, b"\xb6")
        self._wait()
        self._load()
        self._t_fine = 0
        self._values = [0, None, 0]

    def _register(self, number):
        self._bus.readfrom_mem_into(self._address, number, self._byte)
        return self._byte[0]

    def _wait(self):
        left = _MOST_POLLS
        while True:
            time.sleep_ms(1)
            if not self._register(_STATUS) & _MEASURING:
                return
            left -= 1
            if not left:
                raise OSError("the chip does not finish its measurement")

    def _load(self):
        """Read the chip's calibration."""
        data = self._bus.readfrom_mem(self._address, 0x88, 26)
        words = [data[at] | data[at + 1] << 8 for at in range(0, 24, 2)]
        # T1 and P1 are unsigned
        signed = [one - 0x10000 if one & 0x8000 else one for one in words]
        signed[0], signed[3] = words[0], words[3]
        self._t, self._p = signed[:3], signed[3:]
        if not self._t[0] or not self._p[0] or words[0] == 0xFFFF:
            raise OSError("the chip's calibration is empty")
        if self._has_humidity:
            more = self._bus.readfrom_mem(self._address, 0xE1, 7)
            h2 = more[0] | more[1] << 8
            h4, h5 = more[3] << 4 | more[4] & 15, more[5] << 4 | more[4] >> 4
            self._h = [
                data[25],
                h2 - 0x10000 if h2 & 0x8000 else h2,
                more[2],
                h4 - 0x1000 if h4 & 0x800 else h4,
                h5 - 0x1000 if h5 & 0x800 else h5,
                more[6] - 0x100 if more[6] & 0x80 else more[6],
            ]

    def read(self):
        self._measure()
        if self._has_skipped():
            self._measure()
            if self._has_skipped():
                raise OSError("the chip has not measured")
        raw, values = self._raw, self._values
        values[0] = self._celsius(self._raw20(3))
        values[1] = self._humidity(raw[6] << 8 | raw[7]) if self._has_humidity else None
        values[2] = self._pascal(self._raw20(0))
        return values

    def _has_skipped(self):
        if self._raw20(0) == _SKIPPED or self._raw20(3) == _SKIPPED:
            return True
        raw = self._raw
        return self._has_humidity and raw[6] == _SKIPPED_HUMIDITY and not raw[7]

    def _raw20(self, at):
        raw = self._raw
        return raw[at] << 12 | raw[at + 1] << 4 | raw[at + 2] >> 4

    def _measure(self):
        bus, address = self._bus, self._address
        if self._has_humidity:
            bus.writeto_mem(address, 0xF2, b"\x01")
        bus.writeto_mem(address, 0xF4, b"\x25")  # one sample of both, forced mode
        self._wait()
        bus.readfrom_mem_into(address, 0xF7, self._raw)

    def _celsius(self, raw):
        """Hundredths of a degree."""
        t = self._t
        one = ((raw >> 3) - (t[0] << 1)) * t[1] >> 11
        two = (raw >> 4) - t[0]
        self._t_fine = one + ((two * two >> 12) * t[2] >> 14)
        return self._t_fine * 5 + 128 >> 8

    def _pascal(self, raw):
        p = self._p
        one = (self._t_fine >> 1) - 64_000
        two = _squared(one >> 2) * p[5] + (one * p[4] << 1)
        two = (two >> 2) + (p[3] << 16)
        one = self._slope(one)
        if not one:
            raise OSError("the chip's calibration is wrong")
        two = 1_048_576 - raw - (two >> 12)
        return self._trimmed(two // one * 6250 + two % one * 6250 // one)

    def _slope(self, one):
        """(32768 + x) * P1 >> 15 of the data sheet, whose products may exceed 30 bits."""
        p = self._p
        half = p[1] * (one >> 1) + (p[1] * (one & 1) >> 1)  # P2 * one >> 1
        one = (p[2] * (_squared(one >> 2) >> 2) >> 3) + half >> 18
        return p[0] + (one * p[0] >> 15)

    def _trimmed(self, pressure):
        p, eighth = self._p, pressure >> 3
        one = p[8] * (eighth * eighth >> 13) >> 12
        return pressure + (one + ((pressure >> 2) * p[7] >> 13) + p[6] >> 4)

    def _humidity(self, raw):
        """Hundredths of a percent."""
        h = self._h
        x = self._t_fine - 76_800
        first = (raw << 14) - (h[3] << 20) - h[4] * x + 16_384 >> 15
        second = (x * h[5] >> 10) * ((x * h[2] >> 11) + 32_768) >> 10
        x = first * ((second + 2_097_152) * h[1] + 8192 >> 14)
        square = (x >> 15) * (x >> 15)
        x -= (square >> 7) * h[0] >> 4
        x = min(max(x, 0), 419_430_400)
        return (x >> 12) * 25 >> 8


def _squared(value):
    """value * value >> 11; the square itself may exceed 30 bits."""
    high, low = value >> 6, value & 63
    return 2 * high * high + (128 * high * low + low * low >> 11)
