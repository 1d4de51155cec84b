"""Soil moisture: a capacitive probe at an ADC pin. The example of boards/sensors/README.md."""

from machine import ADC, Pin

KEYS = {"pin": (26, 28, 26, "adc"), "dry": (0, 65_535, 52_000), "wet": (0, 65_535, 22_000)}
READINGS = (("moisture", "%", 0, 0, 100), ("raw", "", 0))


class Driver:
    def __init__(self, options):
        self.adc = ADC(Pin(options["pin"]))
        self.dry, self.wet = options["dry"], options["wet"]

    def read(self):
        raw = self.adc.read_u16()
        moisture = 100 * (self.dry - raw) / (self.dry - self.wet)
        return min(max(moisture, 0), 100), raw
