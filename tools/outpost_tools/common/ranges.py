"""Sorted lists of ranges [first, last] that neither touch nor overlap: sets of sequence numbers that grow with the gaps."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

Ranges = list[list[int]]


def cover(ranges: Ranges, first: int, last: int) -> None:
    """Take in first..last; nothing when that is empty."""
    if last < first:
        return
    at = bisect_left(ranges, first - 1, key=_last)  # the first range that reaches us
    end = at
    while end < len(ranges) and ranges[end][0] <= last + 1:
        end += 1
    if at < end:
        first, last = min(first, ranges[at][0]), max(last, ranges[end - 1][1])
    ranges[at:end] = [[first, last]]


def trim(ranges: Ranges, below: int) -> None:
    """Forget the numbers below `below`."""
    del ranges[: bisect_left(ranges, below, key=_last)]
    if ranges and ranges[0][0] < below:
        ranges[0][0] = below


def following(number: int, sets: Iterable[Ranges]) -> int:
    """The first number from `number` on that is in none of the sets."""
    sets = [ranges for ranges in sets if ranges]
    before = -1
    while before != number:
        before = number
        for ranges in sets:
            at = bisect_right(ranges, number, key=_first) - 1
            if at >= 0 and ranges[at][1] >= number:
                number = ranges[at][1] + 1
    return number


def _first(one: list[int]) -> int:
    return one[0]


def _last(one: list[int]) -> int:
    return one[1]
