"""What a collector writes into its own log for the report: a frame that is no message. The pipeline
puts it into quarantine, with what it says as the reason.

Boards cannot make one: the collector stores nothing of others but PREFIX/<board>/data. Pure.
"""

from __future__ import annotations

import json

_PLACE = "/collectors/.notes/"
TAKEN_OVER = "takeover"
REASONS = {TAKEN_OVER: "collector: another client uses its id"}


def topic(prefix: str, collector: str) -> bytes:
    return f"{prefix}{_PLACE}{collector}".encode()


def payload(kind: str, count: int) -> bytes:
    """kind: one of REASONS. count: since the collector's start."""
    return json.dumps({"note": kind, "count": count}).encode()


def reason_of(topic: str, payload: bytes) -> str:
    """ "" when it is no note."""
    if _PLACE not in topic:
        return ""
    try:
        return REASONS[json.loads(payload)["note"]]
    except (ValueError, LookupError, TypeError):
        return "collector: a note of another version"
