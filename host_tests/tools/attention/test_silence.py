# cpython-only: the desktop's tools
"""When a board counts as silent, by what it announced."""

import pytest

from outpost_tools.attention import silence


@pytest.mark.parametrize(
    ("report_s", "usual_s", "after_s"),
    [
        (600, 10, 1860),  # series, as setup makes it, with messages of its own in between
        (1, 1, 300),  # a flash takes longer than three intervals of a second
        (86_400, 86_400, 259_260),
        (0, 3600, 72_000),  # not announced
        (0, 0, 300),
        (0, 1, 300),
        (-5, 0, 300),
        (1e38, 0, silence.MOST_S),
    ],
)
def test_three_announced_reports_must_be_missing(report_s, usual_s, after_s):
    assert silence.after_s(report_s, usual_s, 4) == after_s


def test_a_new_board_that_has_not_announced_it_yet_has_a_day():
    assert silence.after_s(0, 1, 3) == 90_000 and silence.after_s(600, 0, 1) == 1860


def test_a_report_is_due_a_minute_after_its_interval():
    assert (silence.due_s(600), silence.due_s(0), silence.due_s(-1)) == (660, 60, 60)
