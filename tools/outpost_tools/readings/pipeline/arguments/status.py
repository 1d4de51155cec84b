"""`outpost pipeline status`."""

from __future__ import annotations

import argparse

from outpost_tools.readings.pipeline.arguments import options
from outpost_tools.terminal.command_line import add_command

SUMMARY = "show what was processed, what waits, and what the tables contain"


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = add_command(subparsers, "status", SUMMARY, run)
    options.add_log(parser)
    options.add_tables(parser)
    parser.add_argument("--json", action="store_true", help="print JSON, for scripts")


def run(args: argparse.Namespace) -> int:
    """0. Raises ToolError."""
    import json

    status = options.load("status")
    options.check_log(args.log)
    state = status.collect(args.log, args.tables)
    print(json.dumps(state, indent=2) if args.json else status.text(state))
    return 0
