"""Arrivals from a wrong clock; run by test_pipeline_features.py."""

import time

import pytest

import patient_job
from outpost_tools import cli
from outpost_tools.log import segments
from outpost_tools.readings.pipeline import delta, quarantine, rounds, tables
from pipeline_features import message

DAY_S = 86_400
NOW_S = round(time.time())


def write_20(log, device, off_s, *, is_unset):
    """A reading a second; the first of them has no time of its own. off_s: of the collector's
    clock, until the 20th."""
    writer = segments.SegmentWriter(log / "collector-1")
    for seq in range(20):
        wrong_s = off_s if seq < 19 else 0
        content = message(seq, 1, device=device, bt=NOW_S + seq - 30, up=seq)
        if seq == 0:
            content = message(seq, 1, device=device, up=seq)
        received_ms = (NOW_S + wrong_s + seq) * 1000
        topic = f"outpost/{device}/data".encode()
        unset = is_unset and seq < 19
        writer.append(segments.encode_frame(received_ms, topic, content, clock_unset=unset))
    writer.seal()


def found_with_times(tables_dir) -> dict[str, int]:
    rows = tables.read_table(tables_dir, "readings", ["device", "time"]).to_pylist()
    rows = [row for row in rows if row["time"]]
    return {name: sum(row["device"] == name for row in rows) for name in "abcd"}


@pytest.mark.long
def test_a_wrong_clock_of_the_collector_keeps_no_reading_from_the_tables(engine, tmp_path):
    """Of a and b, slow and fast, the frames are marked. Of c and d they are not, as those of older
    versions: silver gets them by a replay."""
    log, tables_dir = tmp_path / "log", tmp_path / "tables"
    for names, is_unset in (("ab", True), ("cd", False)):
        write_20(log, names[0], -60 * DAY_S, is_unset=is_unset)
        write_20(log, names[1], 6 * 365 * DAY_S, is_unset=is_unset)
    tables.create(tables_dir)
    opened, said = delta.Opened(tables_dir), []
    troubles = rounds.Troubles(log, opened)
    patient_job.run(engine, log, tables_dir)
    opened.again()
    troubles.tell(said.append)
    assert any("the clock of a board is wrong" in line for line in said) and troubles.count == 36
    counts = found_with_times(tables_dir)
    assert (counts["a"], counts["b"]) == (20, 20), counts
    assert quarantine.replay(tables_dir, "time") == (36, 0)
    patient_job.run(engine, log, tables_dir)
    # c's and d's reading without a time of its own has an arrival that nothing disproves
    counts = found_with_times(tables_dir)
    assert counts == {"a": 20, "b": 20, "c": 19, "d": 19}, counts
    assert tables.read_table(tables_dir, "readings").num_rows == 80
    assert quarantine.reasons(tables_dir).total() == 0
    for row in tables.read_table(tables_dir, "devices").to_pylist():
        if row["device"] == "a":  # b's has an arrival that nothing disproves, too
            assert abs(row["last_seen"].timestamp() - NOW_S) < 60
    slow = [r for r in tables.read_table(tables_dir, "latency").to_pylist() if r["device"] in "ab"]
    assert [(row["count"], row["max_ms"] < 60_000) for row in slow] == [(1, True)] * 2
    assert cli.main(["report", "--tables", str(tables_dir), "--out", str(tmp_path / "r.html")]) == 0
