"""SenML's units (RFC 8428, RFC 8798) as Home Assistant names them, with their device class and
state class.

Home Assistant refuses a device class whose list of units lacks the given unit, so a unit that is
missing here is shown unchanged, without a class. Several gases have the unit ppm, and particles of
several sizes ug/m3; for these, the class follows from the end of the reading's name. A contact has
SenML's unit "/", the value of a switch, where 1 is on (RFC 8428, section 12.1), and Home Assistant
has another platform for it. A value other than 0 and 1 makes it a ratio, which is a number. Pure.
"""

from __future__ import annotations

from typing import NamedTuple

MEASUREMENT = "measurement"
INCREASING = "total_increasing"  # a counter that may restart at 0
CONTACT = "/"
RATIO = ""  # replaces "/" after a value that no contact has


class Kind(NamedTuple):
    """The options of a sensor in Home Assistant's configuration; None: the option is left out."""

    unit: str | None
    device_class: str | None
    state_class: str | None


def _measured(unit: str | None, device_class: str | None) -> Kind:
    return Kind(unit, device_class, MEASUREMENT)


KINDS = {
    "Cel": _measured("°C", "temperature"),
    "K": _measured("K", "temperature"),
    "%RH": _measured("%", "humidity"),
    "%EL": _measured("%", "battery"),
    "Pa": _measured("Pa", "pressure"),
    "hPa": _measured("hPa", "pressure"),
    "V": _measured("V", "voltage"),
    "mV": _measured("mV", "voltage"),
    "A": _measured("A", "current"),
    "mA": _measured("mA", "current"),
    "W": _measured("W", "power"),
    "kW": _measured("kW", "power"),
    "VA": _measured("VA", "apparent_power"),
    "var": _measured("var", "reactive_power"),
    "Wh": Kind("Wh", "energy", INCREASING),
    "kWh": Kind("kWh", "energy", INCREASING),
    "Hz": _measured("Hz", "frequency"),
    "MHz": _measured("MHz", "frequency"),
    "lx": _measured("lx", "illuminance"),
    "W/m2": _measured("W/m²", "irradiance"),
    "m": _measured("m", "distance"),
    "mm": _measured("mm", "distance"),
    "cm": _measured("cm", "distance"),
    "km": _measured("km", "distance"),
    "m/s": _measured("m/s", "speed"),
    "km/h": _measured("km/h", "speed"),
    "kg": _measured("kg", "weight"),
    "g": _measured("g", "weight"),
    "dBm": _measured("dBm", "signal_strength"),
    "s": _measured("s", "duration"),
    "ms": _measured("ms", "duration"),
    "min": _measured("min", "duration"),
    "h": _measured("h", "duration"),
    "B": _measured("B", "data_size"),
    "KiB": _measured("KiB", "data_size"),
    "ppm": _measured("ppm", None),
    "ug/m3": _measured("µg/m³", None),
    "pH": _measured(None, "ph"),
    "%": _measured("%", None),
    "deg": _measured("°", None),
    "count": Kind(None, None, INCREASING),
}
# (unit, end of the reading's name): device class
NAMED = {
    ("ppm", "co2"): "carbon_dioxide",
    ("ug/m3", "pm1"): "pm1",
    ("ug/m3", "pm25"): "pm25",
    ("ug/m3", "pm10"): "pm10",
}


def of(unit: str | None, name: str) -> Kind:
    """name: the reading's name. A unit that is not listed is returned as it is, without a device
    class."""
    kind = KINDS.get(unit or "") or _measured(unit or None, None)
    named = NAMED.get((unit or "", name.rpartition("_")[2]))
    return kind._replace(device_class=named) if named else kind
