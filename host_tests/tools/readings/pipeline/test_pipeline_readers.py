# cpython-only: Spark
"""Five engines read the tables in a loop while the pipeline's driver is killed, again and again,
and compactions go on: no row twice, none that was there before gone. `make kills-readers`.

test_pipeline.py has the same beside runs that nobody kills, row by row against the truth.
"""

import itertools
import os
import random
import subprocess
import sys
import threading
from collections import Counter, defaultdict
from pathlib import Path

import pytest

import engines
import test_pipeline_kill as kills  # skips this file, too, where Java is missing
from ground_truth import SEED, Log, assert_exact
from outpost_tools.readings.pipeline import session, tables, upkeep

KILLS = int(os.environ.get("OUTPOST_READER_KILLS", "0"))
pytestmark = [
    pytest.mark.skipif(not KILLS, reason="optional: make kills-readers; half a minute a kill"),
    pytest.mark.timeout(900 + 120 * KILLS),
]
# What tells a row of each table from the others. Rows of `gaps` go when a number comes late, and
# `totals` may have several rows of a boot.
KEYS = {
    "readings": ["device", "stream", "seq", "record"],
    "quarantine": ["collector", "segment", "offset"],
    "streams": ["device", "stream"],
    "windows": ["device", "name", "start"],
    "latency": ["device"],
    "devices": ["device"],
    "boots": ["device", "stream", "boot"],
}


class Watcher(threading.Thread):
    """Reads all tables with each engine in turn until stop(); compares with what it saw before
    (engines have times of different types). Compacts now and then, as a timer would."""

    def __init__(self, tables_dir: Path, readers: dict) -> None:
        super().__init__(daemon=True)
        self._tables_dir, self._readers, self._stopping = tables_dir, readers, threading.Event()
        self._seen: defaultdict[tuple[str, str], Counter] = defaultdict(Counter)
        self.reads, self.twice, self.fewer, self.compactions = Counter(), 0, 0, 0
        self.fault: BaseException | None = None

    def run(self) -> None:
        try:
            for turn, engine in enumerate(itertools.cycle(self._readers)):
                if self._stopping.is_set():
                    return
                if turn % 20 == 19 and tables.exists(self._tables_dir, "totals"):
                    upkeep.compact(self._tables_dir)
                    self.compactions += 1
                for name in KEYS:
                    self._look(engine, name)
        except BaseException as fault:
            self.fault = fault

    def _look(self, engine: str, name: str) -> None:
        if not tables.exists(self._tables_dir, name):
            return
        rows = Counter(self._readers[engine](self._tables_dir / name, KEYS[name]))
        twice, gone = rows - Counter(set(rows)), self._seen[engine, name] - rows
        for what, found in (("twice", twice), ("gone", gone)):
            if found:
                print(f"{engine}, {name}: {what}: {found.most_common(3)}", flush=True)
        self.twice += twice.total()
        self.fewer += bool(gone)
        self._seen[engine, name] = rows
        self.reads[engine] += 1

    def stop(self) -> None:
        self._stopping.set()
        self.join()
        if self.fault:
            raise self.fault


@pytest.fixture
def readers(tmp_path):
    spark = session.start("local[1]", tmp_path / "reader" / "spark.log")
    yield engines.all_engines(spark)
    session.stop(spark)


def killed(number: int, chance: random.Random, log: Log, tables_dir: Path) -> bool:
    """New messages and a run that ends with SIGKILL; False when it was faster."""
    kills.seal_messages(log, range(number * 60, number * 60 + 60), per_segment=60)
    moments = (
        kills.silver_half_written,
        kills.gold_half_written,
        kills.silver_has_more_than_the_state,
        kills.after_start(chance.uniform(1, 10)),
    )
    return kills.kill_when(moments[number % 4], log, tables_dir, batch_bytes=30_000)


def test_five_engines_read_rightly_while_the_driver_is_killed(tmp_path, readers):
    log, tables_dir = Log(tmp_path / "log", SEED), tmp_path / "tables"
    log.refuse("board-1", b"{", "not JSON")
    chance, count, number = random.Random(SEED), 0, 0
    watcher = Watcher(tables_dir, readers)
    watcher.start()
    try:
        while count < KILLS:
            count += killed(number, chance, log, tables_dir)
            number += 1
            reads = ", ".join(f"{name} {reads}" for name, reads in watcher.reads.items())
            print(f"{number} runs, {count} killed; reads: {reads}", flush=True)
        line = [sys.executable, "-c", kills.PROGRAM, log.directory, tables_dir, str(1 << 20)]
        subprocess.run(list(map(str, line)), check=True)
    finally:
        watcher.stop()
    assert_exact(log, tables_dir)
    print(
        f"{count} kills, {watcher.compactions} compactions, {watcher.reads.total()} reads by "
        f"{len(watcher.reads)} engines: rows seen twice {watcher.twice}, counts going down "
        f"{watcher.fewer}"
    )
    assert set(watcher.reads) == set(readers) and min(watcher.reads.values()) > len(KEYS)
    assert (watcher.twice, watcher.fewer) == (0, 0)
