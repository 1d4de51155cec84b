"""Where firmware, boards and pages are: in a checkout of the repository, or inside the installed
package, which contains copies of these folders."""

from __future__ import annotations

import os
from pathlib import Path

from outpost_tools import FOLDER
from outpost_tools.errors import ToolError

_CHECKOUT = FOLDER.parents[1]
_INSTALLED = FOLDER / "tree"


def is_checkout() -> bool:
    return (_CHECKOUT / "firmware" / "main.py").is_file()


def place() -> Path:
    """The folder that should contain firmware/, boards/ and tools/."""
    return _CHECKOUT if is_checkout() else _INSTALLED


def repository() -> Path:
    """The folder that place() returns. Raises ToolError if it lacks firmware/main.py."""
    root = place()
    if not (root / "firmware" / "main.py").is_file():
        raise ToolError(f"{root}: no firmware/main.py; incomplete package: install it again")
    return root


def firmware_environment(root: Path) -> dict[str, str]:
    """The environment for a program that imports the firmware, under either interpreter."""
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
