"""Options that several subcommands about an outbox share."""

from __future__ import annotations

import argparse
from pathlib import Path

from outpost_tools.terminal.command_line import between

ALIGNMENTS = ("4", "8", "16", "32", "64", "128", "256")


def add_source(parser: argparse.ArgumentParser) -> None:
    """IMAGE, or --live and its options."""
    parser.add_argument(
        "image", metavar="IMAGE", type=Path, nargs="?", help="a file with the bytes of the outbox"
    )
    parser.add_argument(
        "--live", metavar="PORT", help="the serial port of a live board, instead of IMAGE"
    )
    parser.add_argument(
        "--save", metavar="FILE", type=Path, help="with --live: save the image to a new file"
    )
    parser.add_argument(
        "--raw",
        action="store_true",
        help="with --live: read every flash block that starts like a block of an outbox; for a "
        "board whose files are gone or whose filesystem was recreated",
    )
    parser.add_argument(
        "--timeout",
        type=between(float, 0.1, 600),
        metavar="S",
        default=10.0,
        help="with --live: seconds to wait for each answer of the board, default 10",
    )


def add_alignment(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--align",
        choices=("auto", *ALIGNMENTS),
        default="auto",
        help="the alignment in the board's settings; auto (default): detect it from the image",
    )
