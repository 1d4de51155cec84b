"""Reads the sealed segments that the start did not, because the snapshot has their keys: one in
each call, so that storing does not wait.

Law: damage in a log is told once by the collector that owns it, whichever segment it is in; the
file .damage-told in its folder has the names of those segments.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Iterable
from pathlib import Path

from outpost_tools.log import segments
from outpost_tools.machine import files

_TOLD = ".damage-told"
_PAUSE_S = 10.0  # between two segments while messages come


class Audit:
    """paths: segments to read, the oldest first."""

    def __init__(self, directory: Path, paths: Iterable[Path]) -> None:
        self._file = directory / _TOLD
        self._left = deque(paths)
        self._told = self._read()
        self._read_at = 0.0

    def next(self) -> list[segments.Recovered]:
        """Damage of the next segment that was not told yet. Segments may have been pruned."""
        self._read_at = time.monotonic()
        path = self._left.popleft()
        found = _damage(path)
        return [found] if found is not None and path.name not in self._told else []

    def is_due(self, *, is_idle: bool) -> bool:
        """When nothing arrived, and now and then when messages never stop."""
        return bool(self._left) and (is_idle or time.monotonic() >= self._read_at + _PAUSE_S)

    @property
    def is_over(self) -> bool:
        return not self._left

    def tell(self, names: Iterable[str]) -> None:
        """They are told; a folder that cannot be written to has them told again."""
        new = set(names) - self._told
        if new:
            self._told |= new
            with contextlib.suppress(OSError):
                files.replace_text(self._file, "".join(f"{one}\n" for one in sorted(self._told)))

    def _read(self) -> set[str]:
        try:
            return set(self._file.read_text(encoding="utf-8").split())
        except (OSError, UnicodeDecodeError):
            return set()


def _damage(path: Path) -> segments.Recovered | None:
    """None: it is whole, or it is gone."""
    try:
        found = segments.contents(path)
        for _ in found.runs():
            pass
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        return segments.Recovered(path, [segments.Damage(0, 0, 0, str(error))])
    return segments.Recovered(path, found.damage) if found.damage else None
