"""HX711: a scale's load cell, by Avia Semiconductor, on two pins. Not tried on hardware.

weight = (raw - tare) / counts_per_kg. To calibrate, flash with the defaults and read `raw`. When
the scale is empty, it is tare. With a known weight, (raw - tare) / kilograms is counts_per_kg,
negative if the cell is wired the other way round. A reading is the mean of `samples` conversions of
0.1 s each, at the usual rate of 10 Hz. The chip powers down if its clock is high for 60 us (data
sheet, "Reset and Power-Down"), so interrupts are disabled during each pulse.

No reading: 0x7FFFFF and 0x800000 are the ends of the range, where the chip stays if the load is
beyond it or a wire of the bridge is broken (data sheet, "Output Data Rate and Format"); a data
line that does not fall, or that does not rise after the last bit. Below zero: two's complement in
24 bits.
"""

import time

from micropython import const

from support.sensor_bus import scaled
from support.sensor_pin import input_pin

KEYS = {
    "dout": (0, 48, None, "input"),
    "sck": (0, 48, None, "output"),
    "gain": ("128", "64"),
    "tare": (-0x800000, 0x7FFFFF, 0),
    "counts_per_kg": (-10_000_000, 10_000_000, 100_000),
    "samples": (1, 7, 3),
}
READINGS = (("weight", "kg", -3), ("raw", "", 0, -0x7FFFFF, 0x7FFFFE))
SETTLE_MS = 500

_SETTLING_MS = const(400)  # after power-on or a change of the gain, at 10 conversions a second
_FIRST_WAIT_MS = const(500)
_MOST_WAIT_MS = const(120)
_BITS = const(24)
_LEAST_COUNTS = const(100)  # the whole range in grams then fits into 28 bits
_NOTHING = (None, None)


class Driver:
    def __init__(self, options):
        import machine

        self._counts_per_kg, self._tare = options["counts_per_kg"], options["tare"]
        if abs(self._counts_per_kg) < _LEAST_COUNTS:
            raise ValueError("'counts_per_kg' must be 100 or more, or -100 or less")
        self._machine = machine
        self._clock = machine.Pin(options["sck"], machine.Pin.OUT, value=0)
        self._data = input_pin(options["dout"], "up")
        self._pulses = _BITS + (1 if options["gain"] == "128" else 3)  # sets the next one's gain
        self._samples, self._values = options["samples"], [0, 0]
        self._sample(_FIRST_WAIT_MS)  # still with the previous gain
        self._started_ms = time.ticks_ms()

    def read(self):
        """None until the chip has settled."""
        if time.ticks_diff(time.ticks_ms(), self._started_ms) < _SETTLING_MS:
            return _NOTHING
        left, total, values = self._samples, 0, self._values
        while left:
            left -= 1
            total += self._sample(_MOST_WAIT_MS)
        values[1] = total // self._samples
        grams = scaled(values[1] - self._tare, 1000, abs(self._counts_per_kg))
        values[0] = grams if self._counts_per_kg > 0 else -grams
        return values

    def _sample(self, left):
        """left: milliseconds to wait for the end of a conversion."""
        while self._data.value():
            if not left:
                raise OSError("the chip does not finish its conversion")
            left -= 1
            time.sleep_ms(1)
        raw = self._shifted()
        if not self._data.value():  # high until the next conversion ends
            raise OSError("the chip's data line is at ground")
        raw -= (raw & 0x800000) << 1
        if raw == 0x7FFFFF or raw == -0x800000:
            raise ValueError("the load is beyond the chip's range")
        return raw

    def _shifted(self):
        """24 bits, highest first; one or three more pulses set the gain of the next conversion."""
        machine, clock = self._machine, self._clock
        raw = index = 0
        while index < self._pulses:
            state = machine.disable_irq()
            clock.value(1)
            clock.value(0)
            machine.enable_irq(state)
            if index < _BITS:
                raw = raw << 1 | self._data.value()
            index += 1
        return raw
