"""`outpost outbox health`."""

from __future__ import annotations

import argparse

from outpost_tools.common.command_line import add_command, between
from outpost_tools.outbox.arguments import options

SUMMARY = "how its flash is: room, wear, damage; status 1: look at it"
_DESCRIPTION = """\
How the flash of an outbox is: what it holds and has room for, how far it is worn, headers with a
flipped bit, records that power cuts left torn, messages that cannot be read, files of the board
that should reserve its blocks.
Status 0: sound. 1: something to look at, with a line that says what to do. 2: not done.
"""
_EXAMPLES = """\
examples:
  outpost outbox health flash.img
  outpost outbox health --live /dev/ttyACM0          of a board; its program is restarted
  outpost outbox health --live /dev/ttyACM0 --json   for programs
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = add_command(
        subparsers, "health", SUMMARY, run, description=_DESCRIPTION, examples=_EXAMPLES
    )
    options.add_source(parser)
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.add_argument(
        "--endurance",
        type=between(int, 1, 10**9),
        default=0,
        metavar="N",
        help="erases that a block stands, default 100000 (NOR flash)",
    )


def run(args: argparse.Namespace) -> int:
    """0 sound, 1 not. Raises ToolError."""
    import json

    from outpost_tools.outbox import health, source

    image, findings = source.examined(args)
    found = health.examine(image, findings, args.pins, args.endurance)
    if args.json:
        print(json.dumps(health.as_json(str(args.image), found), indent=1))
    else:
        for name, text in found.rows:
            print(f"{name:<11}{text}")
        for text in found.troubles:
            print(f"{'look at':<11}{text}")
        print(f"{args.image}: {'look at it' if found.troubles else 'sound'}")
    return 1 if found.troubles else 0
