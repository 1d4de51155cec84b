"""`outpost pipeline compact`."""

from __future__ import annotations

import argparse

from outpost_tools.readings.pipeline.arguments import options
from outpost_tools.terminal.command_line import add_command, between

SUMMARY = "merge small files of the tables; readers do not notice"


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = add_command(subparsers, "compact", SUMMARY, run)
    options.add_tables(parser)
    parser.add_argument(
        "--keep",
        type=between(int, 0, 99_999),
        metavar="HOURS",
        help="hours that replaced files stay for readers of an older version (default: 24)",
    )


def run(args: argparse.Namespace) -> int:
    """0. Raises ToolError."""
    upkeep = options.load("upkeep")
    options.check_tables(args.tables)
    kept_h = upkeep.KEPT_H if args.keep is None else args.keep
    done = upkeep.compact(args.tables, kept_h=kept_h)
    for name, (before, after) in done.items():
        print(f"{name}: {before} files, now {after}")
    return 0
