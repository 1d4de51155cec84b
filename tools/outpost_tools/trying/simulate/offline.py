"""The longest time that a board was without its broker.

Pure: times in seconds come in as arguments.
"""

from __future__ import annotations


class OfflineMeter:
    """Counts connections that answer. Offline is the time without one, from the start on."""

    def __init__(self, now: float) -> None:
        self._connections = 0
        self._offline_since: float | None = now
        self._longest_s = 0.0

    @property
    def is_online(self) -> bool:
        return self._connections > 0

    def up(self, now: float) -> None:
        if self._offline_since is not None:
            self._longest_s = max(self._longest_s, now - self._offline_since)
            self._offline_since = None
        self._connections += 1

    def down(self, now: float) -> None:
        self._connections -= 1
        if self._connections == 0:
            self._offline_since = now

    def finish(self, now: float) -> None:
        """The run is over: later time does not count."""
        if self._offline_since is not None:
            self._longest_s = max(self._longest_s, now - self._offline_since)
            self._offline_since = now

    def longest_s(self, now: float) -> float:
        """Seconds, including the present outage."""
        present = now - self._offline_since if self._offline_since is not None else 0.0
        return max(self._longest_s, present)
