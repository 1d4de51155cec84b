"""`outpost export` beside silver of the same log; run by test_pipeline_features.py."""

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
import pytest

import patient_job
import series_writer
from ground_truth import SEED, START_MS, Board, Log
from outpost_tools import cli
from outpost_tools.messages.series import is_series
from outpost_tools.readings.pipeline import quarantine, schemas, tables
from pipeline_features import message
from series_world import DAY_MS, INTERVAL_MS, Thermometer, World

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


@pytest.mark.long
def test_the_export_places_readings_by_their_boots_clock_as_silver_does(clockless, tmp_path):
    log, tables_dir, _ = clockless
    status, rows = exported(log, tmp_path)
    assert status == 0 and pc.count(rows["placed"]).as_py() == 3
    assert_equal(rows, tables_dir)


def test_series_are_readings_as_well(engine, tmp_path):
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
    assert patient_job.run(engine, log.directory, tables_dir) == 1
    status, found = exported(log.directory, tmp_path)
    assert status == 0
    assert_equal(found, tables_dir)
    assert found.num_rows == 60 * 3 * 2 + 3 * 3 + 1 and found["time"].null_count == 0
    assert tables.read_table(tables_dir, "gaps").num_rows == 0
    (device,) = tables.read_table(tables_dir, "devices").to_pylist()
    assert (device["messages"], device["readings"]) == (4, found.num_rows)


class Boot:
    """A boot of a station with series; what it measured, and when that truly was. Its first
    measurement is a message."""

    def __init__(self, true_ms, flash=None):
        self.parts = [Thermometer(b"t"), Thermometer(b"u", 0)]
        self.world = World(self.parts, flash)
        self.world.clock.day = 0
        self.true_ms, self.truth = true_ms, []

    def set_clock(self, days_off=0):
        day, ms = divmod(self.true_ms, DAY_MS)
        clock = self.world.clock
        clock.now(self.world.now_ms)
        clock.set(day + days_off, ms, self.world.now_ms)

    def measure(self, count, days_off=0):
        """days_off: of the board's clock, which the tables believe."""
        for _ in range(count):
            at = len(self.truth)
            self.parts[0].value, self.parts[1].value = 2150 + at, None if at % 3 else at
            for name, value in (("t", (2150 + at) / 100), ("u", None if at % 3 else at)):
                self.truth.append((self.true_ms + days_off * DAY_MS, name, value))
            self.world.turn()
            self.true_ms += INTERVAL_MS


def test_the_stations_series_have_right_times_in_silver(engine, tmp_path):
    """A clock that is set in a record, that jumps a day and back, a boot in a record, and one with
    another column."""
    first = Boot(START_MS)
    first.measure(5)
    first.set_clock()  # places what was before
    first.measure(5)  # the last record is open: the power goes
    second = Boot(first.true_ms + 60_000, first.world.flash)
    for days_off in (0, 1, 0):
        second.set_clock(days_off)
        second.measure(4, days_off)
    third = World([Thermometer(b"v", 3, 7)], second.world.flash)  # another column
    third.clock.set(*divmod(second.true_ms + 60_000, DAY_MS), 0)
    third.turn(3)
    third.station.close_record()
    truth = [row for row in first.truth + second.truth if row[2] is not None]
    truth += [(second.true_ms + 60_000 + n * INTERVAL_MS, "v", 7000.0) for n in range(3)]
    payloads = third.payloads()
    # a clock that is not set, one that is, the second boot with its jumps, the other column
    assert sum(map(is_series, payloads)) == 4
    log = Log(tmp_path / "log", SEED)
    log._waiting = [("board-1", payload, False) for payload in payloads]
    log.seal(["collector-1"], per_segment=3)
    assert patient_job.run(engine, log.directory, tmp_path / "tables") == 1
    columns = ["time", "name", "value", "seq", "record"]
    silver = tables.read_table(tmp_path / "tables", "readings", columns).sort_by(ORDER[2:])
    found = [
        (row["time"].timestamp() * 1000, row["name"], row["value"])
        for row in silver.to_pylist()
        if row["name"] in ("t", "u", "v")
    ]
    assert [(round(time), *rest) for time, *rest in found] == truth


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
def test_the_export_of_100000_messages_is_silver_in_every_column(engine, tmp_path, capsys):
    messages = 100_000
    log = hostile_log(tmp_path, messages)
    tables_dir = tmp_path / "tables"
    assert patient_job.run(engine, log.directory, tables_dir) == 1
    capsys.readouterr()
    status, rows = exported(log.directory, tmp_path)
    assert_equal(rows, tables_dir)
    conflicts = quarantine.conflicts(tables_dir)
    assert status == 1 and conflicts == messages // 20 // 50
    said = capsys.readouterr().err
    assert f"{conflicts} messages have the number of another" in said
    assert "1 frames are not valid messages" in said
