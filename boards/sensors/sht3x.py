"""SHT30, SHT31, SHT35: temperature and humidity, by Sensirion, on I2C. Not tried on hardware.

Single shot, high repeatability, no clock stretching (data sheet, 4.3 and 4.13).

No reading (4.4, 4.12): until it has measured, the chip does not acknowledge, which is an OSError; a
checksum follows each word, and neither two zeros nor two ones of a dead bus have a right one. Below
zero: the words have no sign; 0 is -45 degrees.
"""

import time

from micropython import const

from support.sensor_bus import i2c, word

KEYS = {
    "i2c": (-1, 1, 0),
    "scl": (0, 48, None),
    "sda": (0, 48, None),
    "address": (0x44, 0x45, 0x44),
}
READINGS = (("temperature", "Cel", -2, -4000, 12500), ("humidity", "%RH", -2, 0, 10000))

_MEASURE = b"\x24\x00"
_SHT3X_MS = const(16)  # 15.5 according to the data sheet


class Driver:
    def __init__(self, options):
        self._bus, self._address = i2c(options), options["address"]
        self._raw, self._values = bytearray(6), [0, 0]
        self.read()

    def read(self):
        self._bus.writeto(self._address, _MEASURE)
        time.sleep_ms(_SHT3X_MS)
        self._bus.readfrom_into(self._address, self._raw)
        self._values[0] = word(self._raw, 0) * 3500 // 13_107 - 4500  # 175 degrees over 65,535
        self._values[1] = word(self._raw, 3) * 10_000 // 65_535
        return self._values
