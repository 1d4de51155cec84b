"""`outpost pipeline`: from the collector's segments to tables, by Spark.

This module is the command line only and imports Spark when it runs; `tables` reads the result without Spark.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
import time
from pathlib import Path

from outpost_tools.errors import ToolError

DEFAULT_WINDOW_S = 10.0
DEFAULT_INTERVAL_S = 30.0
_EXAMPLES = """examples:
  outpost pipeline run --log log --tables tables                 take in what is there, then stop
  outpost pipeline run --log log --tables tables --continuous    every 30 s, until SIGTERM
  outpost pipeline status --log log --tables tables              what waits, what the tables hold, quarantine by reason
  outpost pipeline replay --tables tables --reason "unknown version 2"    after a fix; the next run takes them in
  outpost pipeline compact --tables tables                       many small files into few, also during a run
  outpost pipeline prune --log log                               delete the segments that every reader has committed
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    form = {"formatter_class": argparse.RawDescriptionHelpFormatter}
    parser = subparsers.add_parser("pipeline", help="turn collected segments into tables (Spark)", epilog=_EXAMPLES, **form)
    commands = parser.add_subparsers(dest="pipeline_command", required=True)
    log, where = _paths()
    _add_run(commands.add_parser("run", help="take in all sealed segments, then stop", parents=[log, where]))
    status = commands.add_parser("status", help="what was taken in, what waits, what the tables hold", parents=[log, where])
    status.add_argument("--json", action="store_true", help="for programs")
    status.set_defaults(func=run_status)
    again = commands.add_parser("replay", help="take frames out of quarantine after a fix", parents=[where])
    again.add_argument("--reason", required=True, help='how the reason begins, e.g. "unknown version 2"; "" is every frame')
    again.set_defaults(func=run_replay)
    compaction = commands.add_parser("compact", help="many small files into few; readers do not notice", parents=[where])
    compaction.add_argument("--grace", type=float, help="seconds that replaced files stay for readers (default: 600)")
    compaction.set_defaults(func=run_compact)
    pruning = commands.add_parser("prune", help="delete segments that every reader has committed", parents=[log])
    pruning.add_argument("--forget", type=Path, metavar="TABLES", help="these tables read the log no more")
    pruning.set_defaults(func=run_prune)


def _paths() -> tuple[argparse.ArgumentParser, argparse.ArgumentParser]:
    log, where = argparse.ArgumentParser(add_help=False), argparse.ArgumentParser(add_help=False)
    log.add_argument("--log", type=Path, required=True, help="the collectors' log directory")
    where.add_argument("--tables", type=Path, required=True, help="where the tables are, or will be")
    return log, where


def _add_run(job: argparse.ArgumentParser) -> None:
    job.add_argument("--master", default="local[*]", help="Spark master: local[n], spark://host:port (default: %(default)s)")
    job.add_argument("--window", type=float, default=DEFAULT_WINDOW_S, help="seconds per window (default: %(default)s)")
    job.add_argument("--shuffle-partitions", type=int, default=2, help="about one per core (default: %(default)s)")
    job.add_argument("--continuous", action="store_true", help="go on until SIGTERM or Ctrl-C; what runs then is finished")
    job.add_argument("--interval", type=float, default=DEFAULT_INTERVAL_S, help="seconds between rounds (default: %(default)s)")
    job.add_argument("--delete-consumed", action="store_true", help="afterwards delete segments that every reader has committed")
    job.set_defaults(func=run)


def _import(name: str):
    """A module of the pipeline. Raises ToolError when its packages are not installed."""
    import importlib

    try:
        return importlib.import_module(f"outpost_tools.pipeline.{name}")
    except ImportError as error:
        raise ToolError(f"{error.name} is missing; install the pipeline's packages: pip install 'outpost[pipeline]'") from None


def run(args: argparse.Namespace) -> int:
    """0, or 1 when Spark failed. Raises ToolError when the input or the machine is not fit."""
    if args.window <= 0 or args.shuffle_partitions < 1 or args.interval <= 0:
        raise ToolError("--window, --interval and --shuffle-partitions must be above 0")
    job, session = _import("job"), _import("session")
    job.check_directories(args.log, args.tables)
    return _run(args, job, session)


def _run(args: argparse.Namespace, job, session) -> int:
    begin, stopping = time.monotonic(), threading.Event()
    say = _progress(begin)
    log_file = args.tables / "spark.log"
    if args.continuous:
        _stop_on_signal(stopping)
    say("starting Spark")
    spark = session.start(args.master, log_file, shuffle_partitions=args.shuffle_partitions)
    if args.continuous:  # again: Spark has put its own handler of Ctrl-C there, which cancels what runs
        _stop_on_signal(stopping)
    try:
        _rounds(args, job, spark, stopping, say)
    except ToolError:
        raise
    except Exception as error:  # Spark's own exceptions are many and long: the cause in one line, all in the log
        print(f"outpost pipeline: failed: {_cause(error)}; details: {log_file}", file=sys.stderr)
        return 1
    finally:
        spark.stop()
    say("done")
    return 0


def _stop_on_signal(stopping: threading.Event) -> None:
    """From here on a signal means "finish what runs"."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())


def _rounds(args: argparse.Namespace, job, spark, stopping: threading.Event, say) -> None:
    while True:
        job.run(spark, args.log, args.tables, window_s=args.window, progress=say)
        if args.delete_consumed:
            _say_pruned(args.log, say)
        if not args.continuous or stopping.wait(args.interval):
            return


def run_status(args: argparse.Namespace) -> int:
    status = _import("status")
    if not args.log.is_dir():
        raise ToolError(f"{args.log}: no such directory; give the collector's log directory as --log")
    state = status.collect(args.log, args.tables)
    print(json.dumps(state, indent=2) if args.json else status.text(state))
    return 0


def run_replay(args: argparse.Namespace) -> int:
    taken, refused = _import("quarantine").replay(_existing(args.tables), args.reason)
    print(f"{taken} frames leave quarantine with the next `outpost pipeline run`; {refused} are still no message")
    return 0


def run_compact(args: argparse.Namespace) -> int:
    module, committed = _import("compact"), _import("consumed").committed_batch(_existing(args.tables))
    grace_s = module.GRACE_S if args.grace is None else args.grace
    for name, (before, after) in module.compact(args.tables, committed=committed, grace_s=grace_s).items():
        print(f"{name}: {before} files, now {after}")
    return 0


def run_prune(args: argparse.Namespace) -> int:
    if not args.log.is_dir():
        raise ToolError(f"{args.log}: no such directory; give the collector's log directory as --log")
    if args.forget is not None:
        _import("consumed").forget(args.log, args.forget)
    _say_pruned(args.log, print)
    return 0


def _say_pruned(log: Path, say) -> None:
    count, size = _import("consumed").prune(log)
    say(f"{count} consumed segments deleted, {size:,} bytes")


def _existing(tables_dir: Path) -> Path:
    if not _import("tables").exists(tables_dir, "quarantine"):
        raise ToolError(f"{tables_dir}: no tables there yet; run `outpost pipeline run` first")
    return tables_dir


def _progress(begin: float):
    return lambda text: print(f"[{time.monotonic() - begin:5.1f} s] pipeline: {text}", file=sys.stderr, flush=True)


def _cause(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    wanted = [line for line in lines if "Error: " in line and not line.startswith("at ")]
    return (wanted or lines or [type(error).__name__])[-1 if wanted else 0][:300]
