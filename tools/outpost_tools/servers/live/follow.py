"""Follows the collectors' log: reads new frames at once, and the history in the pauses, the newest
segment first.

A new segment is found by its number, not by listing the folder, because the log of a year has half
a million files. At any moment, segments may be sealed, cut after a kill, or deleted, and on a disk
their numbers may restart. The follower only reads, and holds no file open.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from outpost_tools.errors import ToolError
from outpost_tools.log import segments
from outpost_tools.log.segment_frames import following, is_end
from outpost_tools.log.segments import Segment
from outpost_tools.servers.home import job_notes
from outpost_tools.servers.live import collecting, forgotten
from outpost_tools.servers.live.fleet import Fleet
from outpost_tools.servers.live.history import LONGEST_S
from outpost_tools.store import at
from outpost_tools.store.base import Store, StoreError
from outpost_tools.store.local import LocalStore

POLL_S = 0.1
_LIST_S = 5.0  # between two listings of the folders
_LOOK_S = 1.0  # between two looks for the next segment in a bucket
_STEP_S = 0.05  # how long to read history before checking for new frames
_FRAMES_A_STEP = 200
_READ_BYTES = 4 << 20


class Tail:
    """The newest segments of one collector. read() passes on the frames since the last call.
    lists_after: later listings of the folder need only segments with higher numbers."""

    lists_after = -1

    def __init__(self, number: int) -> None:
        self.move_to(number)

    def move_to(self, number: int) -> None:
        self.number, self._at = number, len(segments.MAGIC)

    def read(self, fleet: Fleet) -> bool:
        """Adds the new frames to the fleet. Returns False if there were none."""
        is_new = False
        while True:
            taken, ends = self._more(fleet)
            is_new = is_new or taken
            if not taken and not ends:
                return is_new
            if ends:
                self.move_to(self.number + 1)

    def _more(self, fleet: Fleet) -> tuple[bool, bool]:
        """(whether there were frames, whether the segment is at its end)"""
        raise NotImplementedError


class DiskTail(Tail):
    """Also of the open segment, as it grows."""

    def __init__(self, folder: LocalStore, number: int) -> None:
        super().__init__(number)
        self._folder = folder

    def _more(self, fleet: Fleet) -> tuple[bool, bool]:
        path = self._folder.path / f"segment-{self.number:012d}.open"
        data = _bytes_of(path, self._at)
        is_sealed = data is None
        if data is None:
            path = path.with_suffix(".seg")
            data = _bytes_of(path, self._at)
        if data is None:
            return False, False
        found = following(data, self._at)
        if found:
            self._at = found[-1].end
            fleet.take(found)
            return True, False
        if is_sealed and not is_end(data):
            self._finish(path, fleet)
        return False, is_sealed

    def _finish(self, path: Path, fleet: Fleet) -> None:
        """Reads the frames of a sealed segment that follow damage; most segments have none."""
        data = _whole(path)
        if data is None:
            return
        contents = segments.Contents(data)
        rest = [frame for frame in contents.frames() if frame.offset >= self._at]
        fleet.damaged(len(contents.damage))
        if rest:
            fleet.take(rest)


class StoreTail(Tail):
    """In a bucket: whole segments. Each look is a request, so there is one a second."""

    def __init__(self, folder: Store, number: int) -> None:
        super().__init__(number)
        self._folder = folder
        self._look_at = 0.0

    @property
    def lists_after(self) -> int:
        return self.number - 1

    def _more(self, fleet: Fleet) -> tuple[bool, bool]:
        if time.monotonic() < self._look_at:
            return False, False
        data = _whole(segments.Segment(self._folder, segments.sealed_name(self.number)))
        if data is None:
            self._look_at = time.monotonic() + _LOOK_S
            return False, False
        contents = segments.Contents(data)
        found = [*contents.frames()]
        fleet.take(found)
        fleet.damaged(len(contents.damage))
        return bool(found), True


def _tail(folder: Store, number: int) -> Tail:
    return (DiskTail if isinstance(folder, LocalStore) else StoreTail)(folder, number)


def _bytes_of(path: Path, offset: int) -> bytes | None:
    """Some of the file's bytes from `offset` on; None if there is no such file. Raises OSError."""
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(_READ_BYTES)
    except FileNotFoundError:
        return None


def _whole(segment: Path | Segment) -> bytes | None:
    """None if there is no such segment. Raises OSError."""
    try:
        return segment.read_bytes()
    except FileNotFoundError:
        return None


@dataclass
class Backlog:
    """The sealed segments that were there at the start, the newest first. About `limit` bytes of
    them are read. is_complete: none is missing, and all were read."""

    segments: list[Segment]
    limit: int
    is_complete: bool

    def steps(self, fleet: Fleet) -> Iterator[float]:
        """Reads the segments, and often yields the share that has been read. Stops at `limit`, or
        at frames older than LONGEST_S."""
        done = 0
        oldest_ms = fleet.clock() - LONGEST_S * 1000
        for index, segment in enumerate(self.segments):
            try:
                data = _whole(segment)
            except OSError:  # the disk is damaged there: continue with the others
                data = None
            if data is None:
                self.is_complete = False
                continue
            newest_ms = 0
            for received_ms in self._read(data, fleet):
                newest_ms = received_ms
                yield max(index / len(self.segments), done / self.limit)
            done += len(data)
            if done >= self.limit or 0 < newest_ms < oldest_ms:
                self.is_complete = self.is_complete and index == len(self.segments) - 1
                return

    @staticmethod
    def _read(data: bytes, fleet: Fleet) -> Iterator[int]:
        contents = segments.Contents(data)
        held = []
        for frame in contents.frames():
            held.append(frame)
            if len(held) >= _FRAMES_A_STEP:
                fleet.take(held)
                yield held[-1].received_ms
                held = []
        if held:
            fleet.take(held)
            yield held[-1].received_ms
        fleet.damaged(len(contents.damage))


class Follower:
    """After start(), its thread calls `on_change` whenever the fleet has changed.

    reason: why the log cannot be read; "" if it can.
    """

    def __init__(
        self, log: str | Path | Store, fleet: Fleet, *, history_bytes: int, jobs: Path | None = None
    ) -> None:
        """jobs: the folder of the jobs' logs (servers/home/job_notes.py); None: there are no
        jobs."""
        self._log, self._fleet, self._history_bytes = at.at(log), fleet, history_bytes
        self._jobs = jobs
        self._tails: dict[Store, Tail] = {}
        self._history: Iterator[float] | None = None
        self._backlog: Backlog | None = None
        self._listed_at = float("-inf")
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="follow", daemon=True)
        self.on_change: Callable[[], None] = lambda: None
        self.reason = ""
        self._closed = ""  # why a folder may not be read, as of the last listing

    def start(self) -> None:
        """The log need not exist yet. Raises ToolError if it is not a folder, or is the folder of a
        single collector."""
        if isinstance(self._log, LocalStore) and self._log.path.is_file():
            raise ToolError(f"--log {self._log}: not a directory")
        if segments.sealed_segments(self._log) or segments.open_segments(self._log):
            raise ToolError(
                f"--log {self._log} is the folder of one collector; give the one above it: "
                f"{segments.above(self._log)}"
            )
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(10)

    def _run(self) -> None:
        while not self._stopping.wait(0 if self._history is not None else POLL_S):
            try:
                self.turn()
            except OSError as error:  # the disk, or permissions: the page reports it and continues
                self.reason = _why(self._log, error)
                self._stopping.wait(1.0)
            except Exception as error:  # a bug of ours: a page that is stuck must not report "ok"
                self.reason = f"cannot go on: {type(error).__name__}: {error}"
                self._stopping.wait(1.0)
            else:
                self.reason = self._closed

    def turn(self) -> None:
        """Reads new frames, and a bit of history."""
        before = self._fleet.version
        if time.monotonic() - self._listed_at >= _LIST_S:
            self._list()
        for tail in self._tails.values():
            tail.read(self._fleet)
        self._read_history()
        self._fleet.look()
        if self._fleet.version != before:
            self.on_change()

    def _read_history(self) -> None:
        if self._history is None or self._backlog is None:
            return
        until = time.monotonic() + _STEP_S
        while time.monotonic() < until:
            share = next(self._history, None)
            self._fleet.history_read(share, is_complete=self._backlog.is_complete)
            if share is None:
                self._history = None
                return

    def _list(self) -> None:
        """Finds new collectors, and segments after a gap in the numbers."""
        is_first = self._listed_at == float("-inf")
        folders = segments.collector_folders(self._log)
        self._listed_at, self._closed = time.monotonic(), ""
        older: list[Segment] = []
        is_whole = True
        for folder, known, numbers in self._numbers(folders):
            is_whole = is_whole and len(numbers) == max(numbers, default=-1) + 1
            tail = self._tails.get(folder)
            if tail is None:
                tail = self._tails[folder] = _tail(folder, max(numbers, default=0))
                if is_first:
                    older += [_sealed(folder, one) for one in known - {tail.number}]
                elif numbers:
                    tail.move_to(min(numbers))
            elif numbers:
                _catch_up(tail, numbers)
        for folder in self._tails.keys() - set(folders):
            del self._tails[folder]
        self._fleet.forget(forgotten.read(self._log))
        self._fleet.is_collected = collecting.writes(folders)
        self._fleet.failed_jobs = job_notes.read(self._jobs) if self._jobs else {}
        if is_first:
            self._begin_history(older, is_whole and not self._closed)

    def _numbers(self, folders: list[Store]) -> Iterator[tuple[Store, set[int], set[int]]]:
        """(folder, numbers of its sealed segments, numbers of all its segments), for each folder
        that may be read."""
        number = segments.segment_number
        for folder in folders:
            after = self._tails[folder].lists_after if folder in self._tails else -1
            try:
                sealed = {number(path) for path in segments.sealed_segments(folder, after)}
                opened = {number(path) for path in segments.open_segments(folder)}
            except PermissionError as error:
                self._closed = f"cannot read {folder}: {error.strerror}"
            else:
                yield folder, sealed, sealed | opened

    def _begin_history(self, older: list[Segment], is_whole: bool) -> None:
        newest_first = sorted(older, key=lambda one: -segments.segment_number(one))
        self._backlog = Backlog(newest_first, self._history_bytes, is_whole)
        self._history = self._backlog.steps(self._fleet)


def _catch_up(tail: Tail, numbers: set[int]) -> None:
    """Moves to the next existing number after a gap, or to the first one if numbers restarted."""
    if tail.number in numbers or tail.number == max(numbers) + 1:
        return
    later = [number for number in numbers if number > tail.number]
    tail.move_to(min(later or numbers))


def _sealed(folder: Store, number: int) -> Segment:
    return Segment(folder, segments.sealed_name(number))


def _why(place: object, error: OSError) -> str:
    if isinstance(error, StoreError):
        return f"cannot read {error}"
    return f"cannot read {error.filename or place}: {error.strerror}"
