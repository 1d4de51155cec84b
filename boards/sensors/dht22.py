"""DHT22 (AM2302) on one pin, with the port's driver `dht`. Not tried on hardware.

The sensor can be read once every 2 s; a reading that comes earlier returns None. The pin needs a
pull-up of 5 to 10 kohm, which most modules have.
"""

import time

from micropython import const

KEYS = {"pin": (0, 48, None, "open drain")}
READINGS = (("temperature", "Cel", -1, -400, 800), ("humidity", "%RH", -1, 0, 1000))
SETTLE_MS = 2100

_EACH_MS = const(2000)


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
        tenths = (raw[2] & 0x7F) << 8 | raw[3]
        values[0] = -tenths if raw[2] & 0x80 else tenths
        values[1] = raw[0] << 8 | raw[1]
        return values
