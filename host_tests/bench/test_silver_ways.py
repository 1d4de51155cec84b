# cpython-only: Arrow, /proc
"""The basis of silver_ways.py: a wrong table is reported, and memory and CPU of a whole tree of
processes are seen.
"""

import json
import sys
from pathlib import Path

import pytest

from optional_packages import needed

with needed("the pipeline's packages"):
    import duckdb  # noqa: F401 - the way that makes the table
    import psutil
    import pyarrow as pa
    import pyarrow.dataset
    import pyarrow.parquet

    import delta_ways
    import process_tree
    import silver_truth
    import silver_ways
    from outpost_tools.readings.pipeline import decode, packed

NO_LIMITS = {"limit_s": 120, "memory_limit": 1 << 40}


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Returns (folder with segments and JSON lines, truth, the output of DuckDB)."""
    folder = tmp_path_factory.mktemp("silver")
    source, target = folder / "messages", folder / "duckdb"
    truth = silver_ways.load(source, 9000)
    target.mkdir()
    delta_ways.duckdb_delta(source, target, delta_ways.Phases())
    files = [str(path) for path in delta_ways.result_files("duckdb-delta", target)]
    return source, truth, pa.dataset.dataset(files).to_table()


def verdict(folder: Path, rows: pa.Table, truth) -> str:
    pa.parquet.write_table(rows, folder / "rows.parquet")
    return silver_ways.verdict([folder / "rows.parquet"], truth)


def changed(rows: pa.Table, name: str, values: list) -> pa.Table:
    column = pa.array(values, rows.schema.field(name).type)
    return rows.set_column(rows.schema.get_field_index(name), rows.schema.field(name), column)


def test_the_right_rows_are_right_in_any_order(small, tmp_path):
    _, truth, rows = small
    assert 8000 < truth.rows == rows.num_rows < 10_000
    assert verdict(tmp_path, rows, truth) == "ok"
    assert verdict(tmp_path, rows.sort_by("value"), truth) == "ok"


def test_duplicates_are_in_the_messages(small):
    source, truth, _ = small
    rows = [
        batch.num_rows
        for path in source.rglob("*.seg")
        for batch in decode.segment_batches(path.read_bytes(), "c", 0)
    ]
    assert truth.rows * 1.003 < sum(rows) < truth.rows * 1.03
    lines = sum(
        len(json.loads(line)["payload"]) for path in source.rglob("*.json") for line in path.open()
    )
    assert lines == sum(rows)


def test_a_missing_or_doubled_row_is_counted(small, tmp_path):
    _, truth, rows = small
    assert (
        verdict(tmp_path, rows.slice(1), truth)
        == f"wrong: {truth.rows - 1:,} rows, not {truth.rows:,}"
    )
    assert verdict(tmp_path, pa.concat_tables([rows, rows.slice(5, 1)]), truth).startswith(
        "wrong: "
    )
    assert verdict(tmp_path, rows.slice(0, 0), truth).startswith("wrong: 0 rows")


def test_one_row_in_the_place_of_another_shows(small, tmp_path):
    _, truth, rows = small
    twice = pa.concat_tables([rows.slice(1), rows.slice(9, 1)])
    assert verdict(tmp_path, twice, truth) == "wrong: right number of rows, wrong content"


@pytest.mark.parametrize("name", silver_truth.COLUMNS)
def test_one_wrong_value_in_any_column_shows(small, tmp_path, name):
    _, truth, rows = small
    values = rows[name].to_pylist()
    other = next(value for value in values if value != values[0])
    assert "wrong content" in verdict(tmp_path, changed(rows, name, [other, *values[1:]]), truth)


def test_readings_packed_for_spark_come_back_the_same(small):
    source, _, _ = small
    batches = [
        b
        for path in (source / "log").glob("*/*.seg")
        for b in decode.segment_batches(path.read_bytes(), "c", 0)
    ]
    rows = pa.Table.from_batches(list(packed.pack(iter(batches), 4)))
    readings, refused = packed.unpack(rows)
    assert refused.num_rows == 0
    key = [(name, "ascending") for name in ("offset", "record")]
    assert readings.sort_by(key) == pa.Table.from_batches(batches).select(
        readings.schema.names
    ).sort_by(key)
    for bucket in range(4):
        part, _ = packed.unpack(rows.filter(pa.compute.equal(rows["bucket"], bucket)))
        names = set(part["stream"].to_pylist())
        others, _ = packed.unpack(rows.filter(pa.compute.not_equal(rows["bucket"], bucket)))
        assert names and names.isdisjoint(others["stream"].to_pylist())


GRANDCHILD = "x = bytearray(b'x') * (96 << 20); import time; time.sleep(1.5)"
ORPHANS = f"""
import os, subprocess, sys, time
subprocess.Popen([sys.executable, "-c", {GRANDCHILD!r}], process_group=0)
end = time.process_time() + 0.5
while time.process_time() < end: pass
print("done")
time.sleep(float(sys.argv[1]))
"""


def test_memory_and_cpu_of_the_whole_tree_are_seen(tmp_path):
    outcome = process_tree.run([sys.executable, "-c", ORPHANS, "2"], tmp_path / "log", **NO_LIMITS)
    assert (outcome.status, outcome.output) == ("ok", "done\n")
    assert 96 << 20 < outcome.peak_bytes < 400 << 20
    assert 0.4 < outcome.cpu_s < 20
    assert outcome.wall_s > 2


def test_nothing_outlives_a_program_that_left_children_behind(tmp_path):
    line = [
        sys.executable,
        "-c",
        "import subprocess; "
        "print(subprocess.Popen(['sleep', '300'], process_group=0).pid, flush=True)",
    ]
    outcome = process_tree.run(
        ["sh", "-c", f'"$@" > {tmp_path}/pid', "sh", *line], tmp_path / "log", **NO_LIMITS
    )
    assert outcome.status == "ok"
    left = int((tmp_path / "pid").read_text())
    assert not psutil.pid_exists(left) or process_tree.has_ended(psutil.Process(left))


@pytest.mark.parametrize(
    ("limits", "status"),
    [({"limit_s": 1}, "time limit"), ({"memory_limit": 48 << 20}, "memory limit")],
    ids=["time", "memory"],
)
def test_a_limit_ends_the_tree_and_is_the_outcome(tmp_path, limits, status):
    outcome = process_tree.run(
        [sys.executable, "-c", ORPHANS, "60"], tmp_path / "log", **(NO_LIMITS | limits)
    )
    assert outcome.status == status
    assert outcome.wall_s < 50


def test_a_crash_is_an_outcome(small, tmp_path):
    result = silver_ways.run(
        "duckdb-delta", tmp_path / "nothing", tmp_path / "run", small[1], NO_LIMITS
    )
    assert result["status"] == "failed (exit 1)"
    assert "| failed (exit 1) |" in silver_ways.table([result | {"lines": 34}])
