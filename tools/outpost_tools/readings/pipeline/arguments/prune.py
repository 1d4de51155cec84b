"""`outpost pipeline prune`."""

from __future__ import annotations

import argparse

from outpost_tools.readings.pipeline.arguments import options
from outpost_tools.store.at import argument
from outpost_tools.terminal.command_line import add_command

SUMMARY = "delete segments that every reader has committed"


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = add_command(subparsers, "prune", SUMMARY, run)
    options.add_log(parser)
    parser.add_argument(
        "--forget",
        type=argument,
        metavar="TABLES",
        help="remove these tables from the readers of the log",
    )


def run(args: argparse.Namespace) -> int:
    """0. Raises ToolError."""
    options.check_log(args.log)
    consumed = options.load("consumed")
    log = options.load("logs").Log.at(args.log)
    if args.forget is not None:
        consumed.forget(log, args.forget)
    print(consumed.pruned(log))
    return 0
