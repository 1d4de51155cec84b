"""What the report should say about this collector: stored in its log, see
log/collector_notes.py."""

from __future__ import annotations

import time

from outpost_tools.log import collector_notes
from outpost_tools.log.segments import encode_frame
from outpost_tools.servers.collect.batch import Batch
from outpost_tools.servers.collect.log import Log

_AGAIN_S = 3600.0


class Notes:
    def __init__(self, log: Log, prefix: str) -> None:
        self._log = log
        self._topic = collector_notes.topic(prefix, log.collector)
        self._kept: dict[str, int] = {}
        self._next_at: dict[str, float] = {}

    def keep(self, kind: str, count: int, *, clock_unset: bool) -> None:
        """At most one note of a kind per hour; the log's next commit() stores it. kind: of
        collector_notes.REASONS."""
        now = time.monotonic()
        if count == self._kept.get(kind, 0) or now < self._next_at.get(kind, now):
            return
        data = collector_notes.payload(kind, count)
        now_ms = time.time_ns() // 1_000_000
        frame = encode_frame(now_ms, self._topic, data, clock_unset=clock_unset)
        self._log.add(Batch(0, frames=[frame], frame_bytes=len(frame), is_note=True))
        self._kept[kind], self._next_at[kind] = count, now + _AGAIN_S
