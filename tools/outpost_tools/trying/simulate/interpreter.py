"""Chooses the interpreter for the boards: 32-bit MicroPython, or else 64-bit, or this CPython."""

from __future__ import annotations

import os
import sys

from outpost_tools.machine import interpreters


def choose() -> tuple[list[str], str]:
    """The command and its description for people.

    Raises ToolError for a MICROPYTHON that does not run.
    """
    chosen = os.environ.get("MICROPYTHON")
    if chosen:  # for whatever architecture it was built
        return [chosen], interpreters.describe([chosen])
    here = interpreters.machine()
    for architecture in here.fast if here else ():
        command = interpreters.find_micropython(architecture)
        if command is not None:
            return command, interpreters.describe(command)
    # -S: a board has no site-packages, and starts in half the time.
    command = [sys.executable, "-S"]
    return (
        command,
        f"{interpreters.describe(command)} (no MicroPython here; run `outpost fetch micropython`)",
    )
