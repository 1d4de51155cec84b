"""`outpost devices`: lists the boards that are plugged in."""

from __future__ import annotations

import argparse

from outpost_tools.boards.port import options
from outpost_tools.terminal.command_line import add_command

SUMMARY = "list the boards that are plugged in"
_DESCRIPTION = """\
List the serial ports of USB devices and, by their USB identifiers, the probable device at each.
With --probe, ask each device whether it runs MicroPython, which board it is, and whether Outpost is
installed. This interrupts the board's program, which then restarts.
"""
_EXAMPLES = """\
examples:
  outpost devices
  outpost devices --probe
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = add_command(
        subparsers, "devices", SUMMARY, run, description=_DESCRIPTION, examples=_EXAMPLES
    )
    parser.add_argument(
        "--probe", action="store_true", help="ask each device; this interrupts its program"
    )
    options.add_timeout(parser, 5.0, "with --probe: ")


def run(args: argparse.Namespace) -> int:
    """Return 0, also when nothing is plugged in."""
    from outpost_tools.boards.monitor import plugged_in
    from outpost_tools.boards.port import table

    rows = plugged_in.rows(args.timeout if args.probe else None)
    print(table.text(rows) or plugged_in.NOTHING)
    return 0
