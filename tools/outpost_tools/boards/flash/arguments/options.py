"""Options of subcommands that read a board's settings and write to the board."""

from __future__ import annotations

import argparse
from pathlib import Path

from outpost_tools.boards.port.options import add_timeout


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
    from outpost_tools.boards.flash import held

    parser.add_argument("--held", choices=held.CHOICES, help=held.HELP)
