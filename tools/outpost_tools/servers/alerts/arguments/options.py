"""Options that several of the subcommands share."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_place(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "place",
        metavar="FOLDER",
        type=Path,
        help="the folder of `outpost run`, or a file such as alerts.toml",
    )


def file_of(args: argparse.Namespace) -> Path:
    """The file with the settings; it may not exist."""
    from outpost_tools.servers.alerts.settings import FILE

    return args.place / FILE if args.place.is_dir() else args.place
