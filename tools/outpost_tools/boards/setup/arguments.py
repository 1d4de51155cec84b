"""`outpost setup`: sets up a board in the browser."""

from __future__ import annotations

import argparse
from pathlib import Path

from outpost_tools.terminal.command_line import add_command

SUMMARY = "set up a board in the browser: Wi-Fi, broker, sensors, firmware"
_DESCRIPTION = """\
Serve a page, only on this machine, and open it in the browser. It shows which board is plugged in,
asks for its name, Wi-Fi, broker and sensors, checks the answers as `outpost provision` does, and
then installs the firmware and the settings, as `outpost flash` does, or writes only the settings.
It can save the settings in a TOML file, which the commands in the terminal take, and load one.

With FOLDER, the folder of `outpost run`, the broker is the one in it: the board gets a user and
rights there, as by `outpost broker add`, and settings files are in FOLDER/boards. Without, the page
asks for the broker, and settings files are in the current folder.

Only someone who has the printed address can use the page. Closing the browser does not stop work on
a board. Ctrl-C does, as it stops `outpost flash`: the board's program starts again.
"""
_EXAMPLES = """\
examples:
  outpost setup home                       beside `outpost run home`
  outpost setup                            with a broker of your own
  outpost setup home --no-open             only print the address
  outpost setup --port /dev/ttyS0          also offer a port that is not over USB

Exit status: 0 after SIGTERM or Ctrl-C; 130 if that interrupted work on a board.
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = add_command(
        subparsers, "setup", SUMMARY, run, description=_DESCRIPTION, examples=_EXAMPLES
    )
    parser.add_argument(
        "home",
        metavar="FOLDER",
        type=Path,
        nargs="?",
        help="of `outpost run`; without it, the page asks for the broker",
    )
    parser.add_argument(
        "--no-open", action="store_true", help="do not open a browser, only print the address"
    )
    parser.add_argument(
        "--port",
        metavar="PORT",
        action="append",
        default=[],
        help="also offer this serial port, which is not over USB; may be repeated",
    )
    parser.add_argument(
        "--board",
        metavar="FOLDER",
        action="append",
        default=[],
        help="also offer this board folder of your own; may be repeated",
    )


def run(args: argparse.Namespace) -> int:
    """Returns 0 after SIGTERM or SIGINT; 130 if work on a board was cut short. Raises ToolError."""
    from outpost_tools.boards.port import kinds
    from outpost_tools.boards.setup import places
    from outpost_tools.boards.setup.desk import Desk
    from outpost_tools.boards.setup.jobs import Jobs
    from outpost_tools.boards.setup.serve import serve
    from outpost_tools.machine import source_tree

    home = places.HomeBroker(args.home) if args.home else None
    files = places.SettingsFolder(args.home / "boards" if args.home else Path())
    known = kinds.on_cables(source_tree.repository(), args.board)
    desk = Desk(known, args.port, files, home, Jobs(_say))
    return serve(desk, opens=not args.no_open, say=_say)


def _say(line: str) -> None:
    import sys

    print(line, file=sys.stderr, flush=True)
