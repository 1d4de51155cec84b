"""One quiet Spark session with the settings that this pipeline was tried with.

Everything that the JVM and Spark's workers write to stderr goes to a log file. That file also
carries the lock against a second run on the same tables: JVM and workers inherit the open file, so
the lock lives until the last of them is gone, also when the driver alone was killed and its JVM
still finishes a write.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

from outpost_tools.common import java
from outpost_tools.common.errors import ToolError
from outpost_tools.pipeline.source import OutpostSource

LOCK_WAIT_S = 60
END_WAIT_S = 30


class SetupError(ToolError):
    """The machine or the directory is not fit to run; str() says what to do."""


def start(master: str, log_file: Path, *, shuffle_partitions: int = 2) -> SparkSession:
    """The session; its noise goes to `log_file`, which stays locked while it lives.

    Raises ToolError without a Java, SetupError.
    """
    os.environ.update(java.environment())
    os.environ["PYSPARK_PYTHON"] = sys.executable  # else `python3` on PATH, which may lack pyarrow
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ.pop("SPARK_HOME", None)
    _put_package_on_path()
    with _stderr_into(log_file):
        spark = _builder(master, shuffle_partitions).getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    if not master.startswith("local"):
        _ship_package(spark)
    spark.dataSource.register(OutpostSource)
    return spark


def is_alive(spark: SparkSession) -> bool:
    """Whether its JVM is there."""
    process = getattr(spark.sparkContext._gateway, "proc", None)
    return process is None or process.poll() is None


def stop(spark: SparkSession) -> None:
    """End it and its JVM, which holds the lock; so that start() makes another."""
    process = getattr(spark.sparkContext._gateway, "proc", None)
    with contextlib.suppress(Exception):  # what cannot be reached has ended
        spark.stop()
    if process is None:  # spark-submit's, which began before us
        return
    with contextlib.suppress(OSError):
        process.stdin.close()  # it ends by itself then, and removes its temporary files
    try:
        process.wait(END_WAIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    SparkContext._active_spark_context = SparkContext._gateway = SparkContext._jvm = None
    SparkSession._instantiatedSession = None


def _builder(master: str, shuffle_partitions: int) -> SparkSession.Builder:
    settings = {
        "spark.sql.shuffle.partitions": shuffle_partitions,  # 200 by default: 200 files a batch
        "spark.sql.adaptive.enabled": False,  # replans every small batch for nothing
        "spark.sql.session.timeZone": "UTC",
        # INT96, the default, loses the UTC mark
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.ui.enabled": False,
        "spark.ui.showConsoleProgress": False,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.sql.execution.arrow.maxRecordsPerBatch": 50_000,
        "spark.sql.sources.partitionOverwriteMode": "static",  # a batch folder is replaced whole
    }
    builder = SparkSession.builder.master(master).appName("outpost")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder


def _put_package_on_path() -> None:
    """Spark's workers import outpost_tools too, also when it is not installed."""
    folder = str(Path(__file__).resolve().parents[2])
    known = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if folder not in known:
        os.environ["PYTHONPATH"] = os.pathsep.join([folder, *filter(None, known)])


def _ship_package(spark: SparkSession) -> None:
    """The executors of a cluster get this package from the driver; its libraries they must have
    (README.md)."""
    # executors fetch from it, also one that comes late
    folder = tempfile.mkdtemp(prefix="outpost-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    root = Path(__file__).resolve().parents[2]
    archive = shutil.make_archive(str(Path(folder, "outpost_tools")), "zip", root, "outpost_tools")
    spark.sparkContext.addPyFile(archive)


@contextlib.contextmanager
def _stderr_into(path: Path) -> Iterator[None]:
    """Processes started inside write their stderr to `path` and hold its lock."""
    path.parent.mkdir(parents=True, exist_ok=True)
    sys.stderr.flush()
    kept = os.dup(2)
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        _lock(log, path)
        os.dup2(log, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(log)


def _lock(log: int, path: Path) -> None:
    deadline = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise SetupError(
                    f"{path.parent}: another pipeline run is using it; wait for its end"
                ) from None
            time.sleep(0.2)
