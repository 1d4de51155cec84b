"""`outpost test`."""

from __future__ import annotations

import argparse
from pathlib import Path

from outpost_tools.errors import ToolError
from outpost_tools.terminal.command_line import add_command

SUMMARY = "a program in virtual time, through every power cut: is anything lost?"
_DESCRIPTION = """\
Run a MicroPython program, as it is, on the desktop: in virtual time, with a flash, files, a network
and a broker that fail as real ones do. Then cut the power at each of its effects (a program or
erase of the flash, a file, a packet, a sleep), in each way in which a cut may leave them, and see
whether the board recovers and whether a message that was accepted is lost, repeated out of order,
or invented. A user's own tests: the pytest fixture `bench`. What it shows and what it cannot:
boards/BENCH/README.md.

Exit status: 0 good, 1 something is wrong (which cut, which line, the line that repeats it), 2 the
command could not be carried out.
"""
_EXAMPLES = """\
examples:
  outpost test main.py                            an hour, an outage, each power cut
  outpost test main.py --board ESP32_GENERIC --settings kitchen.json --hours 24 --no-cuts
  outpost test main.py --value 'adc 34=30000' --outage 10-25 --outage 30-31:silent
  outpost test main.py --python m                 under 32-bit MicroPython
"""
_OUTAGE = "10-12"


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = add_command(
        subparsers, "test", SUMMARY, run, description=_DESCRIPTION, examples=_EXAMPLES
    )
    parser.add_argument("program", type=Path, metavar="PROGRAM", help="its file: main.py")
    parser.add_argument(
        "--board", default="BENCH", metavar="KIND",
        help="BENCH (default), or a kind of board, whose own board.py then runs: ESP32_GENERIC ...",
    )  # fmt: skip
    parser.add_argument(
        "--settings", type=Path, metavar="FILE",
        help="JSON: added to a network, a broker and a name; default: nothing",
    )  # fmt: skip
    parser.add_argument(
        "--hours", type=float, default=1.0, metavar="H", help="of virtual time; default 1"
    )
    parser.add_argument(
        "--outage", action="append", default=[], metavar="MIN-MIN[:KIND]",
        help="the broker is away from minute to minute: refuses (default), silent, half_open, "
        f"slow, no_wifi; default {_OUTAGE}; 0-0: none",
    )  # fmt: skip
    parser.add_argument(
        "--value", action="append", default=[], metavar="NAME=NUMBER",
        help="what the hardware reads: 'adc 34=30000', 'pin 3=0'",
    )  # fmt: skip
    parser.add_argument(
        "--filesystem", choices=("littlefs", "fat"), default="littlefs",
        help="by whose rules files survive a cut; default littlefs",
    )  # fmt: skip
    _add_cuts(parser)


def _add_cuts(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--python", choices=("c", "m", "m64", "both"), default="c",
        help="c: CPython (default), m: 32-bit MicroPython, m64: 64-bit, both: c and m",
    )  # fmt: skip
    parser.add_argument("--no-cuts", action="store_true", help="the run alone")
    parser.add_argument(
        "--heap-after", type=float, metavar="S",
        help="MicroPython: from then on the program may not allocate; names the line that does",
    )  # fmt: skip
    parser.add_argument("--double", action="store_true", help="a second cut after each first one")
    parser.add_argument("--cut", default="", metavar="NUMBER/WAY", help="one power cut alone")
    parser.add_argument(
        "--scenario", type=Path, metavar="FILE",
        help="JSON, as a failure leaves it in outpost-test.json; instead of the options above",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """0, or 1 if something is wrong. Raises ToolError."""
    from outpost_tools.kit import command

    if not args.program.is_file():
        raise ToolError(f"{args.program}: no such program")
    return command.run(args)
