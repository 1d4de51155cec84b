"""Parses sensors in one line, as `outpost provision` asks for them: "attic=bme280 scl=5 sda=4".

A sensor without `=` in its first word is one of the chip's own, or a driver without another name.
Keys that a driver needs and that are not in the line are asked for one by one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from outpost_tools.boards.settings import sensor_drivers

HELP = "sensors, with commas: the chip's own, or name=driver (empty: all of the chip's own)"
Read = Callable[[str], str]


def parsed(text: str, own: tuple[str, ...], read: Read) -> list[Any] | None:
    """Return the sensors as settings contain them, or None if the user went back. own: the chip's
    own sensors. read: asks for the value of one key."""
    found: list[Any] = []
    for part in (one.split() for one in text.split(",") if one.strip()):
        sensor = _sensor(part, own)
        if isinstance(sensor, dict) and not _completed(sensor, read):
            return None
        found.append(sensor)
    return found


def line(sensors: Any) -> str:
    """The reverse of parsed(): one line, to offer the last answer again."""
    if not isinstance(sensors, list):
        return str(sensors)
    return ", ".join(map(_line, sensors))


def toml(value: Any) -> str:
    """A value of settings in TOML; sensors are inline tables."""
    if isinstance(value, dict):
        pairs = (f"{_toml_key(key)} = {toml(one)}" for key, one in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    return json.dumps(value, ensure_ascii=False)


def number_or_text(text: str) -> Any:
    """A number (decimal, or as 0x76), or else the text."""
    try:
        return int(text, 0)
    except ValueError:
        return text


def _toml_key(key: str) -> str:
    """Quoted if it contains a full stop, as the name of a reading may."""
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else json.dumps(key)


def _sensor(words: list[str], own: tuple[str, ...]) -> Any:
    """The sensor that these words describe: a table if it has a driver, else a text."""
    name, _, driver = words[0].rpartition("=")
    if not name and (driver in own or "@" in driver or driver not in _drivers()):
        return " ".join(words) if name or len(words) == 1 else _given(words[1:], driver, "")
    return _given(words[1:], driver, name)


def _given(words: list[str], driver: str, name: str) -> dict[str, Any]:
    given: dict[str, Any] = {"driver": driver} | ({"name": name} if name else {})
    texts = text_keys(driver, Path())
    for word in words:
        key, _, value = word.partition("=")
        given[key] = value if key in texts else number_or_text(value)
    return given


def text_keys(driver: str, folder: Path) -> set[str]:
    """The keys whose value stays text even if it looks like a number: a DS18B20's rom of digits, an
    HX711's gain of "128"."""
    try:
        keys = sensor_drivers.find(driver, folder).keys
    except ValueError:  # reported by the check that follows
        return set()
    return {key for key, rule in keys.items() if isinstance(rule, str) or isinstance(rule[0], str)}


def _drivers() -> set[str]:
    """The names of our drivers, and of the files where the user's drivers would be."""
    folder = Path()
    own = {path.stem for place in (folder, folder / "sensors") for path in place.glob("*.py")}
    return {*sensor_drivers.names(), *own}


def _completed(given: dict[str, Any], read: Read) -> bool:
    """Ask for the keys that the driver needs. Returns False if the user goes back."""
    try:
        driver = sensor_drivers.find(given["driver"], Path())
    except ValueError:  # reported by the check that follows
        return True
    for key in sensor_drivers.needed(driver):
        if key not in given:
            text = read(f"  {given.get('name', driver.name)}: {key}")
            if text == "<":
                return False
            given[key] = number_or_text(text)
    return True


def _line(sensor: Any) -> str:
    if not isinstance(sensor, dict):
        return str(sensor)
    driver = str(sensor.get("driver"))
    first = f"{sensor['name']}={driver}" if "name" in sensor else driver
    more = [f"{key}={value}" for key, value in sensor.items() if key not in ("driver", "name")]
    return " ".join([first, *more])
