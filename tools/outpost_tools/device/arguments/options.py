"""Options that several subcommands for boards share."""

from __future__ import annotations

import argparse
from pathlib import Path

from outpost_tools.common.command_line import seconds


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


def add_credentials(parser: argparse.ArgumentParser) -> None:
    """Add --credentials, for a board."""
    parser.add_argument(
        "--credentials",
        metavar="PATH",
        type=Path,
        help="the folder of `outpost broker init`, or a board's file from it. It provides broker, "
        "TLS, user and password; leave these out of the settings",
    )


def add_writing(parser: argparse.ArgumentParser) -> None:
    """Add --dry-run and --timeout, for a subcommand that writes to a board."""
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="print the steps, but change nothing on the board",
    )
    add_timeout(parser)


def add_settings_source(parser: argparse.ArgumentParser) -> None:
    """Add --credentials and --keep-names, for a subcommand that reads settings."""
    add_credentials(parser)
    parser.add_argument(
        "--keep-names",
        action="store_true",
        help="the board has its device_id, topic_prefix and names of sensors already: accept them "
        "even where new boards may no longer be named so",
    )


def add_held(parser: argparse.ArgumentParser) -> None:
    """Add --held, for a subcommand that changes settings."""
    from outpost_tools.device import held

    parser.add_argument("--held", choices=held.CHOICES, help=held.HELP)


def add_timeout(parser: argparse.ArgumentParser, default_s: float = 10.0, when: str = "") -> None:
    parser.add_argument(
        "--timeout",
        metavar="S",
        type=seconds,
        default=default_s,
        help=f"{when}seconds to wait for each answer of the board; default {default_s:g}",
    )
