# cpython-only: arithmetic of a desktop program
"""What a bucket costs in a month: checked by hand on figures that are easy to follow."""

import pytest

import store_costs
from store_costs import MONTH_S, Fleet, Prices


def test_a_busy_fleet_stores_a_file_each_period():
    assert store_costs.new_files(Fleet(10_000, 10), 1, 260, 16 << 20) == pytest.approx(1)
    assert store_costs.new_files(Fleet(10_000, 10), 10, 260, 16 << 20) == pytest.approx(0.1)


def test_a_quiet_one_stores_a_file_for_nearly_each_message():
    assert store_costs.new_files(Fleet(1, 1000), 1, 260, 16 << 20) == pytest.approx(0.001, rel=1e-3)


def test_a_large_one_has_several_collectors_and_fills_files_sooner():
    assert store_costs.new_files(Fleet(1_000_000, 10), 1, 100, 16 << 20) == pytest.approx(3)
    assert store_costs.new_files(Fleet(1_000_000, 10), 10, 1000, 10**6) == pytest.approx(100)


def test_prices_are_for_a_thousand_requests_and_deletes_are_free():
    asked = {"PUT": 1000, "LIST": 1000, "POST": 1000, "GET": 1000, "HEAD": 1000, "DELETE": 10**9}
    assert Prices().of(asked) == pytest.approx(3 * 0.005 + 2 * 0.0004)


def test_requests_of_rounds_have_a_fixed_part_and_one_for_each_file():
    measured = {"round": {"PUT": 10, "LIST": 1}, "file": {"GET": 2}}
    assert store_costs.round_requests(measured, 0.5, 300) == {
        "PUT": 10 * MONTH_S / 300, "LIST": MONTH_S / 300, "GET": MONTH_S
    }  # fmt: skip
    assert store_costs.round_requests({}, 0.5, 300) is None


def test_without_measured_requests_the_table_says_so(tmp_path):
    args = store_costs.arguments(["--boards", "100", "--measured", str(tmp_path / "nothing")])
    lines = store_costs.table(store_costs.rows(args, {})).splitlines()
    assert len(lines) == 2 + 8 and all(line.count("not measured") == 4 for line in lines[2:])
