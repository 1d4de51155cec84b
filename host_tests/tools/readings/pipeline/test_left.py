# cpython-only: Arrow and Delta Lake
"""What a round of gold reads and leaves for later: its tasks run here in turn."""

import contextlib
import os
import shutil
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optional_packages import needed

with needed("the pipeline's packages"):
    import pyarrow as pa

    import opened_files
    from outpost_tools.readings.pipeline import (
        changes,
        clocks,
        delta,
        gold,
        left,
        moves,
        packed,
        parked,
        schemas,
        stored,
        tables,
        upkeep,
        windows,
    )
    from outpost_tools.store.at import at
    from serial_engine import Serial

BEGIN = 1_763_683_200_000_000  # 2025-11-21
HOUR, DAY = 3_600_000_000, 86_400_000_000
WINDOW_S = 10.0
GOLD = ("windows", "totals", "boots", "latency", "devices")


class Boards:
    """Readings of several boards, each with a number of its own."""

    def __init__(self, tables_dir: Path) -> None:
        tables.create(tables_dir)
        self.place, self._seq = tables_dir, 0

    def put(self, *readings: tuple[str, int | None]) -> None:
        """One batch of (device, time)."""
        rows = []
        for device, time in readings:
            row = {"device": device, "stream": "0000000a", "boot": 1, "seq": self._seq, "record": 0}
            row |= {"held": 0, "name": "load", "value": self._seq / 7, "time": time}
            rows.append(row | {"received": BEGIN + self._seq, "offset": self._seq})
            self._seq += 1
        table = pa.Table.from_pylist(rows, schema=schemas.READING)
        files = tables.write_readings(self.place, table)
        delta.commit(self.place / "readings", files)
        self._put_states(sorted({device for device, _ in readings}))

    def _put_states(self, devices: list[str]) -> None:
        """As a batch does, so that a round sees which boards have changed."""
        place = self.place / "streams"
        state = {"stream": "0000000a", "ranges": [0, self._seq], "copies": self._seq}
        state |= {"held_min": 0, "held_max": 0, "conflicts": 0}
        rows = pa.Table.from_pylist(
            [state | {"device": device} for device in devices], schema=schemas.STREAM
        )
        made = [
            delta.write(place, part, str(bucket), "bucket")
            for bucket, part in packed.split(rows, packed.BUCKETS)
        ]
        mine = {one["partition"] for one in made}
        before = delta.files_of(delta.open_table(place))
        delta.commit(place, made, gone=[one for one in before if one["partition"] in mine])

    def round(self) -> int:
        """Returns how much is left."""
        waiting = parked.file(delta.Opened(self.place))
        return waiting + gold.write(Serial(), self.place, WINDOW_S, progress=lambda text: None)


def rows_of(place: Path, name: str) -> list[dict]:
    return sorted(tables.read_table(place, name).to_pylist(), key=str)


def assert_windows_are_right(place: Path) -> None:
    readings = tables.read_table(place, "readings", schemas.READING.names)
    expected = windows.of_rows(windows.with_start(readings, WINDOW_S)).to_pylist()
    assert rows_of(place, "windows") == sorted(expected, key=str)


@contextlib.contextmanager
def limits(files: int, days: int):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stored, "MOST_FILES", files)
        patch.setattr(parked, "MOST_DAYS", days)
        patch.setattr(tables, "_FEW_DAYS", days)
        yield


READINGS = st.lists(
    st.tuples(st.sampled_from("abc"), st.none() | st.integers(0, 5), st.integers(0, 2)),
    min_size=1,
    max_size=9,
)
ROUNDS = st.lists(st.tuples(READINGS, st.booleans()), min_size=1, max_size=5)


@settings(max_examples=int(os.environ.get("LEFT_EXAMPLES", "12")), deadline=None)
@given(ROUNDS, st.integers(1, 3), st.integers(1, 2))
def test_what_rounds_leave_is_done_in_the_end_as_in_one_unlimited_run(
    tmp_path_factory, rounds, files, days
):
    folder = tmp_path_factory.mktemp("left")
    bounded, plain = Boards(folder / "bounded"), Boards(folder / "plain")
    for readings, is_compacted in rounds:
        times = [
            (name, None if day is None else BEGIN + day * DAY + hour * HOUR)
            for name, day, hour in readings
        ]
        plain.put(*times)
        with limits(files, days):
            bounded.put(*times)
            bounded.round()
            if is_compacted:
                upkeep.compact(bounded.place)
    with limits(files, days):
        count = 0
        while bounded.round():
            count += 1
            assert count < 100
    assert plain.round() == 0
    assert_windows_are_right(bounded.place)
    for name in GOLD:
        assert rows_of(bounded.place, name) == rows_of(plain.place, name), name
    silver = [tables.read_table(one.place, "readings") for one in (bounded, plain)]
    assert sorted(map(str, silver[0].to_pylist())) == sorted(map(str, silver[1].to_pylist()))
    assert silver[0]["day"].null_count == silver[0]["time"].null_count
    shutil.rmtree(folder)


def test_a_round_opens_a_file_once_however_many_windows_of_it_change(tmp_path):
    boards, hours = Boards(tmp_path), range(0, 24, 3)
    times = [BEGIN + day * DAY + hour * HOUR for day in range(12) for hour in hours]
    for _ in range(3):
        boards.put(*(("a", time) for time in times))
        boards.round()
    upkeep.compact(tmp_path)
    boards.put(*(("a", time) for time in times))
    with opened_files.Opened(tmp_path / "readings") as opened:
        assert boards.round() == 0
    # A file of the batch is read for what is new, and again for the windows that it is part of.
    assert max(opened.files.values()) <= 2
    assert sum(opened.files.values()) == 12 + 2 * 12
    assert_windows_are_right(tmp_path)


def test_a_round_opens_a_table_once(tmp_path, monkeypatch):
    """Each opening reads the log since the last checkpoint."""
    boards, opened, open_table = Boards(tmp_path), Counter(), delta.open_table
    boards.put(("a", BEGIN), ("b", BEGIN))
    boards.round()
    boards.put(("a", BEGIN), ("b", BEGIN))

    def counted(place, version=None):
        opened[place.name] += 1
        return open_table(place, version)

    monkeypatch.setattr(delta, "open_table", counted)
    assert gold.write(Serial(), tmp_path, WINDOW_S, progress=lambda text: None) == 0
    parts = opened.pop("readings") - 1  # a part that recomputes windows opens it, too
    assert 1 <= parts <= 2
    assert opened == dict.fromkeys((*GOLD, "gaps", "streams", "windows"), 1)


def test_a_board_that_spreads_over_years_is_bounded_and_waits_for_itself(tmp_path):
    boards, spread = Boards(tmp_path), [("hostile", BEGIN + day * DAY) for day in range(60)]
    with limits(files=12, days=6):
        boards.put(*spread, ("a", BEGIN), ("b", BEGIN + DAY))
        assert len(list((tmp_path / "readings").glob("*/*.parquet"))) == 6 + 1
        while boards.round():
            pass
        for _ in range(3):
            boards.put(*spread)
            with opened_files.Opened(tmp_path / "readings") as opened:
                assert boards.round() > 0
            # of the batch 7, to be filed 6 and 2, for windows 12
            assert sum(opened.files.values()) <= 27
        boards.put(("a", BEGIN), ("b", BEGIN + DAY), *spread)
        assert boards.round() > 0
        found = {row["device"]: row["count"] for row in rows_of(tmp_path, "windows")}
        assert found["a"] == found["b"] == 2
        while boards.round():
            pass
    assert_windows_are_right(tmp_path)


class Died(Exception):
    pass


def test_a_driver_that_dies_at_any_commit_loses_no_window_that_was_left(tmp_path):
    plain, dying = Boards(tmp_path / "plain"), Boards(tmp_path / "dying")
    times = [("a", BEGIN + day * DAY) for day in range(4)] + [("b", BEGIN)]
    commit = delta.commit

    died_before = set()

    def last(place, *arguments, **named):
        if place.name == "windows" and not died_before:  # its list is written already
            died_before.add(place)
            raise Died
        return commit(place, *arguments, **named)
        raise Died

    with limits(files=1, days=2):
        for _ in range(3):
            died_before.clear()
            plain.put(*times)
            dying.put(*times)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(delta, "commit", last)
                while dies(dying):
                    pass
        while dying.round():
            pass
        while plain.round():
            pass
    assert_windows_are_right(dying.place)
    for name in GOLD:
        assert rows_of(dying.place, name) == rows_of(plain.place, name), name


def dies(boards: Boards) -> bool:
    try:
        return boards.round() > 0
    except Died:
        return True


def test_a_clock_that_moves_readings_of_many_days_leaves_few_files(tmp_path):
    """Each file was rewritten by a task of its own, which wrote another."""
    tables.create(tmp_path)
    place, files = tmp_path / "readings", []
    boot = {"device": "a", "stream": "0000000a", "boot": 1}
    for day in range(120):
        row = boot | {"seq": day, "uptime_s": day * 86_400.0, "time": BEGIN + day * DAY}
        row |= {"placed": True, "received": BEGIN + 130 * DAY}
        rows = pa.Table.from_pylist([row], schema=schemas.READING)
        files += tables.write_readings(tmp_path, rows)
    delta.commit(place, files)
    clock = boot | {"clock_seq": 500, "offset_us": BEGIN + HOUR, "is_first": False}
    moved = moves.Moves(
        pa.Table.from_pylist([clock], schema=clocks.CHANGED), moves._LOST.empty_table()
    )
    engine = Serial()
    made, gone = moves.rewritten(engine, at(tmp_path), delta.open_table(place), moved)
    assert (engine.mapped, len(gone), len(made)) == ([1], 120, tables._FEW_DAYS + 1)
    delta.commit(place, made, gone=gone)
    times = tables.read_table(tmp_path, "readings", ["time"])["time"].cast(pa.int64())
    assert sorted(times.to_pylist()) == [BEGIN + HOUR + day * DAY for day in range(120)]


def test_a_list_that_is_lost_rebuilds_gold(tmp_path):
    boards = Boards(tmp_path)
    with limits(1, 32):
        for _ in range(2):
            boards.put(*(("a", BEGIN + day * DAY) for day in range(4)))
            assert boards.round() in (0, 3)
        shutil.rmtree(tmp_path / left.FOLDER)
        assert boards.round() == 0
    assert_windows_are_right(tmp_path)


@pytest.mark.parametrize("is_new", [False, True])
def test_a_rebuild_in_several_steps_begins_again_after_a_kill_at_any_commit(tmp_path, is_new):
    """The first step brought a new list, or half of the totals, and the next round went on."""
    boards, plain = Boards(tmp_path / "killed"), Boards(tmp_path / "plain")
    put = [("a", BEGIN + day * DAY) for day in range(4)] + [("b", BEGIN)]
    with limits(1, 32), pytest.MonkeyPatch.context() as patch:
        patch.setattr(changes, "_MOST_ROWS", 9)
        for one in (boards, plain):
            for _ in range(2):
                one.put(*put)
                finish(one)
        for commits in (2, 7, 8):  # `totals` of the first step; both of the last
            for one in (boards, plain) if is_new else ():
                one.put(("b", BEGIN + commits * HOUR))
            shutil.rmtree(boards.place / left.FOLDER, ignore_errors=True)
            die_after(boards, commits)
            finish(boards)
            finish(plain)
            assert_windows_are_right(boards.place)
            for name in GOLD:
                assert rows_of(boards.place, name) == rows_of(plain.place, name), name


def die_after(boards: Boards, commits: int) -> None:
    commit, left_commits = delta.commit, list(range(commits))

    def dying(place, *arguments, **named):
        done = commit(place, *arguments, **named)
        left_commits.pop()
        if not left_commits:
            raise Died
        return done

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Died):
        patch.setattr(delta, "commit", dying)
        boards.round()


def finish(boards: Boards) -> None:
    while boards.round():
        pass


def test_a_query_for_a_day_finds_readings_whose_day_has_no_file_yet(tmp_path):
    boards = Boards(tmp_path)
    with limits(1, 2):
        boards.put(*(("a", BEGIN + day * DAY) for day in range(5)), ("a", BEGIN))
        found = tables.read_table(tmp_path, "readings", ["day"])
        assert found["day"].null_count == 3
        for day in range(5):
            date = pa.scalar(BEGIN + day * DAY, pa.timestamp("us")).as_py().date()
            rows = tables.read_table(tmp_path, "readings", ["time"], day=date)
            assert rows.num_rows == 1 + (day == 0)
            if day == 3:
                assert upkeep.delete_before(tmp_path, date)["readings"] == 4
    assert tables.read_table(tmp_path, "readings").num_rows == 2
