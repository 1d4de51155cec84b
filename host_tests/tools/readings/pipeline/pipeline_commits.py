"""Readers of other engines at every commit of a round; run by test_pipeline.py in its Spark
session.
"""

import itertools
import threading
import time
from collections import Counter

import pytest

import engines
import patient_job
from outpost_tools.readings.pipeline import tables, upkeep
from pipeline_features import T0, message, put
from plain_windows import recomputed_windows, windows_of

KEY = ["device", "stream", "seq", "record", "value"]
COLUMNS = {
    "readings": KEY,
    "quarantine": ["collector", "segment", "offset", "reason"],
    "streams": ["device", "stream", "copies"],
    "windows": ["device", "name", "count", "mean"],
    "gaps": ["device", "stream", "first", "last"],
    "latency": ["device", "count", "max_ms"],
    "devices": ["device", "messages", "readings"],
    "boots": ["device", "stream", "boot", "readings"],
    "totals": ["device", "stream", "boot", "readings"],
}


class Watcher(threading.Thread):
    """Compacts, and reads with each engine in turn, until `stop()`; keeps what it saw."""

    def __init__(self, tables_dir, readers):
        super().__init__(daemon=True)
        self._tables_dir, self._stopping = tables_dir, threading.Event()
        self._readers, self.seen, self.faults = readers, [], []
        self.compacted = 0

    def run(self):
        try:
            for name in itertools.cycle(self._readers):
                if self._stopping.is_set():
                    return
                if tables.version(self._tables_dir, "readings"):
                    self._look(name)
                time.sleep(0.1)
        except BaseException as fault:
            self.faults.append(fault)

    def _look(self, name):
        rows = self._readers[name](self._tables_dir / "readings", KEY)
        self.seen.append((name, Counter(rows)))
        before, after = upkeep.compact(self._tables_dir)["readings"]
        self.compacted += after < before

    def stop(self):
        self._stopping.set()
        self.join()
        if self.faults:
            raise self.faults[0]


@pytest.mark.long
def test_five_engines_read_rightly_while_runs_and_compactions_go_on(spark, tmp_path):
    log, tables_dir = tmp_path / "log", tmp_path / "tables"
    truth, count = Counter(), 4
    # Each batch brings new rows of the same days, copies of older ones, and some that move: the
    # boot's clock is known from a later batch on, from a message with a lower number each time.
    for part in range(count):
        numbers = [*range(part * 20, part * 20 + 20), *range(max(0, part * 20 - 5), part * 20)]
        late = [message(900 + part, 2, up=part), message(990 - part, 2, up=99, bt=T0 + 99 + part)]
        put(log, *(message(n, 1, bt=T0 + n % 3 * 86_400) for n in numbers), *late)
        for n in (*numbers, 900 + part, 990 - part):
            truth["board-5", "00000005", n, 0, float(n)] = 1
    readers = engines.all_engines(spark.session)
    watcher = Watcher(tables_dir, readers)
    watcher.start()
    try:
        assert patient_job.run(spark, log, tables_dir, batch_bytes=1) == count
    finally:
        watcher.stop()
    upkeep.compact(tables_dir)
    assert watcher.compacted, "no compaction between the first batch and the last"
    for (_, earlier), (name, later) in itertools.pairwise(watcher.seen):
        assert earlier <= later <= truth, f"{name}: rows lost, or twice"
    for name, columns in COLUMNS.items():
        rows = tables.read_table(tables_dir, name, columns)
        ours = sorted(map(str, zip(*(rows[one].to_pylist() for one in columns), strict=True)))
        for engine, read in readers.items():
            assert sorted(map(str, read(tables_dir / name, columns))) == ours, (name, engine)
    assert Counter(map(tuple, engines.by_duckdb(tables_dir / "readings", KEY))) == truth
    assert windows_of(tables_dir) == recomputed_windows(tables_dir)
