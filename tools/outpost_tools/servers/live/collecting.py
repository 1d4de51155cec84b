"""Whether a collector writes to this log. A collector holds a lock (flock) on its folder. We look
in the kernel's list of locks instead of trying the lock, because a collector that starts at that
moment would mistake our lock for that of another collector.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

from outpost_tools.store.base import Store
from outpost_tools.store.local import LocalStore

_LOCKS = Path("/proc/locks")


def writes(folders: Sequence[Store]) -> bool | None:
    """None if it cannot be known here, because the log is in a bucket, or /proc/locks is
    missing."""
    local = [folder for folder in folders if isinstance(folder, LocalStore)]
    if len(local) < len(folders):
        return None
    try:
        listed = _LOCKS.read_text(encoding="ascii").split()
    except (OSError, UnicodeDecodeError):
        return None
    inodes = {word.rpartition(":")[2] for word in listed if word.count(":") == 2}
    for folder in local:
        with contextlib.suppress(OSError):
            if str((folder.path / ".lock").stat().st_ino) in inodes:
                return True
    return False
