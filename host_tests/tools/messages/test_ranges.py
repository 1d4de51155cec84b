# cpython-only: desktop tools
"""Ranges against a plain set."""

import time

from hypothesis import given
from hypothesis import strategies as st

from outpost_tools.messages.ranges import beyond, count, cover, following, missing, of_pairs, trim

NUMBERS = st.lists(st.integers(0, 60), max_size=60)


def made(numbers):
    ranges = []
    for seq in numbers:
        cover(ranges, seq, seq)
    return ranges


def check(ranges, truth: set[int]) -> None:
    flat = [bound for pair in ranges for bound in pair]
    assert {n for first, last in ranges for n in range(first, last + 1)} == truth
    assert all(b - a > 1 for a, b in zip(flat[1::2], flat[2::2], strict=False)), f"{flat} touch"
    assert count(ranges) == len(truth)
    assert of_pairs(flat) == ranges


@given(NUMBERS)
def test_numbers_one_by_one(numbers):
    ranges, truth = [], set()
    for seq in numbers:
        cover(ranges, seq, seq)
        truth.add(seq)
        check(ranges, truth)
    assert all((following(seq, [ranges]) == seq) == (seq not in truth) for seq in range(62))


@given(NUMBERS, st.lists(st.tuples(st.integers(0, 60), st.integers(-1, 20))))
def test_a_range_joins_what_it_touches_and_an_empty_one_changes_nothing(numbers, pairs):
    ranges, truth = made(numbers), set(numbers)
    for first, length in pairs:
        cover(ranges, first, first + length)
        truth |= set(range(first, first + length + 1))
        check(ranges, truth)


@given(NUMBERS, st.integers(0, 60))
def test_following_missing_and_trim(numbers, start):
    ranges, truth = made(numbers), set(numbers)
    end = start
    while end in truth:
        end += 1
    assert following(start, [ranges]) == end
    found = {n for first, last in missing(ranges, start) for n in range(first, last + 1)}
    assert found == set(range(start, max(truth, default=-1) + 1)) - truth
    trim(ranges, start)
    check(ranges, {n for n in truth if n >= start})


@given(st.lists(NUMBERS, max_size=4), st.integers(0, 60))
def test_following_over_several_sets(sets, start):
    union, end = set().union(*sets), start
    while end in union:
        end += 1
    assert following(start, [made(numbers) for numbers in sets]) == end


def test_numbers_in_order_are_fast_and_take_no_room():
    ranges, begin = [], time.process_time()
    for seq in range(200_000):
        cover(ranges, seq, seq)
    assert time.process_time() - begin < 2
    assert ranges == [[0, 199_999]]


@given(st.lists(NUMBERS, max_size=4), st.integers(0, 60), st.integers(0, 5))
def test_what_is_beyond_a_gap_is_the_union_in_order_and_no_more_than_asked_for(sets, start, most):
    union = made([n for numbers in sets for n in numbers])
    gap = following(start, [union])
    expected = [one for one in union if one[0] > gap][:most]
    assert beyond(gap, [made(numbers) for numbers in sets], most) == expected
