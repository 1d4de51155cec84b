"""`outpost pipeline compact`."""

from __future__ import annotations

import argparse

from outpost_tools.common.command_line import add_command
from outpost_tools.pipeline.arguments import options

SUMMARY = "many small files into few; readers do not notice"


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = add_command(subparsers, "compact", SUMMARY, run)
    options.add_tables(parser)
    parser.add_argument(
        "--grace", type=float, help="seconds that replaced files stay for readers (default: 600)"
    )


def run(args: argparse.Namespace) -> int:
    """0. Raises ToolError."""
    compact = options.load("compact")
    options.check_tables(args.tables)
    committed = options.load("consumed").committed_batch(args.tables)
    grace_s = compact.GRACE_S if args.grace is None else args.grace
    done = compact.compact(args.tables, committed=committed, grace_s=grace_s)
    for name, (before, after) in done.items():
        print(f"{name}: {before} files, now {after}")
    return 0
