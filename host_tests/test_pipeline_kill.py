# cpython-only: Spark and Arrow
"""The driver of the pipeline killed with SIGKILL, again and again on the same tables, and its command line.

Each run costs a Spark start, so the short form kills once, in the middle of writing silver (test_pipeline.py replays a
batch whose commit was lost). `KILLS=20 SEED=n` kills there, between ranges and commit, and at 20 random moments.
"""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from outpost_tools.errors import ToolError
from support.ground_truth import SEED, Board, Log, assert_exact

try:
    from outpost_tools.pipeline import session, tables

    session.check_java()
except (ImportError, ToolError) as problem:
    if os.environ.get("CI") == "true":
        raise
    pytest.skip(f"needs PySpark and Java 17: {problem}", allow_module_level=True)

KILLS = int(os.environ.get("KILLS", "0"))
PROGRAM = """
import sys
from pathlib import Path
from outpost_tools.pipeline import job, session
log, tables = map(Path, sys.argv[1:3])
spark = session.start("local[2]", tables / "spark.log")
job.run(spark, log, tables, batch_bytes=60_000)
spark.stop()
"""


def silver_half_written(tables_dir: Path) -> bool:
    """Batch 1's readings are being written."""
    directory = tables.batch_directory(tables_dir, "readings", 1)
    return directory.exists() and not (directory / "_SUCCESS").exists()


def ranges_written_but_not_committed(tables_dir: Path) -> bool:
    number = tables.newest_batch(tables_dir, "streams")
    return number is not None and number > 1 and not (tables_dir / "_checkpoint" / "commits" / str(number)).exists()


def after(seconds: float):
    deadline = time.monotonic() + seconds
    return lambda tables_dir: time.monotonic() > deadline


def start(log: Log, tables_dir: Path) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-c", PROGRAM, str(log.directory), str(tables_dir)])


def kill_when(moment, log: Log, tables_dir: Path) -> bool:
    """Run the pipeline until `moment`; False when it ended before."""
    process = start(log, tables_dir)
    while process.poll() is None:
        if moment(tables_dir):
            process.send_signal(signal.SIGKILL)
            process.wait()
            return True
        time.sleep(0.002)
    assert process.returncode == 0
    return False


@pytest.mark.timeout(300 + 60 * KILLS)
def test_driver_killed_while_writing_then_run_again_gives_the_truth(tmp_path):
    log, tables_dir = Log(tmp_path / "log", SEED), tmp_path / "tables"
    boards = [Board(f"board-{n}", f"{n:08x}") for n in range(3)]
    for seq in range(400):
        for board in boards:
            log.message(board, seq, held=max(0, seq - 10))
    log.refuse("board-1", b"{", "not JSON")
    log.repeat_some(0.05)
    log.disorder(30)
    log.seal(["collector-1"], per_segment=100)

    assert kill_when(silver_half_written, log, tables_dir)
    if KILLS:
        assert kill_when(ranges_written_but_not_committed, log, tables_dir)
    chance = random.Random(SEED)
    for _ in range(KILLS):
        kill_when(after(chance.uniform(5, 30)), log, tables_dir)
    answer = command("--log", log.directory, "--tables", tables_dir)
    assert answer.returncode == 0
    assert all("pipeline: " in line for line in answer.stderr.splitlines()), "Spark's noise on stderr"

    assert_exact(log, tables_dir)
    streams = tables.read_table(tables_dir, "streams").to_pylist()
    assert sum(row["copies"] for row in streams) == log.copies
    assert tables.read_table(tables_dir, "quarantine")["reason"].to_pylist() == ["not JSON"]


def command(*arguments: object, **environment: str) -> subprocess.CompletedProcess:
    line = [sys.executable, "-m", "outpost_tools.cli", "pipeline", "run", *map(str, arguments)]
    return subprocess.run(line, capture_output=True, text=True, check=False, env=os.environ | environment)


@pytest.fixture
def one_segment(tmp_path) -> Path:
    log = Log(tmp_path / "log", SEED)
    log.message(Board("board-1", "00000001"), 0)
    log.seal(["collector-1"], per_segment=10)
    return log.directory


def test_missing_log_directory_is_named(tmp_path):
    answer = command("--log", tmp_path / "nothing", "--tables", tmp_path / "tables")
    assert answer.returncode == 2
    assert f"{tmp_path}/nothing: no such directory" in answer.stderr
    assert answer.stderr.count("\n") == 1


def test_log_directory_without_segments_is_named(tmp_path):
    answer = command("--log", tmp_path, "--tables", tmp_path / "tables")
    assert answer.returncode == 2
    assert "no sealed segment" in answer.stderr


def test_missing_java_is_one_line_that_says_what_to_install(tmp_path, one_segment):
    answer = command("--log", one_segment, "--tables", tmp_path / "tables", JAVA_HOME=str(tmp_path))
    assert answer.returncode == 2
    assert "no Java found" in answer.stderr and "openjdk-17" in answer.stderr
    assert "Traceback" not in answer.stderr


def test_old_java_is_refused(tmp_path, one_segment):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)
    answer = command("--log", one_segment, "--tables", tmp_path / "tables", JAVA_HOME=str(tmp_path))
    assert answer.returncode == 2
    assert "Java 11" in answer.stderr
