"""`outpost pipeline run`."""

from __future__ import annotations

import argparse

from outpost_tools.common.command_line import add_command
from outpost_tools.common.errors import ToolError
from outpost_tools.pipeline.arguments import options

SUMMARY = "take in all sealed segments, then stop"
DEFAULT_WINDOW_S = 10.0
DEFAULT_INTERVAL_S = 30.0


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = add_command(subparsers, "run", SUMMARY, run)
    options.add_log(parser)
    options.add_tables(parser)
    parser.add_argument(
        "--master",
        default="local[*]",
        help="Spark master: local[n], spark://host:port (default: %(default)s)",
    )
    parser.add_argument(
        "--window",
        type=float,
        default=DEFAULT_WINDOW_S,
        help="seconds per window (default: %(default)s)",
    )
    parser.add_argument(
        "--shuffle-partitions",
        type=int,
        default=2,
        help="about one per core (default: %(default)s)",
    )
    parser.add_argument(
        "--continuous",
        action="store_true",
        help="repeat until SIGTERM or Ctrl-C; the round that runs then is finished",
    )
    parser.add_argument(
        "--interval",
        type=float,
        default=DEFAULT_INTERVAL_S,
        help="seconds between rounds (default: %(default)s)",
    )
    parser.add_argument(
        "--delete-consumed",
        action="store_true",
        help="afterwards delete segments that every reader has committed",
    )


def run(args: argparse.Namespace) -> int:
    """0, or 1 when Spark failed or segments were damaged. Raises ToolError when input or machine
    is unfit."""
    if args.window <= 0 or args.shuffle_partitions < 1 or args.interval <= 0:
        raise ToolError("--window, --interval and --shuffle-partitions must be above 0")
    from outpost_tools.common import java

    java.environment()  # what is missing is said at once, not after Spark's libraries
    return options.load("rounds").run(args)
