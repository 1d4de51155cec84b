"""A set of sequence numbers kept as ranges: its size grows with the gaps, not with the numbers.

Used by the collector (what is durable) and by the pipeline (what is in silver). Pure Python, no imports beyond
`bisect`; numbers that come in order cost one comparison. Knows nothing of devices, streams or files.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator


class Ranges:
    """Disjoint, ascending, inclusive ranges that never touch: 3..5 and 6..9 are one range, 3..9."""

    __slots__ = ("_firsts", "_lasts")

    def __init__(self, flat: Iterable[int] = ()) -> None:
        """`flat` is what to_list() gave: [first, last, first, last, ...]."""
        values = list(flat)
        self._firsts = values[0::2]
        self._lasts = values[1::2]

    def to_list(self) -> list[int]:
        """[first, last, first, last, ...], ascending."""
        return [bound for pair in self for bound in pair]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._firsts, self._lasts, strict=True)

    def __len__(self) -> int:
        """How many ranges; `count()` is how many numbers."""
        return len(self._firsts)

    def __contains__(self, seq: int) -> bool:
        index = bisect_right(self._firsts, seq) - 1
        return index >= 0 and seq <= self._lasts[index]

    def count(self) -> int:
        return sum(self._lasts) - sum(self._firsts) + len(self._firsts)

    def first(self) -> int | None:
        return self._firsts[0] if self._firsts else None

    def last(self) -> int | None:
        return self._lasts[-1] if self._lasts else None

    def add(self, seq: int) -> bool:
        """Put `seq` in; True when it was not there."""
        if (
            self._lasts and seq == self._lasts[-1] + 1
        ):  # the usual case: the next number of a live board
            self._lasts[-1] = seq
            return True
        if seq in self:
            return False
        self.add_range(seq, seq)
        return True

    def add_range(self, first: int, last: int) -> None:
        """Put first..last in, both included; ranges that it overlaps or touches become one."""
        low = bisect_right(self._firsts, first)
        if low and self._lasts[low - 1] >= first - 1:
            low -= 1
        high = bisect_right(self._firsts, last + 1)
        if low < high:
            first = min(first, self._firsts[low])
            last = max(last, self._lasts[high - 1])
        self._firsts[low:high] = [first]
        self._lasts[low:high] = [last]

    def contiguous_from(self, start: int) -> int:
        """The highest n for which start..n are all in the set; start - 1 when `start` is not."""
        index = bisect_right(self._firsts, start) - 1
        return self._lasts[index] if index >= 0 and self._lasts[index] >= start else start - 1

    def missing(self, start: int) -> Iterator[tuple[int, int]]:
        """The inclusive ranges between `start` and last() that are not in the set."""
        for first, last in self:
            if first > start:
                yield start, first - 1
            start = max(start, last + 1)

    def discard_below(self, limit: int) -> None:
        """Forget the numbers below `limit`: the collector needs none below `held`."""
        index = bisect_right(self._lasts, limit - 1)
        del self._firsts[:index], self._lasts[:index]
        if self._firsts and self._firsts[0] < limit:
            self._firsts[0] = limit
