"""What the report should say about this collector: stored in its log, see
common/collector_notes.py."""

from __future__ import annotations

import time

from outpost_tools.collect.log import Log
from outpost_tools.common import collector_notes
from outpost_tools.common.segments import encode_frame

_AGAIN_S = 3600.0


class Notes:
    def __init__(self, log: Log, prefix: str) -> None:
        self._log = log
        self._topic = collector_notes.topic(prefix, log.collector)
        self._kept = 0
        self._next_at = float("-inf")

    def keep_takeovers(self, count: int) -> None:
        """Durable when it returns; at most one note per hour. If the disk refuses, the next call
        retries."""
        now = time.monotonic()
        if count == self._kept or now < self._next_at:
            return
        data = collector_notes.payload(collector_notes.TAKEN_OVER, count)
        now_ms = time.time_ns() // 1_000_000
        try:
            self._log.store([encode_frame(now_ms, self._topic, data)])
        except OSError:
            return
        self._kept, self._next_at = count, now + _AGAIN_S
