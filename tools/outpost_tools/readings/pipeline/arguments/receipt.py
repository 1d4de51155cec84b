"""`outpost pipeline receipt`."""

from __future__ import annotations

import argparse

from outpost_tools.readings.pipeline.arguments import options
from outpost_tools.terminal.command_line import add_command

SUMMARY = "say which messages of a board are in which version of the tables"
_DESCRIPTION = """\
For each stream of a board: which numbers are in the tables, and the version of the table `readings`
that holds all of them, for example to check what became of messages that the board has released
from its flash. Any engine for Delta Lake reads that version.
"""
_EXAMPLES = """\
examples:
  outpost pipeline receipt --tables tables --device kitchen
  outpost pipeline receipt --tables s3://bucket/tables --device kitchen --json
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = add_command(
        subparsers, "receipt", SUMMARY, run, description=_DESCRIPTION, examples=_EXAMPLES
    )
    options.add_tables(parser)
    parser.add_argument("--device", required=True, help="the board")
    parser.add_argument("--json", action="store_true", help="print JSON, for scripts")


def run(args: argparse.Namespace) -> int:
    """0. Raises ToolError."""
    import json

    receipt = options.load("receipt")
    options.check_tables(args.tables)
    found = receipt.of_device(args.tables, args.device)
    if args.json:
        rows = [one._asdict() | {"messages": one.messages, "missing": one.missing} for one in found]
        print(json.dumps(rows, indent=2, default=str))
    else:
        print(receipt.text(args.device, found))
    return 0
