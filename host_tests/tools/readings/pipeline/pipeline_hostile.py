"""Messages that no board of ours sends, through to gold; run by test_pipeline_features.py.

Whatever is in a message: the run ends well, all other boards' tables are complete, and the message
is in quarantine with its reason.
"""

import math
import random
from collections import Counter

import pytest

import fuzz_messages
import hostile_messages
import patient_job
from ground_truth import SEED
from outpost_tools.readings.pipeline import delta, quarantine, tables
from pipeline_features import T0, message, put, times
from plain_windows import recomputed_windows, windows_of


def reasons(tables_dir) -> list[str]:
    return sorted(tables.read_table(tables_dir, "quarantine", ["reason"])["reason"].to_pylist())


def test_no_number_in_a_message_stops_the_tables(engine, tmp_path):
    log, tables_dir = tmp_path / "log", tmp_path / "tables"
    put(
        log,
        *(message(seq, 7, up=up, shift=t) for seq, (up, t) in enumerate([(1e300, 0), (1e13, 0)])),
        message(2, 7, up=1, shift=1e300),
        message(3, 7, up=5),
        message(4, 7, bt=T0, value=1e308),
        message(5, 7, bt=T0, value=1e308),
        message(6, 7, bt=T0, name="left_out", value=1e30),
        message(7, 7, bt=T0, name="torn", value=0.5),
    )
    put(log, message(0, 1, bt=T0, device="board-6"), device="board-6")
    assert patient_job.run(engine, log, tables_dir) == 1
    put(log, message(8, 7, up=10, bt=T0 + 10))
    assert patient_job.run(engine, log, tables_dir) == 1
    assert reasons(tables_dir) == [
        "label t out of range",
        *["label up out of range"] * 2,
        *["label v out of range"] * 2,
    ]
    assert times(tables_dir) == {0: T0, 3: T0 + 5, 6: T0, 7: T0, 8: T0 + 10}
    assert windows_of(tables_dir) == recomputed_windows(tables_dir)
    devices = {row["device"]: row for row in tables.read_table(tables_dir, "devices").to_pylist()}
    assert (devices["board-5"]["left_out"], devices["board-5"]["torn"]) == (None, None)
    assert devices["board-6"]["messages"] == 1


def days_of(tables_dir) -> set[str | None]:
    files = delta.files_of(delta.open_table(tables_dir / "readings"))
    return {one["partition"] for one in files}


@pytest.mark.long
def test_messages_of_another_century_or_of_every_day_do_not_fill_the_tables(engine, tmp_path):
    """`put` receives them on 24 November 2025."""
    log, tables_dir = tmp_path / "log", tmp_path / "tables"
    year_s, spread = 365 * 86_400, [{"n": "a", "v": 1, "t": -86_400 * n} for n in range(400)]
    put(
        log,
        *(message(seq, 7, bt=T0 - 400 * 86_400 * seq, records=spread) for seq in range(20)),
        message(20, 7, bt=4_070_908_800),
        message(21, 7, bt=T0 - 6 * year_s),
        message(22, 7, bt=T0 - year_s // 2),  # half a year in an outbox
        message(23, 7, bt=T0 + 4 * 86_400),
        message(24, 7, up=1),
        message(25, 8, up=1),
        message(26, 8, up=10 * year_s),  # on its day when the clock is known: years after it came
        message(27, 8, up=100, bt=T0 + 100),
        message(28, 9, up=1),  # the board booted before there was any
        message(29, 9, up=20 * year_s, bt=T0),
    )
    assert patient_job.run(engine, log, tables_dir) == 1
    expected = {"times too far apart": 20, "record 0: time after its arrival": 1}
    assert Counter(reasons(tables_dir)) == expected | {"record 0: time long before its arrival": 1}
    half_year, late = T0 - year_s // 2, T0 + 4 * 86_400
    known = {22: half_year, 23: late, 25: T0 + 1, 27: T0 + 100, 29: T0}
    assert times(tables_dir) == known | dict.fromkeys((24, 26, 28))
    assert windows_of(tables_dir) == recomputed_windows(tables_dir)
    assert len(days_of(tables_dir)) == 4  # three, and that of no time


@pytest.mark.long
def test_gold_places_by_the_rule_of_the_tables(engine, tmp_path):
    """The same, with the clocks known only after the readings were written."""
    log, tables_dir = tmp_path / "log", tmp_path / "tables"
    put(log, message(0, 8, up=1), message(1, 8, up=10 * 365 * 86_400), message(2, 9, up=1))
    assert patient_job.run(engine, log, tables_dir) == 1
    put(log, message(3, 8, up=100, bt=T0 + 100), message(4, 9, up=20 * 365 * 86_400, bt=T0))
    assert patient_job.run(engine, log, tables_dir) == 1
    assert times(tables_dir) == {0: T0 + 1, 1: None, 2: None, 3: T0 + 100, 4: T0}
    assert windows_of(tables_dir) == recomputed_windows(tables_dir)


@pytest.mark.long
def test_days_with_few_readings_are_filed_by_later_rounds(engine, tmp_path):
    """93 days: a batch gives 32 of them a file, each round 32 more."""
    log, tables_dir, said = tmp_path / "log", tmp_path / "tables", []
    month = [{"n": "a", "v": 1, "t": 86_400 * n} for n in range(31)]
    spread = [message(n, 7, bt=T0 - 86_400 * 31 * (n + 1), records=month) for n in range(3)]
    put(log, *spread)
    patient_job.run(engine, log, tables_dir, progress=said.append)
    assert any(one.startswith("29 readings, of days with few") for one in said)
    assert len(days_of(tables_dir) - {None}) == 64
    assert windows_of(tables_dir) == recomputed_windows(tables_dir)
    patient_job.run(engine, log, tables_dir, is_all=True)
    assert len(days_of(tables_dir)) == 93 and None not in days_of(tables_dir)
    assert windows_of(tables_dir) == recomputed_windows(tables_dir)


def windows_by_key(rows) -> dict:
    return {
        (row["device"], row["name"], row["unit"], row["start"]): [
            row[fact] for fact in ("count", "min", "max", "last")
        ]
        for row in rows
    }


@pytest.mark.long
def test_a_flood_of_hostile_messages_reaches_gold_and_touches_no_other_board(engine, tmp_path):
    """In two rounds, so that clocks become known after the readings were written."""
    log, tables_dir, chance = tmp_path / "log", tmp_path / "tables", random.Random(SEED)
    frames = 0
    for first in (0, 20):
        hostile = [fuzz_messages.payload(chance) for _ in range(1500)]
        frames += len(hostile)
        put(log, *hostile, device=fuzz_messages.DEVICE)
        numbers = range(first, first + 20)
        put(log, *(message(n, 1, bt=T0 + n, device="board-6") for n in numbers), device="board-6")
        assert patient_job.run(engine, log, tables_dir) == 1
    assert windows_by_key(windows_of(tables_dir)) == windows_by_key(recomputed_windows(tables_dir))
    assert all(math.isfinite(row["mean"]) for row in windows_of(tables_dir))
    rows = tables.read_table(tables_dir, "readings", ["device", "seq", "time"]).to_pylist()
    good = {row["seq"]: row["time"].timestamp() for row in rows if row["device"] == "board-6"}
    assert good == {n: T0 + n for n in range(40)}
    devices = {row["device"]: row for row in tables.read_table(tables_dir, "devices").to_pylist()}
    assert set(devices) == {"board-6", fuzz_messages.DEVICE}
    in_part = [reason for reason in reasons(tables_dir) if "left out" in reason]
    refused = len(reasons(tables_dir)) - len(in_part) - quarantine.conflicts(tables_dir)
    assert devices[fuzz_messages.DEVICE]["received"] + refused == frames
    assert quarantine.replay(tables_dir, "records without a number") == (0, len(in_part))


OURS = ("segment", "offset")  # what lies in the log before a message is not its own


def of_good_boards(tables_dir, name) -> list[dict]:
    rows = tables.read_table(tables_dir, name).to_pylist()
    found = [row for row in rows if row["device"] in hostile_messages.GOOD]
    return sorted(
        ({key: value for key, value in row.items() if key not in OURS} for row in found), key=str
    )


@pytest.mark.long
def test_whatever_one_board_tries_the_others_have_the_same_tables(engine, tmp_path):
    """In two runs: what stays in the state, and what comes again, too."""
    tries = [one for several in hostile_messages.TRIES.values() for one in several]
    for name, sent in (("with", tries), ("without", [])):
        log = tmp_path / name / "log" / "collector-1"
        log.mkdir(parents=True)
        for number in range(2):
            (log / f"segment-{number:012d}.seg").write_bytes(hostile_messages.segment(sent))
            assert patient_job.run(engine, log.parent, tmp_path / name / "tables") == 1
    after = {name: tmp_path / name / "tables" for name in ("with", "without")}
    for name in ("readings", *tables.GOLD_TABLES):
        found, expected = (of_good_boards(after[n], name) for n in ("with", "without"))
        assert expected and found == expected, name
    assert quarantine.conflicts(after["with"])
