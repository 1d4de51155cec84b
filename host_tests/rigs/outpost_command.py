"""The command `outpost` of this tree as a process: its line, and a run until it ends."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from outpost_tools.machine import children


def line(*words: object) -> list[str]:
    return [sys.executable, "-m", "outpost_tools.cli", *map(str, words)]


def run(*words: object, **options: Any) -> subprocess.CompletedProcess:
    """options: of subprocess.run, where they differ: it captures texts and checks no status."""
    usual: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 300}
    if "env" not in options:
        usual["env"] = children.tools_environment()
    return subprocess.run(line(*words), check=options.pop("check", False), **{**usual, **options})
