"""Checks incomplete settings: what is wrong with the newest answer, or with each field of a form.
The checks and their messages are those of settings_file.check(), which stops at the first fault."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from outpost_tools.boards.port.kinds import Kind
from outpost_tools.boards.settings import sensor_drivers, settings_file
from outpost_tools.boards.settings.settings_file import Settings
from outpost_tools.errors import ToolError
from outpost_tools.mqtt import certificates

_NEEDED = ("device_id", "broker_host", "wifi_ssid", "mode")
_SERIES_MS = 60_000  # a longer interval leaves few samples in a record
_AT_KEY = re.compile(r"key '(\w+)',? (.*)", re.DOTALL)
# How old a value may be when somebody looks at it: the example's interval. Sending costs energy,
# so on a battery, users choose deep sleep or a longer series_age_s.
LIVE_S = 60
_IN_SENSOR = re.compile(r"\): key '(\w+)' (.*)", re.DOTALL)
_IN_NETWORK = re.compile(r"entry (\d+): key '(\w+)' (.*)", re.DOTALL)


def stand_ins(kind: Kind) -> dict[str, Any]:
    """Values for keys that were not asked for yet, or whose answer is invalid."""
    found = {"device_id": "board", "broker_host": "broker"}
    return found | ({"wifi_ssid": "network"} if kind.has_wifi else {})


def completed(answers: dict[str, Any]) -> dict[str, Any]:
    """The answers, and the keys that follow from them without a question."""
    more = {"tls": True} if "ca_file" in answers else {}
    return answers | more | ({"deep_sleep": True} if "connect_every" in answers else {})


def series_win(full: dict[str, Any]) -> bool:
    """Whether to choose series if the settings do not say: series need many samples per record, and
    a collector, which can read them. Deep sleep ends each record."""
    is_quick = full["interval_ms"] <= _SERIES_MS
    return full["mode"] == "collector" and not full["deep_sleep"] and is_quick


def check(
    given: dict[str, Any], name: str, folder: Path, kind: Kind, ca: bytes | None = None
) -> Settings:
    """As settings_file.check(), but choose series if series_win() says so and the settings say
    nothing. Raises ToolError."""
    settings = settings_file.check(given, name, folder, kind, ca)
    if "series" in given or not series_win(settings.full):
        return settings
    try:
        live = {"series": True, "series_age_s": LIVE_S}
        return settings_file.check({**live, **given}, name, folder, kind, ca)
    except ToolError:  # more readings than a series takes
        return settings


def answer_fault(key: str, answers: dict[str, Any], kind: Kind) -> str:
    """What is wrong with the newest answer, that of `key`, as "must be ..."; "" if nothing is."""
    if key not in answers and key in (*_NEEDED, "client_key_file"):
        return "is needed"
    try:
        if key == "client_cert_file" and key in answers:  # its key comes next
            settings_file.read_file(key, answers, "", Path(), certificates.certificate)
        else:
            settings_file.check(completed(stand_ins(kind) | answers), "", Path(), kind)
    except ToolError as error:
        return str(error).removeprefix(": ").removeprefix(f"key '{key}' ")
    return ""


# --- All faults at once ---


def faults(
    given: dict[str, Any], folder: Path, kind: Kind, ca: bytes | None = None
) -> dict[str, str]:
    """Return {field: what is wrong}. A field is a key, or `sensors.1.scl`,
    `wifi_networks.0.password`; "" stands for faults of no field. {} means that
    settings_file.check() accepts the settings."""
    found: dict[str, str] = {}
    left, known = dict(given), stand_ins(kind)
    while text := _first_fault(left, folder, kind, ca):
        key, fault = _at_key(text)
        if (key not in left and key not in known) or key in found:
            return found | {"": text}
        # a fault that names another faulty key only follows from that one
        if not any(f"'{other}'" in fault for other in found):
            found |= _parts(key, fault, left, folder, kind)
            found.setdefault(key, fault)
        _replace(left, key, known)
    return {field: text for field, text in found.items() if text}


def _first_fault(given: dict[str, Any], folder: Path, kind: Kind, ca: bytes | None) -> str:
    try:
        check(given, "", folder, kind, ca)
    except ToolError as error:
        return str(error).removeprefix(": ")
    return ""


def _at_key(text: str) -> tuple[str, str]:
    """Return (key, text after it), or ("", text) if the text names no key."""
    match = _AT_KEY.match(text.removeprefix("unknown "))
    return (match[1], match[2]) if match else ("", text)


def _replace(left: dict[str, Any], key: str, known: dict[str, Any]) -> None:
    """Give the key a value that has no fault, so that the next fault shows."""
    left.pop(key, None)
    if key == "sensors":
        left.pop("alarms", None)  # alarms name readings of sensors
    if key == "wifi_networks":
        key = "wifi_ssid"
    if key in known:
        left[key] = known[key]


def _parts(key: str, fault: str, given: dict[str, Any], folder: Path, kind: Kind) -> dict[str, str]:
    """The faulty fields of a list; the list itself then has no fault."""
    if key == "sensors":
        return _of_sensors(given.get("sensors"), folder, kind)
    match = _IN_NETWORK.search(fault) if key == "wifi_networks" else None
    return {f"{key}.{int(match[1]) - 1}.{match[2]}": match[3], key: ""} if match else {}


def _of_sensors(sensors: Any, folder: Path, kind: Kind) -> dict[str, str]:
    found: dict[str, str] = {}
    for number, sensor in enumerate(sensors if isinstance(sensors, list) else ()):
        faults = _of_sensor(sensor, folder, kind).items()
        found |= {f"sensors.{number}{key and f'.{key}'}": text for key, text in faults}
    return found | {"sensors": ""} if found else {}


def _of_sensor(sensor: Any, folder: Path, kind: Kind) -> dict[str, str]:
    """The faults by key; "" stands for the whole sensor."""
    found: dict[str, str] = {}
    while text := _first_fault(stand_ins(kind) | {"sensors": [sensor]}, folder, kind, None):
        match = _IN_SENSOR.search(text)
        rules = sensor_drivers.find(sensor["driver"], folder).keys if match else {}
        if match is None or match[1] not in rules or match[1] in found:
            return found or {"": _at_key(text)[1]}
        found[match[1]] = match[2]
        rule = rules[match[1]]
        sensor = sensor | {match[1]: rule if isinstance(rule, str) else rule[0]}  # a valid value
    return found
