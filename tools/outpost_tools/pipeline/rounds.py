"""`outpost pipeline run`: one round, or one after the other until a signal."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
import time
from collections.abc import Callable

from pyspark.sql import SparkSession

from outpost_tools.common.errors import ToolError
from outpost_tools.pipeline import consumed, job, quarantine, session

Say = Callable[[str], None]


def run(args: argparse.Namespace) -> int:
    """0, or 1 when Spark failed or segments were damaged. Raises ToolError when the input is not
    fit."""
    job.check_directories(args.log, args.tables)
    begin, stopping = time.monotonic(), threading.Event()
    say, log_file = _progress(begin), args.tables / "spark.log"
    if args.continuous:
        _stop_on_signal(stopping)
    say("starting Spark")
    spark = session.start(args.master, log_file, shuffle_partitions=args.shuffle_partitions)
    if args.continuous:  # again: Spark has set its own handler of Ctrl-C, which cancels what runs
        _stop_on_signal(stopping)
    try:
        damaged = _rounds(args, spark, stopping, say)
    except ToolError:
        raise
    except (
        Exception
    ) as error:  # Spark's own are many and long: the cause in one line, all in the log
        cause = _cause(error)
        print(f"outpost pipeline: failed: {cause}; details: {log_file}", file=sys.stderr)
        return 1
    finally:
        spark.stop()
    say("done")
    return int(damaged > 0)


def _stop_on_signal(stopping: threading.Event) -> None:
    """From here on a signal means "finish what runs"."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())


def _rounds(
    args: argparse.Namespace, spark: SparkSession, stopping: threading.Event, say: Say
) -> int:
    """The pieces of segments that could not be read."""
    known = before = quarantine.damage(args.tables)
    while True:
        job.run(spark, args.log, args.tables, window_s=args.window, progress=say)
        if (found := quarantine.damage(args.tables)) > known:
            say(f"{found - known} damaged pieces of segments; their bytes are in quarantine")
            known = found
        if args.delete_consumed:
            say(consumed.pruned(args.log))
        if not args.continuous or stopping.wait(args.interval):
            return known - before


def _progress(begin: float) -> Say:
    def say(text: str) -> None:
        elapsed_s = time.monotonic() - begin
        print(f"[{elapsed_s:5.1f} s] pipeline: {text}", file=sys.stderr, flush=True)

    return say


def _cause(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    wanted = [line for line in lines if "Error: " in line and not line.startswith("at ")]
    return (wanted or lines or [type(error).__name__])[-1 if wanted else 0][:300]
