"""DHT22 (AM2302) on one pin, with the port's driver `dht`. Not tried on hardware.

The sensor can be read once every 2 s; a reading that comes earlier returns None. The pin needs a
pull-up of 5 to 10 kohm, which most modules have.

No reading: five zeros, whose checksum is right, where the sensor has not measured: no air has 0 %
at 0.0 degrees. Below zero: the highest bit is the sign of the other 15 (AM2302 manual by Aosong,
"Single-bus to send data definition"), but many sensors that are sold as DHT22 send two's
complement. The two do not overlap between -40 and 0 degrees: 0x8001 to 0x8190, and 0xFE70 to
0xFFFF.
"""

import time

from micropython import const

KEYS = {"pin": (0, 48, None, "open drain")}
READINGS = (("temperature", "Cel", -1, -400, 800), ("humidity", "%RH", -1, 0, 1000))
SETTLE_MS = 2100

_EACH_MS = const(2000)
_SIGN = const(0x8000)
_COMPLEMENT = const(0xC000)  # from here on, it is two's complement


class Driver:
    def __init__(self, options):
        import dht  # pyright: ignore[reportMissingImports] - not in the stubs of every port
        from machine import Pin

        self._chip = dht.DHT22(Pin(options["pin"]))
        self._values = [None, None]
        self._asked_ms = time.ticks_ms()

    def read(self):
        """None within 2 s of the start or of the previous measurement."""
        values = self._values
        values[0] = values[1] = None
        if time.ticks_diff(time.ticks_ms(), self._asked_ms) < _EACH_MS:
            return values
        self._asked_ms = time.ticks_ms()
        self._chip.measure()
        # its bytes, because the driver's own temperature() returns a float
        raw = self._chip.buf
        tenths, humidity = raw[2] << 8 | raw[3], raw[0] << 8 | raw[1]
        if not tenths and not humidity:
            raise OSError("five zeros: the sensor has not measured")
        if tenths & _SIGN:
            tenths = tenths - 2 * _SIGN if tenths >= _COMPLEMENT else _SIGN - tenths
        values[0], values[1] = tenths, humidity
        return values
