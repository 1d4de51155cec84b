"""A contact at a pin, 1 or 0: door, float switch, relay. With invert 1, closed to ground is 1.

No reading: none; a broken wire reads as an open contact. A float switch that opens in an alarm is
therefore the safer one.
"""

from support.sensor_pin import input_pin

KEYS = {"pin": (0, 48, None, "input"), "pull": ("up", "down", "none"), "invert": (0, 1, 0)}
READINGS = (("", "/", 0, 0, 1),)


class Driver:
    def __init__(self, options):
        self._pin = input_pin(options["pin"], options["pull"])
        self._invert = options["invert"]

    def read(self):
        return self._pin.value() ^ self._invert
