# cpython-only: Spark and Arrow
"""The pipeline against a ground truth, in one real Spark session (started once: it takes 10 to 30
s).
"""

from collections import Counter
from pathlib import Path

import pytest

from ground_truth import SEED, START_MS, WEEK_MS, Board, Log, assert_exact, payload
from message_samples import CBOR
from optional_packages import needed
from outpost_tools.errors import ToolError
from outpost_tools.machine import java

with needed("PySpark and Java", ToolError):
    import patient_job
    from outpost_tools.readings.pipeline import delta, session, tables
    from outpost_tools.readings.pipeline.spark import Spark

    java.environment()

# more tests, here because they share the one session
from pipeline_commits import *  # noqa: F403
from pipeline_export import assert_equal, exported
from pipeline_foreign import *  # noqa: F403
from pipeline_queries import *  # noqa: F403
from pipeline_retries import *  # noqa: F403

# the first test pays for the start of Spark, on a busy machine minutes
pytestmark = pytest.mark.timeout(900)
BOARDS = [
    Board("board-1", "00000001"),
    # the same board, outbox formatted again
    Board("board-1", "000000f1", clock_ms=START_MS + 3_600_000, boot=9),
    Board("board-2", "00000002", clock_ms=START_MS - WEEK_MS),
    Board("board-3", "00000003", clock_ms=None),
]
NEVER_SENT = {5, 6, 7, 117}
LATE = {30, 31, 77}  # first seen in the second run
# Of a message that came again in a later batch silver has the copy of the earlier batch.
OF_A_COPY = {"received", "held", "collector", "segment", "offset"}
FIRST_DAY_GAPS = {(5, "closed"), (30, "closed"), (77, "closed"), (117, "open")}
GOOD = payload("board-1", "00000001", 3, time_ms=START_MS)
HOSTILE = [
    (b'[{"bn":"board-1/","sid"', "not JSON"),
    (b"\xff\xfe" + GOOD, "not UTF-8 at byte 0"),
    (b"", "empty"),
    (GOOD + b" " * (16 * 1024), f"oversize: {len(GOOD) + 16 * 1024} bytes, limit 16384"),
    (b"x" * 70_000, "oversize: 70000 bytes, limit 16384"),
    (GOOD.replace(b'"ver":1', b'"ver":2'), "unknown version 2"),
    (GOOD.replace(b'"v":0.75', b'"v":' + b"9" * 400), "bad label v"),
    (GOOD.replace(b'"bt":1763694000.0', b'"bt":1e300'), "label bt out of range"),
    (GOOD.replace(b'"bt":1763694000.0', b'"up":1e300'), "label up out of range"),
    (b"[" * 100_000, "oversize: 100000 bytes, limit 16384"),
    (b"[" * 16_000, "not JSON"),
    (b'[{"a":' * 2_000, "not JSON"),
    (GOOD.replace(b'"v":0.75', b'"v":NaN'), "not JSON"),
    (GOOD.replace(b'"v":0.75', b'"v":-Infinity'), "not JSON"),
    (GOOD.replace(b'"seq":3', b'"seq":' + b"9" * 30), "bad label seq"),
    (GOOD.replace(b'"n":"load"', b'"n":"\\ud800"'), "record 0: bad label n"),
    (GOOD.replace(b"board-1/", b"../../../etc/passwd/"), "bad label bn"),
    (GOOD.replace(b"board-1/", b"board-1/../x/"), "bad label bn"),
    (GOOD.replace(b"00000001", b"../../../x"), "bad label sid"),
    (GOOD.replace(b"board-1/", b"day=2000-01-01/"), "bad label bn"),
    *((content, reason) for content, reason in CBOR if reason is not None),
]
INJECTED = [
    "../../../../tmp/outpost-escaped",
    "board-1/data/../..",
    "a=b/day=2000-01-01",
    "\x00",
    "%2e%2e%2f",
    "board-1\n",
]


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    started = session.start("local[2]", tmp_path_factory.mktemp("spark") / "spark.log")
    yield Spark(started)
    started.stop()


def first_day(log: Log) -> None:
    """Messages 0..119 but for those never sent or late, 5 % twice, disordered, hostile ones
    between, two collectors.
    """
    for seq in range(120):
        for board in BOARDS:
            if seq not in NEVER_SENT | LATE:
                log.message(board, seq, held=max(0, seq - 20))
    for content, reason in HOSTILE:
        log.refuse("board-1", content, reason)
    log.refuse("board-1", GOOD, "retained", retain=True)
    log.repeat_some(0.05)
    for device in ("board-7", *INJECTED):
        log.refuse(device, GOOD, "device 'board-1' does not match the topic")
    log.disorder(25)
    log.seal(["collector-1", "collector-2"], per_segment=60)


def second_day(log: Log) -> None:
    """New messages, the late ones, a replay of the whole outbox of one board, a collector that is
    new.
    """
    for seq in range(120, 200):
        for board in BOARDS:
            log.message(board, seq, held=100)
    for seq in LATE:
        for board in BOARDS:
            log.message(board, seq)
    for seq in sorted(set(range(120)) - NEVER_SENT - LATE):
        log.message(BOARDS[2], seq)
    log.disorder(40)
    log.seal(["collector-1", "collector-3"], per_segment=150)


@pytest.fixture(scope="session")
def done(spark, tmp_path_factory):
    """(log, tables) after two runs, the first of them in several batches; the first day's tables
    were checked.
    """
    folder = tmp_path_factory.mktemp("pipeline")
    log, tables_dir = Log(folder / "log", SEED), folder / "tables"
    first_day(log)
    assert patient_job.run(spark, log.directory, tables_dir, batch_bytes=60_000) > 1
    assert_exact(log, tables_dir)
    assert {(row["first"], row["state"]) for row in table(tables_dir, "gaps")} == FIRST_DAY_GAPS
    second_day(log)
    assert patient_job.run(spark, log.directory, tables_dir) == 1
    return log, tables_dir


def table(tables_dir: Path, name: str) -> list[dict]:
    return tables.read_table(tables_dir, name).to_pylist()


def test_silver_is_the_ground_truth_row_for_row(done):
    assert_exact(*done)


def test_the_kept_copy_is_the_one_received_first(done):
    _, tables_dir = done
    firsts = {}
    for row in table(tables_dir, "readings"):
        firsts.setdefault((row["device"], row["stream"], row["seq"]), set()).add(
            (row["received"], row["collector"], row["segment"], row["offset"])
        )
    assert all(len(origins) == 1 for origins in firsts.values())
    replayed = [
        row
        for row in table(tables_dir, "readings")
        if row["device"] == "board-2" and row["seq"] == 0
    ]
    assert {row["collector"] for row in replayed} <= {"collector-1", "collector-2"}


def test_every_frame_that_is_no_message_is_in_quarantine_with_its_reason(done):
    log, tables_dir = done
    assert Counter(
        (row["reason"], row["payload"]) for row in table(tables_dir, "quarantine")
    ) == Counter(log.refused)


def test_nothing_is_written_outside_the_folders(done):
    log, tables_dir = done
    assert {path.name for path in log.directory.parent.iterdir()} == {"log", "tables"}
    assert {path.name for path in log.directory.iterdir()} == {
        "collector-1",
        "collector-2",
        "collector-3",
        ".readers",
    }
    names = {path.name for path in (tables_dir / "readings").rglob("day=*")}
    assert names == {"day=2025-11-21", "day=2025-11-14", f"day={delta.NO_VALUE}"}
    assert not Path("/tmp/outpost-escaped").exists()


def test_redelivered_counts_every_further_copy(done):
    log, tables_dir = done
    rows = table(tables_dir, "devices")
    assert sum(row["received"] for row in rows) == log.copies
    assert sum(row["messages"] for row in rows) == len(log.rows) // 2
    assert sum(row["redelivered"] for row in rows) == log.copies - len(log.rows) // 2


def test_gaps_below_held_are_closed(done):
    _, tables_dir = done
    expected = {
        (b.device, b.stream, first, last, "closed") for b in BOARDS for first, last in ((5, 7),)
    }
    expected |= {(b.device, b.stream, 117, 117, "open") for b in BOARDS}
    columns = ("device", "stream", "first", "last", "state")
    assert {tuple(row[name] for name in columns) for row in table(tables_dir, "gaps")} == expected


def test_a_reading_is_stored_under_its_own_day_and_one_without_a_time_apart(done):
    days = {row["device"]: str(row["day"]) for row in table(done[1], "readings")}
    assert days == {"board-1": "2025-11-21", "board-2": "2025-11-14", "board-3": "None"}
    files = delta.files_of(delta.open_table(done[1] / "readings"))
    assert {one["partition"] for one in files} == {"2025-11-21", "2025-11-14", None}


def test_windows_equal_a_plain_recomputation(done):
    log, tables_dir = done
    values = {}
    timed = sorted(
        (row for row in log.rows if row[8] is not None), key=lambda row: (row[8], row[1], row[2])
    )
    for device, _, _, _, _, name, _, value, time_ms, _ in timed:
        values.setdefault((device, name, time_ms // 10_000 * 10), []).append(value)
    found = {
        (r["device"], r["name"], round(r["start"].timestamp())): r
        for r in table(tables_dir, "windows")
    }
    assert found.keys() == values.keys()
    for key, numbers in values.items():
        row = found[key]
        expected = (len(numbers), min(numbers), max(numbers), numbers[-1])
        assert (row["count"], row["min"], row["max"], row["last"]) == expected, key
        assert row["mean"] == pytest.approx(sum(numbers) / len(numbers))


def test_health_and_latency(done):
    _, tables_dir = done
    health = {row["device"]: row for row in table(tables_dir, "devices")}
    assert (
        health["board-1"]["streams"],
        health["board-1"]["boots"],
        health["board-1"]["missing_closed"],
    ) == (2, 2, 6)
    assert health["board-3"]["readings_without_time"] == health["board-3"]["readings"]
    assert health["board-2"]["backlog_max"] == 99
    delays = {row["device"]: row for row in table(tables_dir, "latency")}
    assert set(delays) == {"board-1", "board-2"}  # board-3 has no clock
    assert delays["board-2"]["p50_ms"] > WEEK_MS
    assert delays["board-2"]["count"] == 196


def test_a_run_without_new_segments_changes_nothing(spark, done):
    log, tables_dir = done
    before = {path: path.stat().st_mtime_ns for path in tables_dir.rglob("part-*")}
    assert patient_job.run(spark, log.directory, tables_dir) == 0
    assert {path: path.stat().st_mtime_ns for path in tables_dir.rglob("part-*")} == before


@pytest.mark.long
def test_the_export_is_silver_of_many_batches_row_for_row(done, tmp_path, capsys):
    log, tables_dir = done
    status, rows = exported(log.directory, tmp_path)
    assert status == 0
    assert_equal(rows, tables_dir, without=OF_A_COPY)
    assert f"{len(log.refused)} frames are not valid messages" in capsys.readouterr().err


def test_files_that_no_commit_names_do_not_count(done):
    _, tables_dir = done
    torn = tables_dir / "readings" / "day=2025-11-21" / "part-torn.zstd.parquet"
    torn.write_bytes(b"")
    try:
        assert_exact(*done)
    finally:
        torn.unlink()


@pytest.mark.long
def test_a_log_of_nothing_but_refused_frames_gives_empty_tables(spark, tmp_path):
    log = Log(tmp_path / "log", SEED)
    log.refuse("board-1", b"", "empty")
    log.seal(["collector-1"], per_segment=10)
    assert patient_job.run(spark, log.directory, tmp_path / "tables") == 1
    assert [row["reason"] for row in table(tmp_path / "tables", "quarantine")] == ["empty"]
    assert all(
        table(tmp_path / "tables", name) == []
        for name in ("readings", "streams", "devices", "gaps", "windows")
    )
