"""Sets of sequence numbers, kept as ranges: their size grows with the gaps, not with the numbers.

A set is a sorted list of ranges [first, last], both inclusive, that neither touch nor overlap: 3..5
and 6..9 are one range, 3..9. The collector keeps the numbers of durable messages in such sets, and
the pipeline reads its state as one. Pure; knows nothing about devices, streams or files. The
pipeline's number_ranges.py does the same with numpy, for the sets of all streams of a batch at
once.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence

Ranges = list[list[int]]


def of_pairs(flat: Sequence[int]) -> Ranges:
    """[first, last, first, last, ...], as the tables store it."""
    return [[first, last] for first, last in zip(flat[0::2], flat[1::2], strict=True)]


def cover(ranges: Ranges, first: int, last: int) -> None:
    """Adds first..last, unless it is empty. Ranges that overlap or touch it are merged."""
    if last < first:
        return
    if ranges and ranges[-1][1] + 1 == first:  # the usual case: the next number of a live board
        ranges[-1][1] = last
        return
    low = bisect_left(ranges, first - 1, key=_last)  # the first range that reaches ours
    high = low
    while high < len(ranges) and ranges[high][0] <= last + 1:
        high += 1
    if low < high:
        first, last = min(first, ranges[low][0]), max(last, ranges[high - 1][1])
    ranges[low:high] = [[first, last]]


def trim(ranges: Ranges, below: int) -> None:
    """Removes the numbers below `below`."""
    del ranges[: bisect_left(ranges, below, key=_last)]
    if ranges and ranges[0][0] < below:
        ranges[0][0] = below


def following(number: int, sets: Iterable[Ranges]) -> int:
    """The first number, from `number` upwards, that is in none of the sets."""
    sets = [ranges for ranges in sets if ranges]
    before = -1
    while before != number:
        before = number
        for ranges in sets:
            at = bisect_right(ranges, number, key=_first) - 1
            if at >= 0 and ranges[at][1] >= number:
                number = ranges[at][1] + 1
    return number


def beyond(number: int, sets: Sequence[Ranges], most: int) -> Ranges:
    """The first ranges of the union of the sets that begin after `number`; at most `most`."""
    found: Ranges = []
    while len(found) < most:
        starts = [ranges[bisect_right(ranges, number, key=_first) :][:1] for ranges in sets]
        if not any(starts):
            break
        first = min(one[0][0] for one in starts if one)
        number = following(first, sets)
        found.append([first, number - 1])
    return found


def missing(ranges: Ranges, start: int) -> Iterator[tuple[int, int]]:
    """The ranges between `start` and the last number of the set that the set does not contain."""
    for first, last in ranges:
        if first > start:
            yield start, first - 1
        start = max(start, last + 1)


def count(ranges: Ranges) -> int:
    """How many numbers are in the set."""
    return sum(last - first + 1 for first, last in ranges)


def _first(one: list[int]) -> int:
    return one[0]


def _last(one: list[int]) -> int:
    return one[1]
