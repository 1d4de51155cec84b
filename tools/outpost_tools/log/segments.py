"""Durable log of received messages: append-only segments of checked frames (segment_frames.py).

A directory holds one collector's segments, numbered without gaps. `segment-000000000007.open`
grows; a sealed segment is renamed to `.seg` and never changes again. A segment that a killed
collector left open is sealed at the next start: a torn write at its end is cut off and kept beside
it (`segment-000000000007.cut`, which no program reads; it may be deleted). Damage with valid frames
after it stays in place; readers skip and report it.

Knows files only: no MQTT, no message format.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import overload

from outpost_tools.log.segment_frames import (
    FLAG_CLOCK_UNSET,
    FLAG_DUP,
    FLAG_RETAIN,
    FLAG_TRUNCATED,
    HEADER,
    MAGIC,
    MAGIC_1,
    MAX_PAYLOAD_BYTES,
    Contents,
    Damage,
    Frame,
    all_placed,
    decoded,
    encode_frame,
    end_frame,
    scan,
    sealed_bytes,
)
from outpost_tools.machine.files import sync_directory
from outpost_tools.store import at
from outpost_tools.store.base import Store

__all__ = [
    "FLAG_CLOCK_UNSET",
    "FLAG_DUP",
    "FLAG_RETAIN",
    "FLAG_TRUNCATED",
    "HEADER",
    "MAGIC",
    "MAGIC_1",
    "MAX_PAYLOAD_BYTES",
    "Contents",
    "Damage",
    "Frame",
    "Recovered",
    "Segment",
    "SegmentWriter",
    "above",
    "collector_folders",
    "contents",
    "decoded",
    "encode_frame",
    "open_segments",
    "read_segment",
    "scan",
    "sealed_bytes",
    "sealed_name",
    "sealed_segments",
    "segment_number",
    "sync_directory",
]


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment in a folder of a Store. Where a Path of a segment is expected, it may take its
    place."""

    folder: Store
    name: str
    size: int = 0

    @property
    def stem(self) -> str:
        return self.name.partition(".")[0]

    @property
    def suffix(self) -> str:
        return self.name[len(self.stem) :]

    def read_bytes(self) -> bytes:
        return self.folder.get(self.name)

    def __str__(self) -> str:
        return f"{self.folder}/{self.name}"


def contents(path: Path | Segment) -> Contents:
    """The contents of one segment file. Raises OSError, ValueError (not a segment)."""
    found = Contents(path.read_bytes(), is_open=path.suffix == ".open")
    if not found.has_magic and next(found.runs(), None) is None and not found.is_ended:
        raise ValueError(f"{path}: not a segment (wrong magic); remove it from the log directory")
    return Contents(found.data, is_open=path.suffix == ".open")


def read_segment(path: Path | Segment) -> Iterator[Frame]:
    """The frames of one segment file, without the damaged ones.

    Raises OSError; ValueError if the file is not a segment.
    """
    return contents(path).frames()


_NAME = re.compile(r"segment-[0-9]{12,}\.[a-z]+")


def segment_number(path: Path | Segment) -> int:
    """7 for `segment-000000000007.seg`."""
    return int(path.stem.split("-")[1])


def sealed_name(number: int) -> str:
    return f"segment-{number:012d}.seg"


@overload
def collector_folders(log: Path) -> list[Path]: ...
@overload
def collector_folders(log: Store | str) -> list[Store]: ...
def collector_folders(log):
    """The folders of collectors, by name. lost+found is left out: the log may be a separate disk,
    whose lost+found belongs to root. Raises OSError."""
    if isinstance(log, Path):
        found = [(path.name, path) for path in sorted(log.iterdir()) if path.is_dir()]
    else:
        store = at.at(log)
        found = [(name, store / name) for name in store.folders()]
    return [one for name, one in found if not name.startswith(".") and name != "lost+found"]


def above(folder: Store) -> str:
    """The log that this collector's folder is in, as a user would write it."""
    return folder.uri.rpartition("/")[0] or "."


@overload
def sealed_segments(directory: Path, after: int = -1, before: int | None = None) -> list[Path]: ...
@overload
def sealed_segments(
    directory: Store | str, after: int = -1, before: int | None = None
) -> list[Segment]: ...
def sealed_segments(directory, after=-1, before=None):
    """The sealed segments in order of their numbers; empty if there is no such folder. after,
    before: only those with higher, and with lower numbers. Raises PermissionError, where glob()
    would treat an unreadable folder as empty."""
    return _named(directory, ".seg", after, before)


@overload
def open_segments(directory: Path) -> list[Path]: ...
@overload
def open_segments(directory: Store | str) -> list[Segment]: ...
def open_segments(directory):
    """As sealed_segments(). Only a folder of this machine has any."""
    return _named(directory, ".open", -1, None)


def _named(directory, suffix: str, after: int, before: int | None):
    """The segments with this suffix. A copy that somebody made beside them, such as
    "segment-000000000007 (copy).seg", is ignored."""
    last = sealed_name(after) if after >= 0 else ""
    end = "" if before is None else sealed_name(before)
    if not isinstance(directory, Path):
        folder = at.at(directory)
        if suffix == ".open" and not folder.is_local:
            return []
        listed = (Segment(folder, *entry) for entry in folder.entries(after=last, before=end))
        return [one for one in listed if one.suffix == suffix and _NAME.fullmatch(one.name)]
    try:
        names = os.listdir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []
    found = (name for name in names if name.endswith(suffix) and _NAME.fullmatch(name))
    near = (name for name in found if last < name and (not end or name < end))
    return [directory / name for name in sorted(near)]


@dataclass(frozen=True, slots=True)
class Recovered:
    """What was wrong with a segment that a killed collector left open."""

    segment: Path | Segment
    damage: list[Damage] = field(default_factory=list)
    cut: Path | None = None  # the copy of what was cut off at its end
    cut_bytes: int = 0

    @property
    def messages(self) -> int:
        return sum(piece.messages for piece in self.damage)

    def __str__(self) -> str:
        said = [f"{piece} at byte {piece.begin}" for piece in self.damage]
        if self.cut is not None:
            said.append(
                f"{self.cut_bytes} bytes after the last whole message cut off (a write that was "
                f"interrupted, or damage), kept in {self.cut.name}"
            )
        return f"{self.segment}: " + "; ".join(said)


class SegmentWriter:
    """Appends frames; `commit()` makes them durable; `seal()` closes the segment for readers.

    `recovered` reports the damage in segments that were found open.
    """

    def __init__(self, directory: Path, *, max_bytes: int = 16 << 20) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.max_bytes = max_bytes
        self.recovered = [told for path in open_segments(directory) if (told := _recover(path))]
        sync_directory(directory)
        known = sealed_segments(directory)
        self._number = segment_number(known[-1]) + 1 if known else 0
        self._file = None
        self._length = self._frames = 0

    def append(self, frame: bytes) -> None:
        """Writes one encoded frame, which is not durable before commit()."""
        self.append_all([frame])

    def append_all(self, frames: list[bytes]) -> None:
        """Writes encoded frames at once; they are not durable before commit()."""
        if self._file is None:
            # never overwrites an existing file
            self._file = (self.directory / f"segment-{self._number:012d}.open").open("xb")
            self._file.write(MAGIC)
            self._length, self._frames = len(MAGIC), 0
            self._new = True
        data = all_placed(frames, self._length)
        self._file.write(data)
        self._length += len(data)
        self._frames += len(frames)

    def commit(self) -> None:
        """Calls fsync for what was appended, and seals the segment if it has reached `max_bytes`.

        Raises OSError (disk full).
        """
        if self._file is None:
            return
        self._file.flush()
        os.fsync(self._file.fileno())
        if self._new:
            sync_directory(self.directory)
            self._new = False
        if self._length >= self.max_bytes:
            self.seal()

    def seal(self) -> Path | None:
        """Writes the end, closes the open segment and renames it. Returns its new path; None if no
        segment is open.

        Raises OSError (disk full).
        """
        if self._file is None:
            return None
        self._file.write(end_frame(self._frames, self._length))
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._file = None
        path = self.directory / f"segment-{self._number:012d}.open"
        sealed = path.with_suffix(".seg")
        path.rename(sealed)
        sync_directory(self.directory)
        self._number += 1
        return sealed


def _recover(path: Path) -> Recovered | None:
    """Seals a segment that a killed collector left open, without its torn tail. Returns None if
    there is nothing to report.

    A segment without a whole frame is deleted.
    """
    data = path.read_bytes()
    found = Contents(data, is_open=True)
    for _ in found.runs():
        pass
    end = found.readable_bytes
    inside = [piece for piece in found.damage if end and piece.end <= end]
    is_new = any(magic.startswith(data) for magic in (MAGIC, MAGIC_1))  # nothing was written yet
    tail = b"" if is_new else data[end:]
    copy = _keep(path, tail) if tail else None
    sealed = path.with_suffix(".seg")
    if end == 0:
        path.unlink()
    else:
        _close_at(path, end, found)
        path.rename(sealed)
    return Recovered(sealed, inside, copy, len(tail)) if inside or copy else None


def _close_at(path: Path, end: int, found: Contents) -> None:
    """Cuts the file at `end`, and writes the end frame if it has none (not in version 1)."""
    with path.open("r+b") as file:
        file.truncate(end)
        if not found.is_version_1 and not found.is_ended:
            lost = sum(piece.messages for piece in found.damage if piece.end <= end)
            file.seek(end)
            file.write(end_frame(found.frame_count + lost, end))
        file.flush()
        os.fsync(file.fileno())


def _keep(path: Path, tail: bytes) -> Path:
    """Makes a durable copy of what is cut off. It never overwrites an earlier copy, because a
    segment's number may be used again."""
    copy, again = path.with_suffix(".cut"), 1
    while copy.exists():
        again += 1
        copy = path.with_suffix(f".cut{again}")
    with copy.open("xb") as file:
        file.write(tail)
        file.flush()
        os.fsync(file.fileno())
    return copy
