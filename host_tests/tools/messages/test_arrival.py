# cpython-only: tests a desktop tool
"""What an arrival shows: the same for one message and for columns, and what disproves it."""

import numpy as np
import pytest

from outpost_tools.messages import arrival, labels

NOW_S = 1_795_000_000.0
DAY_S = 86_400
ARRIVALS_S = [0.0, 1.0, labels.MIN_TIME_S - 1, labels.MIN_TIME_S, NOW_S, labels.MAX_TIME_S + 1e9]


@pytest.mark.parametrize("received_s", ARRIVALS_S)
@pytest.mark.parametrize("is_unset", [False, True])
def test_one_message_and_columns_have_the_same_limits(received_s, is_unset):
    one = arrival.limits(None if is_unset else received_s)
    many = arrival.limits_of(np.array([received_s]), np.array([is_unset]))
    assert one == tuple(float(end[0]) for end in many)
    if is_unset:
        assert one == (labels.MIN_TIME_S, labels.MAX_TIME_S)


@pytest.mark.parametrize(
    ("received_s", "newest_s", "is_disproved"),
    [
        (NOW_S - 60 * DAY_S, NOW_S - 1, True),  # a reading of a moment that has come
        (NOW_S - 60 * DAY_S, NOW_S + 2 * DAY_S, False),  # a board whose clock is ahead of now
        (NOW_S + 6 * 365 * DAY_S, NOW_S, True),  # it has not come yet
        (NOW_S - 10 * DAY_S, NOW_S - 2200 * DAY_S, False),  # a board whose clock is behind
        (NOW_S, None, False),
    ],
)
def test_an_arrival_is_disproved_by_what_has_come_since(received_s, newest_s, is_disproved):
    assert arrival.is_disproved(received_s, newest_s, NOW_S) is is_disproved


def test_a_message_was_seen_neither_after_now_nor_before_its_readings():
    seen = arrival.seen_ms
    assert seen(1000, 5000, 4.0, is_unset=False) == 1000
    assert seen(1000, 5000, 4.0, is_unset=True) == 4000
    assert seen(1000, 5000, 9.0, is_unset=True) == seen(9000, 5000, None, is_unset=False) == 5000


def test_reasons_by_arrival_are_known_by_their_end():
    assert arrival.is_refusal("record 0: time after its arrival")
    assert arrival.is_refusal("record 12: time long before its arrival")
    assert not arrival.is_refusal("record 0: time out of range")
