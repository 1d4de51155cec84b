"""AHT20, AHT21: temperature and humidity, by Aosong, on I2C. Not tried on hardware.

No reading (data sheet, 5.3 and 5.4): bit 7 of the status says that the chip is busy, bit 3 at 0
that it is not calibrated, as after a dip of the supply: its values are then no measurement, and the
driver calibrates it when it is constructed again. Below zero: 20 bits without a sign; 0 is -50
degrees, beyond the range, and with 0 % what a chip has that did not measure.
"""

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
        if not raw[0] & _IS_CALIBRATED:
            raise OSError("the chip is not calibrated")
        if crc8(raw, 0, 6) != raw[6]:
            raise ValueError("wrong checksum in the chip's answer")
        if not (raw[1] or raw[2] or raw[3] or raw[4] or raw[5]):
            raise OSError("the chip has not measured")
        # over 2^20: 200 degrees from -50 up, and 100 percent
        self._values[0] = ((raw[3] & 15) << 16 | raw[4] << 8 | raw[5]) * 1250 // 65_536 - 5000
        self._values[1] = (raw[1] << 12 | raw[2] << 4 | raw[3] >> 4) * 625 // 65_536
        return self._values
