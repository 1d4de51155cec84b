"""The first result of a small log: `outpost pipeline run` on 805 messages, with our way of starting
Spark and with Spark's own. Prints seconds by the clock, and CPU seconds of the JVM and of all
Pythons.

    python host_tests/bench/pipeline_start.py [--messages 805] [--rounds 2]
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import paths

sys.path[:0] = paths.ALL

import psutil  # noqa: E402

import outpost_command  # noqa: E402
from pipeline_load import write_log  # noqa: E402

_WAYS = {
    "ours": ({}, []),
    "Spark's": (
        {"SPARK_SUBMIT_OPTS": "-XX:+UseG1GC"},  # its choice on a machine of this kind
        ["--conf", "spark.python.daemon.module=pyspark.daemon"],
    ),
}


def measured(log: Path, tables: Path, way: str) -> tuple[float, float, float]:
    """Returns (seconds, CPU seconds of Java, of Python)."""
    environment, options = _WAYS[way]
    line = outpost_command.line("pipeline", "run", *options)
    line += ["--log", str(log), "--tables", str(tables)]
    begin, spent = time.perf_counter(), {}
    process = psutil.Popen(
        line,
        env=os.environ | environment,
        cwd=paths.REPOSITORY / "tools",
        stderr=subprocess.DEVNULL,
    )
    while process.poll() is None:
        for one in [process, *process.children(recursive=True)]:
            with contextlib.suppress(psutil.Error):
                times = one.cpu_times()
                spent[one.pid] = (one.name() == "java", times.user + times.system)
        time.sleep(0.1)
    seconds = time.perf_counter() - begin
    if process.returncode:
        raise SystemExit(f"{' '.join(line)}: exit status {process.returncode}")
    java = sum(cpu for is_java, cpu in spent.values() if is_java)
    return seconds, java, sum(cpu for _, cpu in spent.values()) - java


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=805)
    parser.add_argument("--rounds", type=int, default=2)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write_log(Path(folder, "log"), args.messages, devices=5, duplicates=0.05)
        for number in range(args.rounds):
            for way in _WAYS:
                tables = Path(folder, f"tables-{number}-{len(way)}")
                seconds, java, python = measured(Path(folder, "log"), tables, way)
                print(
                    f"{way:8} {seconds:6.1f} s; CPU: Java {java:5.1f} s, Python {python:5.1f} s",
                    flush=True,
                )


if __name__ == "__main__":
    main()
