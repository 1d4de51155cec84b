"""`outpost monitor`: watches a board, without disturbing it unless asked to."""

from __future__ import annotations

import argparse
from pathlib import Path

from outpost_tools.boards.port import options
from outpost_tools.errors import ToolError
from outpost_tools.terminal.command_line import add_command, between

_YEAR_S = 366 * 86_400
SUMMARY = "watch a board: its output, and how full its outbox is"
_DESCRIPTION = """\
Watch a board.

With --port, show what its program prints and, if it crashes, why. This sends nothing to the board,
and its program keeps running. (main.py prints only faults. Opening the port of an ESP32 board may
reset it, because of its wiring.)
With --settings, show the counters in the board's messages as the broker receives them: message
number, boot count, and how many messages the board holds.
With --credentials, show the same for all boards or for --device, with the user of a monitor. Use it
if the broker does not let a board read its own messages.
With --look, show how full the outbox is, the free memory, and crash.txt. This stops the program and
restarts it: its boot count grows and it reconnects, but no stored message is lost.
"""
_EXAMPLES = """\
examples:
  outpost monitor --port /dev/ttyACM0            until Ctrl-C
  outpost monitor --port /dev/ttyACM0 --look     once
  outpost monitor --settings kitchen.toml        live counters, from the board's broker
  outpost monitor --credentials fleet --device kitchen
                                                 the same with a broker of `outpost broker init`
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
    source.add_argument(
        "--credentials",
        metavar="PATH",
        type=Path,
        help="the folder of `outpost broker init`, or a monitor's file from it",
    )
    parser.add_argument(
        "--device", metavar="NAME", help="with --credentials: only this board; default: all"
    )
    parser.add_argument(
        "--look", action="store_true", help="with --port: stop the program, look, and restart it"
    )
    parser.add_argument(
        "--seconds",
        metavar="S",
        type=between(float, 0, _YEAR_S),
        help="end after this time; default: until Ctrl-C",
    )
    options.add_timeout(parser, when="with --look: ")


def run(args: argparse.Namespace) -> int:
    """Return 0. Raises ToolError."""
    import time

    from outpost_tools.boards.monitor import watching
    from outpost_tools.boards.port import table
    from outpost_tools.messages import name_rules

    if args.device and not args.credentials:
        raise ToolError("--device is for --credentials; --settings names its board itself")
    if args.device is not None and not name_rules.is_device(args.device):
        raise ToolError(f"--device {args.device!r}: 1 to 32 of A-Z a-z 0-9 _ . - name a board")
    until = None if args.seconds is None else time.monotonic() + args.seconds
    if args.look:
        if not args.port:
            raise ToolError("--look needs --port: it looks at the board itself")
        print(table.text(watching.look(args.port, args.timeout)))
    elif args.port:
        watching.listen(args.port, until)
    else:
        _follow(args, until)
    return 0


def _follow(args: argparse.Namespace, until: float | None) -> None:
    """Follow messages at the broker. Raises ToolError."""
    from outpost_tools.boards.monitor import following
    from outpost_tools.boards.settings import settings_file
    from outpost_tools.mqtt import credentials

    if args.settings:
        settings = settings_file.load(args.settings)
        source = following.of_settings(settings.full, args.settings.parent)
    else:
        found = credentials.find(args.credentials, "monitor")
        source = following.of_credentials(found, args.device)
    following.follow(source, until)
