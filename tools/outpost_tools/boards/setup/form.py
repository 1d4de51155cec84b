"""Converts what the page sends into settings, and settings into what the page shows.

    {"values": {"device_id": "kitchen", "tls": true, "broker_port": "8883", ...},
     "networks": [{"ssid": "Home", "password": "..."}, ...],
     "own": ["temperature", ...], "sensors": [{"driver": "bme280", "scl": "5", ...}, ...],
     "alarms": [{"reading": "temperature", "below": "5", "above": ""}, ...],
     "kept": ["update_key", ...]}

An empty field means that its key is left out. Secrets go only from the page to this module: the
page learns which secrets a loaded file contains, but not their values, and `kept` names those to
keep. In a network, `kept` is the network's place in that file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from outpost_tools.boards.port.kinds import Kind
from outpost_tools.boards.settings import sensor_drivers
from outpost_tools.boards.settings.sensor_words import number_or_text, text_keys
from outpost_tools.boards.settings.settings_file import SECRET_KEYS, defaults
from outpost_tools.boards.setup.fields import AUTOMATIC, LISTS
from outpost_tools.errors import ToolError
from outpost_tools.machine.firmware import settings_rules

_NETWORK = ("wifi_ssid", "wifi_password")
_MOST_ENTRIES = 64  # in a list; the firmware has limits of its own
BAD = "the request is not one that this page sends; reload the page"


def settings(
    posted: dict[str, Any], kind: Kind, folder: Path, old: dict[str, Any]
) -> dict[str, Any]:
    """folder: contains the user's own drivers. old: the file whose secrets are kept. Raises
    ToolError if the page cannot have sent this."""
    found = {}
    for key, value in _dict(posted, "values").items():
        if key not in settings_rules() or not isinstance(value, str | bool):
            raise ToolError(BAD)
        if key not in LISTS:
            found |= _of_key(key, value)
    for key in _texts(posted, "kept"):
        if key in SECRET_KEYS and key in old and key not in found:
            found[key] = old[key]
    if kind.has_wifi:
        found |= _networks(_dicts(posted, "networks"), networks_of(old))
    return found | _sensors(posted, kind, folder) | _alarms(_dicts(posted, "alarms"))


def _of_key(key: str, value: str | bool) -> dict[str, Any]:
    """The key with its value; empty if the value is the default."""
    rule = settings_rules()[key]
    kind, default = rule[0], defaults({}).get(key, rule[1])
    if kind is bool and isinstance(value, str):  # from a choice that includes AUTOMATIC
        return {} if value in ("", AUTOMATIC) else {key: value == "true"}
    if kind is bool:
        return {} if value == default else {key: value}
    if isinstance(value, bool):
        raise ToolError(BAD)
    if key not in SECRET_KEYS:
        value = value.strip()
    if isinstance(kind, tuple):
        typed = next((one for one in kind if str(one) == value), value)
        return {} if typed == default and key != "mode" else {key: typed}
    if not value:
        return {}
    return {key: number_or_text(value) if kind is int else value}


def _networks(posted: list[dict[str, Any]], old: list[dict[str, Any]]) -> dict[str, Any]:
    """A single network with only a name and a password uses the keys for one network."""
    found = []
    for entry in posted:
        made = {key: text for key, text in _strings(entry).items() if text}
        kept = entry.get("kept")
        if type(kept) is int and 0 <= kept < len(old) and "password" in old[kept]:
            made = {"password": old[kept]["password"]} | made
        found.append(made)
    if len(found) == 1 and found[0].keys() <= {"ssid", "password"}:
        return {f"wifi_{key}": value for key, value in found[0].items()}
    return {"wifi_networks": found} if any(found) else {}


def _sensors(posted: dict[str, Any], kind: Kind, folder: Path) -> dict[str, Any]:
    """Empty if all sensors of the chip are chosen, and no others."""
    listed: list[Any] = [*_texts(posted, "own")]
    known = {*sensor_drivers.names(), *sensor_drivers.own_names(folder)}
    for entry in _dicts(posted, "sensors"):
        given = {key: text for key, text in _strings(entry).items() if text}
        driver = given.get("driver", "")  # names a file: open only those that were offered
        texts = {"driver", "name"} | (text_keys(driver, folder) if driver in known else set())
        listed.append(
            {key: text if key in texts else number_or_text(text) for key, text in given.items()}
        )
    return {} if tuple(listed) == kind.sensors else {"sensors": listed}


def _alarms(posted: list[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, dict[str, Any]] = {}
    for entry in map(_strings, posted):
        sides = {side: _decimal(entry[side]) for side in ("below", "above") if entry.get(side)}
        if sides or entry.get("reading"):
            found.setdefault(entry.get("reading", ""), {}).update(sides)
    return {"alarms": found} if found else {}


def _decimal(text: str) -> Any:
    """A number, or the text itself, which the check will refuse."""
    value = number_or_text(text)
    if isinstance(value, int):
        return value
    try:
        return float(text)
    except ValueError:
        return text


# --- Settings as the page shows them, without secrets ---


def shown(given: dict[str, Any], kind: Kind) -> dict[str, Any]:
    """In the form that settings() takes; secrets are left out, and `kept` names them."""
    rules = settings_rules()
    plain = {
        key: value if isinstance(value, bool) and key != "series" else _text(value)
        for key, value in given.items()
        if key in rules and key not in (*SECRET_KEYS, *LISTS, *_NETWORK)
    }
    plain.setdefault("series", "false")  # the meaning of a file without the key
    networks = [
        {key: _text(value) for key, value in one.items() if key != "password"}
        | ({"kept": place} if one.get("password") else {})
        for place, one in enumerate(networks_of(given))
    ]
    sensors = given.get("sensors", list(kind.sensors))
    sensors = sensors if isinstance(sensors, list) else []
    alarms = given.get("alarms")
    return {
        "values": plain,
        "networks": networks,
        "own": [one for one in sensors if isinstance(one, str)],
        "sensors": [
            {key: _text(value) for key, value in one.items()}
            for one in sensors
            if isinstance(one, dict)
        ],
        "alarms": [
            {"reading": name} | {side: _text(limit) for side, limit in limits.items()}
            for name, limits in (alarms.items() if isinstance(alarms, dict) else ())
            if isinstance(limits, dict)
        ],
        "kept": [key for key in SECRET_KEYS if given.get(key) and key not in (*_NETWORK, *LISTS)],
    }


def has_secret(given: dict[str, Any]) -> bool:
    return any(given.get(key) for key in SECRET_KEYS)


def networks_of(given: dict[str, Any]) -> list[dict[str, Any]]:
    """The networks, in whichever form the settings have them."""
    listed = given.get("wifi_networks")
    if isinstance(listed, list):
        return [one for one in listed if isinstance(one, dict)]
    one = {key: given[f"wifi_{key}"] for key in ("ssid", "password") if f"wifi_{key}" in given}
    return [one] if one else []


def at_fields(faults: dict[str, str], given: dict[str, Any]) -> dict[str, str]:
    """The faults of answers.faults(), by the fields of the page."""
    listed = given.get("sensors")
    own = sum(isinstance(one, str) for one in listed) if isinstance(listed, list) else 0
    return {_field(key, own): text for key, text in faults.items()}


def _field(key: str, own: int) -> str:
    if key in _NETWORK:
        return f"networks.0.{key.removeprefix('wifi_')}"
    name, *rest = key.split(".")
    if name == "wifi_networks":
        return ".".join(["networks", *rest])
    if name == "sensors" and rest:
        number = int(rest[0]) - own
        return ".".join(["sensors", f"{number}", *rest[1:]]) if number >= 0 else "own"
    return key


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


# --- The structure of what the page sent ---


def _dict(posted: dict[str, Any], name: str) -> dict[str, Any]:
    found = posted.get(name, {})
    if not isinstance(found, dict):
        raise ToolError(BAD)
    return found


def _list(posted: dict[str, Any], name: str, kind: type) -> list[Any]:
    found = posted.get(name, [])
    is_one = isinstance(found, list) and len(found) <= _MOST_ENTRIES
    if not is_one or not all(isinstance(one, kind) for one in found):
        raise ToolError(BAD)
    return found


def _texts(posted: dict[str, Any], name: str) -> list[str]:
    return _list(posted, name, str)


def _dicts(posted: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return _list(posted, name, dict)


def _strings(entry: dict[str, Any]) -> dict[str, str]:
    """All but `kept`, which is a number. Passwords keep their blanks."""
    found = {key: value for key, value in entry.items() if key != "kept"}
    if not all(isinstance(value, str) for value in found.values()):
        raise ToolError(BAD)
    return {key: text if key == "password" else text.strip() for key, text in found.items()}
