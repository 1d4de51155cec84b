"""When a board counts as silent: the one rule of live page, alerts, report, Home Assistant and
monitor. A board announces how often it reports (`report_s`: its interval, the age of a series, or
the time between two wakes that connect); it is silent when three of those reports are missing.

Pure. Times in seconds.
"""

from __future__ import annotations

REPORT_S = "report_s"  # the reading in which a board announces it (firmware/station/about.py)
# A flash, an update, a broker's restart with the pause before the next attempt: no board is silent
# for as long as these take.
LEAST_S = 300.0
MOST_S = float(1 << 31)
_MISSED = 3
_SLACK_S = 60.0
_USUAL = 20  # of a board that announces nothing: so many of its usual intervals
# A board announces it in one of its first messages, which in deep sleep may come a day apart.
_FIRST_MESSAGES, _FIRST_S = 4, 90_000.0


def after_s(report_s: float, usual_s: float, messages: int) -> float:
    """How long nothing may come from a board. report_s: as announced, 0: it was not. usual_s:
    between two of its messages, 0: not known. messages: from it, so far."""
    least_s = _FIRST_S if report_s <= 0 and messages < _FIRST_MESSAGES else LEAST_S
    wanted_s = _MISSED * report_s + _SLACK_S if report_s > 0 else _USUAL * usual_s
    return min(max(least_s, wanted_s), MOST_S)


def due_s(report_s: float) -> float:
    """When the next report should have come, counted from now."""
    return max(report_s, 0.0) + _SLACK_S
