"""The longest pause between messages of a device in the last week. Pure.

A device that announces no interval may send each second while somebody is in a room, and nothing
for a night. So neither the last pause nor a usual one tells when it is silent; the longest does,
over days. Times may come in any order. Bounded: the hours of a week, and the last _MOST_TIMES
times, which give the pauses that are shorter than an hour.
"""

from __future__ import annotations

from bisect import insort
from itertools import pairwise

_HOUR_MS = 3_600_000
_MOST_HOURS = 7 * 24
_MOST_TIMES = 32


class Pauses:
    def __init__(self) -> None:
        self._hours: set[int] = set()  # in which something came
        self._times: list[int] = []
        self._known_ms: tuple[int, int] | None = None  # the first and the last time
        self._longest_s: float | None = 0.0  # None: to be found again

    def add(self, time_ms: int) -> None:
        self._longest_s = None
        first, last = self._known_ms or (time_ms, time_ms)
        self._known_ms = min(first, time_ms), max(last, time_ms)
        hour = time_ms // _HOUR_MS
        if hour not in self._hours:
            self._hours.add(hour)
            oldest = max(self._hours) - _MOST_HOURS
            self._hours = {one for one in self._hours if one > oldest}
        if len(self._times) < _MOST_TIMES or time_ms > self._times[0]:
            insort(self._times, time_ms)
            del self._times[:-_MOST_TIMES]

    @property
    def longest_s(self) -> float:
        """0: not known."""
        if self._longest_s is None:
            self._longest_s = self._find()
        return self._longest_s

    def _find(self) -> float:
        hours, times = sorted(self._hours), self._times
        # between two hours are at least the whole ones
        whole = [(b - a - 1) * 3600.0 for a, b in pairwise(hours)]
        short = [(b - a) / 1000 for a, b in pairwise(times)]
        return max([*whole, *short], default=0.0)

    @property
    def known_s(self) -> float:
        """For how long the device has been known."""
        return 0.0 if self._known_ms is None else (self._known_ms[1] - self._known_ms[0]) / 1000
