# cpython-only: the tables' names beside the firmware's
"""The tables know each counter of health that the firmware tells, and no other."""

from outpost_tools.readings.pipeline import health
from station.health import COUNTERS


def test_the_tables_know_what_the_board_tells():
    assert sorted(name.decode() for name in COUNTERS) == sorted(health.NAMES)


def test_those_that_are_told_though_0_are_states():
    assert tuple(name.decode() for name in COUNTERS[:4]) == health.STATES
