"""Finds the drivers of the sensors that settings name, checks them, and makes their files for a
board. It runs no driver: KEYS and READINGS are plain values, which it reads from the source.

A user's file beside the settings takes precedence over one in boards/sensors; it is copied
uncompiled. The rules are the firmware's own (boards/support/sensor_file.py).
"""

from __future__ import annotations

import ast
import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outpost_tools.boards.files import firmware_build
from outpost_tools.boards.files.inventory import DRIVERS
from outpost_tools.boards.port.pinout import Pinout
from outpost_tools.boards.settings import pin_check
from outpost_tools.errors import ToolError
from outpost_tools.machine import source_tree
from outpost_tools.machine.firmware import sensor_rules
from outpost_tools.messages.series import MOST_COLUMNS

_HELP = 'see "The driver contract" in boards/PORTING.md'


@dataclass(frozen=True, slots=True)
class Driver:
    """path: on the desktop. is_own: it is the user's. keys, readings: KEYS and READINGS of the
    file."""

    name: str
    path: Path
    source: str
    is_own: bool
    keys: dict[str, Any]
    readings: tuple[Any, ...]

    @property
    def title(self) -> str:
        """The first sentence of the file's docstring; "" without one."""
        text = ast.get_docstring(ast.parse(self.source)) or ""
        return " ".join(text.split("\n\n")[0].split()).partition(". ")[0].rstrip(".")

    def built(self, architecture: str) -> tuple[str, bytes]:
        """Return (path on the board, bytes). Raises ToolError with what mpy-cross said."""
        title = f"{DRIVERS[1:]}/{self.name}.py"
        compiled = firmware_build.compiled(self.source, title, architecture)
        if self.is_own:
            return f"/{title}", self.source.encode()
        return f"/{title.removesuffix('.py')}.mpy", compiled


def names() -> list[str]:
    """The names of the drivers in boards/sensors."""
    folder = source_tree.repository() / "boards" / firmware_build.DRIVERS
    return sorted(path.stem for path in folder.glob("*.py"))


def own_names(folder: Path) -> list[str]:
    """The names of the user's drivers in this folder of settings; other Python files are
    ignored."""
    files = [*(folder / firmware_build.DRIVERS).glob("*.py"), *folder.glob("*.py")]
    found = []
    for name in sorted({path.stem for path in files}):
        with contextlib.suppress(ValueError):
            if find(name, folder).is_own:
                found.append(name)
    return found


def find(name: str, folder: Path | None) -> Driver:
    """Find a driver by its name. folder: that of the settings; None: only boards/sensors. Raises
    ValueError, which says what is wrong, for a message that names the sensor."""
    ours = source_tree.repository() / "boards" / firmware_build.DRIVERS / f"{name}.py"
    own = [folder / "sensors" / f"{name}.py", folder / f"{name}.py"] if folder else []
    path = next((one for one in [*own, ours] if one.is_file()), None)
    if path is None:
        raise ValueError(
            f"has no driver {name!r}; known: {', '.join(names())}, or a file sensors/{name}.py "
            "beside the settings"
        )
    try:
        source = path.read_text(encoding="utf-8")
        found = _values(source)
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"has a driver {path} that cannot be read: {error}") from None
    except SyntaxError as error:
        raise ValueError(f"has a driver {path} with a mistake: line {error.lineno}") from None
    keys, readings = found.get("KEYS", {}), found.get("READINGS")
    fault = _shape_fault(keys, readings)
    if fault:
        raise ValueError(f"has a driver {path} whose {fault}; {_HELP}")
    return Driver(name, path, source, path is not ours, keys, tuple(readings))


def checked(given: dict[str, Any], folder: Path | None) -> Driver:
    """Return the driver of a sensor, if the sensor's settings fit it. Raises ValueError."""
    driver = find(given["driver"], folder)
    rules = sensor_rules()
    try:
        options = rules.check_options(driver.keys, given)
        rules.readings_of(driver.readings, options)
    except ValueError as error:
        name = given.get("name", driver.name)
        raise ValueError(f"has a sensor {name!r} ({driver.name}): {error}") from None
    return driver


def wired(sensors: Any, folder: Path | None) -> list[pin_check.Sensor]:
    """Checked sensors, for pin_check.py. Left out are the chip's own sensors without a pin, and
    sensors whose driver cannot be found."""
    return [one for given in sensors or () if (one := _wired(given, folder))]


def _wired(given: Any, folder: Path | None) -> pin_check.Sensor | None:
    if isinstance(given, dict):
        try:
            driver = find(given["driver"], folder)
            options = sensor_rules().check_options(driver.keys, given)
        except ValueError:
            return None
        label = f"{given.get('name', driver.name)!r} ({driver.name})"
        return pin_check.Sensor(label, options, driver.keys)
    kind, _, pin = given.partition("@")
    role = {"adc": "adc", "ds18b20": "1-wire"}.get(kind)
    return pin_check.on_pin(given, role, int(pin)) if role and pin.isdecimal() else None


def pin_faults(
    sensors: Any, folder: Path | None, board: Pinout | None, *, deep_sleep: bool
) -> list[str]:
    """What is wrong with the pins of checked sensors; an empty text means no fault."""
    found = pin_check.faults(wired(sensors, folder), board, deep_sleep=deep_sleep)
    return [f"has a sensor {one}" if one else "" for one in found]


def readings(sensors: Any, folder: Path | None) -> list[str]:
    """The names of the readings of checked sensors, in order."""
    drivers = on_board(sensors, folder)
    found = []
    for given in sensors or ():
        if isinstance(given, dict):
            name = given.get("name", given["driver"])
            driver = drivers.get(given["driver"])
            suffixes = [one[0] for one in driver.readings] if driver else [""]
            found += [f"{name}_{suffix}" if suffix else name for suffix in suffixes]
        else:  # as boards/support/chip_sensors.py names them
            found.append(given.replace("adc@", "adc").replace("ds18b20@", "ds18b20_"))
    return found


def double_name(names: list[str]) -> str:
    """The fault of two sensors that have a reading with the same name; "" if there are none."""
    for name in names:
        if names.count(name) > 1:
            return f"has two sensors with a reading {name!r}; give one another 'name'"
    return ""


def series_faults(full: dict[str, Any], names: list[str]) -> list[tuple[str, str]]:
    """Return (key, "" or what is wrong) for settings with series, on a board with these readings.
    Returns [] without series."""
    if not full["series"]:
        return []
    count = len(names)
    found = [
        ("series", count > MOST_COLUMNS and f"takes {MOST_COLUMNS} readings, not {count}"),
        *[
            ("alarms", name not in names and f"names {name!r}; readings: {', '.join(names)}")
            for name in full["alarms"] or ()
        ],
    ]
    return [(key, fault or "") for key, fault in found]


def needed(driver: Driver) -> list[str]:
    """The keys without a default."""
    return [key for key, rule in driver.keys.items() if _has_no_default(rule)]


def on_board(sensors: Any, folder: Path | None) -> dict[str, Driver]:
    """Return {name: driver} for the sensors in checked settings; drivers that cannot be found are
    left out."""
    found = {}
    for given in sensors or ():
        if isinstance(given, dict) and given["driver"] not in found:
            try:
                found[given["driver"]] = find(given["driver"], folder)
            except ValueError:
                continue
    return found


def files(drivers: dict[str, Driver], architecture: str) -> dict[str, bytes]:
    """Return path on the board -> bytes. Raises ToolError."""
    try:
        return dict(driver.built(architecture) for driver in drivers.values())
    except ToolError as error:
        raise ToolError(f"{error}; {_HELP}") from None


def _values(source: str) -> dict[str, Any]:
    """Return the values of KEYS and READINGS in the file; Ellipsis for one that is not a plain
    value."""
    found: dict[str, Any] = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if name in ("KEYS", "READINGS"):
                try:
                    found[name] = ast.literal_eval(node.value)
                except ValueError:
                    found[name] = ...
    return found


def _shape_fault(keys: Any, readings: Any) -> str:
    if not isinstance(keys, dict) or not all(
        isinstance(key, str) and _is_rule(keys[key]) for key in keys
    ):
        return "KEYS is not as it should be"
    if not isinstance(readings, tuple | list) or not readings:
        return "READINGS is missing, or not as it should be"
    for one in readings:
        is_row = isinstance(one, tuple | list) and len(one) in (3, 5)
        is_text = is_row and isinstance(one[0], str) and isinstance(one[1], str)
        if not is_text or not all(type(number) is int for number in one[2:]):
            return f"READINGS has {one!r}"
    return ""


def _is_rule(rule: Any) -> bool:
    if isinstance(rule, str):
        return True
    if not isinstance(rule, tuple) or not rule:
        return False
    return all(isinstance(one, str) for one in rule) or (
        len(rule) in (3, 4)
        and all(type(one) is int for one in rule[:2])
        and all(map(pin_check.is_role, rule[3:]))
    )


def _has_no_default(rule: Any) -> bool:
    return isinstance(rule, tuple) and not isinstance(rule[0], str) and rule[2] is None
