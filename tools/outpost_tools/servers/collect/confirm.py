"""When a device's confirmation is due: about one per interval, and always one after its last
message. Pure."""

from __future__ import annotations

INTERVAL_S = 0.2


class Pacing:
    """mark() records that a device has news; due() returns the devices whose turn it is.

    Times in seconds, monotonic.
    """

    def __init__(self, interval_s: float = INTERVAL_S) -> None:
        self._interval_s = interval_s
        self._waiting: dict[str, None] = {}  # a set that keeps its order
        self._last: dict[str, float] = {}

    def mark(self, device: str) -> None:
        self._waiting[device] = None

    def due(self, now: float, *, everything: bool = False) -> list[str]:
        """Devices to confirm now; each is marked done.

        `everything` ignores the interval (at the end of a run).
        """
        devices = [
            d
            for d in self._waiting
            if everything or now - self._last.get(d, float("-inf")) >= self._interval_s
        ]
        for device in devices:
            del self._waiting[device]
            self._last[device] = now
        return devices

    def wait_s(self, now: float) -> float:
        """Seconds until due() has something to return; the interval when nothing waits."""
        if not self._waiting:
            return self._interval_s
        soonest = min(self._last.get(d, float("-inf")) for d in self._waiting)
        return min(max(0.0, soonest + self._interval_s - now), self._interval_s)
