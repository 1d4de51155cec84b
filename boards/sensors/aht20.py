"""AHT20, AHT21: temperature and humidity, by Aosong, on I2C. Not tried on hardware."""

import time

from micropython import const

from support.sensor_bus import crc8, i2c

KEYS = {
    "i2c": (-1, 1, 0),
    "scl": (0, 48, None),
    "sda": (0, 48, None),
    "address": (0x38, 0x38, 0x38),
}
READINGS = (("temperature", "Cel", -2, -4000, 8500), ("humidity", "%RH", -2, 0, 10000))

_CALIBRATE = b"\xbe\x08\x00"
_MEASURE = b"\xac\x33\x00"
_IS_CALIBRATED = const(0x08)
_IS_BUSY = const(0x80)
_AHT20_MS = const(80)


class Driver:
    def __init__(self, options):
        self._bus, self._address = i2c(options), options["address"]
        self._raw, self._values = bytearray(7), [0, 0]
        if not self._bus.readfrom(self._address, 1)[0] & _IS_CALIBRATED:
            self._bus.writeto(self._address, _CALIBRATE)
            time.sleep_ms(10)

    def read(self):
        raw = self._raw
        self._bus.writeto(self._address, _MEASURE)
        time.sleep_ms(_AHT20_MS)
        self._bus.readfrom_into(self._address, raw)
        if raw[0] & _IS_BUSY:
            raise OSError("the chip does not finish its measurement")
        if crc8(raw, 0, 6) != raw[6]:
            raise ValueError("wrong checksum in the chip's answer")
        # over 2^20: 200 degrees from -50 up, and 100 percent
        self._values[0] = ((raw[3] & 15) << 16 | raw[4] << 8 | raw[5]) * 1250 // 65_536 - 5000
        self._values[1] = (raw[1] << 12 | raw[2] << 4 | raw[3] >> 4) * 625 // 65_536
        return self._values
