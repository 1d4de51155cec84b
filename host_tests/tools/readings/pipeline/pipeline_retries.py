"""Failures of Spark that pass, in the session of test_pipeline.py. test_pipeline_kill.py kills the
JVM."""

import argparse
import contextlib
import os
import threading
import time

import psutil
import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from ground_truth import SEED, Board, Log, assert_exact
from outpost_tools.readings.pipeline import delta, job, retries, rounds
from pipeline_features import T0, message, put

LATE = "Python worker failed to connect back."


def workers() -> list[psutil.Process]:
    """Spark's Python workers: forks of the daemon that its JVM has started."""
    (jvm,) = (one for one in psutil.Process(os.getpid()).children() if one.name() == "java")
    return [one for daemon in jvm.children() for one in daemon.children()]


class SameSession:
    """What rounds._OnSpark does, with one session that stays."""

    engine_name, is_dead = "Spark's JVM", False
    details = "; details: spark.log"

    def __init__(self, engine) -> None:
        self._engine = engine

    def engine(self):
        return self._engine

    def activity(self):
        return None

    def close(self) -> None:
        pass


@pytest.fixture
def made(spark, tmp_path, monkeypatch):
    """A run whose new session is the old one: what it would say is in `said`."""
    monkeypatch.setattr(retries, "SINGLE_S", (0.5,) * 20)
    args = argparse.Namespace(
        log=tmp_path / "log", tables=tmp_path / "tables", window=10.0, continuous=False
    )
    args.delete_consumed, args.sources, said = False, None, []
    run = rounds._Rounds(args, SameSession(spark), threading.Event(), said.append)
    run.said = said
    return run


def test_an_answer_that_broke_off_passes_and_what_the_jvm_says_does_not():
    """As py4j says it while the JVM is being killed, and is not dead yet."""
    broken = Py4JError("An error occurred while calling o54.get")
    assert retries.is_transient(broken)
    said = Py4JError("An error occurred while calling o54.get. Trace:\npy4j.Py4JException: none\n")
    assert not retries.is_transient(said)
    assert not retries.is_transient(ValueError("o54.get"))


@pytest.mark.long
def test_a_python_worker_that_is_killed_costs_a_retry(made, tmp_path):
    log, said, killed = Log(tmp_path / "log", SEED), made.said, []
    for seq in range(400):
        log.message(Board("board-1", "00000001"), seq)
    log.seal(["collector-1"], per_segment=50)

    def kill_until_it_fails() -> None:
        while not any("again in" in line for line in said):
            with contextlib.suppress(psutil.NoSuchProcess):
                for one in workers():
                    one.kill()
                    killed.append(one.pid)
            time.sleep(0.01)

    killer = threading.Thread(target=kill_until_it_fails, daemon=True)
    killer.start()
    try:
        assert made.run() == 0
    finally:
        told = list(said)
        said.append("again in: over")
        killer.join()
    assert killed and any("retry 1 of 20" in line for line in told), told
    assert_exact(log, tmp_path / "tables")


def test_what_stays_ends_the_run_at_once(made, tmp_path, monkeypatch):
    put(tmp_path / "log", message(0, 1, bt=T0))

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(delta, "commit", full)
    with pytest.raises(Exception, match="No space left on device"):
        made.run()
    assert not any("No space" in line for line in made.said)


@pytest.mark.long
def test_a_worker_that_starts_too_late_is_tried_again_at_once(made, tmp_path, monkeypatch):
    """In whichever step of a round: no step has a retry of its own."""
    put(tmp_path / "log", message(0, 1, bt=T0))
    late = [PySparkException(LATE)] * 2

    def write(*arguments, **named):
        if late:
            raise late.pop()
        return gold_write(*arguments, **named)

    gold_write = job.gold.write
    monkeypatch.setattr(job.gold, "write", write)
    assert made.run() == 0 and not late
    assert sum("took more than Spark's 10 s" in line for line in made.said) >= 2
    assert not any("again in" in line for line in made.said)


@pytest.mark.parametrize(
    ("error", "at_once"),
    [(ConnectionResetError("Connection reset by peer"), 0), (PySparkException(LATE), 8)],
)
def test_it_gives_up_after_so_many_in_a_row(made, monkeypatch, error, at_once):
    tries = []
    made._delays_s = (0.01, 0.02, 0.03)

    def lost(*_: object, **__: object) -> None:
        tries.append(1)
        raise error

    monkeypatch.setattr(job, "run", lost)
    with pytest.raises(type(error)):
        made.run()
    assert len(tries) == at_once + 4 and len(made.said) == at_once + 3
    assert made.said[-1].endswith("(retry 3 of 3); details: spark.log")
