"""Options that several subcommands for boards share."""

from __future__ import annotations

import argparse

from outpost_tools.terminal.command_line import seconds


def add_board(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """Add --board and --port."""
    parser.add_argument(
        "--board",
        metavar="BOARD",
        required=required,
        help="a folder of boards/, such as RPI_PICO_W, or the path of a board folder of your own",
    )
    parser.add_argument(
        "--port",
        metavar="PORT",
        required=required,
        help="the board's serial port, such as /dev/ttyACM0",
    )


def add_timeout(parser: argparse.ArgumentParser, default_s: float = 10.0, when: str = "") -> None:
    parser.add_argument(
        "--timeout",
        metavar="S",
        type=seconds,
        default=default_s,
        help=f"{when}seconds to wait for each answer of the board; default {default_s:g}",
    )
