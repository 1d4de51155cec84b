"""Messages that have another's number; run by test_pipeline_features.py."""

import json
import shutil

import pytest

import patient_job
import series_writer
from ground_truth import START_MS
from outpost_tools.log import segments
from outpost_tools.readings.pipeline import fingerprints, quarantine, tables, upkeep
from pipeline_features import T0, message
from plain_windows import recomputed_windows, windows_of

DEVICE, TOPIC = "board-5", b"outpost/board-5/data"


def write(log, *arrivals, collector="collector-1"):
    """(milliseconds, contents), as that collector got them."""
    writer = segments.SegmentWriter(log / collector)
    for after_ms, content in arrivals:
        writer.append(segments.encode_frame(START_MS + after_ms, TOPIC, content))
    return writer.seal()


def said(seq, value, **more):
    return message(seq, 3, bt=T0 + seq, value=value, **more)


def values(tables_dir) -> dict[int, float]:
    rows = tables.read_table(tables_dir, "readings", ["seq", "value"]).to_pylist()
    assert len(rows) == len({row["seq"] for row in rows})
    return {row["seq"]: row["value"] for row in rows}


def kept(tables_dir) -> list[bytes]:
    rows = tables.read_table(tables_dir, "quarantine").to_pylist()
    assert {row["reason"] for row in rows} <= {quarantine.CONFLICT}
    return sorted(row["payload"] for row in rows)


def device(tables_dir, name=DEVICE) -> dict:
    rows = tables.read_table(tables_dir, "devices").to_pylist()
    return next(row for row in rows if row["device"] == name)


@pytest.mark.long
def test_a_number_with_other_contents_is_kept_and_told_whenever_it_comes(engine, tmp_path):
    log, tables_dir = tmp_path / "log", tmp_path / "tables"
    mine, other = [said(n, n) for n in range(6)], [said(n, n + 0.5) for n in range(6)]
    write(log, *enumerate(mine[:4]), (10, other[0]), (11, mine[0]), (12, other[0]))
    write(log, (20, other[0]), (21, other[1]), (22, mine[2]), (23, other[4]))
    assert patient_job.run(engine, log, tables_dir, batch_bytes=1) == 2
    assert kept(tables_dir) == other[:2]
    upkeep.compact(tables_dir, kept_h=0)
    shutil.rmtree(tables_dir / fingerprints.TABLE)  # recreated from the other tables
    again = [(30 + n, content) for n, content in enumerate(mine[:4] + other[:2] + [other[4]])]
    write(log, *again, (40, mine[4]), (41, said(3, 3, name="other")))
    assert patient_job.run(engine, log, tables_dir) == 1
    assert values(tables_dir) == {0: 0, 1: 1, 2: 2, 3: 3, 4: 4.5}
    assert kept(tables_dir) == sorted([*other[:2], mine[4], said(3, 3, name="other")])
    row = device(tables_dir)
    assert (row["messages"], row["conflicts"], row["received"]) == (5, 4, 20)
    assert row["redelivered"] == 20 - 5 - 4
    assert windows_of(tables_dir) == recomputed_windows(tables_dir)
    assert quarantine.replay(tables_dir, "conflict") == (0, 4)  # their number has not become free


@pytest.mark.long
def test_of_several_collectors_the_message_received_first_is_in_silver_also_when_it_comes_later(
    engine, tmp_path
):
    """The second collector's log is read after the first one's, of which a segment was deleted."""
    log, tables_dir = tmp_path / "log", tmp_path / "tables"
    write(log, *((100 + n, said(n, n)) for n in range(4)))
    deleted = write(log, (110, said(4, 4)), (111, said(5, 5)))
    write(log, (120, said(6, 6)))
    assert patient_job.run(engine, log, tables_dir) == 1
    deleted.unlink()
    earlier = [(50, said(1, 1.5)), (51, said(4, 4.5, records=[{"n": "more", "v": 7}]))]
    write(log, *earlier, (105, said(2, 2.5)), (106, said(0, 0)), collector="collector-2")
    assert patient_job.run(engine, log, tables_dir) == 1
    expected = {0: 0, 1: 1.5, 2: 2, 3: 3, 4: 4.5, 5: 5, 6: 6}
    for _ in range(2):
        rows = tables.read_table(tables_dir, "readings", ["seq", "record", "value"]).to_pylist()
        assert {row["seq"]: row["value"] for row in rows if row["record"] == 0} == expected
        assert len(rows) == len(expected) + 1
        upkeep.compact(tables_dir, kept_h=0)
    assert windows_of(tables_dir) == recomputed_windows(tables_dir)
    gone = [json.loads(content)[0]["v"] for content in kept(tables_dir)]
    assert sorted(gone) == [1, 2.5, 4]
    assert device(tables_dir)["readings"] == 8 and device(tables_dir)["conflicts"] == 3


SAMPLES = [(10_000 * n, (2150 + n, None if n == 3 else 4500 - n, 101_325)) for n in range(12)]


def series(seq, rows):
    first = rows[0][0]
    rows = [(time - first, values) for time, values in rows]
    start_ms = START_MS + seq * 1000 + first
    return series_writer.payload(rows, device=DEVICE, seq=seq, held=0, start_ms=start_ms)


def readings_of(tables_dir, seq) -> list[tuple]:
    rows = tables.read_table(tables_dir, "readings").to_pylist()
    rows = sorted((row for row in rows if row["seq"] == seq), key=lambda row: row["record"])
    assert [row["record"] for row in rows] == list(range(len(rows)))
    assert len({row["offset"] for row in rows}) == 1  # all of one message
    start = START_MS + seq * 1000
    return [
        (round(row["time"].timestamp() * 1000) - start, row["name"], row["value"]) for row in rows
    ]


def expected_of(rows) -> list[tuple]:
    names = [(name, 10**-exponent) for name, _, exponent in series_writer.CLIMATE]
    return [
        (time, name, value / scale)
        for time, values in rows
        for (name, scale), value in zip(names, values, strict=True)
        if value is not None
    ]


@pytest.mark.long
def test_a_series_that_comes_again_with_fewer_samples_is_a_repeat_whichever_came_first(
    engine, tmp_path
):
    """What a cut in an erase leaves of a released record: its beginning, or samples on both sides
    of a gap, from a restart on. By one collector, by two, in one batch, in several; and a board
    with other values is a conflict still."""
    log, tables_dir = tmp_path / "log", tmp_path / "tables"
    whole = [series(seq, SAMPLES) for seq in range(6)]
    begin = [series(seq, SAMPLES[:5]) for seq in range(6)]
    gap = [series(seq, SAMPLES[:4] + SAMPLES[8:]) for seq in range(6)]
    write(log, (0, whole[0]), (1, begin[0]), (2, begin[1]), (3, gap[1]), (4, whole[1]), (5, gap[1]))
    write(log, (10, whole[2]), (11, begin[3]), (12, gap[4]))
    assert patient_job.run(engine, log, tables_dir, batch_bytes=1) == 2
    assert readings_of(tables_dir, 3) == expected_of(SAMPLES[:5])
    other = [(time, (first + (time > 50_000), *more)) for time, (first, *more) in SAMPLES]
    write(log, (20, begin[2]), (21, gap[2]), (22, whole[3]), (23, gap[3]), (24, series(2, other)))
    write(log, (9, whole[4]), (13, begin[4]), (30, gap[0]), collector="collector-2")
    assert patient_job.run(engine, log, tables_dir) == 1
    for _ in range(2):
        for seq in range(5):
            assert readings_of(tables_dir, seq) == expected_of(SAMPLES), seq
        upkeep.compact(tables_dir, kept_h=0)
        shutil.rmtree(tables_dir / fingerprints.TABLE)
        write(log, *((40 + seq, gap[seq]) for seq in range(5)), (46, whole[1]))
        assert patient_job.run(engine, log, tables_dir) == 1
    assert kept(tables_dir) == [series(2, other)]
    assert device(tables_dir)["conflicts"] == 1
    assert windows_of(tables_dir) == recomputed_windows(tables_dir)
