"""Whether a collector writes to this log. A collector holds a lock (flock) on its folder. We look
in the kernel's list of locks instead of trying the lock, because a collector that starts at that
moment would mistake our lock for that of another collector.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

_LOCKS = Path("/proc/locks")


def writes(folders: list[Path]) -> bool | None:
    """None if it cannot be known here, because /proc/locks is missing."""
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
