"""For tests of updates: firmware of another version, and what `outpost flash` records about
files."""

from __future__ import annotations

import shutil
from pathlib import Path

from outpost_tools.boards.files.plan import digest
from paths import REPOSITORY

KEY = "5a" * 32


def checkout(folder: Path, version: str, **changes: str) -> Path:
    """Copy firmware and boards as another version. changes: ROOM_MODULE -> lines at its end, of a
    module that lies in no room of the library."""
    for room in ("firmware", "boards"):
        shutil.copytree(REPOSITORY / room, folder / room)
    (folder / "firmware/outpost/__init__.py").write_text(f'__version__ = "{version}"\n')
    for module, lines in changes.items():
        path = folder / "firmware" / f"{module.replace('_', '/', 1)}.py"
        path.write_text(f"{path.read_text()}\n{lines}\n")
    return folder


def record_of(board: str, files: dict[str, bytes]) -> dict:
    """Returns /outpost/installed.json. files: paths with a leading slash."""
    return {
        "board": board,
        "version": "0",
        "files": {path: [digest(data)] for path, data in files.items() if path.count("/") == 1},
        "modules": [path for path in files if path.startswith(("/station/", "/support/"))],
    }
