"""`outpost outbox health`."""

from __future__ import annotations

import argparse

from outpost_tools.boards.outbox.arguments import options
from outpost_tools.terminal.command_line import add_command, between

SUMMARY = "check its flash: room, wear, failed blocks, corrected bits; status 1: look at it"
_DESCRIPTION = """\
Show the condition of an outbox's flash: its messages and free room, wear, blocks that failed and
were left out, headers with a flipped bit, records torn by power cuts, unreadable messages, messages
set aside, and the board's files that should reserve its blocks.
Status 0: sound. 1: something needs attention; a line says what to do. 2: not done.
"""
_EXAMPLES = """\
examples:
  outpost outbox health flash.img
  outpost outbox health --live /dev/ttyACM0          a live board; restarts its program
  outpost outbox health --live /dev/ttyACM0 --json   for scripts
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = add_command(
        subparsers, "health", SUMMARY, run, description=_DESCRIPTION, examples=_EXAMPLES
    )
    options.add_source(parser)
    parser.add_argument("--json", action="store_true", help="print JSON, for scripts")
    parser.add_argument(
        "--endurance",
        type=between(int, 1, 10**9),
        default=0,
        metavar="N",
        help="erases that a block survives, default 100000 (NOR flash)",
    )


def run(args: argparse.Namespace) -> int:
    """0 if it is sound, 1 if not. Raises ToolError."""
    import json

    from outpost_tools.boards.outbox import health, source

    image, findings = source.examined(args)
    found = health.examine(image, findings, args.shelf, args.pins, args.endurance)
    if args.json:
        print(json.dumps(health.as_json(str(args.image), found), indent=1))
    else:
        for name, text in found.rows:
            print(f"{name:<11}{text}")
        for text in found.troubles:
            print(f"{'look at':<11}{text}")
        print(f"{args.image}: {'look at it' if found.troubles else 'sound'}")
    return 1 if found.troubles else 0
