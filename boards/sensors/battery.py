"""A battery's voltage at a pin, through a divider, and its remaining charge in percent (%EL).

curve "lipo": `cells` lithium cells in series at rest, by a common discharge curve; under load or in
the cold, the result is too low. "linear": between empty_mv and full_mv. The divider must keep the
pin below 3.3 V.

No reading: less than 0.1 V at the battery, which is a missing battery or a broken wire and no level
of 0 %. Below zero: nothing.
"""

from support.sensor_pin import Millivolts

KEYS = {
    "pin": (0, 48, None, "adc"),
    "top_ohm": (0, 10_000_000, 100_000),
    "bottom_ohm": (1, 10_000_000, 100_000),
    "curve": ("lipo", "linear"),
    "cells": (1, 8, 1),
    "empty_mv": (0, 60_000, 2000),
    "full_mv": (1, 60_000, 3000),
}
READINGS = (("voltage", "V", -3, 100, 60_000), ("level", "%EL", 0, 0, 100))

# Pairs: millivolts of a lithium cell, percent
_LIPO = (3270, 0, 3610, 5, 3690, 10, 3730, 20, 3770, 30, 3800, 40, 3840, 50, 3870, 60,
         3950, 70, 4020, 80, 4110, 90, 4200, 100)  # fmt: skip
_SAMPLES = 16
_LEAST_MV = 100


class Driver:
    def __init__(self, options):
        self._source = Millivolts(
            options["pin"], options["top_ohm"], options["bottom_ohm"], _SAMPLES
        )
        self._cells = options["cells"]
        self._curve = _LIPO
        if options["curve"] == "linear":
            if options["empty_mv"] >= options["full_mv"]:
                raise ValueError("'empty_mv' must be below 'full_mv'")
            self._cells = 1
            self._curve = (options["empty_mv"], 0, options["full_mv"], 100)
        self._values = [0, 0]

    def read(self):
        values = self._values
        values[0] = self._source.read()
        if values[0] < _LEAST_MV:
            raise OSError("no voltage: is the battery connected?")
        values[1] = self._level(values[0] // self._cells)
        return values

    def _level(self, millivolts):
        curve, at = self._curve, 0
        if millivolts <= curve[0]:
            return 0
        while at + 2 < len(curve) and millivolts >= curve[at + 2]:
            at += 2
        if at + 2 >= len(curve):
            return 100
        rise = curve[at + 3] - curve[at + 1]
        return curve[at + 1] + (millivolts - curve[at]) * rise // (curve[at + 2] - curve[at])
