"""A sensor's readings of the last hour to the last year: least, mean and greatest value in each bin
of time.

Bounded: about 28 KiB per sensor. The memory for a span is allocated when the first reading falls
into it. Readings may arrive in any order. Pure.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """`bins` bins of `width_s` seconds each."""

    title: str
    width_s: int
    bins: int

    @property
    def seconds(self) -> int:
        return self.width_s * self.bins


SPANS = {
    "hour": Span("hour", 60, 60),
    "hours": Span("6 hours", 120, 180),
    "day": Span("24 hours", 300, 288),
    "week": Span("7 days", 3600, 168),
    "month": Span("31 days", 4 * 3600, 186),
    "year": Span("year", 2 * 86_400, 183),
}
_LONGEST_CHOICE = "day"
_ROUNDING = 2.0**-22  # of the least and the greatest value, which are kept in 32 bits
LONGEST_S = max(span.seconds for span in SPANS.values())


def fitting(age_s: float) -> str:
    """The shortest span that reaches back that far, but at most a day."""
    for name, span in SPANS.items():
        if age_s <= span.seconds or name == _LONGEST_CHOICE:
            return name
    return _LONGEST_CHOICE


@dataclass(frozen=True, slots=True)
class Bin:
    """begin_ms: in ms since 1970."""

    begin_ms: int
    least: float
    mean: float
    greatest: float
    count: int


class _Ring:
    """Bin number `index` is at index % bins, until a later bin with the same place replaces it."""

    def __init__(self, bins: int) -> None:
        self._index = array("i", [-1]) * bins
        self._least = array("f", [0.0]) * bins
        self._greatest = array("f", [0.0]) * bins
        self._sum = array("d", [0.0]) * bins
        self._count = array("I", [0]) * bins

    def add(self, index: int, value: float) -> None:
        at = index % len(self._index)
        if self._index[at] > index:
            return
        if self._index[at] < index:
            self._index[at], self._count[at], self._sum[at] = index, 0, 0.0
            self._least[at] = self._greatest[at] = value
        self._least[at] = min(self._least[at], value)
        self._greatest[at] = max(self._greatest[at], value)
        self._sum[at] += value
        self._count[at] += 1

    def bins(self, first: int, last: int, width_s: int) -> Iterator[Bin]:
        for index in range(first, last + 1):
            at = index % len(self._index)
            if self._index[at] == index:
                mean = self._sum[at] / self._count[at]
                least, greatest = min(self._least[at], mean), max(self._greatest[at], mean)
                if greatest - least <= abs(mean) * _ROUNDING:  # 61.3 is no 32-bit number
                    least = greatest = mean
                yield Bin(index * width_s * 1000, least, mean, greatest, self._count[at])


class History:
    """Call add() in any order, then bins()."""

    def __init__(self) -> None:
        self._rings: dict[str, _Ring] = {}

    def add(self, time_ms: int, value: float, now_ms: int) -> None:
        """Adds the reading to each span that contains its time. A time more than a bin ahead of
        `now_ms` is in none."""
        age_s = (now_ms - time_ms) / 1000
        for name, span in SPANS.items():
            if -span.width_s <= age_s < span.seconds:
                ring = self._rings.get(name)
                if ring is None:
                    ring = self._rings[name] = _Ring(span.bins)
                ring.add(time_ms // (span.width_s * 1000), value)

    def bins(self, name: str, now_ms: int) -> list[Bin]:
        """The bins of span `name` that have a reading, the oldest first."""
        span = SPANS[name]
        if name not in self._rings:
            return []
        last = now_ms // (span.width_s * 1000)
        return list(self._rings[name].bins(last - span.bins + 1, last, span.width_s))
