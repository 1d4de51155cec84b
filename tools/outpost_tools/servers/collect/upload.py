"""Copies the sealed segments of a log on disk into a bucket: the same names and bytes, in the order
of their numbers, in the background. No PUBACK waits for it.

The bucket itself says what is there, so a kill at any moment leaves the rest to the next start. A
segment that is there with other bytes is another log's: copying ends there, and says so.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque

from outpost_tools.errors import ToolError
from outpost_tools.log import identity, segments
from outpost_tools.store import probe
from outpost_tools.store.base import Store
from outpost_tools.terminal.notices import Folded

_RETRY_S = 5.0
_CLOSE_S = 5.0  # at the end, for what was sealed last


class Upload:
    """source, target: the folder of one collector, here and in the bucket. trouble: why nothing is
    copied at the moment; None: it is."""

    def __init__(self, source: Store, target: Store) -> None:
        self._source, self._target = source, target
        self.trouble: str | None = None
        self._changed = threading.Condition()
        self._left: deque[int] = deque()  # to copy
        self._through = self._queued_through = -1  # sealed; in _left, or copied
        self._is_ending = False
        self._told = Folded(self._say)
        self._thread = threading.Thread(target=self._run, name="upload", daemon=True)

    @property
    def waiting(self) -> int:
        """Sealed segments that are not copied yet."""
        return len(self._left) + self._through - self._queued_through

    def sealed(self, through: int) -> None:
        """All segments up to this number are sealed. The first call starts the copying."""
        if not self._thread.is_alive() and not self._is_ending:
            self._queue_all(through)
            self._thread.start()
        if through > self._through:
            with self._changed:
                self._through = through
                self._changed.notify()

    def close(self) -> None:
        """Copies what is left if that takes a moment; otherwise the next start does."""
        until = time.monotonic() + _CLOSE_S
        while self.waiting and self.trouble is None and time.monotonic() < until:
            time.sleep(0.02)
        with self._changed:
            self._is_ending = True
            self._changed.notify()
        if self.waiting:
            self._say(f"{self.waiting} segments are not copied yet; the next start goes on")

    def _queue_all(self, through: int) -> None:
        listed = map(segments.segment_number, segments.sealed_segments(self._source))
        self._left.extend(number for number in listed if number <= through)
        self._through = self._queued_through = through

    def _run(self) -> None:
        is_known = False
        while not self._is_ending:
            try:
                if not is_known:
                    self._leave_out_known()
                    is_known = True
                self._copy_next()
            except ToolError as error:
                self._fail(f"{error}; nothing more is copied")
                return
            except OSError as error:
                self._fail(f"cannot copy: {error}; trying again")
                self._pause()
            else:
                self._recover()
                if not self._left:
                    self._wait_for_more()

    def _leave_out_known(self) -> None:
        """Raises ToolError, OSError."""
        probe.check(self._target)
        if identity.read(self._source) is not None:  # before the segments
            self._target.put(identity.NAME, self._source.get(identity.NAME))
        sizes = {one.name: one.size for one in segments.sealed_segments(self._target)}
        common = [one for one in segments.sealed_segments(self._source) if one.name in sizes]
        for one in common:
            if one.size != sizes[one.name]:
                raise self._other(one.name)
        for one in common[-1:]:
            if self._target.get(one.name) != one.read_bytes():
                raise self._other(one.name)
        known = set(map(segments.segment_number, common))
        self._left = deque(number for number in self._left if number not in known)

    def _copy_next(self) -> None:
        """Raises ToolError, OSError."""
        if not self._left:
            return
        name = segments.sealed_name(self._left[0])
        try:
            data = self._source.get(name)
        except FileNotFoundError:  # deleted once it was read
            data = None
        if data is not None and not self._target.create(name, data):
            raise self._other(name)
        self._left.popleft()

    def _other(self, name: str) -> ToolError:
        return ToolError(f"{self._target}/{name} has other contents: is it another log's?")

    def _wait_for_more(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._is_ending or self._through > self._queued_through)
            self._left.extend(range(self._queued_through + 1, self._through + 1))
            self._queued_through = self._through

    def _pause(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._is_ending, _RETRY_S)

    def _fail(self, reason: str) -> None:
        self.trouble = reason
        self._told.tell(reason)

    def _recover(self) -> None:
        if self.trouble is not None:
            self.trouble = None
            self._say(f"copying again{self._told.over()}")

    def _say(self, text: str) -> None:
        print(f"{self._target.name}: --upload: {text}", file=sys.stderr, flush=True)
