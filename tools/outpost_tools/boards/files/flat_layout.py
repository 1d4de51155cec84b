"""The firmware with all modules of the library in one folder, as before the library had rooms: the
updater of a board from that time accepts no folder inside /outpost.

The name of a module is unique across all rooms (test_layers.py), so it is enough to leave the room
out of paths and imports. Line numbers stay the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from outpost_tools.boards.files.firmware_build import PACKAGE

_IN_ROOM = re.compile(rf"{PACKAGE}/(\w+)/(\w+\.py)")


def of(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the texts in this layout. texts: {path on the board: source}, including the whole
    library."""
    found = [_IN_ROOM.fullmatch(path) for path in texts]
    rooms = {match[1] for match in found if match}
    if not rooms:
        return dict(texts)
    name = re.compile(rf"\b{PACKAGE}\.({'|'.join(sorted(rooms))})\b")
    return {
        _IN_ROOM.sub(rf"{PACKAGE}/\2", path): name.sub(PACKAGE, text)
        for path, text in texts.items()
        if not re.fullmatch(rf"{PACKAGE}/\w+/__init__\.py", path)
    }
