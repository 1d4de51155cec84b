"""`outpost monitor`: watches a board, without disturbing it unless asked to."""

from __future__ import annotations

import argparse
from pathlib import Path

from outpost_tools.common.command_line import add_command
from outpost_tools.common.errors import ToolError
from outpost_tools.device.arguments import options

SUMMARY = "watch a board: what it prints, how full its outbox is"
_DESCRIPTION = """\
Watch a board. With --port: what its program prints, and why it crashed if it does. Nothing is sent
to the board, its program runs on. (main.py prints faults only. Opening the port of an ESP32 board
may reset it: that is in its wiring.)
With --settings: the counters in the board's own messages, as the broker receives them: number, boot
count, how many are held.
With --look: how full the outbox is, free memory, crash.txt. This stops the program and restarts it:
its boot count grows, it connects again, no stored message is lost.
"""
_EXAMPLES = """\
examples:
  outpost monitor --port /dev/ttyACM0            until Ctrl-C
  outpost monitor --port /dev/ttyACM0 --look     once
  outpost monitor --settings kitchen.toml        live counters, at the broker the board sends to
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = add_command(
        subparsers, "monitor", SUMMARY, run, description=_DESCRIPTION, examples=_EXAMPLES
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--port", metavar="PORT", help="the board's serial port, such as /dev/ttyACM0"
    )
    source.add_argument(
        "--settings",
        metavar="TOML",
        type=Path,
        help="the board's settings: see `outpost provision --help`",
    )
    parser.add_argument(
        "--look", action="store_true", help="stop the program, look, restart it; with --port"
    )
    parser.add_argument(
        "--seconds", metavar="S", type=float, help="end after this time; default: until Ctrl-C"
    )
    options.add_timeout(parser, when="with --look: ")


def run(args: argparse.Namespace) -> int:
    """0. Raises ToolError."""
    import time

    from outpost_tools.device import settings_file, table, watching

    until = None if args.seconds is None else time.monotonic() + args.seconds
    if args.look:
        if not args.port:
            raise ToolError("--look needs --port: it looks at the board itself")
        print(table.text(watching.look(args.port, args.timeout)))
    elif args.port:
        watching.listen(args.port, until)
    else:
        settings = settings_file.load(args.settings)
        watching.follow(settings.full, args.settings.parent, until)
    return 0
