"""Does a collector write to this log? It holds a lock (flock) on its folder; the kernel's list of
locks tells without touching it, which a collector that starts would take for another one's.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

_LOCKS = Path("/proc/locks")


def writes(folders: list[Path]) -> bool | None:
    """None: not known here (another system, another machine's disk)."""
    try:
        listed = _LOCKS.read_text(encoding="ascii").split()
    except (OSError, UnicodeDecodeError):
        return None
    inodes = {word.rpartition(":")[2] for word in listed if word.count(":") == 2}
    for folder in folders:
        with contextlib.suppress(OSError):
            if str((folder / ".lock").stat().st_ino) in inodes:
                return True
    return False
