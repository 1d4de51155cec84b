# cpython-only: Delta tables on a real S3 server, and a proxy before it that fails
"""Delta tables in a bucket: commits of several writers are never lost, and a writer whose commit is
not there is told."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from outpost_tools.readings.pipeline import delta, delta_log
from outpost_tools.store import at

ROUNDS = 20
SCHEMA = pa.schema([("writer", pa.int64()), ("round", pa.int64())])


@pytest.fixture
def table(faulty_store, bucket_url):
    """A table with no rows, its requests through the proxy."""
    store = at.at(bucket_url) / "tables" / "silver"
    delta.create(store, SCHEMA, None, checkpointInterval="10")
    return store


def append(store, writer, number):
    """Whether it was told that the row is there."""
    row = pa.table({"writer": [writer], "round": [number]}, schema=SCHEMA)
    try:
        delta.commit(store, [delta.write(store, row)], delta.Batch("rounds", number))
    except Exception:  # of several kinds; none of them means success
        return False
    return True


def rows(store):
    """As the library reads them."""
    found = delta_log.of_library(store).to_pyarrow_table()
    return sorted(zip(found["writer"].to_pylist(), found["round"].to_pylist(), strict=True))


def race(store, disturb=lambda number: None):
    """Two writers, started together in each round. Returns the rows they were told are there."""
    told = []
    with ThreadPoolExecutor(2) as pool:
        for number in range(ROUNDS):
            disturb(number)
            start = threading.Barrier(2)

            def one(writer, number=number, start=start):
                start.wait()
                return (writer, number) if append(store, writer, number) else None

            told += filter(None, pool.map(one, range(2)))
    return sorted(told)


def test_of_two_writers_no_commit_is_lost(table, faulty_store):
    told = race(table)
    assert rows(table) == told and len(told) == 2 * ROUNDS
    assert delta_log.of_library(table).version() == 2 * ROUNDS


def test_nor_while_the_service_is_busy_or_loses_requests(table, faulty_store):
    def disturb(number):
        faulty_store.clear()
        which = {"kinds": {"PUT"}, "times": 2, "part": "_delta_log" if number % 2 else ""}
        if number % 4 < 2:
            faulty_store.refuse("SlowDown", **which)
        else:
            faulty_store.cut_before(**which)

    told = race(table, disturb)
    assert rows(table) == told and len(told) >= ROUNDS


def test_a_commit_whose_answer_was_lost_is_made_once(table, faulty_store):
    """Its second try finds that version taken, by what it has sent: so it is not told of a rival
    that it is itself."""
    opened = delta.open_table(table)
    faulty_store.cut_after(kinds={"PUT"}, times=1, part="_delta_log/00000000000000000001")
    row = pa.table({"writer": [7], "round": [1]}, schema=SCHEMA)
    found = delta.commit(table, [delta.write(table, row)], delta.Batch("rounds", 5), of=opened)
    assert found.version() == 1 and rows(table) == [(7, 1)]
    assert delta.reached(delta.open_table(table), "rounds") == 5


def test_a_server_without_conditions_loses_commits(table, faulty_store):
    """What the probe at start is for."""
    faulty_store.ignores_conditions = True
    told = race(table)
    assert len(rows(table)) < len(told)
