"""The description of a board for Home Assistant: one retained message in the device form of its
MQTT discovery (Home Assistant 2024.12 and newer).

The rules of Home Assistant, as its code checks them (homeassistant/components/mqtt: discovery.py,
schemas.py, sensor.py, binary_sensor.py): an object id consists of letters, digits, _ and -; a
component that is missing from a later message is removed; a device is `available` only when every
availability topic says so (availability_mode "all").

Pure. The topics are those of topics.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from outpost_tools.messages import name_rules
from outpost_tools.messages.board_words import DIAGNOSTIC
from outpost_tools.readings.sources.idents import escaped, is_ident, shown
from outpost_tools.servers.republish import identity, units
from outpost_tools.servers.republish.newest import EXPIRE_S, MOST_EXPIRE_S, Board
from outpost_tools.servers.republish.topics import Topics

PREFIX = "homeassistant"
ORIGIN = "Outpost"
VERSION = "firmware"  # the reading with the firmware's version, see version_text()
_NUMBER, _BINARY = "sensor", "binary_sensor"  # platforms
_CONTACT = "contact"
_STATE = "{{ 'offline' if value == 'offline' else 'online' }}"  # a board may report "asleep"


def config_topic(prefix: str, device: str) -> str:
    return f"{prefix}/device/{identity.object_id(device)}/config"


def payload(board: Board, topics: Topics, boards: Mapping[str, Board]) -> bytes:
    """Describes all sensors that the board ever had, because a sensor that is missing from some
    messages must not vanish. boards: all boards, by name."""
    for name, unit in board.sensors.items():
        if unit == units.CONTACT and _is_ratio(board.components.get(name)):
            unit = units.RATIO
        unique_id = identity.unique_id(board, name, boards)
        board.components[name] = _component(board, topics, name, unit, unique_id)
    for one in board.components.values():
        if "expire_after" in one:
            one["expire_after"] = board.expire_s
    return json.dumps(
        {
            "device": _device(board),
            "origin": {"name": ORIGIN},
            "availability": _availability(board, topics),
            "availability_mode": "all",
            "components": _listed(board),
        },
        ensure_ascii=False,
    ).encode()


def _device(board: Board) -> dict[str, Any]:
    device = {"identifiers": [f"outpost_{board.name}"], "name": shown(board.name)}
    if is_ident(board.name):  # somebody else's
        return device
    device["manufacturer"] = ORIGIN
    version = board.values.get(VERSION)
    if version is not None:
        device["sw_version"] = version_text(version.value)
    return device


def _listed(board: Board) -> dict[str, dict[str, Any]]:
    """The components by key. Home Assistant keeps an entity that had the same key on another
    platform. So a contact has a key of its own, and the earlier entity of the reading is removed by
    a component with nothing but its platform."""
    found: dict[str, dict[str, Any]] = {}
    for reading, one in board.components.items():
        # no reading of a board has a blank in its name, nor has this form of another name
        name = escaped(reading) if is_ident(board.name) else reading
        contact = f"{name} {_CONTACT}"
        if one["platform"] == _BINARY:
            found |= {name: {"platform": _NUMBER}, contact: one}
        else:
            found[name] = one
            if board.sensors.get(reading) == units.RATIO:
                found[contact] = {"platform": _BINARY}
    return found


def _availability(board: Board, topics: Topics) -> list[dict[str, str]]:
    """The availability topics: of the republisher, of the board's values, and of the board's state
    if it reports one, which its will sets to offline."""
    found = [{"topic": topics.ours}, {"topic": topics.available(board.name)}]
    if board.state:
        found.append({"topic": topics.state(board.name), "value_template": _STATE})
    return found


def _is_ratio(known: dict[str, Any] | None) -> bool:
    """Whether the reading was described as a ratio before; its values may be only 0 and 1 for a
    while. Earlier versions described a contact as a sensor with the unit "/", which is no ratio."""
    return bool(known) and known["platform"] == _NUMBER and "unit_of_measurement" not in known


def _component(
    board: Board, topics: Topics, name: str, unit: str | None, unique_id: str
) -> dict[str, Any]:
    found: dict[str, Any] = {
        "platform": _NUMBER,
        "name": name.replace("_", " "),
        "unique_id": unique_id,
        "state_topic": topics.value(board.name, name),
    }
    kind = units.of(unit, name)
    if unit == units.CONTACT:
        found |= {"platform": _BINARY, "payload_on": "1", "payload_off": "0"}
        kind = units.Kind(None, None, None)
    for key, value in (
        ("unit_of_measurement", kind.unit),
        ("device_class", kind.device_class),
        ("state_class", kind.state_class),
    ):
        if value is not None:
            found[key] = value
    if name in DIAGNOSTIC and not is_ident(board.name):
        found["entity_category"] = "diagnostic"
    else:
        found["expire_after"] = board.expire_s
    return found


def remembered(data: bytes, topics: Topics) -> tuple[str, dict[str, Any], int | None] | None:
    """(board, components, expire_after) from a message that a republisher sent; None if it came
    from another program."""
    try:
        given = json.loads(data)
        (name,) = given["device"]["identifiers"]
        places = [one["topic"] for one in given["availability"]]
        device = name.removeprefix("outpost_")
        if given["origin"]["name"] != ORIGIN or topics.available(device) not in places:
            return None
        components = {topics.sensor(one["state_topic"]): one
                      for one in given["components"].values() if "state_topic" in one}  # fmt: skip
        times = [one["expire_after"] for one in components.values() if "expire_after" in one]
        expire_s = int(times[0]) if times else EXPIRE_S
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError):
        return None
    if not (name_rules.is_device(device) or is_ident(device)) or not 0 < expire_s <= MOST_EXPIRE_S:
        return None
    return device, components, expire_s if times else None


def version_text(value: float) -> str:
    """The version as text: 10203 is 1.2.3."""
    number = int(value)
    return f"{number // 10_000}.{number // 100 % 100}.{number % 100}"
