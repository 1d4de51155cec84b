"""SHT40, SHT41, SHT45: temperature and humidity, by Sensirion, on I2C. Not tried on hardware.

High precision (data sheet, 4.5 and 4.6). At the ends of its range, the formula yields humidities
outside 0 to 100 %, which are cropped as the data sheet says.

No reading ("I2C Communication", "Checksum Calculation"): until it has measured, the chip does not
acknowledge, which is an OSError; a checksum follows each word, and neither two zeros nor two ones
of a dead bus have a right one. Below zero: the words have no sign; 0 is -45 degrees.
"""

import time

from micropython import const

from support.sensor_bus import i2c, word

KEYS = {
    "i2c": (-1, 1, 0),
    "scl": (0, 48, None),
    "sda": (0, 48, None),
    "address": (0x44, 0x46, 0x44),
}
READINGS = (("temperature", "Cel", -2, -4000, 12500), ("humidity", "%RH", -2, 0, 10000))

_MEASURE = b"\xfd"
_SHT4X_MS = const(10)  # 8.3 according to the data sheet


class Driver:
    def __init__(self, options):
        self._bus, self._address = i2c(options), options["address"]
        self._raw, self._values = bytearray(6), [0, 0]
        self.read()

    def read(self):
        self._bus.writeto(self._address, _MEASURE)
        time.sleep_ms(_SHT4X_MS)
        self._bus.readfrom_into(self._address, self._raw)
        self._values[0] = word(self._raw, 0) * 3500 // 13_107 - 4500  # 175 degrees over 65,535
        self._values[1] = min(max(word(self._raw, 3) * 12_500 // 65_535 - 600, 0), 10_000)
        return self._values
