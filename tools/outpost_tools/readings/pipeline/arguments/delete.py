"""`outpost pipeline delete`."""

from __future__ import annotations

import argparse
import datetime

from outpost_tools.readings.pipeline.arguments import options
from outpost_tools.terminal.command_line import add_command

SUMMARY = "delete a device, or all days before a date, from the tables"


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = add_command(subparsers, "delete", SUMMARY, run)
    options.add_tables(parser)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--device", help="delete everything from this device, in every table")
    which.add_argument(
        "--before",
        type=datetime.date.fromisoformat,
        metavar="DAY",
        help="YYYY-MM-DD: delete readings and windows of earlier days, and earlier frames",
    )


def run(args: argparse.Namespace) -> int:
    """0. Raises ToolError."""
    upkeep = options.load("upkeep")
    options.check_tables(args.tables)
    if args.device is not None:
        deleted = upkeep.delete_device(args.tables, args.device)
    else:
        deleted = upkeep.delete_before(args.tables, args.before)
    for name, rows in deleted.items():
        print(f"{name}: {rows} rows deleted")
    print("older versions of the tables keep them until `outpost pipeline compact --keep 0`")
    return 0
