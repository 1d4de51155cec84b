"""The segments of the collectors' log, in a stable order: by collector and number.

A collector may go on writing meanwhile. The export covers what was there at the start: of the open
segment its whole frames, even when it is sealed before it is read again.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from outpost_tools.errors import ToolError
from outpost_tools.log import segments
from outpost_tools.log.segments import Segment
from outpost_tools.store import at
from outpost_tools.store.base import Store, StoreError

_READERS = 16
_PORTION_BYTES = 8 << 20  # bounds the rows in memory; a larger segment is a portion of its own


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """The first `size` bytes of a segment. data: these, if they have been read."""

    collector: str
    number: int
    segment: Segment
    size: int
    is_open: bool = False
    data: bytes | None = None

    def read(self) -> bytes:
        """Raises ToolError when it was deleted, or we may not read it."""
        if self.data is not None:
            return self.data
        try:
            return self.segment.read_bytes()[: self.size]
        except FileNotFoundError:
            if self.is_open:  # it was sealed meanwhile
                return replace(self, segment=_sealed(self.segment), is_open=False).read()
            raise _gone(self.segment) from None
        except OSError as error:
            raise _unreadable(self.segment, error) from None


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


def fetched(files: list[SegmentFile]) -> list[SegmentFile]:
    """The same files. Those in a bucket are read, several at a time: each waits for its answer.
    Raises ToolError."""
    if not files or files[0].segment.folder.is_local:
        return files
    with ThreadPoolExecutor(_READERS) as pool:
        read = pool.map(SegmentFile.read, files)
        return [replace(file, data=data) for file, data in zip(files, read, strict=True)]


def find(place: str | Path | Store) -> Log:
    """Raises ToolError when this is not a log."""
    store = at.at(place)
    try:
        return _found(store)
    except OSError as error:
        raise _unreadable(store, error) from None


def _found(store: Store) -> Log:
    if segments.sealed_segments(store) or segments.open_segments(store):
        raise ToolError(
            f"{store} is the folder of one collector; give the log directory above it: --log "
            f"{segments.above(store)}"
        )
    log = Log()
    for folder in segments.collector_folders(store):
        _add(log, folder)
    if not log.files and not log.notes:
        raise ToolError(
            f"{store}: no collector's folder in it; give the --log directory of `outpost collect`"
        )
    return log


def _add(log: Log, folder: Store) -> None:
    # the open ones first: a segment sealed in between is then found under one of its two names
    opened = segments.open_segments(folder)
    sealed = segments.sealed_segments(folder)
    if not (opened or sealed or _may_be_collectors(folder)):
        return
    numbers = set()
    for segment in sealed:
        numbers.add(number := segments.segment_number(segment))
        log.files.append(SegmentFile(folder.name, number, segment, segment.size))
    for segment in opened:
        if segments.segment_number(segment) not in numbers:
            _add_open(log, segment)
    _tell_missing(log, folder)


def _may_be_collectors(folder: Store) -> bool:
    """Whether a folder without segments is empty, or has a collector's snapshot."""
    return folder.exists("state.json") or not (folder.entries() or folder.folders())


def _sealed(opened: Segment) -> Segment:
    return replace(opened, name=f"{opened.stem}.seg")


def _gone(segment: Segment) -> ToolError:
    return ToolError(
        f"{segment}: deleted while the log was read (`outpost pipeline prune` or "
        "--delete-consumed?); run the export again"
    )


def _unreadable(what: object, error: OSError) -> ToolError:
    return ToolError(str(error) if isinstance(error, StoreError) else f"{what}: {error.strerror}")


def _add_open(log: Log, segment: Segment) -> None:
    collector, number = segment.folder.name, segments.segment_number(segment)
    try:
        data = segment.read_bytes()
    except FileNotFoundError:  # it was sealed meanwhile: export its contents
        segment = _sealed(segment)
        size = segment.folder.size(segment.name)
        log.files.append(SegmentFile(collector, number, segment, size))
        return
    found = segments.Contents(data, is_open=True)
    for _ in found.runs():
        pass
    end = found.readable_bytes
    if end:
        log.files.append(SegmentFile(collector, number, segment, end, is_open=True))
    if len(data) - end > len(segments.MAGIC):
        log.notes.append(
            f"{segment}: its last {len(data) - end} bytes are not a complete message (yet): a "
            "write in progress, or the remains of a killed collector's write, which hold no reading"
        )


def _tell_missing(log: Log, folder: Store) -> None:
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
