"""The sensors that a board's settings name: the chip's own, two kinds that need a wire, and those
with a driver file (`sensor_file.py`).

`adc@26`: the voltage at pin 26, in mV. `ds18b20@22`: the first DS18B20 on pin 22, read with the
drivers `onewire` and `ds18x20` of micropython-lib, which the RP2 and ESP32 builds include. Reading
a DS18B20 allocates.
"""

from micropython import const

_CONVERSION_MS = const(800)  # 750 by the data sheet


class Reading:
    """A sensor as Station expects it.

    read: returns an integer or None. settle_ms: from a first, empty reading to a good one.
    """

    def __init__(self, name, unit, exponent, read, settle_ms=0):
        self.name, self.unit, self.exponent = name, unit, exponent
        self.read, self.settle_ms = read, settle_ms


class Ds18b20:
    """Returns the result of the conversion that the previous call started: it takes 750 ms.

    None the first time.
    """

    def __init__(self, pin):
        import ds18x20  # pyright: ignore[reportMissingImports] - not in the stubs of every port
        import onewire  # pyright: ignore[reportMissingImports]

        from support.sensor_bus import celsius

        self._celsius = celsius
        self._bus = ds18x20.DS18X20(onewire.OneWire(pin))
        self._rom = self._find()
        self._is_measured = False

    def _find(self):
        roms = self._bus.scan()
        return roms[0] if roms else None

    def read(self):
        """Ten-thousandths of a degree Celsius, or None."""
        try:
            self._rom = self._rom or self._find()
            if self._rom is None:
                return None
            value = self._value() if self._is_measured else None
            self._bus.convert_temp()
            self._is_measured = True
            return value
        # the driver's own exception for a wrong checksum, and OneWireError: no reading this time
        except Exception:
            self._is_measured = False  # a sensor that lost its power must measure again
            return None

    def _value(self):
        return self._celsius(self._rom, self._bus.read_scratch(self._rom))


def choose(names, own, machine, adc):
    """The sensors with these names; all of the chip's own if names is None.

    own: list of Reading. adc: callable that takes a pin number and returns the callable that reads
    the pin's millivolts. Raises ValueError: one line.
    """
    if not names:
        return own
    return [_one(name, own, machine, adc) for name in names]


def _one(name, own, machine, adc):
    if isinstance(name, dict):
        from support.sensor_file import SensorFile

        return SensorFile(name)
    for reading in own:
        if reading.name.decode() == name:
            return reading
    kind, _, pin = name.partition("@")
    if pin.isdigit() and kind in ("adc", "ds18b20"):
        try:
            return _at_pin(kind, pin, machine, adc)
        except ValueError as error:  # from the port, about a pin; it does not name the sensor
            raise ValueError("sensors: '" + name + "': " + str(error))
    known = ", ".join([reading.name.decode() for reading in own])
    raise ValueError(
        "sensors: unknown sensor '" + str(name) + "'; known: " + known + ", adc@PIN, ds18b20@PIN"
    )


def _at_pin(kind, pin, machine, adc):
    if kind == "adc":
        return Reading(("adc" + pin).encode(), b"V", -3, adc(int(pin)))
    read = Ds18b20(machine.Pin(int(pin))).read
    return Reading(("ds18b20_" + pin).encode(), b"Cel", -4, read, _CONVERSION_MS)
