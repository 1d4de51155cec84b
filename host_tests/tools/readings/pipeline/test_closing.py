# cpython-only: Arrow and Delta Lake
"""Closed boots: what rounds fold, archive and look up is what one round with everything makes."""

import contextlib
import json
import os
import shutil
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optional_packages import needed
from outpost_tools.log import segments

with needed("the pipeline's packages"):
    import pyarrow.parquet as pq

    import opened_files
    from outpost_tools.readings.pipeline import (
        boot_files,
        closing,
        delta,
        job,
        tables,
        totals,
        upkeep,
    )
    from serial_engine import Serial

BEGIN_S = 1_763_683_200  # 2025-11-21
NEAR = 2
PUBLIC = ("devices", "boots", "latency", "gaps", "windows")
# (device, stream, boot, number, second or None, uptime or None, metric, value)
MESSAGE = st.tuples(
    st.sampled_from("ab"),
    st.sampled_from(["0000000a", "0000000b"]),
    st.integers(1, 9),
    st.integers(0, 40),
    st.none() | st.integers(0, 40),
    st.none() | st.integers(0, 9),
    st.sampled_from(["load", "battery", "mended", "aside", "reset_cause"]),
    st.sampled_from([0, 1, 2, 0.5]),
)
ROUNDS = st.lists(st.lists(MESSAGE, min_size=1, max_size=8), min_size=1, max_size=6)


class Wakes:
    """A log, and tables that rounds of it make. received_s grows with each message."""

    def __init__(self, folder: Path) -> None:
        self.log, self.place, self._sent = folder / "log", folder / "tables", 0

    def put(self, messages: list[tuple]) -> None:
        """A segment of them."""
        writer = segments.SegmentWriter(self.log / "collector-1")
        for message in messages:
            self._sent += 1
            received_ms = (BEGIN_S + 100) * 1000 + self._sent
            topic = f"outpost/{message[0]}/data".encode()
            writer.append(segments.encode_frame(received_ms, topic, payload(*message)))
        writer.seal()

    def round(self, place: Path | None = None, *, is_all: bool = False) -> None:
        job.run(Serial(), self.log, place or self.place, is_all=is_all)


def payload(device, stream, boot, seq, second, up, name, value) -> bytes:
    head = {"bn": f"{device}/", "sid": stream, "seq": seq, "boot": boot, "held": 0, "ver": 1}
    head |= {} if second is None else {"bt": BEGIN_S + second}
    head |= {} if up is None else {"up": up}
    return json.dumps([head | {"n": name, "v": value}]).encode()


@contextlib.contextmanager
def limits(kept: int, most: int, files: int = 1):
    values = ((closing, "KEPT", kept), (closing, "MOST", most), (closing, "NEAR", NEAR))
    values += ((boot_files, "MOST_FILES", files), (boot_files, "_SPAN", 2))
    values += ((boot_files, "_MERGED_MOST", 9),)
    with pytest.MonkeyPatch.context() as patch:
        for module, name, value in values:
            patch.setattr(module, name, value)
        yield


SMALL, ALL_OPEN = (3, 4), (1 << 20, 1 << 20)


def rows_of(place: Path, name: str) -> list[str]:
    return sorted(map(str, tables.read_table(place, name).to_pylist()))


def assert_are_as_of_one_round(wakes: Wakes) -> None:
    """In which no boot is closed; and as plain Python makes them of silver."""
    whole = wakes.place.parent / "whole"
    with limits(*ALL_OPEN):
        wakes.round(whole, is_all=True)
    for name in ("readings", *PUBLIC):
        assert rows_of(wakes.place, name) == rows_of(whole, name), name
    assert_boots_are_right(wakes.place)
    shutil.rmtree(whole)


def assert_boots_are_right(place: Path) -> None:
    found = tables.read_table(place, "boots").to_pylist()
    of_boot = defaultdict(list)
    for row in tables.read_table(place, "readings").to_pylist():
        of_boot[row["device"], row["stream"], row["boot"]].append(row)
    assert len(found) == len(of_boot)
    times = {key: [row["time"] for row in rows if row["time"]] for key, rows in of_boot.items()}
    for boot in found:
        key = (boot["device"], boot["stream"], boot["boot"])
        rows, mine = of_boot[key], times[key]
        numbers = [row["seq"] for row in rows]
        said = (boot["readings"], boot["first_seq"], boot["last_seq"], boot["without_time"])
        assert said == (len(rows), min(numbers), max(numbers), len(rows) - len(mine))
        assert (boot["first_time"], boot["last_time"]) == (
            min(mine, default=None), max(mine, default=None),
        )  # fmt: skip
        assert (boot["not_before"], boot["not_after"]) == bounds(key, rows, times)
    check_devices(place, of_boot)


def bounds(key: tuple, rows: list[dict], times: dict) -> tuple:
    if all(row["time"] for row in rows):
        return None, None
    lower, higher = (
        [
            time
            for step in range(1, NEAR + 1)
            for time in times.get((*key[:2], key[2] + sign * step), [])
        ]
        for sign in (-1, 1)
    )
    arrival = min(row["received"] for row in rows)
    return max(lower, default=None), min([*higher, arrival])


def check_devices(place: Path, of_boot: dict) -> None:
    for row in tables.read_table(place, "devices").to_pylist():
        mine = {key: rows for key, rows in of_boot.items() if key[0] == row["device"]}
        every = [one for rows in mine.values() for one in rows]
        assert (row["boots"], row["readings"]) == (len(mine), len(every))
        assert row["last_boot"] == max(every, key=lambda one: one["received"])["boot"]
        told = [
            max((one["seq"], one["value"]) for one in counts)[1]
            for rows in mine.values()
            if (
                counts := [one for one in rows if one["name"] == "mended" and one["value"] % 1 == 0]
            )
        ]
        assert row["mended"] == (sum(told) if told else None)


class Died(Exception):
    pass


def round_that_dies(wakes: Wakes, commits: int) -> None:
    """After so many commits, if it makes that many."""
    commit, left = delta.commit, [commits]

    def dying(place, *arguments, **named):
        done = commit(place, *arguments, **named)
        left[0] -= 1
        if not left[0]:
            raise Died
        return done

    with pytest.MonkeyPatch.context() as patch, contextlib.suppress(Died):
        patch.setattr(delta, "commit", dying)
        wakes.round()


EXAMPLES = int(os.environ.get("CLOSING_EXAMPLES", "10"))
THEN = st.lists(st.none() | st.just("compact") | st.integers(1, 10), min_size=6, max_size=6)


@settings(max_examples=EXAMPLES, deadline=None)
@given(ROUNDS, THEN)
def test_rounds_that_close_boots_make_what_one_round_makes(tmp_path_factory, rounds, then):
    """A number: the round dies after so many commits."""
    folder = tmp_path_factory.mktemp("closing")
    wakes = Wakes(folder)
    with limits(*SMALL):
        for messages, what in zip(rounds, then, strict=False):
            wakes.put(messages)
            if isinstance(what, int):
                round_that_dies(wakes, what)
            else:
                wakes.round()
            if what == "compact":
                upkeep.compact(wakes.place, kept_h=0)
        wakes.round(is_all=True)
    assert_are_as_of_one_round(wakes)
    shutil.rmtree(folder)


def in_order(device: str, boots: range, **others) -> list[tuple]:
    """A message a boot, in the order of boots."""
    row = {"stream": "0000000a", "second": True, "name": "mended", "value": 1} | others
    return [
        (device, row["stream"], boot, boot * 2 + row.get("more", 0))
        + ((boot if row["second"] else None), None, row["name"], row["value"])
        for boot in boots
    ]


@pytest.mark.parametrize("commits", range(5, 11))
def test_a_kill_at_any_commit_of_gold_while_boots_close_and_get_more(tmp_path, commits):
    wakes = Wakes(tmp_path)
    with limits(*SMALL):
        wakes.put(in_order("a", range(1, 12), second=False))
        wakes.round()
        wakes.put([*in_order("a", range(12, 20)), *in_order("a", range(2, 4), more=1)])
        round_that_dies(wakes, commits)
        round_that_dies(wakes, 2)
        wakes.put(in_order("a", range(20, 22)))
        wakes.round(is_all=True)
    assert_are_as_of_one_round(wakes)


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_clock_that_comes_late_and_one_that_replaces_it_reach_closed_boots(tmp_path, is_killed):
    """The second one recomputes the board; the driver may die once its totals are there."""
    wakes, stream = Wakes(tmp_path), "0000000a"
    with limits(*SMALL):
        wakes.put([("a", stream, 2, 4, None, 1, "load", 1), *in_order("a", range(3, 20))])
        wakes.put(in_order("b", range(1, 9)))
        wakes.round()
        wakes.put([("a", stream, 2, 100, 50, 5, "load", 1)])
        wakes.round()
        boots = {(row["device"], row["boot"]): row for row in read(wakes, "boots")}
        boot = boots["a", 2]
        assert (boot["readings"], boot["placed"], boot["without_time"]) == (2, 1, 0)
        wakes.put([("a", stream, 2, 90, 60, 5, "load", 1), *in_order("b", range(1, 3), more=1)])
        if is_killed:
            round_that_dies(wakes, 6)
            round_that_dies(wakes, 1)
        wakes.round(is_all=True)
    assert_are_as_of_one_round(wakes)


def closed_files(wakes: Wakes, name: str) -> list[Path]:
    files = delta.files_of(delta.open_table(wakes.place / name))
    return [wakes.place / name / delta.name_of(one) for one in files if int(one["partition"]) < 0]


def read_of(opened: opened_files.Opened) -> set[Path]:
    return {path for path, times in opened.files.items() if times}


def test_a_round_opens_no_file_of_closed_boots_while_boots_come_in_their_order(tmp_path):
    wakes = Wakes(tmp_path)
    with limits(*SMALL):
        wakes.put(in_order("a", range(1, 40)))
        wakes.round()
        for boot in range(40, 43):
            wakes.put(in_order("a", range(boot, boot + 1), second=boot % 2))
            before = {path for name in ("totals", "boots") for path in closed_files(wakes, name)}
            with opened_files.Opened(wakes.place) as opened:
                wakes.round()
            assert before and not before & read_of(opened)
    assert_are_as_of_one_round(wakes)


def test_a_board_that_writes_to_all_its_old_boots_waits_for_itself(tmp_path):
    wakes, files = Wakes(tmp_path), 4
    with limits(*SMALL, files=files):
        for first in range(1, 121, 20):
            wakes.put([m for name in ("a", "b") for m in in_order(name, range(first, first + 20))])
            wakes.round()
        late = [in_order(name, range(1, 111), more=1) for name in ("a", "b")]
        wakes.put([*late[0], late[1][0]])
        before = {path for name in ("totals", "boots") for path in closed_files(wakes, name)}
        with opened_files.Opened(wakes.place) as opened:
            wakes.round()
        # each board's part opens 4, and small ones with which the new rows are merged
        assert len(before & read_of(opened)) < len(before) / 4
        counts = {row["device"]: row["readings"] for row in read(wakes, "devices")}
        assert counts["b"] == 121 and 120 < counts["a"] < 230
        wakes.round(is_all=True)
    assert_are_as_of_one_round(wakes)


def read(wakes: Wakes, name: str) -> list[dict]:
    return tables.read_table(wakes.place, name).to_pylist()


def test_nothing_of_a_deleted_device_is_left_and_others_go_on(tmp_path):
    wakes = Wakes(tmp_path)
    with limits(*SMALL):
        wakes.put([m for name in ("a", "b") for m in in_order(name, range(1, 20))])
        wakes.round()
        upkeep.delete_device(wakes.place, "a")
        for name in (*PUBLIC, "totals"):
            assert {row["device"] for row in read(wakes, name)} <= {"b"}, name
        wakes.put([m for name in ("a", "b") for m in in_order(name, range(5, 25), more=1)])
        wakes.round(is_all=True)
    assert {row["device"]: row["boots"] for row in read(wakes, "devices")} == {"a": 20, "b": 24}
    assert_boots_are_right(wakes.place)


def test_tables_whose_rounds_kept_all_boots_in_one_file_are_taken_over(tmp_path):
    wakes = Wakes(tmp_path)
    with limits(*ALL_OPEN):
        wakes.put([m for name in ("a", "b") for m in in_order(name, range(1, 30), second=False)])
        wakes.round()
    forget_columns(wakes.place / "totals")
    with limits(*SMALL):
        wakes.put(in_order("a", range(30, 32)))
        wakes.round()
        wakes.put(in_order("a", range(4, 7), more=1))
        wakes.round(is_all=True)
    assert closed_files(wakes, "boots") and closed_files(wakes, "totals")
    assert_are_as_of_one_round(wakes)


def forget_columns(place: Path) -> None:
    """The files as they were before boots were closed."""
    names = tables.schema("totals").names
    names, table, made = names[: names.index("kind")], delta.open_table(place), []
    for one in delta.files_of(table):
        rows = pq.read_table(place / delta.name_of(one), columns=names, partitioning=None)
        made.append(delta.write(place, rows, one["partition"], "bucket"))
    delta.commit(place, made, gone=delta.files_of(table), of=table)


def test_archived_rows_of_a_boot_add_up_to_it(tmp_path):
    wakes = Wakes(tmp_path)
    with limits(*SMALL):
        wakes.put(in_order("a", range(1, 20)))
        wakes.round()
        wakes.put(in_order("a", range(2, 3), more=1))
        wakes.round()
    parts = [pq.read_table(path, partitioning=None) for path in closed_files(wakes, "totals")]
    rows = totals.added([part.cast(closing.SCHEMA) for part in parts])
    found = {row["boot"]: row["readings"] for row in rows.to_pylist()}
    assert found == {boot: 1 + (boot == 2) for boot in range(1, 17)}


def test_windows_of_another_width_replace_those_that_are_there(tmp_path):
    """On the way back, the readings of the run between were counted twice."""
    wakes = Wakes(tmp_path)
    for number, width_s in enumerate((10.0, 60.0, 10.0)):
        wakes.put(in_order("a", range(1 + 5 * number, 6 + 5 * number)))
        job.run(Serial(), wakes.log, wakes.place, window_s=width_s)
        assert read(wakes, "devices")[0]["readings"] == 5 * (number + 1)
        assert sum(row["count"] for row in read(wakes, "windows")) == 5 * (number + 1)


def test_every_engine_reads_the_files_of_closed_boots(tmp_path):
    """Their numbers and times are stored as differences."""
    engines = pytest.importorskip("engines", reason="missing: the pipeline's engines")
    wakes = Wakes(tmp_path)
    wakes.put(in_order("a", range(1, 200)))
    wakes.round(is_all=True)
    assert closed_files(wakes, "boots") and closed_files(wakes, "totals")
    names = ["device", "stream", "boot", "first_seq", "last_seq", "readings"]
    expected = Counter(("a", "0000000a", n, 2 * n, 2 * n, 1) for n in range(1, 200))
    for read in (engines.by_duckdb, engines.by_polars, engines.by_pyarrow, engines.by_pandas):
        assert Counter(map(tuple, read(wakes.place / "boots", names))) == expected, read
