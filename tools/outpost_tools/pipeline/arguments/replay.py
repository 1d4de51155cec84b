"""`outpost pipeline replay`."""

from __future__ import annotations

import argparse

from outpost_tools.common.command_line import add_command
from outpost_tools.pipeline.arguments import options

SUMMARY = "retry frames from quarantine after a fix"


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = add_command(subparsers, "replay", SUMMARY, run)
    options.add_tables(parser)
    parser.add_argument(
        "--reason",
        required=True,
        help='the beginning of the reason, for example "unknown version 2"; "time" selects those '
        'refused because of a wrong clock; "" selects every frame',
    )


def run(args: argparse.Namespace) -> int:
    """0. Raises ToolError."""
    quarantine = options.load("quarantine")
    options.check_tables(args.tables)
    taken, refused = quarantine.replay(args.tables, args.reason)
    print(
        f"{taken} frames leave quarantine with the next `outpost pipeline run`; {refused} are "
        "still not valid messages"
    )
    return 0
