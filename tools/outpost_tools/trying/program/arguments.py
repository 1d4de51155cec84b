"""`outpost try`: runs a user's program on this machine as if on a board."""

from __future__ import annotations

import argparse
from pathlib import Path

from outpost_tools.terminal.command_line import add_command, address

SUMMARY = "a program of your own on this machine, with a file as its flash"
_DESCRIPTION = """\
Run a program that imports `board` and `outpost` as it is, on the desktop: this process is the
board, and a file is its flash. What it needs lies in the current folder: settings.json (which
broker; --broker writes one if there is none) and flash.img (made by the first start; it holds what
was not delivered yet). A program that puts the board to sleep starts again when the sleep is over.

Time is real here, and so is the broker. `outpost test` runs the same program in virtual time,
through every power cut.

Exit status: that of the program.
"""
_EXAMPLES = """\
examples:
  outpost fetch mosquitto                            a broker, if none is installed
  outpost try hello.py --broker 127.0.0.1:1883       writes settings.json
  outpost try hello.py
  outpost try hello.py --python m                    under MicroPython (outpost fetch micropython)
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = add_command(
        subparsers, "try", SUMMARY, run, description=_DESCRIPTION, examples=_EXAMPLES
    )
    parser.add_argument("program", type=Path, metavar="PROGRAM", help="its file: hello.py")
    parser.add_argument(
        "--broker", metavar="HOST:PORT", type=address,
        help="write settings.json with this broker and the name 'kitchen'; not over another one",
    )  # fmt: skip
    parser.add_argument(
        "--python", choices=("c", "m"), default="c",
        help="c: CPython (default); m: MicroPython, 32-bit if there is one",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Return the program's exit status. Raises ToolError."""
    from outpost_tools.trying.program import desktop_program

    desktop_program.check(args.program)
    if args.broker:
        desktop_program.write_settings(Path("settings.json"), *args.broker)
    return desktop_program.run(args.program, desktop_program.interpreter(args.python))
