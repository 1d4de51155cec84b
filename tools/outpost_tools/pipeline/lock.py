"""The lock of a tables directory, on the file that receives Spark's output. A run holds it, with
its JVM and workers (session.py), and so does anything that must not overlap a run. No Spark."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from outpost_tools.common.errors import ToolError

FILE = "spark.log"


def take(handle: int, wait_s: float) -> bool:
    """Lock this open file. False: another process still has the lock after `wait_s` seconds."""
    deadline = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.2)


@contextlib.contextmanager
def held(tables_dir: Path) -> Iterator[None]:
    """No run can start meanwhile; one waits a minute. Raises ToolError while a run is active."""
    handle = os.open(tables_dir / FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        if not take(handle, 0):
            raise ToolError(
                f"{tables_dir}: a pipeline run is using it, and would bring back some of what is "
                "deleted; wait for its end or stop it, then repeat this"
            )
        yield
    finally:
        os.close(handle)
