"""Pulses at a pin since the start: rain gauge, water meter, S0 output of an electricity meter.

Counted by interrupt, modulo 2^30; a restart begins at 0. Not for boards that use deep sleep, which
count nothing while they sleep: the tools refuse it there.

No reading: none; a broken wire counts nothing. Below zero: nothing; after 2^30 - 1 comes 0.
"""

import time

from micropython import const

from support.sensor_pin import input_pin

KEYS = {
    "pin": (0, 48, None, "counter"),
    "pull": ("up", "down", "none"),
    "edge": ("falling", "rising"),
    "debounce_ms": (0, 1000, 5),
}
READINGS = (("", "count", 0),)

_MASK = const(0x3FFF_FFFF)


class Driver:
    def __init__(self, options):
        from machine import Pin

        self._count = 0
        self._debounce_ms, self._last_ms = options["debounce_ms"], time.ticks_ms()
        self._pin = input_pin(options["pin"], options["pull"])
        falling = options["edge"] == "falling"
        self._pin.irq(self._on_edge, Pin.IRQ_FALLING if falling else Pin.IRQ_RISING)

    def _on_edge(self, pin):
        now_ms = time.ticks_ms()
        # negative after six days: not a bounce
        if not 0 <= time.ticks_diff(now_ms, self._last_ms) < self._debounce_ms:
            self._count = self._count + 1 & _MASK
        self._last_ms = now_ms

    def read(self):
        return self._count
