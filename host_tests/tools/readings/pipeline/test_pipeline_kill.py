# cpython-only: Spark and Arrow
"""The driver of the pipeline killed with SIGKILL, repeatedly on the same tables;
`--continuous`; the command line.

Each run costs a Spark start, so the short form kills once, in the middle of writing silver, and the
run after the kill is the one that survives the death of its JVM and goes on until SIGTERM. The long
form, `OUTPOST_PIPELINE_KILLS=50 SEED=n`, takes 200,000 messages with 5 % duplicates, replays of
whole days and disorder, and kills also between the commits of quarantine and silver, of silver and
state, of two tables of gold, and at 50 random moments; with it go a compaction before every tenth
run, a check of gold against a plain recomputation, and Ctrl-C. Each commit without Spark:
test_plan.py; two drivers at once: test_tables_kill.py.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

import outpost_command
from ground_truth import SEED, START_MS, Board, Log, assert_exact
from optional_packages import needed
from outpost_tools.errors import ToolError
from outpost_tools.machine import java

with needed("PySpark and Java", ToolError):
    from gold_truth import assert_gold_is_a_plain_recomputation
    from outpost_tools.readings.pipeline import delta, plan, tables, upkeep

    java.environment()

pytestmark = pytest.mark.timeout(900)  # two starts of Spark, on a busy machine minutes
KILLS = int(os.environ.get("OUTPOST_PIPELINE_KILLS", "0"))
MESSAGES = int(os.environ.get("OUTPOST_PIPELINE_MESSAGES", "200000"))
LIMIT_S = 240  # of a step, on a busy machine
STOP_S = 200  # after SIGTERM; 5 on an idle machine
BOARDS = [Board(f"board-{n}", f"{n:08x}") for n in range(3)]
PROGRAM = """
import sys
from pathlib import Path
from outpost_tools.readings.pipeline import job, session
from outpost_tools.readings.pipeline.spark import Spark
log, tables = map(Path, sys.argv[1:3])
spark = session.start("local[2]", tables / "spark.log")
(tables / ".started").touch()
job.run(Spark(spark), log, tables, batch_bytes=int(sys.argv[3]))
spark.stop()
"""


def commits(tables_dir: Path, name: str) -> int:
    """How many rounds that table has."""
    if not tables.exists(tables_dir, name):
        return 0
    return plan.number(delta.open_table(tables_dir / name))


def silver_half_written(tables_dir: Path) -> bool:
    """Round 1's readings are being written: files that no commit names."""
    if commits(tables_dir, "readings") != 1:
        return False
    known = len(delta.files_of(delta.open_table(tables_dir / "readings")))
    return len([*(tables_dir / "readings").rglob("part-*")]) > known


def silver_has_more_than_the_state(tables_dir: Path) -> bool:
    return commits(tables_dir, "readings") > commits(tables_dir, "streams")


def planned_and_no_more(tables_dir: Path) -> bool:
    return commits(tables_dir, "quarantine") > commits(tables_dir, "readings")


def gold_half_written(tables_dir: Path) -> bool:
    """Some of its tables are a version further than the others."""
    found = {tables.version(tables_dir, name) for name in tables.GOLD_TABLES}
    return len(found) > 1


def after_start(seconds: float):
    """So long after Spark has started: before, there is nothing to tear."""
    begin = time.time()

    def moment(tables_dir: Path) -> bool:
        mark = tables_dir / ".started"
        return mark.exists() and begin < mark.stat().st_mtime < time.time() - seconds

    return moment


def kill_when(moment, log: Log, tables_dir: Path, batch_bytes: int = 60_000) -> bool:
    """Run the pipeline until `moment`; False when it ended before."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(log.directory), str(tables_dir), str(batch_bytes)]
    )
    while process.poll() is None:
        if moment(tables_dir):
            process.send_signal(signal.SIGKILL)
            process.wait()
            return True
        time.sleep(0.002)
    assert process.returncode == 0
    return False


def seal_messages(log: Log, numbers: range, per_segment: int = 1000) -> None:
    for seq in numbers:
        for board in BOARDS:
            log.message(board, seq, held=max(0, seq - 10))
    log.repeat_some(0.05)
    log.disorder(30)
    log.seal(["collector-1"], per_segment)


class Continuous:
    """`outpost pipeline run --continuous` as a process, a round a second."""

    def __init__(self, log: Log, tables_dir: Path) -> None:
        line = outpost_command.line(
            "pipeline", "run", "--log", log.directory, "--tables", tables_dir
        )
        line += ["--continuous", "--interval", "1", "--master", "local[2]"]
        self._process = subprocess.Popen(
            [*map(str, line)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._tables_dir = tables_dir

    def __enter__(self) -> "Continuous":
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()

    def wait(self, moment, pause_s: float = 0.2) -> None:
        """Until `moment()`. A run that ends by itself has failed."""
        deadline = time.monotonic() + LIMIT_S
        while not moment():
            assert self._process.poll() is None, self._process.communicate()[1]
            assert time.monotonic() < deadline, "nothing came in"
            time.sleep(pause_s)

    def has(self, log: Log) -> bool:
        """Gold of all of the log's messages, as the end of a round leaves it."""
        if not tables.exists(self._tables_dir, "devices"):
            return False
        rows = tables.read_table(self._tables_dir, "devices", ["received"]).to_pylist()
        return sum(row["received"] for row in rows) == log.copies

    def kill_java(self) -> None:
        """As the kernel does when memory is short."""
        children = psutil.Process(self._process.pid).children()
        (jvm,) = (child for child in children if child.name() == "java")
        jvm.send_signal(signal.SIGKILL)

    def planned(self) -> int:
        """How many rounds have their first commit."""
        return commits(self._tables_dir, "quarantine")

    def stop(self, number: int) -> tuple[int, str, float]:
        """(exit status, what it said, seconds). SIGINT goes to its children too, as a terminal's
        Ctrl-C does.
        """
        begin = time.monotonic()
        os.killpg(
            self._process.pid, number
        ) if number == signal.SIGINT else self._process.send_signal(number)
        _, said = self._process.communicate(timeout=LIMIT_S)
        return self._process.returncode, said, time.monotonic() - begin


@pytest.mark.long
def test_driver_then_jvm_killed_and_run_until_sigterm_gives_the_truth(tmp_path):
    log, tables_dir = Log(tmp_path / "log", SEED), tmp_path / "tables"
    log.refuse("board-1", b"{", "not JSON")
    seal_messages(log, range(160), per_segment=60)
    for _ in range(5):
        if kill_when(silver_half_written, log, tables_dir):
            break
        shutil.rmtree(tables_dir)  # a busy machine: the moment was over before we looked
    else:
        pytest.fail("it is never seen while it writes")

    with Continuous(log, tables_dir) as run:
        run.wait(lambda: run.has(log))
        assert_exact(log, tables_dir)
        seal_messages(log, range(160, 200))  # while it waits for its next round
        run.wait(lambda: run.has(log))
        assert_exact(log, tables_dir)
        run.kill_java()
        before = run.planned()
        seal_messages(log, range(200, 240))
        run.wait(lambda: run.planned() > before, 0.01)
        status, said, seconds = run.stop(signal.SIGTERM)
    print(f"stopped after {seconds:.1f} s")
    assert status == 0 and seconds < STOP_S, said
    assert "Spark's JVM has died; again in 5 s (retry 1 of 8)" in said
    noise = [line for line in said.splitlines() if "pipeline: " not in line]
    assert not noise, "Spark's noise on stderr"

    assert_exact(log, tables_dir)  # the round that was under way was finished, its gold too
    assert run.has(log)
    assert (
        sum(row["copies"] for row in tables.read_table(tables_dir, "streams").to_pylist())
        == log.copies
    )
    assert tables.read_table(tables_dir, "quarantine")["reason"].to_pylist() == ["not JSON"]


@pytest.mark.skipif(not KILLS, reason="optional: OUTPOST_PIPELINE_KILLS=1; another start of Spark")
def test_ctrl_c_finishes_the_round_too(tmp_path):
    log, tables_dir = Log(tmp_path / "log", SEED), tmp_path / "tables"
    seal_messages(log, range(100))
    with Continuous(log, tables_dir) as run:
        run.wait(run.planned, 0.01)
        status, said, _ = run.stop(signal.SIGINT)
    assert status == 0, said
    assert run.has(log)
    assert_exact(log, tables_dir)


def many_messages(log: Log) -> None:
    """200 streams over three weeks: each week live with gaps that come late, and every week whole
    outboxes again.
    """
    boards = [Board(f"board-{n}", f"{n:08x}", clock_ms=START_MS - n * 60_000) for n in range(200)]
    per_board, weeks = MESSAGES // len(boards), 3
    for week in range(weeks):
        numbers = range(per_board * week // weeks, per_board * (week + 1) // weeks)
        for seq in numbers:
            for board in boards:
                if (seq * 31 + int(board.stream, 16)) % 997 or week == weeks - 1:
                    log.message(board, seq, held=max(0, seq - 300))
        # what was left out comes with the outbox of this board, days later
        for board in boards[week::7]:
            for seq in range(numbers.stop):
                log.message(board, seq)
        log.repeat_some(0.05)
        log.disorder(5000)
        log.seal(["collector-1", "collector-2"], per_segment=500)


def messages_taken_in(tables_dir: Path) -> int:
    state = (
        tables.read_table(tables_dir, "streams", ["copies"])
        if tables.exists(tables_dir, "streams")
        else None
    )
    return sum(state["copies"].to_pylist()) if state else 0


@pytest.mark.skipif(
    not KILLS, reason="optional: OUTPOST_PIPELINE_KILLS=50 kills at 50 random moments, half an hour"
)
@pytest.mark.timeout(600 + 90 * KILLS)
def test_driver_killed_at_many_random_moments(tmp_path):
    log, tables_dir = Log(tmp_path / "log", SEED), tmp_path / "tables"
    many_messages(log)
    total = sum(path.stat().st_size for path in log.directory.rglob("*.seg"))
    chance, killed, done, longest_s = random.Random(SEED), 0, 0, 21.0
    moments = [silver_half_written, silver_has_more_than_the_state, planned_and_no_more]
    moments += [None] * KILLS + [gold_half_written]
    for number, moment in enumerate(moments):
        if number % 10 == 9:
            upkeep.compact(tables_dir)
        before, moment = done, moment or after_start(chance.uniform(1, longest_s))
        killed += kill_when(moment, log, tables_dir, max(total // (2 * KILLS), 60_000))
        done = messages_taken_in(tables_dir)
        # a busy machine: or all kills fall into one batch
        longest_s = 21.0 if done > before else longest_s * 1.3
        print(
            f"run {number + 1}: {killed} killed, {done:,} of {log.copies:,} messages taken in",
            flush=True,
        )
    assert command("--log", log.directory, "--tables", tables_dir).returncode == 0
    assert_exact(log, tables_dir)
    assert sum(tables.read_table(tables_dir, "streams")["copies"].to_pylist()) == log.copies
    assert_gold_is_a_plain_recomputation(tables_dir)
    print(f"{killed} kills, {log.copies:,} messages, {len(log.rows):,} rows: exact")


def command(*arguments: object, **environment: str) -> subprocess.CompletedProcess:
    return outpost_command.run("pipeline", "run", *arguments, env=os.environ | environment)


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
    assert "no Java found" in answer.stderr and "outpost fetch java" in answer.stderr
    assert "Traceback" not in answer.stderr


def test_old_java_is_refused(tmp_path, one_segment):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)
    answer = command("--log", one_segment, "--tables", tmp_path / "tables", JAVA_HOME=str(tmp_path))
    assert answer.returncode == 2
    assert "Java 11" in answer.stderr
