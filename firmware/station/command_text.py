"""Parses a command and checks that it is well-formed; `commands.py` shows the forms.

Allocation: as JSON does; bounded by the command's length.
"""

import json

from micropython import const

from outpost.memory import unload

_MOST_ID = const(24)
_MOST_MINUTES = const(1440)
_MOST_WITHIN_S = const(3600)
_ID_CHARACTERS = const("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")
KNOWN = {
    "restart": (),
    "report": (),
    "set": ("settings", "within_s", "held"),
    "stay_awake": ("minutes",),
    "update": ("of", "within_s"),
}


def parse(data):
    """Returns (command, "" or what is wrong with it); command is None without a usable id."""
    try:
        command = json.loads(data.decode())
    except (ValueError, RecursionError):
        return None, "not JSON"
    # MicroPython's json accepts a text that ends too early
    if not isinstance(command, dict) or data.strip()[-1:] != b"}":
        return None, "not one JSON object"
    command_id = command.get("id")
    if not isinstance(command_id, str) or not 1 <= len(command_id) <= _MOST_ID:
        return None, "no id"
    for character in command_id:
        if character not in _ID_CHARACTERS:
            return None, "no id"
    return command, _fault(command)


def _fault(command):
    what = command.get("do")
    if not isinstance(what, str) or what not in KNOWN:
        return "unknown command; known: " + ", ".join(sorted(KNOWN))
    for key in command:
        if key not in ("id", "do", "until") and key not in KNOWN[what]:
            return "unknown key '" + key + "'"
    if "until" in command and not _is_number(command["until"], 0, 1 << 40):
        return "until must be seconds since 1970"
    return _argument_fault(what, command)


def _argument_fault(what, command):
    if what == "set":
        settings = command.get("settings")
        if not isinstance(settings, dict) or not settings:
            return "settings must be an object with a key at least"
        if command.get("held", "send") not in ("send", "refuse"):
            return "held must be send or refuse"
    if what == "update" and not isinstance(command.get("of"), str):
        return "of must name the update"
    if what in ("set", "update") and not _is_number(command.get("within_s", 1), 1, _MOST_WITHIN_S):
        return "within_s must be 1 to 3600"
    if what == "stay_awake" and not _is_number(command.get("minutes"), 0, _MOST_MINUTES):
        return "minutes must be 0 to 1440"
    return ""


def _is_number(value, least, most):
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def settings_fault(given):
    """What is wrong with settings, or "". Their module is unloaded again."""
    from station.settings import check

    try:
        check(given)
    except ValueError as error:
        return str(error)
    finally:
        unload("station.settings")
    return ""


def too_late(command, clock):
    """Why the command is refused, or "". A clock that is not set refuses nothing."""
    if "until" not in command or not clock.is_set:
        return ""
    is_late = clock.day * 86400 + clock.ms // 1000 > command["until"]
    return "too late: its time has passed" if is_late else ""


def plain(text):
    """Replace what may not stand between quotes in JSON."""
    return "".join([one if " " <= one <= "~" and one not in '"\\' else "'" for one in text])
