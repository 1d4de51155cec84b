# cpython-only: Arrow
"""Which of several copies of a message `outpost export` writes where one has all readings of the
other: silver's choice, by transforms.mark_streams(). The parts are those of a series of which an
erase that was cut has left some samples (test_series_parts.py makes them with the firmware).
"""

import json
import random

import pytest

import series_writer
from ground_truth import START_MS, WEEK_MS
from optional_packages import needed
from outpost_tools.log import segments

with needed("the pipeline's packages"):
    import pyarrow as pa

    from outpost_tools.readings.export import log_files, run
    from outpost_tools.readings.export.selection import Selection
    from outpost_tools.readings.pipeline import fingerprints, promises, schemas, transforms
    from test_export import exported, put

RECEIVED_MS = START_MS + WEEK_MS
ORDER = [(name, "ascending") for name in ("device", "stream", "seq", "record")]
ROWS = series_writer.climate(20)
RESTART = (ROWS[12][0] + (1 << 28), ROWS[12][1])  # so far away that the writer begins again


def series(rows, seq=7):
    return series_writer.payload(rows, device="board-5", seq=seq, held=0, start_ms=START_MS)


WHOLE = series([*ROWS[:12], RESTART])
PART, AFTER_A_GAP = series(ROWS[:5]), series([*ROWS[:3], RESTART])
OTHER = series([*ROWS[:4], (ROWS[4][0], (1, 2, 3))])
CASES = {
    "shorter first": ([[PART, WHOLE]], 0),
    "longer first": ([[WHOLE, PART]], 0),
    "equal": ([[WHOLE, WHOLE]], 0),
    "several parts": ([[PART, AFTER_A_GAP, WHOLE, PART, WHOLE]], 0),
    "a conflict": ([[PART, OTHER]], 1),
    "a conflict that is longer": ([[OTHER, WHOLE]], 1),
    "parts and a conflict": ([[PART, OTHER, WHOLE, OTHER]], 1),
    "none of two has the other": ([[PART, AFTER_A_GAP]], 1),
    "a part in a segment before": ([[PART], [WHOLE]], 0),
    "a part in a segment after": ([[WHOLE], [series(ROWS, 8)], [PART]], 0),
}


def found_by_export(log) -> tuple[run.Account, pa.Table]:
    held: list[pa.Table] = []
    sink = type("Sink", (), {"write": staticmethod(held.append)})
    names = schemas.READING.names
    account = run.export(log_files.find(log), Selection(), names, sink)
    return account, pa.concat_tables(held).sort_by(ORDER)


def silvers(log) -> transforms.Marked:
    """Of all messages in one batch."""
    export = run._Export(log_files.find(log), Selection(), [], None, False, print)
    rows = [export._read([file])[0] for file in export._log.files]
    state = schemas.STREAM.empty_table()
    return transforms.mark_streams(pa.concat_tables(rows), state, fingerprints.Known())


def assert_silvers_choice(log) -> int:
    """Row for row; returns the number of conflicts."""
    (account, rows), marked = found_by_export(log), silvers(log)
    assert rows.to_pylist() == promises.written(marked.readings).sort_by(ORDER).to_pylist()
    assert account.conflicts.total() == marked.conflicts.num_rows
    return marked.conflicts.num_rows


@pytest.mark.parametrize("kept_bytes", [run._KEPT_BYTES, 0])
@pytest.mark.parametrize("case", CASES)
def test_the_message_with_most_readings_is_written(case, kept_bytes, tmp_path, monkeypatch):
    monkeypatch.setattr(run, "_KEPT_BYTES", kept_bytes)  # held in memory, and read twice
    found, conflicts = CASES[case]
    for place, contents in enumerate(found):
        put(tmp_path / "log", *contents, received_ms=RECEIVED_MS + 100 * place)
    assert assert_silvers_choice(tmp_path / "log") == conflicts
    status, rows = exported(tmp_path / "log", "--columns", "all")
    assert status == bool(conflicts)
    if not conflicts:
        assert len([row for row in rows if row["seq"] == 7]) == 13 * 3


def test_a_part_in_a_log_that_is_read_before_is_none_of_the_rows(tmp_path):
    """Two collectors, the open segment of one."""
    put(tmp_path / "log", PART, PART, AFTER_A_GAP, received_ms=RECEIVED_MS + 9)
    put(tmp_path / "log", WHOLE, received_ms=RECEIVED_MS, collector="collector-2", seal=False)
    assert assert_silvers_choice(tmp_path / "log") == 0
    assert len(found_by_export(tmp_path / "log")[1]) == 13 * 3


def some_readings(chance: random.Random, seq: int) -> bytes:
    """Some of a message's six readings, in their order or not; now and then another one."""
    which = sorted(chance.sample(range(6), chance.choice((1, 2, 3, 4, 6))))
    if chance.random() < 0.1:
        chance.shuffle(which)
    records = [{"n": f"n{one}", "v": one} for one in which]
    records[-1]["v"] += 10 * (chance.random() < 0.1)
    head = {"bn": "board-5/", "sid": "00000005", "seq": seq, "boot": 1, "held": 0, "ver": 1}
    records[0] = head | {"bt": START_MS / 1000} | records[0]
    return json.dumps(records).encode()


@pytest.mark.parametrize("seed", range(8))
def test_any_copies_that_have_readings_of_each_other(seed, tmp_path, monkeypatch):
    chance = random.Random(seed)
    for name in ("collector-1", "collector-2"):
        writer, clock = segments.SegmentWriter(tmp_path / name, max_bytes=1500), RECEIVED_MS
        for _ in range(80):
            clock += chance.choice((0, 1, 5, -3))
            content = some_readings(chance, chance.randrange(25))
            writer.append(segments.encode_frame(clock, b"outpost/board-5/data", content))
            writer.commit()
        writer.seal()
    monkeypatch.setattr(log_files, "_PORTION_BYTES", 4000)
    monkeypatch.setattr(run, "_SMALL_BYTES", chance.choice((0, 1 << 20)))
    monkeypatch.setattr("outpost_tools.readings.export.copies._GROUPS_READ", 3)
    assert assert_silvers_choice(tmp_path) > 0
