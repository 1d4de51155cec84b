"""One Spark session, with the user's settings and our defaults (settings.py).

Everything that the JVM and Spark's workers write to stderr goes to a log file. Under spark-submit
the JVM started first: its stderr is the user's. When a driver is killed, its JVM may finish writing
files: no commit will ever name them.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from outpost_tools import FOLDER
from outpost_tools.errors import ToolError
from outpost_tools.readings.pipeline import archive, settings

END_WAIT_S = 30


class SetupError(ToolError):
    """The machine or the directory cannot be used; str() says what to do."""


def start(
    master: str | None,
    log_file: Path,
    *,
    shuffle_partitions: int | None = None,
    conf: list[str] | None = None,
    is_short: bool = False,
    say: settings.Say = lambda text: None,
    wait: settings.Say = lambda what: None,
) -> SparkSession:
    """The session; its output goes to `log_file`.

    master, shuffle_partitions, conf ("spark.NAME=VALUE"): override what the user set elsewhere.
    is_short: it has little to do. wait: called with what we are waiting for. Raises ToolError
    without Java, SetupError.
    """
    said = settings.of_command(master, shuffle_partitions, conf or [])
    settings.prepare_environment(said, say, is_short=is_short)
    _put_package_on_path()
    try:
        with _stderr_into(log_file):
            wait("Spark's JVM")
            settings.launch(said)
            effective = settings.complete(SparkConf(), said, say)
            wait(f"a session on {effective.get('spark.master')}")
            spark = SparkSession.builder.config(conf=effective).getOrCreate()
        _prepare(spark)
    except BaseException:
        _end_jvm()
        raise
    return spark


def _prepare(spark: SparkSession) -> None:
    if not settings.is_submitted():
        spark.sparkContext.setLogLevel("WARN")
    if not spark.sparkContext.master.startswith("local") and not archive.is_zip():
        _ship_package(spark)


def activity(spark: SparkSession) -> str:
    """What the session is doing now, for a person who waits."""
    context, tracker = spark.sparkContext, spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
    if not stages:
        return "Spark plans and compiles, or starts a Python worker"
    done = sum(stage.numCompletedTasks for stage in stages if stage)
    total = sum(stage.numTasks for stage in stages if stage)
    if not any(stage.numActiveTasks for stage in stages if stage):
        return f"{total - done} tasks wait for an executor of {context.master}"
    return f"{done} of {total} tasks done"


def is_alive(spark: SparkSession) -> bool:
    """Whether its JVM is alive."""
    process = getattr(spark.sparkContext._gateway, "proc", None)
    return process is None or process.poll() is None


def stop(spark: SparkSession) -> None:
    """End it and its JVM, so that start() can make another one."""
    with contextlib.suppress(Exception):  # if it cannot be reached, it has ended
        spark.stop()
    _end_jvm()


def _end_jvm() -> None:
    process = getattr(SparkContext._gateway, "proc", None)
    if process is None:  # no JVM, or spark-submit's, which started before us
        return
    with contextlib.suppress(OSError):
        process.stdin.close()  # makes it exit, and remove its temporary files
    try:
        process.wait(END_WAIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    SparkContext._active_spark_context = SparkContext._gateway = SparkContext._jvm = None
    SparkSession._instantiatedSession = None


def _put_package_on_path() -> None:
    """Lets Spark's workers import outpost_tools even when it is not installed."""
    folder = str(FOLDER.parent)
    known = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if folder not in known:
        os.environ["PYTHONPATH"] = os.pathsep.join([folder, *filter(None, known)])


def _ship_package(spark: SparkSession) -> None:
    """Sends this package from the driver to the executors of a cluster; they must have its
    libraries (README.md)."""
    # executors fetch from this folder, including one that joins late
    folder = tempfile.mkdtemp(prefix="outpost-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder, "outpost_tools.zip")
    archive.write(path)
    spark.sparkContext.addPyFile(str(path))


@contextlib.contextmanager
def _stderr_into(path: Path) -> Iterator[None]:
    """Processes started inside write their stderr to `path`; what this process prints stays
    visible."""
    path.parent.mkdir(parents=True, exist_ok=True)
    sys.stderr.flush()
    kept = os.dup(2)
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.dup2(log, 2)
        shown = open(kept, "w", buffering=1, closefd=False, encoding="utf-8")
        with contextlib.redirect_stderr(shown):
            yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(log)
