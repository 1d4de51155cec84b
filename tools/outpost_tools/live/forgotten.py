"""Boards that the page no longer shows, because they were renamed, revoked or only simulated. A
file beside the collectors' folders has their names and when each was forgotten. A board that sends
something after that is shown again.
"""

from __future__ import annotations

import json
from pathlib import Path

from outpost_tools.common import files
from outpost_tools.common.errors import ToolError

FILE = "forgotten.json"


def read(log: Path) -> dict[str, int]:
    """By name: when it was forgotten, in ms since 1970. Empty if the file cannot be read."""
    try:
        found = json.loads((log / FILE).read_text(encoding="utf-8"))
        return {str(name): int(until_ms) for name, until_ms in found.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def add(log: Path, names: list[str], now_ms: int) -> None:
    """Adds boards, forgotten at `now_ms`. Raises ToolError."""
    if not log.is_dir():
        raise ToolError(f"--log {log}: no such folder")
    kept = read(log) | dict.fromkeys(names, now_ms)
    files.replace_text(log / FILE, json.dumps(kept, indent=1) + "\n")
