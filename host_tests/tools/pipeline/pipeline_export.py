"""`outpost export` beside silver that Spark made of the same log; run by test_pipeline.py in its
session."""

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
import pytest

import series_writer
from ground_truth import SEED, START_MS, Board, Log
from outpost_tools import cli
from outpost_tools.pipeline import job, quarantine, schemas, tables
from pipeline_features import message

# Of a message that came again in a later batch silver has the copy of the earlier batch.
OF_A_COPY = {"received", "held", "collector", "segment", "offset"}
ORDER = [(name, "ascending") for name in ("device", "stream", "seq", "record")]


def exported(log, folder) -> tuple[int, pa.Table]:
    out = folder / "exported.parquet"
    line = ["export", "--log", str(log), "--out", str(out), "--columns", "all"]
    return cli.main(line), pyarrow.parquet.read_table(out)


def assert_equal(found: pa.Table, tables_dir, *, without=frozenset()) -> None:
    """Row for row, to the bit."""
    names = [name for name in schemas.READING.names if name not in without]
    silver = tables.read_table(tables_dir, "readings", names).sort_by(ORDER)
    found = found.select(names).sort_by(ORDER)
    assert found.num_rows == silver.num_rows
    for name in names:
        assert found[name].equals(silver[name].cast(found[name].type)), name


def test_the_export_is_silver_of_many_batches_row_for_row(done, tmp_path, capsys):
    log, tables_dir = done
    status, rows = exported(log.directory, tmp_path)
    assert status == 0
    assert_equal(rows, tables_dir, without=OF_A_COPY)
    assert f"{len(log.refused)} frames are no messages" in capsys.readouterr().err


def test_the_export_places_readings_by_their_boots_clock_as_silver_does(clockless, tmp_path):
    log, tables_dir, _ = clockless
    status, rows = exported(log, tmp_path)
    assert status == 0 and pc.count(rows["placed"]).as_py() == 3
    assert_equal(rows, tables_dir)


def test_series_are_readings_as_well(spark, tmp_path):
    """Beside a single message; one without a clock, which a later one dates, and one twice."""
    log = Log(tmp_path / "log", SEED)
    rows = series_writer.climate(60)
    late, dating = {"clock_set": False, "start_ms": 5000}, {"uptime_ms": 700_000}
    for seq, (samples, header) in enumerate([(rows, {}), (rows, late), (rows[:3], dating)]):
        data = series_writer.payload(samples, seq=seq, held=0, boot=1, **header)
        log._waiting += [("board-1", data, False)] * (1 + seq % 2)
    single = message(3, 1, bt=START_MS / 1000, device="board-1", stream="3fa9c1d2")
    log._waiting.append(("board-1", single, False))
    log.seal(["collector-1"], per_segment=3)
    tables_dir = tmp_path / "tables"
    assert job.run(spark, log.directory, tables_dir) == 1
    status, found = exported(log.directory, tmp_path)
    assert status == 0
    assert_equal(found, tables_dir)
    assert found.num_rows == 60 * 3 * 2 + 3 * 3 + 1 and found["time"].null_count == 0
    assert tables.read_table(tables_dir, "gaps").num_rows == 0
    (device,) = tables.read_table(tables_dir, "devices").to_pylist()
    assert (device["messages"], device["readings"]) == (4, found.num_rows)


def hostile_log(folder, messages: int) -> Log:
    """Three collectors, 20 boards with late clocks and without, repeats, conflicts."""
    log = Log(folder / "log", SEED)
    boards = [
        Board(f"board-{n}", f"{n:08x}", clock_ms=START_MS + n if n % 4 else None) for n in range(20)
    ]
    for count in range(messages):
        log.message(boards[count % 20], count // 20)
    for n in range(0, messages // 20, 9):  # boots whose clock is set late: each third says it
        times = {"bt": START_MS / 1000 + n} if n % 27 == 0 else {}
        log._waiting.append(("late", message(n, n // 100, up=n, device="late", **times), False))
    log.repeat_some(0.1)
    for n in range(0, messages // 20, 50):
        said = message(n, 1, bt=START_MS / 1000, device="board-7", stream="00000007")
        log._waiting.append(("board-7", said, False))
    log.refuse("board-1", b"{", "not JSON")
    log.disorder(messages // 50)
    log.seal([f"collector-{n}" for n in range(3)], per_segment=messages // 10)
    return log


@pytest.mark.long
def test_the_export_of_100000_messages_is_silver_in_every_column(spark, tmp_path, capsys):
    messages = 100_000
    log = hostile_log(tmp_path, messages)
    tables_dir = tmp_path / "tables"
    assert job.run(spark, log.directory, tables_dir) == 1
    capsys.readouterr()
    status, rows = exported(log.directory, tmp_path)
    assert_equal(rows, tables_dir)
    conflicts = quarantine.conflicts(tables_dir)
    assert status == 1 and conflicts == messages // 20 // 50
    said = capsys.readouterr().err
    assert f"{conflicts} messages have the number of another" in said
    assert "1 frames are no messages" in said
