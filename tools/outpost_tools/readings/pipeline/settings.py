"""Which settings of Spark apply: the user's, then ours.

The user's are those that Spark itself accepts: options and --conf of spark-submit,
PYSPARK_SUBMIT_ARGS, spark-defaults.conf, SPARK_* variables; and our own command's --master, --conf
and --shuffle-partitions. Ours are defaults where the user set nothing: for a session on this
machine, on loopback. REQUIRED is not optional, because the tables depend on it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pyspark
from pyspark import SparkConf, SparkContext

from outpost_tools.errors import ToolError
from outpost_tools.machine import java

REQUIRED = {"spark.sql.session.timeZone": "UTC"}
_DEFAULTS = {
    "spark.master": "local[*]",
    "spark.sql.shuffle.partitions": "2",  # 200 by default: 200 files per batch
    "spark.sql.adaptive.enabled": "false",  # would replan every small batch without benefit
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
}
_LOCAL = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.python.daemon.module": "outpost_tools.readings.pipeline.worker_daemon",
}
# For a JVM that lives for a minute: the second compiler and the parallel collector cost more than
# they save, a third of a short run's CPU.
_SHORT_RUN = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_DRIVER_MEMORY = "2g"
# Where a user may have set the master or addresses; if any is set, we set neither.
_PLACES = ("PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "SPARK_HOME", "MASTER")
Say = Callable[[str], None]


def is_submitted() -> bool:
    """Whether spark-submit has started this program, so that the JVM is there already."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def of_command(
    master: str | None, shuffle_partitions: int | None, pairs: list[str]
) -> dict[str, str]:
    """What our own options set. Raises ToolError."""
    said = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.startswith("spark."):
            raise ToolError(f"--conf {pair}: write it as spark.NAME=VALUE")
        said[name] = value
    if master is not None:
        said["spark.master"] = master
    if shuffle_partitions is not None:
        said["spark.sql.shuffle.partitions"] = str(shuffle_partitions)
    return said


def prepare_environment(said: Mapping[str, str], say: Say, *, is_short: bool = False) -> None:
    """Call before the JVM starts. is_short: the run has little to do. Raises ToolError without
    Java."""
    # otherwise Spark uses `python3` on PATH, which may lack pyarrow
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if is_submitted():
        return
    os.environ.update(java.environment())
    if (home := os.environ.get("SPARK_HOME")) and not _is_ours(Path(home)):
        say(f"SPARK_HOME={home} is not Spark {pyspark.__version__}: using the one of PySpark")
        del os.environ["SPARK_HOME"]
    os.environ.setdefault("SPARK_DRIVER_MEMORY", _DRIVER_MEMORY)
    if is_short:
        os.environ.setdefault("SPARK_SUBMIT_OPTS", _SHORT_RUN)
    default = "" if any(name in os.environ for name in _PLACES) else "local"
    if said.get("spark.master", default).startswith("local"):
        # then a host name without an address does not matter
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def _is_ours(home: Path) -> bool:
    """Whether its version is that of the Python side."""
    return any(home.glob(f"jars/spark-core_*-{pyspark.__version__}.jar"))


def complete(conf: SparkConf, said: Mapping[str, str], say: Say) -> SparkConf:
    """The session's settings. conf: the user's settings, as the running JVM knows them."""
    for name, value in said.items():
        conf.set(name, value)
    if conf.get("spark.app.name", "pyspark-shell") == "pyspark-shell":  # PySpark's default
        conf.setAppName("outpost")
    for name, value in _DEFAULTS.items():
        conf.setIfMissing(name, value)
    if conf.get("spark.master").startswith("local"):
        for name, value in _LOCAL.items():
            conf.setIfMissing(name, value)
    for name, value in REQUIRED.items():
        if conf.get(name, value) != value:
            say(f"{name} is {value}, not {conf.get(name)}: the tables depend on it")
        conf.set(name, value)
    return conf


def launch(said: Mapping[str, str]) -> None:
    """Start the JVM, or connect to the one of spark-submit."""
    conf = SparkConf(loadDefaults=False)
    for name, value in said.items():
        conf.set(name, value)
    SparkContext._ensure_initialized(conf=conf)
