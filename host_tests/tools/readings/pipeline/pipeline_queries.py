"""The page with ten questions: its SQL runs over the tables of test_pipeline.py, in DuckDB, and
answers rightly where the answer is known another way."""

import re
from collections import Counter

import duckdb
import pytest

from engines import EXTENSION
from outpost_tools.readings.pipeline import tables
from paths import REPOSITORY

PAGE = REPOSITORY / "tools/outpost_tools/readings/pipeline/QUERIES.md"


@pytest.fixture(scope="session")
def answers(done):
    """Of each question, by its number: rows as dicts."""
    _, tables_dir = done
    views, *questions = re.findall(r"```sql\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    views = views.replace("LOAD delta;", f"LOAD '{EXTENSION}';")
    found = {}
    with duckdb.connect(config={"allow_unsigned_extensions": "true"}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(views.replace("'tables/", f"'{tables_dir}/"))
        for number, question in enumerate(questions, start=1):
            found[number] = connection.execute(question).to_arrow_table().to_pylist()
    return found


def rows(done, name) -> list[dict]:
    return tables.read_table(done[1], name).to_pylist()


def test_each_question_has_an_answer(answers):
    assert list(answers) == list(range(1, 11))
    empty = {number for number, found in answers.items() if not found}
    assert empty <= {4, 7}, "no board is silent or ill there"


def test_the_newest_values_and_the_readings_of_a_day(done, answers):
    timed = [row for row in rows(done, "readings") if row["time"]]
    readings = sorted(timed, key=lambda row: row["time"])
    newest = {(row["device"], row["name"]): row["value"] for row in readings}
    assert {(row["device"], row["name"]): row["value"] for row in answers[1]} == newest
    of_day = [
        (row["time"], row["name"], row["value"])
        for row in readings
        if str(row["time"].date()) == "2025-11-21" and row["device"] == "board-1"
    ]
    found = [(row["time"], row["name"], row["value"]) for row in answers[2]]
    assert sorted(found) == sorted(of_day) and found


def test_sums_over_hours_days_and_gaps(done, answers):
    readings = rows(done, "readings")
    sent = Counter((row["time"] and row["time"].date(), row["device"]) for row in readings)
    assert {(row["day"], row["device"]): row["readings"] for row in answers[10]} == sent
    values: dict[tuple, list[float]] = {}
    for row in (row for row in readings if row["time"]):
        hour = row["time"].replace(minute=0, second=0, microsecond=0)
        values.setdefault((row["device"], row["name"], hour), []).append(row["value"])
    for row in answers[3]:
        of_hour = values[row["device"], row["name"], row["hour"]]
        assert (row["lowest"], row["highest"]) == (min(of_hour), max(of_hour))
        assert row["mean"] == pytest.approx(sum(of_hour) / len(of_hour))
    missing = sum(row["count"] for row in rows(done, "gaps"))
    assert sum(row["messages"] for row in answers[5]) == missing
    assert sum(row["frames"] for row in answers[8]) == len(rows(done, "quarantine"))
    without_time = sum(row["time"] is None for row in readings)
    assert sum(row["readings"] for row in answers[9]) == without_time > 0
