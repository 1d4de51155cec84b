"""What a collector writes into its own log for the report: a frame that is not a message. The
pipeline puts it into quarantine, with its contents as the reason.

Boards cannot send one: the collector stores only PREFIX/<board>/data from others. Pure.
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
    """The properties of a message of MQTT 5.0 on this topic: its user properties, and the others by
    their numbers."""
    user = [[_shown(part) for part in value] for number, value in properties if number == _USER]
    others = {f"0x{number:02x}": _shown(value) for number, value in properties if number != _USER}
    found = {"note": PROPERTIES, "topic": _shown(topic), "user": user, "others": others}
    return json.dumps(found).encode()


def _shown(value: int | bytes) -> int | str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def reason_of(topic: str, payload: bytes) -> str:
    """ "" when it is not a note."""
    if _PLACE not in topic:
        return ""
    try:
        return REASONS[json.loads(payload)["note"]]
    except (ValueError, LookupError, TypeError):
        return "collector: a note of another version"
