"""Tests of the pipeline's features, run by test_pipeline_features.py."""

import datetime
import json
from collections import Counter

import pytest

import patient_job
from ground_truth import START_MS
from outpost_tools.errors import ToolError
from outpost_tools.log import segments
from outpost_tools.readings.pipeline import (
    consumed,
    delta,
    health,
    quarantine,
    status,
    tables,
    upkeep,
)
from plain_windows import recomputed_windows, windows_of

DAY_MS = 86_400_000


def message(
    seq,
    boot,
    *,
    up=None,
    bt=None,
    device="board-5",
    stream="00000005",
    shift=None,
    version=1,
    name="load",
    value=None,
    records=(),
):
    """Seconds `up` since boot, `bt` since 1970; both may be there. Its value is its number."""
    head = {"bn": f"{device}/", "sid": stream, "seq": seq, "boot": boot, "held": 0, "ver": version}
    head |= {
        label: value for label, value in (("bt", bt), ("up", up), ("t", shift)) if value is not None
    }
    return json.dumps([head | {"n": name, "v": seq if value is None else value}, *records]).encode()


def put(
    log, *contents, device="board-5", collector="collector-1", received_ms=START_MS + 3 * DAY_MS
):
    writer = segments.SegmentWriter(log / collector)
    for content in contents:
        writer.append(
            segments.encode_frame(received_ms, f"outpost/{device}/data".encode(), content)
        )
    return writer.seal()


def times(tables_dir, **arguments) -> dict[int, float | None]:
    rows = tables.read_table(tables_dir, "readings", ["seq", "time"], **arguments).to_pylist()
    return {row["seq"]: row["time"] and row["time"].timestamp() for row in rows}


T0 = START_MS / 1000


@pytest.fixture(scope="session")
def clockless(engine, tmp_path_factory):
    """Boot 7 reports its clock only in the second batch, from two days later; boot 8 never; boot 9
    at once.
    """
    folder = tmp_path_factory.mktemp("clockless")
    log, tables_dir = folder / "log", folder / "tables"
    put(
        log,
        message(0, 7, up=10.5),
        message(1, 7, up=20, shift=-1.5),
        message(10, 8, up=5),
        message(11, 8, up=6),
    )
    assert patient_job.run(engine, log, tables_dir) == 1
    early = times(tables_dir)
    # Boot 9: its untimed reading was stored, and sent only after the reboot to boot 10, after
    # younger messages.
    put(log, message(2, 7, up=172_830, bt=T0 + 172_830), message(3, 7, up=172_840, bt=T0 + 172_841))
    put(
        log,
        message(31, 10, bt=T0 + 300_000),
        message(21, 9, up=3, bt=T0 + 200_003),
        message(20, 9, up=1),
    )
    assert patient_job.run(engine, log, tables_dir) == 1
    return log, tables_dir, early


def test_a_reading_before_the_clock_gets_its_time_when_the_boots_clock_is_known(clockless):
    _, tables_dir, early = clockless
    assert early == dict.fromkeys((0, 1, 10, 11))
    placed = {0: T0 + 10.5, 1: T0 + 18.5, 20: T0 + 200_001}
    known = {2: T0 + 172_830, 3: T0 + 172_841, 21: T0 + 200_003, 31: T0 + 300_000}
    assert times(tables_dir) == placed | known | {10: None, 11: None}


def test_a_days_query_finds_the_readings_that_were_placed_in_it(clockless):
    _, tables_dir, _ = clockless
    first_day = datetime.datetime.fromtimestamp(T0, datetime.UTC).date()
    assert set(times(tables_dir, day=first_day)) == {0, 1}
    assert set(times(tables_dir, day=first_day + datetime.timedelta(days=2))) == {2, 3, 20, 21}


def test_windows_hold_what_was_placed(clockless):
    _, tables_dir, _ = clockless
    assert windows_of(tables_dir) == recomputed_windows(tables_dir)
    assert sum(row["count"] for row in windows_of(tables_dir)) == 7


def test_a_boot_whose_clock_never_became_known_has_bounds(clockless):
    _, tables_dir, _ = clockless
    boots = {row["boot"]: row for row in tables.read_table(tables_dir, "boots").to_pylist()}
    assert (boots[8]["readings"], boots[8]["without_time"], boots[7]["placed"]) == (2, 2, 2)
    assert boots[8]["not_before"].timestamp() == T0 + 172_841
    assert boots[8]["not_after"].timestamp() == T0 + 200_001
    assert boots[7]["not_before"] is None


def contents(tables_dir, *names) -> dict[str, Counter]:
    return {n: Counter(map(str, tables.read_table(tables_dir, n).to_pylist())) for n in names}


def test_compaction_leaves_a_file_a_day_and_the_same_rows(clockless):
    _, tables_dir, _ = clockless
    before, silver = contents(tables_dir, *tables.ALL), tables_dir / "readings"
    on_disk = set(silver.rglob("part-*.parquet"))
    upkeep.compact(tables_dir)
    assert on_disk <= set(silver.rglob("part-*.parquet"))  # whoever reads a version reads on
    upkeep.compact(tables_dir, kept_h=0)
    files = delta.files_of(delta.open_table(silver))
    days = sorted(str(one["partition"]) for one in files)
    assert days == ["2025-11-21", "2025-11-23", "2025-11-24", "None"]
    assert set(silver.rglob("part-*.parquet")) == {silver / delta.name_of(one) for one in files}
    assert contents(tables_dir, *tables.ALL) == before


@pytest.mark.long
def test_gold_over_runs_and_compactions_is_that_of_one_batch(engine, clockless, tmp_path):
    """Late rows of windows that are there, copies, and a message that comes with others."""
    log, tables_dir, _ = clockless
    put(log, message(4, 7, up=172_850, bt=T0 + 172_850), message(2, 7, up=172_830, bt=T0 + 172_830))
    assert patient_job.run(engine, log, tables_dir) == 1
    assert times(tables_dir)[4] == T0 + 172_850
    assert len(times(tables_dir)) == tables.read_table(tables_dir, "readings").num_rows == 10
    assert windows_of(tables_dir) == recomputed_windows(tables_dir)
    assert patient_job.run(engine, log, tmp_path / "tables") == 1
    names = (*tables.GOLD_TABLES, "totals")
    assert contents(tables_dir, *names) == contents(tmp_path / "tables", *names)


@pytest.mark.long
def test_first_times_that_several_batches_of_a_round_bring_are_counted_once(engine, tmp_path):
    log, names = tmp_path / "log", (*tables.GOLD_TABLES, "totals", "readings")
    put(log, *(message(n, boot, up=n) for boot, n in ((1, 0), (1, 1), (2, 10), (2, 11))))
    put(log, message(2, 1, up=2, bt=T0 + 2))
    put(log, message(12, 2, up=12, bt=T0 + 90))
    assert patient_job.run(engine, log, tmp_path / "three", batch_bytes=1) == 3
    assert windows_of(tmp_path / "three") == recomputed_windows(tmp_path / "three")
    (device,) = tables.read_table(tmp_path / "three", "devices").to_pylist()
    assert (device["readings"], device["readings_without_time"]) == (6, 0)
    assert patient_job.run(engine, log, tmp_path / "one") == 1
    assert contents(tmp_path / "three", *names) == contents(tmp_path / "one", *names)


@pytest.mark.long
def test_a_clock_with_a_lower_number_moves_what_was_placed_by_another(engine, tmp_path):
    """Numbers 0 to 4 have no clock; 6 has one, and 5, which comes later, one of another day."""
    log, tables_dir = tmp_path / "log", tmp_path / "tables"
    put(log, *(message(n, 1, up=n) for n in range(5)), message(6, 1, up=6, bt=T0 + 6))
    assert patient_job.run(engine, log, tables_dir) == 1
    assert times(tables_dir) == {n: T0 + n for n in (0, 1, 2, 3, 4, 6)}
    put(log, message(5, 1, up=5, bt=T0 - 86_400 + 5))
    assert patient_job.run(engine, log, tables_dir) == 1
    put(log, message(7, 1, up=7, bt=T0 - 86_400 + 7))
    assert patient_job.run(engine, log, tables_dir) == 1
    expected = {n: T0 - 86_400 + n for n in (0, 1, 2, 3, 4, 5, 7)} | {6: T0 + 6}
    assert times(tables_dir) == expected
    day = datetime.datetime.fromtimestamp(T0, datetime.UTC).date()
    assert set(times(tables_dir, day=day - datetime.timedelta(days=1))) == set(expected) - {6}
    assert windows_of(tables_dir) == recomputed_windows(tables_dir)
    put(log, message(8, 1, up=8))
    assert patient_job.run(engine, log, tables_dir) == 1
    assert times(tables_dir) == expected | {8: None}, "after the clock's own number"


@pytest.fixture(scope="session")
def evolved(engine, tmp_path_factory):
    """Version 2 of the message, a new metric and a changed unit arrive; the second run understands
    version 2.
    """
    folder = tmp_path_factory.mktemp("evolved")
    log, tables_dir = folder / "log", folder / "tables"
    old = [message(n, 1, bt=T0 + n) for n in range(5)]
    new = [message(n, 1, bt=T0 + n, version=2, name="pressure") for n in range(5, 12)]
    cut = message(12, 1, bt=T0, version=2) + b" " * 70_000
    put(log, *old, *new, new[0], b"x", cut)
    assert patient_job.run(engine, log, tables_dir) == 1
    first = quarantine.reasons(tables_dir)
    taken = quarantine.replay(tables_dir, "unknown version 2", versions=(1, 2))
    assert patient_job.run(engine, log, tables_dir, versions=(1, 2)) == 1
    return log, tables_dir, first, taken


@pytest.mark.long
def test_a_version_that_is_unknown_waits_in_quarantine_and_is_replayed_exactly_once(
    engine, evolved
):
    log, tables_dir, first, taken = evolved
    assert (
        first == {"unknown version 2": 8, "not JSON": 1, "oversize: 70105 bytes, limit 16384": 1}
        or first["unknown version 2"] == 8
    )
    assert taken == (8, 0)
    rows = tables.read_table(tables_dir, "readings").to_pylist()
    assert sorted((row["seq"], row["version"], row["name"]) for row in rows) == [
        *((n, 1, "load") for n in range(5)),
        *((n, 2, "pressure") for n in range(5, 12)),
    ]
    # when it came, not when it was replayed
    assert {row["received"].timestamp() for row in rows} == {T0 + 3 * 86_400}
    assert set(quarantine.reasons(tables_dir)) == set(first) - {"unknown version 2"}
    assert quarantine.replay(tables_dir, "unknown version 2", versions=(1, 2)) == (0, 0)
    assert quarantine.replay(tables_dir, "", versions=(1, 2)) == (0, 2)
    assert patient_job.run(engine, log, tables_dir) == 0
    (stream,) = tables.read_table(tables_dir, "streams").to_pylist()
    assert (stream["ranges"], stream["copies"]) == ([0, 11], 13)


@pytest.mark.long
def test_segments_go_when_every_reader_has_committed_them_and_runs_go_on(engine, tmp_path):
    log, first, second = tmp_path / "log", tmp_path / "first", tmp_path / "second"
    for n in range(3):
        put(log, message(n, 1, bt=T0 + n))
    put(log, message(90, 1, bt=T0), collector="collector-2")
    assert patient_job.run(engine, log, first) == 1
    consumed.register(log, second)
    with pytest.raises(ToolError, match="does not exist"):
        consumed.prune(log)
    tables.create(second)
    assert consumed.prune(log) == (0, 0)  # the second reader has read nothing
    consumed.forget(log, second)
    assert status.collect(log, first)["backlog"] == {"segments": 0, "bytes": 0}
    (log / "collector-1" / "state.json").write_text('{"sealed_through": 0}')
    # segment 0; the collector would read 1 again, and 2 is its newest
    assert consumed.prune(log)[0] == 1
    put(log, message(3, 1, bt=T0 + 3))
    state = status.collect(log, first)
    assert (state["backlog"]["segments"], state["collectors"]["collector-1"]["taken_in"]) == (1, 2)
    assert state["tables"]["readings"]["rows"] == 4
    assert "collector-1: taken in through 2" in status.text(state)
    assert patient_job.run(engine, log, first) == 1
    assert set(times(first)) == {0, 1, 2, 3, 90}


def told(seq, boot, day, name, value, device="board-6", stream="00000006"):
    """A message with one of the board's counters of its own health."""
    head = {"bn": f"{device}/", "sid": stream, "seq": seq, "boot": boot, "held": 0, "ver": 1}
    head |= {"bt": T0 + 86_400 * day + seq}
    return json.dumps([head | {"n": "load", "v": 1}, {"n": name, "v": value}]).encode()


def health_of(tables_dir, device="board-6"):
    names = (*health.NAMES, "device")
    rows = tables.read_table(tables_dir, "devices").select(names).to_pylist()
    found = next(row for row in rows if row.pop("device") == device)
    return {name: value for name, value in found.items() if value is not None}


def test_what_a_board_tells_of_its_health_is_in_its_row(engine, tmp_path):
    """States as told last; the counts of a boot as told last, added up over boots, days and
    batches."""
    log, tables_dir = tmp_path / "log", tmp_path / "tables"
    put(
        log,
        told(0, 1, 0, "left_out", 0),
        told(1, 1, 0, "aside", 2),
        told(2, 1, 0, "mended", 3),
        told(3, 1, 1, "mended", 5),
        told(4, 2, 1, "mended", 1),
        told(5, 2, 1, "not_published", 40),
        device="board-6",
    )
    assert patient_job.run(engine, log, tables_dir) == 1
    assert health_of(tables_dir) == {"left_out": 0, "aside": 2, "mended": 6, "not_published": 40}
    put(
        log,
        told(6, 2, 2, "left_out", 1),
        told(7, 2, 2, "aside", 0),
        told(8, 2, 2, "mended", 4),
        device="board-6",
        received_ms=START_MS + 4 * DAY_MS,
    )
    assert patient_job.run(engine, log, tables_dir) == 1
    expected = {"left_out": 1, "aside": 0, "mended": 9, "not_published": 40}
    assert health_of(tables_dir) == expected
