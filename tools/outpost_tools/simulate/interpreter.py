"""Which interpreter runs the boards: 32-bit MicroPython, else 64-bit, else this CPython."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from outpost_tools.common import interpreters

# 32-bit first: integers of 2^30 and above take heap there, as they do on a real board.
_PREFERENCE = ("i386", "amd64")


def choose() -> tuple[list[str], str]:
    """The command and its description for people.

    Raises ToolError for a MICROPYTHON that does not run.
    """
    chosen = os.environ.get("MICROPYTHON")
    if chosen:  # whatever it is built for
        return [chosen], interpreters.describe([chosen])
    for architecture in _PREFERENCE:
        command = interpreters.find_micropython(architecture)
        if command is not None:
            return command, interpreters.describe(command)
    # -S: a board has no site-packages, and starts in half the time.
    command = [sys.executable, "-S"]
    return (
        command,
        f"{interpreters.describe(command)} (no MicroPython here; run `outpost fetch micropython`)",
    )


def environment(root: Path) -> dict[str, str]:
    """What main.py needs to find its modules, under either interpreter."""
    parts = [root / "firmware", root / "boards", root / "boards" / "UNIX"]
    # MICROPYPATH replaces the default path: .frozen holds the standard library of the unix build.
    micropython = os.pathsep.join([*map(str, parts), ".frozen"])
    cpython = os.pathsep.join(map(str, [*parts, root / "tools" / "cpython_stubs"]))
    return {
        **os.environ,
        "MICROPYPATH": micropython,
        "PYTHONPATH": cpython,
        "PYTHONDONTWRITEBYTECODE": "1",
    }
