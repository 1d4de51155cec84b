"""Boards that the page no longer shows, because they were renamed, revoked or only simulated. A
file beside the collectors' folders has their names and when each was forgotten. A board that sends
something after that is shown again.
"""

from __future__ import annotations

import json

from outpost_tools.errors import ToolError
from outpost_tools.log import segments
from outpost_tools.store.base import Store

FILE = "forgotten.json"


def read(log: Store) -> dict[str, int]:
    """By name: when it was forgotten, in ms since 1970. Empty if the file cannot be read."""
    try:
        found = json.loads(log.get(FILE))
        return {str(name): int(until_ms) for name, until_ms in found.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def add(log: Store, names: list[str], now_ms: int) -> None:
    """Adds boards, forgotten at `now_ms`. Raises ToolError."""
    if not segments.collector_folders(log):
        raise ToolError(f"--log {log}: no collector's folder in it")
    kept = read(log) | dict.fromkeys(names, now_ms)
    log.put(FILE, (json.dumps(kept, indent=1) + "\n").encode())
