"""`outpost monitor`: watches a board, without disturbing it unless asked to."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from outpost_tools.errors import ToolError

_DESCRIPTION = """\
Watch a board. With --port: what its program prints, and the reason when it crashes. Nothing is sent to the board, its program
runs on. (main.py prints faults only. Opening the port of an ESP32 board may reset it: that is in its wiring.)
With --settings: the counters in the board's own messages, taken at the broker: number, boot, how many are held.
With --look: the outbox's fill, free memory, crash.txt. For this the program is stopped, and started anew: its boot count grows,
its connection is made anew, no stored message is lost.
"""
_EXAMPLES = """\
examples:
  outpost monitor --port /dev/ttyACM0            until Ctrl-C
  outpost monitor --port /dev/ttyACM0 --look     once
  outpost monitor --settings kitchen.toml        live counters, at the broker that the board reports to
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = subparsers.add_parser(
        "monitor", help="watch a board", description=_DESCRIPTION, epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--port", metavar="PORT", help="the board's serial port, as /dev/ttyACM0")
    source.add_argument("--settings", metavar="TOML", type=Path, help="the board's settings: see `outpost provision --help`")
    parser.add_argument("--look", action="store_true", help="stop the program, look, start it anew; with --port")
    parser.add_argument("--seconds", metavar="S", type=float, help="end after that; default: until Ctrl-C")
    parser.add_argument("--timeout", metavar="S", type=float, default=10.0, help="with --look: wait so long for an answer")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """0. Raises ToolError."""
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
