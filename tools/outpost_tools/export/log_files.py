"""The segments of the collectors' log, in a stable order: by collector and number.

A collector may go on writing meanwhile. The export covers what was there at the start: of the open
segment its whole frames, even when it is sealed before it is read again.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from outpost_tools.common import segments
from outpost_tools.common.errors import ToolError

_PORTION_BYTES = 8 << 20  # bounds the rows in memory; a larger segment is a portion of its own


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """The first `size` bytes of a segment."""

    collector: str
    number: int
    path: Path
    size: int
    is_open: bool = False

    def read(self) -> bytes:
        """Raises ToolError when it was deleted, or we may not read it."""
        try:
            return self._read(self.path)
        except FileNotFoundError:
            if self.is_open:  # it was sealed meanwhile
                return self._read(self.path.with_suffix(".seg"))
            raise _gone(self.path) from None
        except OSError as error:
            raise ToolError(f"{self.path}: {error.strerror}") from None

    def _read(self, path: Path) -> bytes:
        with path.open("rb") as file:
            return file.read(self.size)


@dataclass
class Log:
    """The contents of a log. troubles: what must be missing from the export."""

    files: list[SegmentFile] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)

    @property
    def collectors(self) -> list[str]:
        """Sorted: of copies received in the same millisecond, the first collector's counts."""
        return sorted({file.collector for file in self.files})

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    def portions(self) -> Iterator[list[SegmentFile]]:
        """Consecutive files of one collector."""
        held: list[SegmentFile] = []
        size = 0
        for file in self.files:
            is_other = bool(held) and held[0].collector != file.collector
            if held and (is_other or size + file.size > _PORTION_BYTES):
                yield held
                held, size = [], 0
            held.append(file)
            size += file.size
        if held:
            yield held


def find(directory: Path) -> Log:
    """Raises ToolError when this is not a log."""
    if not directory.is_dir():
        raise ToolError(
            f"{directory}: no such directory; give the collector's log directory as --log"
        )
    if segments.sealed_segments(directory) or segments.open_segments(directory):
        raise ToolError(
            f"{directory} is the folder of one collector; give the log directory above it: "
            f"--log {directory.resolve().parent}"
        )
    folders = [path for path in segments.collector_folders(directory) if _may_be_collectors(path)]
    if not folders:
        raise ToolError(
            f"{directory}: no collector's folder in it; give the --log directory of `outpost "
            "collect`"
        )
    log = Log()
    for folder in folders:
        _add(log, folder)
    return log


def _may_be_collectors(path: Path) -> bool:
    """Whether it is empty or contains what a collector writes."""
    names = os.listdir(path)
    return not names or any(name == "state.json" or name[:8] == "segment-" for name in names)


def _add(log: Log, folder: Path) -> None:
    # the open ones first: a segment sealed in between is then found under one of its two names
    opened = segments.open_segments(folder)
    sealed = {segments.segment_number(path): path for path in segments.sealed_segments(folder)}
    for number, path in sealed.items():
        log.files.append(SegmentFile(folder.name, number, path, _size(path)))
    for path in opened:
        if segments.segment_number(path) not in sealed:
            _add_open(log, folder.name, path)
    _tell_missing(log, folder)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        raise _gone(path) from None


def _gone(path: Path) -> ToolError:
    return ToolError(
        f"{path}: deleted while the log was read (`outpost pipeline prune` or --delete-consumed?); "
        "run the export again"
    )


def _add_open(log: Log, collector: str, path: Path) -> None:
    number = segments.segment_number(path)
    try:
        data = path.read_bytes()
    except FileNotFoundError:  # it was sealed meanwhile: export its contents
        sealed = path.with_suffix(".seg")
        log.files.append(SegmentFile(collector, number, sealed, _size(sealed)))
        return
    found = segments.Contents(data, is_open=True)
    for _ in found.runs():
        pass
    end = found.readable_bytes
    if end:
        log.files.append(SegmentFile(collector, number, path, end, is_open=True))
    if len(data) - end > len(segments.MAGIC):
        log.notes.append(
            f"{path}: its last {len(data) - end} bytes are not a complete message (yet): a write "
            "in progress, or the remains of a killed collector's write, which hold no reading"
        )


def _tell_missing(log: Log, folder: Path) -> None:
    """Report segments that were deleted or lost."""
    numbers = [file.number for file in log.files if file.collector == folder.name]
    if not numbers:
        log.notes.append(f"{folder}: no message yet")
        return
    if numbers[0] > 0:
        log.notes.append(
            f"{folder} begins at segment {numbers[0]}: the messages of the earlier ones are in the "
            "pipeline's tables, if anywhere"
        )
    for before, number in itertools.pairwise(numbers):
        if number > before + 1:
            which = f"{before + 1}" if number == before + 2 else f"{before + 1} to {number - 1}"
            log.troubles.append(f"{folder}: segment {which} missing")
