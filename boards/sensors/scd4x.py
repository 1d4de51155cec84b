"""SCD40, SCD41: CO2, temperature and humidity, by Sensirion, on I2C. Not tried on hardware.

The chip measures every 5 s. With mode "low_power", only the first measurement takes 5 s; the others
follow every 30 s, at a fifth of the current. Between two measurements, a reading repeats the last
one. The chip keeps measuring while the board restarts or sleeps, and meanwhile refuses settings, so
the driver stops it first, which takes half a second (data sheet, 3.4 to 3.8). Nothing is stored in
the chip. self_calibration assumes fresh air (400 ppm) once a week: switch it off in a greenhouse.

No reading (3.5.2, 3.8.2): the lowest 11 bits of the status are 0 until a measurement is ready; a
measurement that is read twice is not acknowledged; each word has a checksum. 0 ppm is no CO2 that
air has. Below zero: the words have no sign; 0 is -45 degrees.
"""

import time

from micropython import const

from support.sensor_bus import crc8, i2c, word

KEYS = {
    "i2c": (-1, 1, 0),
    "scl": (0, 48, None),
    "sda": (0, 48, None),
    "address": (0x62, 0x62, 0x62),
    "mode": ("periodic", "low_power"),
    "altitude_m": (0, 3000, 0),
    "self_calibration": ("on", "off"),
}
# 0 ppm means that the chip has not measured CO2
READINGS = (
    ("co2", "ppm", 0, 1, 40_000),
    ("temperature", "Cel", -2, -1000, 6000),
    ("humidity", "%RH", -2, 0, 10000),
)
SETTLE_MS = 6000

_STOP = b"\x3f\x86"
_START = b"\x21\xb1"
_START_LOW_POWER = b"\x21\xac"
_ALTITUDE = b"\x24\x27"
_SELF_CALIBRATION = b"\x24\x16"
_IS_READY = b"\xe4\xb8"
_READ = b"\xec\x05"
_STOP_MS = const(500)
_COMMAND_MS = const(2)  # 1 according to the data sheet
_READY_BITS = const(0x07FF)
_LATE_MS = const(12_000)  # two measurements, and a fifth
_LOW_POWER_LATE_MS = const(72_000)


class Driver:
    _values: "list[int | None]"  # None before the first measurement

    def __init__(self, options):
        self._bus, self._address = i2c(options), options["address"]
        self._ready, self._raw = bytearray(3), bytearray(9)
        self._values = [None, None, None]
        self._late_ms = _LATE_MS
        self._will_change = options["mode"] == "low_power"
        self._command(_STOP, _STOP_MS)
        self._set(_ALTITUDE, options["altitude_m"])
        self._set(_SELF_CALIBRATION, options["self_calibration"] == "on")
        self._command(_START, _COMMAND_MS)
        self._measured_ms = time.ticks_ms()

    def read(self):
        """None until the first measurement. Raises OSError if the chip stops measuring."""
        self._command(_IS_READY, _COMMAND_MS)
        self._bus.readfrom_into(self._address, self._ready)
        if word(self._ready, 0) & _READY_BITS:
            self._take()
        elif time.ticks_diff(time.ticks_ms(), self._measured_ms) > self._late_ms:
            raise OSError("the chip has stopped measuring")
        return self._values

    def _take(self):
        """Read the newest measurement, which the chip returns only once."""
        self._command(_READ, _COMMAND_MS)
        self._bus.readfrom_into(self._address, self._raw)
        raw, values = self._raw, self._values
        humidity = word(raw, 6)  # all checksums before any value
        temperature = word(raw, 3)
        values[0] = word(raw, 0)
        values[1] = temperature * 3500 // 13_107 - 4500  # 175 degrees over 65,535
        values[2] = humidity * 2000 // 13_107
        if self._will_change:
            self._change()
        self._measured_ms = time.ticks_ms()

    def _change(self):
        """Change to low power, after the first measurement."""
        self._command(_STOP, _STOP_MS)
        self._command(_START_LOW_POWER, _COMMAND_MS)
        self._late_ms = _LOW_POWER_LATE_MS
        self._will_change = False

    def _command(self, command, wait_ms):
        self._bus.writeto(self._address, command)
        time.sleep_ms(wait_ms)

    def _set(self, command, value):
        data = bytearray(command + bytes((value >> 8, value & 255, 0)))
        data[4] = crc8(data, 2, 2)
        self._command(data, _COMMAND_MS)
