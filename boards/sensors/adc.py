"""A voltage at a pin, directly or through a divider, scaled to the quantity that it represents.

By default, volts in thousandths. The quantity is millivolts * times / over + plus, in units of 10
to `exponent`. A probe with 0.5 V at 0 bar and 2.5 V at 10 bar, in hundredths of a bar: unit "bar",
exponent -2, times 1, over 2, plus -250.

No reading: an ADC has none (RP2040 data sheet, 4.9; ESP32 data sheet, "ADC"). An open pin reads
what it picks up, and a voltage beyond the range reads as its end. Below zero: a pin measures no
negative voltage; `plus` makes one.
"""

from support.sensor_pin import Millivolts

KEYS = {
    "pin": (0, 48, None, "adc"),
    "top_ohm": (0, 10_000_000, 0),
    "bottom_ohm": (1, 10_000_000, 10_000),
    "samples": (1, 64, 8),
    "times": (-10_000, 10_000, 1),
    "over": (1, 10_000, 1),
    "plus": (-1_000_000, 1_000_000, 0),
    "unit": "V",
    "exponent": (-9, 9, -3),
}
READINGS = (("", "V", -3),)


class Driver:
    def __init__(self, options):
        self._source = Millivolts(
            options["pin"], options["top_ohm"], options["bottom_ohm"], options["samples"]
        )
        self._times, self._over, self._plus = options["times"], options["over"], options["plus"]

    def read(self):
        return self._source.read() * self._times // self._over + self._plus
