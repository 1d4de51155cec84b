"""Boards that the page no longer shows: renamed, revoked, simulated. A file beside the collectors'
folders has their names and when they were forgotten; what a board sends later is shown again.
"""

from __future__ import annotations

import json
from pathlib import Path

from outpost_tools.common import files
from outpost_tools.common.errors import ToolError

FILE = "forgotten.json"


def read(log: Path) -> dict[str, int]:
    """By name: milliseconds since 1970. What cannot be read is nothing."""
    try:
        found = json.loads((log / FILE).read_text(encoding="utf-8"))
        return {str(name): int(until_ms) for name, until_ms in found.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def add(log: Path, names: list[str], now_ms: int) -> None:
    """Raises ToolError."""
    if not log.is_dir():
        raise ToolError(f"--log {log}: no such folder")
    kept = read(log) | dict.fromkeys(names, now_ms)
    files.replace_text(log / FILE, json.dumps(kept, indent=1) + "\n")
