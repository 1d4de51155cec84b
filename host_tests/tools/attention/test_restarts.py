# cpython-only: the desktop's tools
"""Which starts of a board nobody wanted, by what it says of their causes."""

import random

from outpost_tools.attention import restarts

DAY_MS = 86_400_000
HOUR_MS = 3_600_000


def starts(causes, *, step_ms=HOUR_MS, stream="a"):
    """One start each."""
    made = restarts.Restarts()
    for boot, cause in enumerate(causes):
        made.take(stream, boot, boot * step_ms, cause)
        made.take(stream, boot, boot * step_ms + 1000, None)
    return made


def test_restarts_by_a_tool_and_ends_of_a_sleep_do_not_count():
    made = starts([1, 5, 5, 5, 4, None, None, 3, 1, 2])
    assert made.unwanted(10 * HOUR_MS, 20) == [3, 1, 2]  # the first start is no restart


def test_what_was_a_day_ago_is_over():
    made = starts([3] * 8)
    assert len(made.unwanted(8 * HOUR_MS, 16)) == 7
    assert len(made.unwanted(DAY_MS + 4 * HOUR_MS + 1, 16)) == 3
    assert made.unwanted(2 * DAY_MS, 16) == []


def test_a_board_that_never_says_is_judged_by_its_starts_once_it_would_have():
    made = starts([None] * 8)
    assert made.unwanted(8 * HOUR_MS, 63) == []
    assert made.unwanted(8 * HOUR_MS, 64) == [0] * 7


def test_a_new_stream_is_a_start_of_the_tools():
    made = starts([1])
    for n in range(9):
        made.take(f"stream-{n}", 1, n * 1000, 1)
    assert made.unwanted(HOUR_MS, 100) == []


def test_the_order_and_the_copies_of_messages_do_not_matter():
    rng = random.Random(3)
    told = [("a", boot, boot * HOUR_MS, rng.choice([None, 1, 3, 5])) for boot in range(20)]
    mixed = told * 2
    rng.shuffle(mixed)
    one, other = restarts.Restarts(), restarts.Restarts()
    for each in told:
        one.take(*each)
    for each in mixed:
        other.take(*each)
    assert sorted(one.unwanted(DAY_MS, 9)) == sorted(other.unwanted(DAY_MS, 9)) != []


def test_it_is_bounded_and_keeps_what_counts():
    made = starts([1, 3, 3, 3, *[None] * 1000], step_ms=1000)
    assert len(made._starts) == restarts.MOST and made.unwanted(HOUR_MS, 2000) == [3, 3, 3]
    for n in range(1000):
        made.take(f"s{n}", 0, 10**9 + n, 2)
    assert len(made._starts) == restarts.MOST and len(made._first) <= restarts.MOST


def test_the_words():
    assert restarts.words([3, 1, 3, 0, 1]) == "5 restarts in 24 h: power, watchdog or crash"
    assert restarts.words([0] * 6) == "6 restarts in 24 h"
    assert restarts.cause_words(5) == "on purpose" and restarts.cause_words(77) == "77"
