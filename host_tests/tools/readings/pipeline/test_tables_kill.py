# cpython-only: Arrow and Delta Lake
"""Drivers of the pipeline at one log that grows and one set of tables, at once, each killed with
SIGKILL at random moments: the tables are those of one run that nobody disturbs.

    make kills-tables KILLS=75 DRIVERS=2 STORE=s3

STORE=s3: log and tables in a bucket of a real S3 server. The short form kills 4 times. Each commit
of a round in turn: test_plan.py. Spark's driver: test_pipeline_kill.py.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest

from ground_truth import SEED, START_MS, Board, Log, silver
from optional_packages import needed

with needed("the pipeline's packages"):
    from gold_truth import assert_gold_is_a_plain_recomputation
    from object_store import ObjectServer
    from outpost_tools.readings.pipeline import job, quarantine, tables, upkeep
    from outpost_tools.store.at import at
    from outpost_tools.store.base import Store
    from pipeline_driver import LIMIT_S, Driver, open_round, rounds
    from pipeline_features import message
    from serial_engine import Serial
    from test_plan import contents

KILLS = int(os.environ.get("OUTPOST_TABLES_KILLS", "4"))
DRIVERS = int(os.environ.get("OUTPOST_TABLES_DRIVERS", "2"))
IS_BUCKET = os.environ.get("OUTPOST_TABLES_STORE") == "s3"
LONGEST_S = 3.0  # a driver's life after its pool is up and somebody has done a round since
STARTING = 0.01  # of the looks at a driver that starts: it is killed then
pytestmark = pytest.mark.timeout(600 + 60 * KILLS)


BY_READING = ("twin_signs", "last_seq", "last_boot", "last_conflicts")


class Traffic:
    """A log that grows: repeats, disorder, frames that are none; boards whose clock is set late,
    and two with one identity. `log` is here, and `target` may be in a bucket."""

    def __init__(self, folder: Path, target: Store) -> None:
        self.log, self._target, self._sent = Log(folder, SEED), target, 0
        self._put: set[Path] = set()
        self._boards = [
            Board(f"board-{n}", f"{n:08x}", clock_ms=START_MS + n if n % 4 else None)
            for n in range(12)
        ]

    def grow(self, count: int = 20) -> None:
        chance, first = self.log.random, self._sent
        self._sent += count
        for seq in range(first, first + count):
            for board in self._boards:
                self.log.message(board, seq, held=max(0, seq - 10))
            # of this boot, a third of its messages say the clock: what came before is moved
            times = {"bt": START_MS / 1000 + seq} if seq % 3 == 2 else {}
            late = message(seq, seq // 30, up=seq, device="late", **times)
            values = {seq, seq + chance.choice((0, 0, 0.5))}
            twins = [message(seq, 1, bt=START_MS / 1000, device="twin", value=v) for v in values]
            self.log._waiting += [(name, content, False) for name, content in
                                  (("late", late), *(("twin", one) for one in twins))]  # fmt: skip
        for seq in chance.sample(range(self._sent), min(count, self._sent)):  # an old outbox
            self.log.message(chance.choice(self._boards), seq)
        self.log.refuse("board-1", b"{%d" % first, "not JSON")
        self.log.repeat_some(0.05)
        self.log.disorder(100)
        self.log.seal(["collector-1", "collector-2"], per_segment=150)
        self._upload()

    def _upload(self) -> None:
        for path in sorted({*self.log.directory.rglob("*.seg")} - self._put):
            name = path.relative_to(self.log.directory).as_posix()
            if not self._target.is_local:
                self._target.put(name, path.read_bytes())
            self._put.add(path)


@pytest.fixture
def places(tmp_path, monkeypatch):
    """(log, tables)"""
    if not IS_BUCKET:
        yield at(tmp_path / "log"), at(tmp_path / "tables")
        return
    with ObjectServer(tmp_path / "server") as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        bucket = server.bucket()
        yield at(f"{bucket}/log"), at(f"{bucket}/tables")


def kill_all(traffic: Traffic, log: Store, place: Store, said: Path) -> tuple[Counter, list]:
    """(what was open at how many kills, the processes of the pools)."""
    chance, tally, pools = random.Random(SEED), Counter(), []

    def started() -> Driver:
        return Driver(log, place, said, chance.uniform(0, LONGEST_S))

    drivers = [started() for _ in range(DRIVERS)]
    try:
        while tally.total() < KILLS:
            for at_, driver in enumerate(drivers):
                if driver.is_due(starts=chance.random() < STARTING):
                    pools += driver.kill()
                    tally[open_round(place) or "no round"] += 1
                    report(tally, place)
                    drivers[at_] = started()
            if tally.total() % 10 == 9 and tables.exists(place, "totals"):
                upkeep.compact(place)
            traffic.grow()
            time.sleep(0.5)
        for driver in drivers:
            driver.stop()
    finally:
        for driver in drivers:
            driver.close()
    return tally, pools


def report(tally: Counter, place: Store) -> None:
    print(f"{tally.total()} kills, {rounds(place)} rounds; open: {dict(tally)}", flush=True)


def test_drivers_killed_at_random_moments_make_the_tables_of_one(tmp_path, places):
    log, place = places
    traffic = Traffic(tmp_path / "log", log)
    traffic.grow()
    said = tmp_path / "said.txt"
    tally, pools = kill_all(traffic, log, place, said)
    _, alive = psutil.wait_procs(pools, LIMIT_S)
    assert not alive, "processes of a pool outlive their driver"
    job.run(Serial(), log, place, is_all=True)
    assert_right(traffic.log, place, tmp_path / "plain")
    frames = sum(row["copies"] for row in tables.read_table(place, "streams").to_pylist())
    text = said.read_text(errors="replace")
    print(f"{dict(tally)} of {tally.total()} kills of {DRIVERS} drivers; {frames:,} messages; "
          f"{text.count('pipeline: round '):,} rounds done by drivers, "
          f"{rounds(place):,} counted; "
          f"{text.count('failed:')} failures retried: exact")  # fmt: skip


def _differing(place: Store, plain: Path, name: str) -> list[str]:
    """The columns in which rows of the same device differ, with the first values that do."""
    found = []
    rows = [tables.read_table(one, name).to_pylist() for one in (place, plain)]
    for one, other in zip(*(sorted(part, key=str) for part in rows), strict=False):
        for column in one:
            if one[column] != other[column]:
                parts = [one[column], other[column]]
                if isinstance(one[column], list) and isinstance(other[column], list):
                    both = [value for value in parts[0] if value in parts[1]]
                    parts = [[value for value in part if value not in both] for part in parts]
                found.append(f"{one.get('device')} {column} {str(parts)[:300]}; SEED={SEED}")
    return found[:5]


def assert_right(log: Log, place: Store, plain: Path) -> None:
    """Against what was sent, against gold recomputed, and against one run over all."""
    rows = silver(place)
    assert len(rows) == len(set(rows)), f"duplicates; SEED={SEED}"
    assert {row for row in rows if row[0] not in ("late", "twin")} == log.rows
    reasons = quarantine.reasons(place)
    assert reasons["not JSON"] == len(log.refused) and quarantine.conflicts(place) > 0
    assert_gold_is_a_plain_recomputation(place)
    job.run(Serial(), log.directory, plain, is_all=True)
    # `totals` has a row for each time that a boot closed; what follows from it is compared.
    apart = ("streams", "fingerprints", "totals")
    names = [name for name in tables.ALL if name not in apart]
    expected, tables_of = contents(plain, names), contents(place, names)
    for name in names:
        assert tables_of[name] == expected[name], f"{name}: {_differing(place, plain, name)}"
    assert states(place) == states(plain), _differing(place, plain, "streams")
    # One that is contested again, because an earlier copy came, may be there twice.
    assert {*contents(place, ["fingerprints"])["fingerprints"]} == {
        *contents(plain, ["fingerprints"])["fingerprints"]
    }


def states(place: Store | Path) -> list[str]:
    """Without what is judged in the order of reading: drivers may find one collector's segments
    before the other's, and one run over all finds both."""
    names = [one for one in tables.schema("streams").names if one not in (*BY_READING, "bucket")]
    return sorted(map(str, tables.read_table(place, "streams", names).to_pylist()))
