# cpython-only: arithmetic of a desktop program
"""What a fleet costs in a year, computed: of figures that grow as they are said to, exactly."""

import itertools
import math

import pytest

from optional_packages import needed

with needed("the pipeline's packages"):
    import fleet_year

SIZES = list(itertools.product((100, 200, 400), (500, 1500, 4500)))


def points(grow):
    """grow(boards, wakes): of every figure."""
    return [
        {"boards": boards, "wakes": wakes} | dict.fromkeys(fleet_year.TERMS, grow(boards, wakes))
        for boards, wakes in SIZES
    ]


@pytest.mark.parametrize(
    ("grow", "expected"),
    [
        (lambda boards, wakes: 7 + 3 * boards, 7 + 3 * 10_000),
        (lambda boards, wakes: 5 * boards + 2 * boards * wakes, 5e4 + 2 * 10_000 * 35_040),
        (lambda boards, wakes: 11 + wakes / 96, 11 + 365),
    ],
)
def test_what_grows_as_the_terms_do_is_computed_exactly(grow, expected):
    name = "bytes of `readings`"
    found = fleet_year.fitted(points(grow), name)
    assert fleet_year.value(found, 10_000, 35_040) == pytest.approx(expected)
    assert fleet_year.worst(points(grow), name) < 1e-6
    assert abs(fleet_year.check(points(grow), name)) < 1e-6


def test_nothing_becomes_less_with_more():
    """As a fit of noise would have it, far beyond what was measured."""
    falling = points(lambda boards, wakes: 1000 - boards)
    found = fleet_year.fitted(falling, "CPU s a round")
    assert (found >= 0).all() and fleet_year.value(found, 10_000, 35_040) > 0
    assert fleet_year.worst(falling, "CPU s a round") > 0.1


def test_what_a_round_costs_grows_with_the_doublings_of_what_is_there():
    found = fleet_year.fitted(
        points(lambda boards, wakes: 9 + boards * math.log2(wakes)), "bytes written a round"
    )
    expected = 9 + 10_000 * math.log2(35_040)
    assert fleet_year.value(found, 10_000, 35_040) == pytest.approx(expected)


def test_a_round_does_not_cost_more_requests_for_more_boards():
    found = fleet_year.fitted(points(lambda boards, wakes: 130), "PUT a round")
    assert fleet_year.value(found, 10_000, 35_040) == pytest.approx(130)


def test_the_table_says_what_was_measured_and_what_follows():
    lines = fleet_year.table(points(lambda boards, wakes: boards * wakes)).splitlines()
    assert "400 boards, 4,500 wakes: measured" in lines[0] and "10,000 boards" in lines[0]
    (written,) = (line for line in lines if line.startswith("| bytes written a message"))
    assert written.split(" | ")[1] == "4,500"
    assert lines[-1].startswith("| bytes of all tables | 18 MB | 3.5 GB")
