"""Tests of the pipeline's features, run by test_pipeline.py in its Spark session."""

import datetime
import itertools
import json
import shutil
import threading
import time
from collections import Counter

import pyarrow.parquet
import pytest

from ground_truth import START_MS
from outpost_tools.common import segments
from outpost_tools.common.errors import ToolError
from outpost_tools.pipeline import compact, consumed, health, job, quarantine, status, tables

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


def windows_of(tables_dir) -> list[dict]:
    rows = tables.read_table(tables_dir, "windows").to_pylist()
    return sorted(rows, key=lambda row: (row["device"], row["name"], row["start"]))


def recomputed_windows(tables_dir) -> list[dict]:
    """From what silver holds, plainly."""
    groups = {}
    for row in tables.read_table(tables_dir, "readings").to_pylist():
        if row["time"] is not None:
            start = row["time"].replace(microsecond=0, second=row["time"].second // 10 * 10)
            groups.setdefault((row["device"], row["name"], row["unit"], start), []).append(row)
    result = []
    for (device, name, unit, start), rows in groups.items():
        values = [row["value"] for row in rows]
        last = max(rows, key=lambda row: (row["time"], row["stream"], row["seq"], row["record"]))[
            "value"
        ]
        facts = {
            "count": len(values),
            "min": min(values),
            "max": max(values),
            "mean": sum(values) / len(values),
            "last": last,
        }
        result.append({"device": device, "name": name, "unit": unit, "start": start, **facts})
    return sorted(result, key=lambda row: (row["device"], row["name"], row["start"]))


T0 = START_MS / 1000


@pytest.fixture(scope="session")
def clockless(spark, tmp_path_factory):
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
    assert job.run(spark, log, tables_dir) == 1
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
    assert job.run(spark, log, tables_dir) == 1
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


def test_compaction_moves_placed_readings_to_their_day_and_changes_no_table(spark, clockless):
    _, tables_dir, _ = clockless
    before = {
        name: Counter(map(str, tables.read_table(tables_dir, name).to_pylist()))
        for name in ("readings", "quarantine")
    }
    listed = tables.counted_files(tables_dir, "readings")
    committed = consumed.committed_batch(tables_dir)
    compact.compact(tables_dir, committed=committed)
    days = [tables.day_of(path) for path in tables.counted_files(tables_dir, "readings")]
    assert len(days) == len(set(days))  # one file a day
    after = {
        name: Counter(map(str, tables.read_table(tables_dir, name).to_pylist())) for name in before
    }
    assert after == before
    assert all(path.exists() for path in listed)  # a reader that has listed them reads on
    untimed = [
        path
        for path in tables.counted_files(tables_dir, "readings")
        if tables.day_of(path) == tables.NO_DAY
    ]
    assert tables.read_files(untimed, None).num_rows == 2
    assert Counter(map(str, job.read_readings(spark, tables_dir).toArrow().to_pylist())) == Counter(
        str({name: value for name, value in row.items() if name != "day"})
        for row in tables.read_table(tables_dir, "readings").to_pylist()
    )
    compact.compact(tables_dir, committed=committed, grace_s=0)
    assert not any(path.exists() for path in listed)
    assert (
        Counter(map(str, tables.read_table(tables_dir, "readings").to_pylist()))
        == before["readings"]
    )


def test_a_run_after_compaction_and_one_before_it_give_the_same(spark, clockless):
    """Late rows of a compacted day, in gold recreated for that day alone."""
    log, tables_dir, _ = clockless
    put(log, message(4, 7, up=172_850, bt=T0 + 172_850), message(2, 7, up=172_830, bt=T0 + 172_830))
    assert job.run(spark, log, tables_dir) == 1
    assert times(tables_dir)[4] == T0 + 172_850
    assert len(times(tables_dir)) == tables.read_table(tables_dir, "readings").num_rows == 10
    assert windows_of(tables_dir) == recomputed_windows(tables_dir)
    links = [
        path for path in tables.counted_files(tables_dir, "windows") if path.stat().st_nlink > 1
    ]
    # untouched days are not read again
    assert {tables.day_of(path) for path in links} == {"2025-11-21", "2025-11-24"}


@pytest.mark.parametrize("moment", ["before the manifest", "after the manifest"])
def test_a_compaction_that_was_killed_changes_nothing(clockless, tmp_path, monkeypatch, moment):
    _, original, _ = clockless
    tables_dir = tmp_path / "tables"
    shutil.copytree(original, tables_dir)
    before = Counter(map(str, tables.read_table(tables_dir, "readings").to_pylist()))
    write = tables.write_manifest

    def killed(*arguments):
        if moment == "after the manifest":
            write(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(tables, "write_manifest", killed)
        with pytest.raises(KeyboardInterrupt):
            compact.compact(tables_dir, committed=consumed.committed_batch(tables_dir))
    assert Counter(map(str, tables.read_table(tables_dir, "readings").to_pylist())) == before
    for _ in range(2):
        compact.compact(tables_dir, committed=consumed.committed_batch(tables_dir), grace_s=0)
        assert Counter(map(str, tables.read_table(tables_dir, "readings").to_pylist())) == before
    on_disk = set((tables_dir / "silver").rglob("part-*.parquet"))
    assert on_disk == set(tables.counted_files(tables_dir, "readings"))


@pytest.fixture(scope="session")
def evolved(spark, tmp_path_factory):
    """Version 2 of the message, a new metric and a changed unit arrive; the second run understands
    version 2.
    """
    folder = tmp_path_factory.mktemp("evolved")
    log, tables_dir = folder / "log", folder / "tables"
    old = [message(n, 1, bt=T0 + n) for n in range(5)]
    new = [message(n, 1, bt=T0 + n, version=2, name="pressure") for n in range(5, 12)]
    cut = message(12, 1, bt=T0, version=2) + b" " * 70_000
    put(log, *old, *new, new[0], b"x", cut)
    assert job.run(spark, log, tables_dir) == 1
    first = quarantine.reasons(tables_dir)
    taken = quarantine.replay(tables_dir, "unknown version 2", versions=(1, 2))
    assert job.run(spark, log, tables_dir, versions=(1, 2)) == 1
    return log, tables_dir, first, taken


def test_a_version_that_is_unknown_waits_in_quarantine_and_is_replayed_exactly_once(spark, evolved):
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
    assert job.run(spark, log, tables_dir) == 0
    (stream,) = tables.read_table(tables_dir, "streams").to_pylist()
    assert (stream["ranges"], stream["copies"]) == ([0, 11], 13)


def test_a_replay_killed_between_segment_and_list_is_not_done_twice(evolved, tmp_path, monkeypatch):
    _, original, _, _ = evolved
    tables_dir = tmp_path / "tables"
    shutil.copytree(original, tables_dir)
    # now everything is a message
    whole = quarantine.message.Message("board-1", "00000001", 0, 1, 0, None)
    monkeypatch.setattr(quarantine.message, "decode", lambda *_, **__: whole)
    finish = quarantine._finish
    calls = []
    with monkeypatch.context() as patch:
        patch.setattr(
            quarantine,
            "_finish",
            lambda folder: calls.append(folder) if calls else calls.append(finish(folder)),
        )
        assert quarantine.replay(tables_dir, "not JSON") == (1, 0)
    assert quarantine.reasons(tables_dir)["not JSON"] == 1  # the list is still in the making
    assert quarantine.replay(tables_dir, "not JSON") == (0, 0)
    assert quarantine.reasons(tables_dir)["not JSON"] == 0


def test_segments_go_when_every_reader_has_committed_them_and_runs_go_on(spark, tmp_path):
    log, first, second = tmp_path / "log", tmp_path / "first", tmp_path / "second"
    for n in range(3):
        put(log, message(n, 1, bt=T0 + n))
    put(log, message(90, 1, bt=T0), collector="collector-2")
    assert job.run(spark, log, first) == 1
    consumed.register(log, second)
    with pytest.raises(ToolError, match="not there"):
        consumed.prune(log)
    second.mkdir()
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
    assert job.run(spark, log, first) == 1
    assert set(times(first)) == {0, 1, 2, 3, 90}


def test_two_compactions_at_once_are_refused(clockless):
    _, tables_dir, _ = clockless
    with compact._lock(tables_dir), pytest.raises(ToolError, match="another compaction"):
        compact.compact(tables_dir, committed=0)


class Watcher(threading.Thread):
    """Compacts and reads repeatedly until `stop()`; keeps what it saw."""

    def __init__(self, tables_dir):
        super().__init__(daemon=True)
        self._tables_dir, self._stopping = tables_dir, threading.Event()
        self.compacted, self.seen, self.faults = set(), [], []

    def run(self):
        try:
            while not self._stopping.is_set():
                if tables.exists(self._tables_dir, "readings"):
                    self._look()
                time.sleep(0.3)
        except BaseException as fault:
            self.faults.append(fault)

    def _look(self):
        listed = tables.counted_files(self._tables_dir, "readings")
        before = keys(tables.read_files(listed, None))
        compact.compact(self._tables_dir, committed=consumed.committed_batch(self._tables_dir))
        self.compacted.add(tables.read_manifest(self._tables_dir, "readings").through)
        assert keys(tables.read_files(listed, None)) == before, (
            "a reader that had listed the files before"
        )
        self.seen.append(keys(tables.read_table(self._tables_dir, "readings")))
        assert not before - self.seen[-1], "rows that were there are gone"

    def stop(self):
        self._stopping.set()
        self.join()
        if self.faults:
            raise self.faults[0]


def keys(rows) -> Counter:
    names = ("device", "stream", "seq", "record", "value")
    return Counter(zip(*(rows[name].to_pylist() for name in names), strict=True))


def test_compaction_beside_a_run_changes_nothing_for_readers_and_for_the_run(spark, tmp_path):
    log, tables_dir = tmp_path / "log", tmp_path / "tables"
    truth, count = Counter(), 4
    # each batch brings new rows of the same days, and copies of older ones
    for part in range(count):
        numbers = [*range(part * 20, part * 20 + 20), *range(max(0, part * 20 - 5), part * 20)]
        put(log, *(message(n, 1, bt=T0 + n % 3 * 86_400) for n in numbers))
        truth |= Counter({("board-5", "00000005", n, 0, float(n)): 1 for n in numbers})
    watcher = Watcher(tables_dir)
    watcher.start()
    try:
        assert job.run(spark, log, tables_dir, batch_bytes=1) == count
    finally:
        watcher.stop()
    assert len(watcher.compacted - {-1}) > 1, "no compaction between the first batch and the last"
    assert all(earlier <= later <= truth for earlier, later in itertools.pairwise(watcher.seen)), (
        "rows lost, or twice"
    )
    assert keys(tables.read_table(tables_dir, "readings")) == truth
    assert windows_of(tables_dir) == recomputed_windows(tables_dir)


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


def test_what_a_board_tells_of_its_health_is_in_its_row(spark, tmp_path):
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
    assert job.run(spark, log, tables_dir) == 1
    assert health_of(tables_dir) == {"left_out": 0, "aside": 2, "mended": 6, "not_published": 40}
    put(
        log,
        told(6, 2, 2, "left_out", 1),
        told(7, 2, 2, "aside", 0),
        told(8, 2, 2, "mended", 4),
        device="board-6",
        received_ms=START_MS + 4 * DAY_MS,
    )
    assert job.run(spark, log, tables_dir) == 1
    expected = {"left_out": 1, "aside": 0, "mended": 9, "not_published": 40}
    assert health_of(tables_dir) == expected


def test_days_of_an_older_version_know_nothing_of_health(spark, tmp_path):
    """Its files lack the columns; days that nothing touches are taken over as they are."""
    log, tables_dir = tmp_path / "log", tmp_path / "tables"
    put(log, told(0, 1, 0, "mended", 3), told(1, 1, 1, "load2", 1), device="board-6")
    assert job.run(spark, log, tables_dir) == 1
    for name in ("days", "devices"):
        for path in tables.counted_files(tables_dir, name):
            rows = pyarrow.parquet.ParquetFile(path).read()
            rows = rows.drop_columns([one for one in rows.column_names if one in health.NAMES])
            path.unlink()  # untouched days are hard links
            pyarrow.parquet.write_table(rows, path)
    put(log, told(2, 1, 2, "left_out", 1), device="board-6", received_ms=START_MS + 4 * DAY_MS)
    assert job.run(spark, log, tables_dir) == 1
    assert health_of(tables_dir) == {"left_out": 1}
