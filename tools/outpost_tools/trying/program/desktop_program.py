"""Runs a user's program on this machine, with the current folder as the board: boards/UNIX.

The contents of the folder belong to the user: an existing settings.json is not changed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from outpost_tools.errors import ToolError
from outpost_tools.machine import children, files, interpreters, source_tree

ASLEEP = 75  # exit status of a process that board.sleep() of boards/UNIX ends
_NAME = "kitchen"


def check(program: Path) -> None:
    """Check that the program exists. Raises ToolError."""
    if not program.is_file():
        raise ToolError(f"{program}: no such file; which program?")


def write_settings(path: Path, host: str, port: int) -> None:
    """Write settings for this broker. Raises ToolError if there are others already."""
    wanted = {"device_id": _NAME, "broker_host": host, "broker_port": port}
    try:
        with path.open("x", encoding="utf-8") as file:
            json.dump(wanted, file)
    except FileExistsError:
        if not _names(path, wanted):
            raise ToolError(
                f"{path}: it is there already, with other settings; edit it, and leave out --broker"
            ) from None
    else:
        print(f"{path}: written; this board is '{_NAME}'", file=sys.stderr)


def _names(path: Path, wanted: dict) -> bool:
    """Whether the existing settings have these values already."""
    try:
        found = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and found | wanted == found


def interpreter(python: str) -> list[str]:
    """python: "c" for this interpreter, "m" for MicroPython. Raises ToolError."""
    if python == "c":
        return [sys.executable]
    found = interpreters.find_micropython("i386") or interpreters.find_micropython("amd64")
    if found is None:
        raise ToolError("MicroPython is missing: outpost fetch micropython")
    return found


def run(program: Path, command: list[str]) -> int:
    """Start the program, and start it again after each sleep. Returns its exit status. Raises
    ToolError."""
    if not Path("settings.json").exists():
        raise ToolError(
            "settings.json: not in this folder; --broker HOST:PORT writes one, for a board "
            f"'{_NAME}'"
        )
    environment = source_tree.firmware_environment(source_tree.repository())
    while (status := _once([*command, files.operand(program)], environment)) == ASLEEP:
        print("outpost: the board has slept; the program starts again", file=sys.stderr)
    return status if status >= 0 else 128 - status  # ended by a signal: report it as a shell does


def _once(command: list[str], environment: dict[str, str]) -> int:
    """Run the program once. It keeps the terminal, and ends with this process, however that
    ends."""
    return subprocess.run(
        command, env=environment, check=False, preexec_fn=children.die_with_parent
    ).returncode
