"""How the set-up programs use their cache: one run at a time, each part complete or absent, long
work reported.

Standard library only: set-up runs before there is a virtual environment.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

_UNUSED_S = 14 * 86_400


def say(text: str) -> None:
    print(f"outpost set-up: {text}", flush=True)


@contextlib.contextmanager
def locked(path: Path, what: str) -> Iterator[None]:
    """Holds a lock file; reports when another run has it and waits.

    The lock is released when the process that holds it ends.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another set-up that works on {what}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def whole(target: Path) -> Iterator[Path]:
    """An empty folder on the same disk that becomes `target` by one rename when the block ends.

    An exception leaves no `target`. A killed run leaves a folder `unfinished-*` beside it, which
    the next one removes: the caller holds the lock of `target.parent`.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    for leftover in target.parent.glob("unfinished-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="unfinished-", dir=target.parent) as work:
        folder = Path(work) / target.name
        folder.mkdir()
        yield folder
        shutil.rmtree(target, ignore_errors=True)
        folder.rename(target)


def drop_unused(kept: Path, pattern: str) -> None:
    """Removes what older recipes left beside `kept`, and marks `kept` as used now.

    Work trees with different recipes share the cache, so what another one used recently stays.
    """
    os.utime(kept)
    for old in kept.parent.glob(pattern):
        if old != kept and time.time() - old.stat().st_mtime > _UNUSED_S:
            shutil.rmtree(old, ignore_errors=True)
