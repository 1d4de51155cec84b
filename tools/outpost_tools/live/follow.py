"""Follows the collectors' log: reads new frames at once, and the history in the pauses, the newest
segment first.

A new segment is found by its number, not by listing the folder, because the log of a year has half
a million files. At any moment, segments may be sealed, cut after a kill, or deleted, and their
numbers may restart. The follower only reads, and holds no file open.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from outpost_tools.common import job_notes
from outpost_tools.common.errors import ToolError
from outpost_tools.live import collecting, forgotten
from outpost_tools.live.fleet import Fleet
from outpost_tools.live.history import LONGEST_S
from outpost_tools.log import segments
from outpost_tools.log.segment_frames import following, is_end

POLL_S = 0.1
_LIST_S = 5.0  # between two listings of the folders
_STEP_S = 0.05  # how long to read history before checking for new frames
_FRAMES_A_STEP = 200
_READ_BYTES = 4 << 20


class Tail:
    """The newest segments of one collector. read() passes on the frames since the last call."""

    def __init__(self, folder: Path, number: int) -> None:
        self.folder, self.number = folder, number
        self._at = len(segments.MAGIC)

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

    def move_to(self, number: int) -> None:
        self.number, self._at = number, len(segments.MAGIC)

    def _more(self, fleet: Fleet) -> tuple[bool, bool]:
        """(whether there were frames, whether the segment is at its end)"""
        path = self.folder / f"segment-{self.number:012d}.open"
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
        data = _bytes_of(path, 0, whole=True)
        if data is None:
            return
        contents = segments.Contents(data)
        rest = [frame for frame in contents.frames() if frame.offset >= self._at]
        fleet.damaged(len(contents.damage))
        if rest:
            fleet.take(rest)


def _bytes_of(path: Path, offset: int, *, whole: bool = False) -> bytes | None:
    """The file's bytes from `offset` on; None if there is no such file. Raises OSError."""
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read() if whole else file.read(_READ_BYTES)
    except FileNotFoundError:
        return None


@dataclass
class Backlog:
    """The sealed segments that were there at the start, the newest first. About `limit` bytes of
    them are read. is_complete: none is missing, and all were read."""

    paths: list[Path]
    limit: int
    is_complete: bool

    def steps(self, fleet: Fleet) -> Iterator[float]:
        """Reads the segments, and often yields the share that has been read. Stops at `limit`, or
        at frames older than LONGEST_S."""
        done = 0
        oldest_ms = fleet.clock() - LONGEST_S * 1000
        for index, path in enumerate(self.paths):
            try:
                data = _bytes_of(path, 0, whole=True)
            except OSError:  # the disk is damaged there: continue with the others
                data = None
            if data is None:
                self.is_complete = False
                continue
            newest_ms = 0
            for received_ms in self._read(data, fleet):
                newest_ms = received_ms
                yield max(index / len(self.paths), done / self.limit)
            done += len(data)
            if done >= self.limit or 0 < newest_ms < oldest_ms:
                self.is_complete = self.is_complete and index == len(self.paths) - 1
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
        self, log: Path, fleet: Fleet, *, history_bytes: int, jobs: Path | None = None
    ) -> None:
        """jobs: the folder of the jobs' logs (common/job_notes.py); None: there are no jobs."""
        self._log, self._fleet, self._history_bytes = log, fleet, history_bytes
        self._jobs = jobs
        self._tails: dict[Path, Tail] = {}
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
        if self._log.exists() and not self._log.is_dir():
            raise ToolError(f"--log {self._log}: not a directory")
        if segments.sealed_segments(self._log) or segments.open_segments(self._log):
            raise ToolError(
                f"--log {self._log} is the folder of one collector; give the one above it: "
                f"{self._log.resolve().parent}"
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
                self.reason = f"cannot read {error.filename or self._log}: {error.strerror}"
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
        folders = self._folders()
        self._listed_at, self._closed = time.monotonic(), ""
        older: list[Path] = []
        is_whole = True
        for folder, known, numbers in self._numbers(folders):
            is_whole = is_whole and len(numbers) == max(numbers, default=-1) + 1
            tail = self._tails.get(folder)
            if tail is None:
                tail = self._tails[folder] = Tail(folder, max(numbers, default=0))
                if is_first:
                    older += [_sealed(folder, number) for number in known - {tail.number}]
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

    def _numbers(self, folders: list[Path]) -> Iterator[tuple[Path, set[int], set[int]]]:
        """(folder, numbers of its sealed segments, numbers of all its segments), for each folder
        that may be read."""
        number = segments.segment_number
        for folder in folders:
            try:
                sealed = {number(path) for path in segments.sealed_segments(folder)}
                opened = {number(path) for path in segments.open_segments(folder)}
            except PermissionError as error:
                self._closed = f"cannot read {folder}: {error.strerror}"
            else:
                yield folder, sealed, sealed | opened

    def _begin_history(self, older: list[Path], is_whole: bool) -> None:
        newest_first = sorted(older, key=lambda path: -segments.segment_number(path))
        self._backlog = Backlog(newest_first, self._history_bytes, is_whole)
        self._history = self._backlog.steps(self._fleet)

    def _folders(self) -> list[Path]:
        return segments.collector_folders(self._log) if self._log.is_dir() else []


def _catch_up(tail: Tail, numbers: set[int]) -> None:
    """Moves to the next existing number after a gap, or to the first one if numbers restarted."""
    if tail.number in numbers or tail.number == max(numbers) + 1:
        return
    later = [number for number in numbers if number > tail.number]
    tail.move_to(min(later or numbers))


def _sealed(folder: Path, number: int) -> Path:
    return folder / f"segment-{number:012d}.seg"
