# cpython-only: Arrow and Delta Lake
"""The engine without Spark: a pool of processes. Killed drivers: test_tables_kill.py."""

import argparse
import os
import signal
import subprocess
import sys
import threading

import pytest

from ground_truth import SEED, Board, Log, assert_exact
from optional_packages import needed

with needed("the pipeline's packages"):
    from outpost_tools.readings.pipeline import engines, job, retries, rounds, tables
    from serial_engine import Serial
    from test_plan import contents


@pytest.fixture
def log(tmp_path) -> Log:
    made = Log(tmp_path / "log", SEED)
    for seq in range(60):
        for number in range(4):
            made.message(Board(f"board-{number}", f"{number:08x}"), seq)
    made.repeat_some(0.1)
    made.refuse("board-1", b"{", "not JSON")
    made.seal(["a", "b"], per_segment=20)
    return made


def run_of(work, log: Log, place, said: list[str]) -> rounds._Rounds:
    args = argparse.Namespace(log=log.directory, tables=place, window=10.0, continuous=False)
    args.delete_consumed, args.sources = False, None
    return rounds._Rounds(args, work, threading.Event(), said.append)


def test_a_pool_whose_process_is_killed_is_replaced(log, tmp_path, monkeypatch):
    """As the kernel does when memory is short. The tables are those of one process."""
    monkeypatch.setattr(retries, "SINGLE_S", (0.01,) * 3)
    run, killed = job.run, []

    def killing(engine, *arguments, **named):
        if not killed:
            killed.extend(engine.map(_pid, [0]))
            os.kill(killed[0], signal.SIGKILL)
            while not engine.is_broken:
                engine.map(_pid, [0])
        return run(engine, *arguments, **named)

    monkeypatch.setattr(job, "run", killing)
    work, said = rounds._InPool(tmp_path / "spark.log"), []
    try:
        assert run_of(work, log, tmp_path / "tables", said).run() == 0
    finally:
        work.close()
    (line,) = (one for one in said if "again in" in one)
    assert "the pool of processes has died; again in 0 s (retry 1 of 3); details: " in line
    assert_exact(log, tmp_path / "tables")
    run(Serial(), log.directory, tmp_path / "serial")
    found, expected = (contents(tmp_path / name) for name in ("tables", "serial"))
    assert all(found[name] == expected[name] for name in tables.ALL)


def _pid(_: int) -> int:
    return os.getpid()


def test_the_engine_loads_no_spark():
    """Where there is no Java, PySpark may be missing too."""
    code = "import sys; from outpost_tools.readings.pipeline import engines, job, rounds;"
    code += "print([one for one in sys.modules if 'spark' in one and 'outpost' not in one])"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"
    for name in engines._LOADED:
        assert name in sys.modules
