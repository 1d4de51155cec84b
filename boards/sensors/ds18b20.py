"""DS18B20, DS18S20, DS1820 on a 1-Wire bus, with the drivers `onewire` and `ds18x20` of
micropython-lib, which the RP2 and ESP32 builds include. Not tried on hardware.

A conversion takes 750 ms, so a reading returns the result of the conversion that the previous one
started. If several share a pin, set `rom` (16 hex digits) for each; without it, the first that
answers is read. A reading allocates, because `ds18x20` returns a new scratch pad each time.

No reading (data sheet 19-7487, "Memory", and `support/sensor_bus.py`): 85 degrees with 0Ch in byte
6 are the values at power-on, before or without a conversion; nine zeros, whose checksum is right,
are a wire at ground. A wrong checksum raises in `ds18x20`. Below zero: two's complement in 16 bits,
sixteenths of a degree, or halves in the family 10h.
"""

import time

from micropython import const

from support.sensor_bus import celsius

KEYS = {"pin": (0, 48, None, "1-wire"), "rom": ""}
READINGS = (("", "Cel", -4, -550_000, 1_250_000),)
SETTLE_MS = 800

_CONVERTING_MS = const(750)


class Driver:
    def __init__(self, options):
        import ds18x20  # pyright: ignore[reportMissingImports] - not in the stubs of every port
        import onewire  # pyright: ignore[reportMissingImports]
        from machine import Pin

        self._bus = ds18x20.DS18X20(onewire.OneWire(Pin(options["pin"])))
        self._rom = self._choose(options["rom"].lower())
        self._begin()

    def _choose(self, wanted):
        found = self._bus.scan()
        for rom in found:
            if not wanted or "".join(["%02x" % one for one in rom]) == wanted:
                return rom
        raise OSError("%d sensors on the bus, but not this one" % len(found))

    def _begin(self):
        self._bus.convert_temp()
        self._began_ms = time.ticks_ms()

    def read(self):
        """Ten-thousandths of a degree; None during the conversion."""
        if time.ticks_diff(time.ticks_ms(), self._began_ms) < _CONVERTING_MS:
            return None
        scratch = self._bus.read_scratch(self._rom)
        self._begin()
        return celsius(self._rom, scratch)
