"""Notes that a collector writes into its own log for the report: frames that are not messages. The
pipeline puts them into quarantine, with a reason that depends on the note.

Boards cannot send notes, because from others the collector stores only PREFIX/<board>/data. Pure.
"""

from __future__ import annotations

import json
from typing import Any

_PLACE = "/collectors/.notes/"
TAKEN_OVER = "takeover"
PROPERTIES = "properties"
CLOCK = "clock"
_USER = 0x26
REASONS = {
    TAKEN_OVER: "collector: another client uses its id",
    CLOCK: "collector: the clock of its machine is wrong",
    PROPERTIES: "collector: MQTT properties of a message that names no number",
}


def topic(prefix: str, collector: str) -> bytes:
    return f"{prefix}{_PLACE}{collector}".encode()


def payload(kind: str, count: int) -> bytes:
    """kind: one of REASONS. count: since the collector's start."""
    return json.dumps({"note": kind, "count": count}).encode()


def properties_payload(topic: bytes, properties: list[tuple[int, Any]]) -> bytes:
    """The note with the properties of an MQTT 5.0 message on this topic: its user properties, and
    the others by their numbers."""
    user = [[_shown(part) for part in value] for number, value in properties if number == _USER]
    others = {f"0x{number:02x}": _shown(value) for number, value in properties if number != _USER}
    found = {"note": PROPERTIES, "topic": _shown(topic), "user": user, "others": others}
    return json.dumps(found).encode()


def _shown(value: int | bytes) -> int | str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def reason_of(topic: str, payload: bytes) -> str:
    """The reason for quarantine; "" if the frame is not a note."""
    if _PLACE not in topic:
        return ""
    try:
        return REASONS[json.loads(payload)["note"]]
    except (ValueError, LookupError, TypeError):
        return "collector: a note of another version"
