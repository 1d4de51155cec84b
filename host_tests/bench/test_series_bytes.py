# cpython-only: tests a bench
"""The table of series: its arithmetic, its goals, and what it needs to be right."""

import pytest

import goal_cells
import real_series
import series_bytes
import series_cells
import series_writer
from real_series import RealSeries
from series_bytes import Row

CLIMATE = RealSeries(
    "climate", series_writer.CLIMATE, [tuple(values) for _, values in series_writer.climate(1500)]
)


def test_series_need_a_fraction_of_a_message_a_sample():
    full, sixty = (series_bytes.series(CLIMATE, count, 1016) for count in (0, 60))
    full, sixty = full.row(CLIMATE, "full"), sixty.row(CLIMATE, "60")
    single = series_bytes.messages(CLIMATE, False).row(CLIMATE, "JSON")
    assert 4 < full.flash < 6 < sixty.flash < 9 and 240 < single.flash < 260
    assert sixty.air_per_value < 2.5 and single.air_per_value > 130
    assert 0.99 < full.programs < 1.02


def test_missing_values_are_no_values():
    half = RealSeries("half", CLIMATE.columns, [(a, b, None) for a, b, _ in CLIMATE.rows])
    for run in (series_bytes.series(half, 60), series_bytes.messages(half, True)):
        row = run.row(half, "")
        assert row.air_per_value == pytest.approx(row.air / 2)


def test_the_arithmetic_of_time_and_wear():
    row = Row("s", "w", flash=4096 / 1000, air=10, air_per_value=1, erases=0.001)
    assert row.offline_h(64) == 63 * 1000 * 10 / 3600
    assert row.years == pytest.approx(100_000 * 64 / 0.001 / 31_557_600)
    assert row.as_json()["offline_h_256"] == round(255 * 1000 * 10 / 3600, 2)


def rows(**worse):
    good = {"flash": 5.9, "air_per_value": 2.4, "erases": 0.0014} | worse
    names = ("JFK", "LGA", "made", "this machine: load")
    return [
        {"series": name, "way": way} | (good if name != "made" else {"flash": 99})
        for name in names[:3]
        for way in ("series, 60 samples a message", "series, full records of 2,032 B")
    ]


@pytest.mark.parametrize(
    ("worse", "state"),
    [({}, goal_cells.YES), ({"flash": 6.1}, goal_cells.NO),
     ({"air_per_value": 2.6}, goal_cells.NO), ({"erases": 0.0016}, goal_cells.NO)],
)  # fmt: skip
def test_the_goals_are_those_of_the_real_series(worse, state):
    cell = series_cells.bytes_a_sample({"series": rows(**worse)})
    assert cell.state == state and len(cell.profile) == 2


def test_without_the_section_the_row_says_so():
    with pytest.raises(goal_cells.Missing, match="section series"):
        series_cells.bytes_a_sample({})


def test_the_entropy_is_that_of_the_changes():
    assert real_series.entropy([5, 6, 7, 8]) == 0
    assert real_series.entropy([0, 1, 0, 1, 0]) == pytest.approx(1)
    assert real_series.entropy([0, 1, 3, 6, 10]) == pytest.approx(2)


def test_the_end_of_a_series_does_not_count_against_its_full_records():
    """The unused room of the last record: a quarter of everything here."""
    one = RealSeries("climate", CLIMATE.columns, CLIMATE.rows[:1000])
    run = series_bytes.series(one, 0, 2032)
    samples, end = run.whole
    assert samples < 1000 and end < run.used()
    assert run.row(one, "").flash == (end - run.start) / samples < (run.used() - run.start) / 1000


def test_this_machine_is_recorded_as_it_is():
    found = real_series.recorded(2)
    assert len(found.rows) == 2 and all(value is not None for row in found.rows for value in row)
    assert found.rows[0][1] > 1000  # KiB
