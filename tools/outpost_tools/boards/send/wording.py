"""Turns words of the command line into a command, as JSON. It reads files (secrets, settings,
drivers), but knows no broker."""

from __future__ import annotations

import json
import re
import secrets
from pathlib import Path
from typing import Any

from outpost_tools.boards.port.kinds import Kind
from outpost_tools.boards.port.pinout import Pinout
from outpost_tools.boards.settings import memory_fit, sensor_drivers, settings_file
from outpost_tools.errors import ToolError
from outpost_tools.machine import board_json
from outpost_tools.machine.firmware import settings_module, settings_rules
from outpost_tools.terminal.command_line import first_line

MOST_BYTES = 512  # firmware/station/commands.py
_ID_BYTES = 8
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_FIRST_ABSOLUTE_S = 1_000_000_000
_BROKER = ("broker_host", "broker_port")
_FORMS = "report, restart, set KEY=VALUE ..., stay-awake TIME"


def new_id() -> str:
    return secrets.token_hex(_ID_BYTES)  # hex never begins with "-": users type it after --id


def seconds_of(text: str, what: str) -> int:
    """Seconds in a time such as `90s`, `10m`, `1h` or `2d`. Raises ToolError."""
    found = re.fullmatch(r"(\d{1,9})([smhd])", text)
    if not found:
        raise ToolError(f"{what} {text!r}: give a time as 90s, 10m, 1h or 2d")
    return int(found[1]) * _UNITS[found[2]]


def until_of(text: str, now_s: float) -> int:
    """Seconds since 1970. text: these seconds, or a time from now. Raises ToolError."""
    if text.isdecimal() and int(text) >= _FIRST_ABSOLUTE_S:
        return int(text)
    return int(now_s) + seconds_of(text, "--until")


def command(
    words: list[str],
    command_id: str,
    *,
    until_s: int | None = None,
    within_s: int | None = None,
    held: str | None = None,
    board: Pinout | None = None,
) -> bytes:
    """Return the payload. held: what becomes of held messages, "send" or "move". board: the pins of
    the board, if its kind is known. Raises ToolError."""
    made: dict[str, Any] = {"id": command_id, **_action(words)}
    _check_sensors(made.get("settings", {}), board)
    made |= _held(made, held)
    if within_s is not None:
        if made["do"] != "set":
            raise ToolError("--within is for `set`")
        made["within_s"] = within_s
    if until_s is not None:
        made["until"] = until_s
    payload = board_json.encoded(made, separators=(",", ":"))
    if len(payload) > MOST_BYTES:
        raise ToolError(
            f"the command has {len(payload)} bytes, and a board takes {MOST_BYTES}; set fewer keys "
            "at a time"
        )
    return payload


def check_memory(words: list[str], present: Path, kind: Kind) -> None:
    """present: the file with the settings that the board has now. Raises ToolError if the board
    does not have the memory for the new ones."""
    changes = _action(words).get("settings")
    if not changes:
        return
    given = {**settings_file.parsed(present), **changes}
    given = {key: value for key, value in given.items() if value is not None}
    try:
        full = settings_module().check({**settings_file.defaults(given), **given}, "set")
    except settings_module().SettingsError as error:
        raise ToolError(str(error)) from None
    for key, fault in memory_fit.faults(full, kind):
        if fault:
            raise ToolError(f"set: key '{key}' {fault}")


def _action(words: list[str]) -> dict[str, Any]:
    name, rest = words[0], words[1:]
    if name in ("report", "restart") and not rest:
        return {"do": name}
    if name == "set" and rest:
        return {"do": "set", "settings": dict(map(_setting, rest))}
    if name in ("stay-awake", "stay_awake") and len(rest) == 1:
        return {"do": "stay_awake", "minutes": -(-seconds_of(rest[0], name) // 60)}
    raise ToolError(f"`{' '.join(words)}` is not a command; known: {_FORMS}")


def _held(made: dict[str, Any], held: str | None) -> dict[str, Any]:
    """Return the key `held` for a command that changes the broker, {} where none is needed. Raises
    ToolError if `held` was given for another command."""
    if not {*made.get("settings", ())} & {*_BROKER}:
        if held:
            raise ToolError(f"--held is for `set` with {' or '.join(_BROKER)}")
        return {}
    return {} if held == "move" else {"held": held or "refuse"}


def _setting(text: str) -> tuple[str, Any]:
    """Parse KEY=VALUE, KEY=@FILE (the first line of the file) or KEY= (the default: None). Raises
    ToolError."""
    key, equals, value = text.partition("=")
    if not equals:
        raise ToolError(f"set {text!r}: give KEY=VALUE, as interval_ms=5000; KEY= is the default")
    rules = settings_rules()
    if key not in rules:
        raise ToolError(f"set: unknown key {key!r}; known: {', '.join(sorted(rules))}")
    if not value:
        return key, None
    if value.startswith("@"):
        value = first_line(Path(value[1:]), f"set {key} from")
    kind = rules[key][0]
    is_text = kind is str or (isinstance(kind, tuple) and isinstance(kind[0], str))
    found = value if is_text else _json(value)
    if fault := settings_module()._fault(found, rules[key]):
        raise ToolError(f"set: key {key!r} {fault}")
    return key, found


def _check_sensors(settings: dict[str, Any], board: Pinout | None) -> None:
    """Check the sensors. The board alone checks the options of a sensor whose driver is not here.
    Raises ToolError."""
    sensors = settings.get("sensors")
    if not sensors:
        return
    folder = Path()
    found = [settings_module()._MORE["sensors"](sensors)]
    if not found[0]:
        found += [_driver_fault(one, folder) for one in sensors if isinstance(one, dict)]
    if not any(found):
        is_asleep = bool(settings.get("deep_sleep"))
        found = sensor_drivers.pin_faults(sensors, folder, board, deep_sleep=is_asleep)
    for fault in filter(None, found):
        raise ToolError(f"set: key 'sensors' {fault}")


def _driver_fault(given: dict[str, Any], folder: Path) -> str:
    if sensor_drivers.on_board([given], folder):
        try:
            sensor_drivers.checked(given, folder)
        except ValueError as error:
            return str(error)
    return ""


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
