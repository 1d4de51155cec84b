# cpython-only: Delta tables on a real S3 server, and a proxy before it that fails
"""Delta tables in a bucket: commits of several writers are never lost, and a writer whose commit is
not there is told."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError

from outpost_tools.store import at

ROUNDS = 20
SCHEMA = pa.schema([("writer", pa.int64()), ("round", pa.int64())])


@pytest.fixture
def table(faulty_store, bucket_url):
    """A table with no rows, its requests through the proxy."""
    store = at.at(bucket_url) / "tables" / "silver"
    DeltaTable.create(store.uri, SCHEMA, storage_options=store.options)
    return store


def append(store, writer, number):
    """Whether it was told that the row is there."""
    row = pa.table({"writer": [writer], "round": [number]}, schema=SCHEMA)
    try:
        write_deltalake(store.uri, row, mode="append", storage_options=store.options)
    except Exception:  # of several kinds; none of them means success
        return False
    return True


def rows(store):
    found = DeltaTable(store.uri, storage_options=store.options).to_pyarrow_table()
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
    assert DeltaTable(table.uri, storage_options=table.options).version() == 2 * ROUNDS


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
    """Its second try finds that version taken and commits the same files as the next one."""
    faulty_store.cut_after(kinds={"PUT"}, times=1, part="_delta_log/00000000000000000001")
    assert append(table, 7, 1)
    assert rows(table) == [(7, 1)]


def test_with_an_app_transaction_its_writer_is_told_of_a_rival(table, faulty_store):
    """Itself. So a writer whose commit is refused reads the table before it decides anything."""
    faulty_store.cut_after(kinds={"PUT"}, times=1, part="_delta_log/00000000000000000001")
    row = pa.table({"writer": [7], "round": [1]}, schema=SCHEMA)
    mine = CommitProperties(app_transactions=[Transaction("rounds", 5)])
    with pytest.raises(CommitFailedError, match="Concurrent transaction"):
        write_deltalake(table.uri, row, mode="append", storage_options=table.options,
                        commit_properties=mine)  # fmt: skip
    found = DeltaTable(table.uri, storage_options=table.options)
    assert found.transaction_version("rounds") == 5 and rows(table) == [(7, 1)]


def test_a_server_without_conditions_loses_commits(table, faulty_store):
    """What the probe at start is for."""
    faulty_store.ignores_conditions = True
    told = race(table)
    assert len(rows(table)) < len(told)
