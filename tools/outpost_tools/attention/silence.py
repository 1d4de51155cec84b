"""When a board counts as silent. Live page, alerts, report, Home Assistant and monitor all use this
rule. A board announces how often it reports (`report_s`: its interval, the age of a series, or the
time between two wakes that connect). It is silent if three of those reports are missing.

Pure. Times are in seconds.
"""

from __future__ import annotations

REPORT_S = "report_s"  # the reading in which a board announces it (firmware/station/about.py)
# Longer than a flash, an update, or a restart of the broker with the pause before the next attempt
# to connect: none of these makes a board silent.
LEAST_S = 300.0
MOST_S = float(1 << 31)
_MISSED = 3
_SLACK_S = 60.0
_USUAL = 20  # usual intervals until a board that announces nothing counts as silent
# A board announces `report_s` in one of its first messages, which in deep sleep may come a day
# apart.
_FIRST_MESSAGES, _FIRST_S = 4, 90_000.0
_DAY_S = 86_400.0


def after_s(report_s: float, usual_s: float, messages: int) -> float:
    """How long a board may send nothing before it counts as silent. report_s: as announced; 0: not
    announced. usual_s: the time between two of its messages; 0: not known. messages: how many it
    has sent so far."""
    least_s = _FIRST_S if report_s <= 0 and messages < _FIRST_MESSAGES else LEAST_S
    wanted_s = _MISSED * report_s + _SLACK_S if report_s > 0 else _USUAL * usual_s
    return min(max(least_s, wanted_s), MOST_S)


def of_other_s(longest_s: float, known_s: float) -> float:
    """The same for a device that is no Outpost board: three of its longest pauses. Not less than a
    day and an hour before it is known for a day, with its nights. longest_s: its longest pause in
    the last week. known_s: for how long it is known."""
    least_s = LEAST_S if known_s >= _DAY_S else _FIRST_S
    return min(max(least_s, _MISSED * longest_s + _SLACK_S), MOST_S)


def due_s(report_s: float) -> float:
    """In how many seconds from now the next report should have come."""
    return max(report_s, 0.0) + _SLACK_S
