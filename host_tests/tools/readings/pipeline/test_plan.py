# cpython-only: Arrow and Delta Lake
"""Rounds without a lock: drivers that die at any commit, and drivers that meet, make the tables of
one that nobody disturbs. All in this process; with SIGKILL: test_tables_kill.py.
"""

import contextlib
import itertools
import os
import shutil
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ground_truth import START_MS
from optional_packages import needed

with needed("the pipeline's packages"):
    import driver_steps
    from driver_steps import Driver
    from outpost_tools.readings.pipeline import (
        delta,
        gold,
        job,
        parked,
        plan,
        quarantine,
        stored,
        tables,
        upkeep,
    )
    from pipeline_features import DAY_MS, T0, message, put
    from plain_windows import recomputed_windows, windows_of
    from serial_engine import Serial

VERSIONS = (1, 2)
OF_ORDER = ("twin_signs", "last_seq", "last_boot", "last_conflicts")
ALL_BYTES, ONE_SEGMENT = 1 << 30, 1


def first_part(log: Path) -> None:
    """Boots without a clock, parts of messages, frames that are none, and frames of a version that
    is not known yet."""
    put(log, *(message(n, 1, up=n) for n in range(6)), message(8, 1, up=8, bt=T0 + 8), b"x",
        message(10, 2, bt=T0 + 30))  # fmt: skip
    put(log, *(message(n, 1, bt=T0 + n, device="board-6", version=2) for n in range(5)),
        device="board-6")  # fmt: skip


def second_part(log: Path) -> None:
    """A clock that moves what came before, conflicts, the whole of what came in part, copies; the
    other collector's first segment."""
    put(log, message(7, 1, up=7, bt=T0 - 86_400), message(3, 1, up=3, value=7.5), b"y",
        message(9, 2, bt=T0 + 20), message(10, 2, bt=T0 + 30, records=[{"n": "more", "v": 1}]),
        message(2, 1, up=2), received_ms=START_MS + 4 * DAY_MS)  # fmt: skip
    put(log, message(8, 1, up=8, bt=T0 + 8, value=2.5), collector="collector-2",
        received_ms=START_MS + DAY_MS)  # fmt: skip


def third_part(log: Path) -> None:
    put(log, *(message(n, 1, up=n, bt=T0 + n, device="board-7") for n in range(4)),
        device="board-7", received_ms=START_MS + 5 * DAY_MS)  # fmt: skip


def run(log: Path, place: Path, most_bytes: int = ALL_BYTES) -> int:
    return job.run(Serial(), log, place, batch_bytes=most_bytes, versions=VERSIONS)


def contents(place: Path, names=tables.ALL) -> dict[str, Counter]:
    """The rows; of replayed frames without the number of the call, and their place in it; of the
    states without what depends on the order in which rounds bring messages."""
    found = {}
    for name in names:
        rows = tables.read_table(place, name).to_pylist()
        for row in rows:
            if row.get("collector") == plan.REPLAY:
                row["segment"] = row["offset"] = None
            if name == "streams":
                row |= dict.fromkeys(OF_ORDER)
        found[name] = Counter(map(str, rows))
    return found


def assert_same(place: Path, expected: dict[str, Counter]) -> None:
    found = contents(place)
    for name in tables.ALL:
        assert found[name] == expected[name], name
    opened = delta.Opened(place)
    marks = {plan.mark(opened[name]) for name in tables.SILVER_TABLES}
    assert len(marks) == 1 and not plan.is_open(opened)


class Case:
    """A log of two parts, of which the tables in `before` have the first, and what the tables must
    hold in the end: with the frames of the other version in quarantine, and after a replay."""

    def __init__(self, folder: Path) -> None:
        self.log, self.before, self._folder = folder / "log", folder / "before", folder
        first_part(self.log)
        job.run(Serial(), self.log, self.before, versions=(1,))
        assert quarantine.reasons(self.before)["unknown version 2"] == 5
        second_part(self.log)
        self._count = 0
        plain, self.expected = self.fresh(), {}
        run(self.log, plain)
        self.expected[False] = contents(plain)
        replay(plain)
        run(self.log, plain)
        self.expected[True] = contents(plain)
        assert windows_of(plain) == recomputed_windows(plain)
        assert quarantine.conflicts(plain) == 2

    def fresh(self) -> Path:
        """A copy of the tables that have the first part."""
        self._count += 1
        place = self._folder / f"tables-{self._count}"
        shutil.copytree(self.before, place)
        return place

    def driver(self, place: Path, most_bytes: int = ALL_BYTES) -> Driver:
        return Driver(lambda: run(self.log, place, most_bytes))


def replay(place: Path) -> tuple[int, int]:
    return quarantine.replay(place, "unknown version", versions=VERSIONS)


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    return Case(tmp_path_factory.mktemp("case"))


@pytest.fixture(autouse=True)
def in_steps():
    with driver_steps.in_steps():
        yield


@contextlib.contextmanager
def without_gold():
    """For tests of rounds alone: a run ends with them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gold, "write", lambda *_, **__: 0)
        patch.setattr(parked, "file", lambda *_: 0)
        yield


# --- One driver ---


@pytest.mark.parametrize("after", [0, 1])
def test_a_driver_that_dies_before_and_after_any_commit_changes_nothing(case, after):
    """Each dies at its first commit that the tables do not have, then another goes on."""
    place, deaths = case.fresh(), 0
    while True:
        driver = case.driver(place)
        alive = driver.step()
        for _ in range(deaths % 2 + after):
            alive = alive and driver.step()
        if not alive:
            break
        driver.step(dies=True)
        deaths += 1
        readable(place)
        assert deaths < 60
    assert deaths >= len(tables.SILVER_TABLES)
    assert_same(place, case.expected[False])


def readable(place: Path) -> None:
    """No number twice, whenever it died."""
    rows = tables.read_table(place, "readings", ["device", "seq", "record"]).to_pylist()
    assert len(rows) == len({tuple(row.values()) for row in rows})


# --- Two drivers ---


def interleavings(steps: int) -> list[str]:
    """Of two drivers that are alike, so the first begins."""
    places = itertools.combinations(range(1, 2 * steps), steps)
    return ["".join("ab"[at in place] for at in range(2 * steps)) for place in places]


def go_on(drivers: dict[str, Driver], order: str) -> None:
    for name in order:
        drivers[name].step()
    for driver in drivers.values():
        driver.finish()


def test_two_drivers_that_meet_at_any_commits_of_a_round_do_it_once(case):
    """Each combination of their first commits; then one finishes, and the other."""
    with without_gold():
        for order in interleavings(3):
            place = case.fresh()
            drivers = {name: case.driver(place) for name in "ab"}
            go_on(drivers, order)
            silver = contents(place, tables.SILVER_TABLES)
            assert silver == {name: case.expected[False][name] for name in silver}, order
            assert plan.number(delta.open_table(place / "streams")) == 2
            shutil.rmtree(place)


@pytest.mark.parametrize("order", ["ab", "aab", "aabb", "abb", "aaabbbb", "abababab", "aaaab"])
def test_of_two_that_plan_different_rounds_the_first_commit_decides(case, order):
    """One takes a segment a round, the other all that is there."""
    place = case.fresh()
    drivers = {"a": case.driver(place, ONE_SEGMENT), "b": case.driver(place)}
    go_on(drivers, order)
    assert_same(place, case.expected[False])


def test_a_driver_whose_tables_are_older_than_the_round_that_is_open_plans_anew(case, monkeypatch):
    """It has read the last table before a round, and the first one after the round's end and
    another one's beginning."""
    place = case.fresh()
    late = delta.Opened(place)
    assert late["streams"].version() > 0
    with without_gold():
        rival = case.driver(place, ONE_SEGMENT)
        while plan.number(delta.open_table(place / "quarantine")) < 3:
            assert rival.step()
    monkeypatch.setattr(late, "again", monkeypatch.undo)  # at its start
    run(case.log, late)
    rival.finish()
    assert_same(place, case.expected[False])


def test_gold_of_two_drivers_is_that_of_one(case):
    for order in ("abababababababababababab", "aaaaaabbbbbbbbababab", "aaaaaaaabbbbbbbbb"):
        place = case.fresh()
        go_on({name: case.driver(place) for name in "ab"}, order)
        assert_same(place, case.expected[False])


def test_windows_that_two_drivers_leave_for_later_are_done_in_the_end(tmp_path, monkeypatch):
    """Late readings for windows of four days, of which a round reads one. The drivers make lists of
    the others (left.py), and may die after they have made one."""
    log, before, plain = (tmp_path / name for name in ("log", "before", "plain"))
    days = [T0 - DAY_MS / 1000 * n for n in range(4)]
    put(log, *(message(n, 1, bt=at) for n, at in enumerate(days)))
    run(log, before)
    shutil.copytree(before, plain)
    put(log, *(message(10 + n, 1, bt=at + 1) for n, at in enumerate(days)))
    job.run(Serial(), log, plain, is_all=True)
    expected, had_lists = contents(plain), []
    for module, name in ((stored, "MOST_FILES"), (parked, "MOST_DAYS"), (tables, "_FEW_DAYS")):
        monkeypatch.setattr(module, name, 1)
    for number, order in enumerate(("abababababababab", "aaaaaaabbbbbbbbaaa", "aaaaaabaaaabbbb")):
        place = tmp_path / f"tables-{number}"
        shutil.copytree(before, place)
        drivers = {name: Driver(partial(run, log, place)) for name in "ab"}
        for name in order:
            drivers[name].step()
        drivers["a"].step(dies=True)
        drivers["b"].finish()
        had_lists.append((place / "left").exists())
        job.run(Serial(), log, place, is_all=True)
        assert_same(place, expected)
    assert any(had_lists)


# --- Beside them ---


def test_a_replay_beside_any_commit_of_a_round_frees_each_frame_once(case):
    """In the end there may be frames that wait for the next round."""
    for commits in (0, 1, 2, 5):
        place, driver = case.fresh(), None
        with without_gold():
            driver = case.driver(place)
            for _ in range(commits):
                driver.step()
            assert replay(place) == (5, 0)
            assert replay(place) == (0, 0)
            driver.finish()
        run(case.log, place)
        assert_same(place, case.expected[True])
        assert replay(place) == (0, 0)


def test_a_replay_killed_before_its_commit_has_freed_nothing(case):
    place = case.fresh()
    calls = [Driver(lambda: replay(place)) for _ in range(2)]
    calls[0].step()
    calls[0].step(dies=True)
    assert quarantine.reasons(place)["unknown version 2"] == 5
    calls[1].finish()
    assert quarantine.reasons(place)["unknown version 2"] == 0
    run(case.log, place)
    assert_same(place, case.expected[True])


def test_compaction_between_any_two_commits_changes_nothing(case):
    place = case.fresh()
    driver = case.driver(place)
    while driver.step():
        upkeep.compact(place)
    assert_same(place, case.expected[False])


def test_compaction_keeps_what_the_driver_needs_that_finishes_an_open_round(case):
    """Also with --keep-hours 0, after a driver that died."""
    with without_gold():
        for commits in range(1, len(tables.SILVER_TABLES)):
            place = case.fresh()
            upkeep.compact(place, kept_h=0)
            driver = case.driver(place)
            for _ in range(1 + commits):
                driver.step()
            driver.step(dies=True)
            upkeep.compact(place, kept_h=0)
            run(case.log, place)
            silver = contents(place, tables.SILVER_TABLES)
            assert silver == {name: case.expected[False][name] for name in silver}, commits


def test_a_device_that_is_deleted_beside_a_round_does_not_come_back(case, tmp_path):
    """What the tables had of it: the round moves, displaces and repeats some of that. Then all of
    the log comes once more: nothing is stored twice."""
    again = tmp_path / "log"
    shutil.copytree(case.log, again)
    first_part(again)
    second_part(again)
    for commits in (1, 2, 5):
        place = case.fresh()
        driver = case.driver(place)
        with without_gold():
            for _ in range(commits):
                driver.step()
            is_over = not plan.is_open(delta.Opened(place)) and commits > 1
            if not is_deleted(place, "board-5"):
                assert 1 < commits < 5
            driver.finish()
        run(case.log, place)
        found = numbers_of(place, "board-5")
        if commits < 2:
            assert found == {2, 3, 7, 8, 9, 10}, "what the round's segments have of it"
        if is_over:
            assert not found
        assert windows_of(place) == recomputed_windows(place)
        run(again, place)
        assert numbers_of(place, "board-5") == {*range(11)} - {6}


def is_deleted(place: Path, device: str) -> bool:
    """False: refused, because a round is open."""
    try:
        upkeep.delete_device(place, device)
    except upkeep.ToolError:
        return False
    return True


def numbers_of(place: Path, device: str) -> set[int]:
    readable(place)
    rows = tables.read_table(place, "readings", ["device", "seq"]).to_pylist()
    return {row["seq"] for row in rows if row["device"] == device}


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_a_device_that_is_deleted_while_a_driver_looks_away_is_not_stored_twice(case, steps):
    """Its own round begins and ends in the middle of the deletion."""
    place = case.fresh()
    done, delete = [], upkeep.deleted
    with pytest.MonkeyPatch.context() as patch, without_gold():

        def deleted(place_, name, *more):
            if len(done) == steps:
                run(case.log, place)
            done.append(name)
            return delete(place_, name, *more)

        patch.setattr(upkeep, "deleted", deleted)
        upkeep.delete_device(place, "board-5")
    assert done[:2] == ["streams", "quarantine"]
    again = place.parent / f"log-{place.name}"
    shutil.copytree(case.log, again)
    first_part(again)
    second_part(again)
    run(again, place)
    assert numbers_of(place, "board-5") >= {0, 1, 4, 5}
    assert windows_of(place) == recomputed_windows(place)


# --- Anything, in any order ---

ACTIONS = ["a", "b", "a", "b", "aa", "bbb", "kill a", "kill b", "compact", "replay", "log"]


class Scene:
    """Two drivers at the same tables and a log of their own. One that has ended, or died, starts
    again at its next turn."""

    def __init__(self, case: Case, *, is_alike: bool) -> None:
        self.place, self._drivers = case.fresh(), {}
        self.log = self.place.with_name(f"log-of-{self.place.name}")
        shutil.copytree(case.log, self.log)
        self._limits = {"a": ALL_BYTES, "b": ALL_BYTES if is_alike else ONE_SEGMENT}

    def do(self, action: str) -> None:
        others = {
            "compact": lambda: upkeep.compact(self.place),
            "log": lambda: third_part(self.log),
        }
        others["replay"] = lambda: replay(self.place)
        if action in others:
            others[action]()
        elif action.startswith("kill"):
            if driver := self._drivers.pop(action[-1], None):
                driver.step(dies=True)
        else:
            for name in action:
                self._step(name)

    def _step(self, name: str) -> None:
        if name not in self._drivers or self._drivers[name].is_over:
            work = partial(run, self.log, self.place, self._limits[name])
            self._drivers[name] = Driver(work)
        self._drivers[name].step()

    def end(self) -> None:
        for driver in self._drivers.values():
            driver.finish()
        replay(self.place)
        run(self.log, self.place)


@settings(max_examples=int(os.environ.get("PLAN_EXAMPLES", "3")), deadline=None,
          suppress_health_check=[HealthCheck.function_scoped_fixture])  # fmt: skip
@given(st.lists(st.sampled_from(ACTIONS), min_size=6, max_size=16), st.booleans())
def test_whatever_happens_beside_two_drivers_the_tables_are_those_of_one(case, actions, is_alike):
    scene, plain = Scene(case, is_alike=is_alike), case.fresh()
    for action in actions:
        scene.do(action)
    scene.end()
    replay(plain)
    run(scene.log, plain)
    assert_same(scene.place, contents(plain))
    assert windows_of(scene.place) == recomputed_windows(scene.place)
    for one in (scene.log, scene.place, plain):
        shutil.rmtree(one)
