"""Which files below a folder are opened, by whichever process: driver, JVM or Python worker.

Counted by the kernel (inotify), so it does not matter how they are read, or by which library. Linux
only.
"""

from __future__ import annotations

import ctypes
import os
import select
import struct
import threading
from collections import Counter
from pathlib import Path

_OPEN = 0x20
_HEAD = struct.Struct("iIII")
_libc = ctypes.CDLL(None, use_errno=True)


class Opened:
    """`with Opened(folder) as opened`: afterwards, opened.files has how often each data file that
    was there at the beginning was opened meanwhile."""

    def __init__(self, folder: Path) -> None:
        self.files: Counter[Path] = Counter()
        found = {path for path in folder.rglob("*.parquet") if path.is_file()}
        self._known = {path for path in found if path.parent.name != "_delta_log"}
        self._folders: dict[int, Path] = {}
        self._handle = -1
        self._thread = threading.Thread(target=self._count, daemon=True)
        self._end = os.pipe()

    def __enter__(self) -> Opened:
        self._handle = _libc.inotify_init()
        if self._handle < 0:
            raise OSError(ctypes.get_errno(), "inotify_init")
        for folder in {path.parent for path in self._known}:
            number = _libc.inotify_add_watch(self._handle, os.fsencode(folder), _OPEN)
            if number < 0:
                raise OSError(ctypes.get_errno(), "inotify_add_watch", str(folder))
            self._folders[number] = folder
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._end[1])
        self._thread.join()
        os.close(self._end[0])
        os.close(self._handle)

    def _count(self) -> None:
        while True:
            ready = select.select([self._handle, self._end[0]], [], [])[0]
            if self._handle not in ready:
                return
            events, at = os.read(self._handle, 1 << 20), 0
            while at < len(events):
                number, _, _, length = _HEAD.unpack_from(events, at)
                name = events[at + _HEAD.size :][:length].rstrip(b"\0")
                at += _HEAD.size + length
                if number < 0:
                    raise OverflowError("the kernel dropped events")
                path = self._folders[number] / os.fsdecode(name)
                self.files[path] += path in self._known
