"""What several subcommands about an outbox take."""

from __future__ import annotations

import argparse
from pathlib import Path

from outpost_tools.common.command_line import between

ALIGNMENTS = ("4", "8", "16", "32", "64", "128", "256")


def add_source(parser: argparse.ArgumentParser) -> None:
    """IMAGE, or --live and what goes with it."""
    parser.add_argument("image", metavar="IMAGE", type=Path, nargs="?")
    parser.add_argument(
        "--live", metavar="PORT", help="the serial port of a live board, in place of IMAGE"
    )
    parser.add_argument(
        "--save", metavar="FILE", type=Path, help="with --live: keep the image in a new file"
    )
    parser.add_argument(
        "--raw",
        action="store_true",
        help="with --live: every block of the flash that begins as one of an outbox, when its "
        "files are gone or the filesystem was made again",
    )
    parser.add_argument(
        "--timeout",
        type=between(float, 0.1, 600),
        metavar="S",
        default=10.0,
        help="with --live: seconds that the board has for each answer, default 10",
    )


def add_alignment(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--align",
        choices=("auto", *ALIGNMENTS),
        default="auto",
        help="the alignment that the board is set to; auto (default): whatever the image says",
    )
