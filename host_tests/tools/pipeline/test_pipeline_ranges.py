# cpython-only: desktop tools
"""Ranges against a plain set."""

import time

from hypothesis import given
from hypothesis import strategies as st

from outpost_tools.pipeline.ranges import Ranges

NUMBERS = st.lists(st.integers(0, 60), max_size=60)


def check(ranges: Ranges, truth: set[int]) -> None:
    flat = ranges.to_list()
    assert {n for first, last in ranges for n in range(first, last + 1)} == truth
    assert all(b - a > 1 for a, b in zip(flat[1::2], flat[2::2], strict=False)), f"{flat} touch"
    assert ranges.count() == len(truth)
    assert (ranges.first(), ranges.last()) == (min(truth, default=None), max(truth, default=None))


@given(NUMBERS)
def test_add_tells_what_is_new(numbers):
    ranges, truth = Ranges(), set()
    for seq in numbers:
        assert ranges.add(seq) == (seq not in truth)
        truth.add(seq)
        check(ranges, truth)
    assert all((seq in ranges) == (seq in truth) for seq in range(-1, 62))


@given(NUMBERS, st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20))))
def test_add_range_joins_what_it_touches(numbers, pairs):
    ranges, truth = Ranges(), set(numbers)
    for seq in numbers:
        ranges.add(seq)
    for first, length in pairs:
        ranges.add_range(first, first + length)
        truth |= set(range(first, first + length + 1))
        check(ranges, truth)


@given(NUMBERS, st.integers(0, 60))
def test_contiguous_missing_and_discard(numbers, start):
    ranges, truth = Ranges(), set(numbers)
    for seq in numbers:
        ranges.add(seq)
    end = start
    while end in truth:
        end += 1
    assert ranges.contiguous_from(start) == end - 1
    missing = {n for first, last in ranges.missing(start) for n in range(first, last + 1)}
    assert missing == set(range(start, max(truth, default=-1) + 1)) - truth
    assert Ranges(ranges.to_list()).to_list() == ranges.to_list()
    ranges.discard_below(start)
    check(ranges, {n for n in truth if n >= start})


def test_numbers_in_order_are_fast_and_take_no_room():
    ranges, begin = Ranges(), time.perf_counter()
    for seq in range(200_000):
        ranges.add(seq)
    assert time.perf_counter() - begin < 2
    assert ranges.to_list() == [0, 199_999]
