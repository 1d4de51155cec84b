"""A small file beside the jobs' logs that lists which jobs of `outpost run` failed the last time,
for the live page and the alerts."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path

from outpost_tools.machine import files

_FILE = "failed.json"


def write(logs: Path, failed: Mapping[str, str]) -> None:
    """logs: the folder. failed: why, by the job's name. Raises OSError."""
    files.replace_text(logs / _FILE, json.dumps(failed))


def read(logs: Path) -> dict[str, str]:
    """Empty if there is no such file, or it is not ours."""
    with contextlib.suppress(OSError, ValueError, RecursionError):
        found = json.loads((logs / _FILE).read_text(encoding="utf-8"))
        if isinstance(found, dict):
            return {name: why for name, why in found.items() if isinstance(why, str)}
    return {}
