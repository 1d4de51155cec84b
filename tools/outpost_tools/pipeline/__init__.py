"""`outpost pipeline`: from the collector's segments to tables, by Spark.

This module is the command line only and imports Spark when it runs; `tables` reads the result without Spark.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from outpost_tools.errors import ToolError

DEFAULT_WINDOW_S = 10.0


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = subparsers.add_parser("pipeline", help="turn collected segments into tables (Spark)")
    commands = parser.add_subparsers(dest="pipeline_command", required=True)
    job = commands.add_parser("run", help="take in all sealed segments, then stop")
    job.add_argument("--log", type=Path, required=True, help="the collectors' log directory")
    job.add_argument("--tables", type=Path, required=True, help="where the tables are, or will be")
    job.add_argument("--master", default="local[*]", help="Spark master (default: %(default)s)")
    job.add_argument("--window", type=float, default=DEFAULT_WINDOW_S, help="seconds per window (default: %(default)s)")
    job.add_argument("--shuffle-partitions", type=int, default=2, help="about one per core (default: %(default)s)")
    job.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """0, or 1 when Spark failed. Raises ToolError when the input or the machine is not fit."""
    if args.window <= 0 or args.shuffle_partitions < 1:
        raise ToolError("--window and --shuffle-partitions must be above 0")
    try:
        from outpost_tools.pipeline import job, session
    except ImportError as error:
        raise ToolError(f"{error.name} is missing; install the pipeline's packages: pip install 'outpost[pipeline]'") from None
    job.check_directories(args.log, args.tables)
    return _run(args, job, session)


def _run(args: argparse.Namespace, job, session) -> int:
    begin = time.monotonic()
    say = _progress(begin)
    log_file = args.tables / "spark.log"
    say("starting Spark")
    spark = session.start(args.master, log_file, shuffle_partitions=args.shuffle_partitions)
    try:
        job.run(spark, args.log, args.tables, window_s=args.window, progress=say)
    except Exception as error:  # Spark's own exceptions are many and long: the cause in one line, all in the log
        print(f"outpost pipeline: failed: {_cause(error)}; details: {log_file}", file=sys.stderr)
        return 1
    finally:
        spark.stop()
    say("done")
    return 0


def _progress(begin: float):
    return lambda text: print(f"[{time.monotonic() - begin:5.1f} s] pipeline: {text}", file=sys.stderr, flush=True)


def _cause(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    wanted = [line for line in lines if "Error: " in line and not line.startswith("at ")]
    return (wanted or lines or [type(error).__name__])[-1 if wanted else 0][:300]
