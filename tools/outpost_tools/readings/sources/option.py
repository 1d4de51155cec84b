"""The option --sources FILE of the commands that read a mapping."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from outpost_tools.readings.sources.mapping import Mapping


def add_sources(parser: argparse.ArgumentParser, does: str) -> None:
    """does: what the command does with other people's messages."""
    parser.add_argument(
        "--sources", metavar="FILE", type=Path, help=f"{does}: see `outpost sources --help`"
    )


def sources_of(args: argparse.Namespace) -> Mapping | None:
    """None without --sources. Raises ToolError."""
    if args.sources is None:
        return None
    from outpost_tools.machine import needs

    needs.check("sources")
    from outpost_tools.readings.sources import ready_files

    return ready_files.load(args.sources)


def text_of(args: argparse.Namespace) -> str | None:
    """The text of a mapping without a fault, for who keeps it. None without --sources. Raises
    ToolError."""
    if sources_of(args) is None:
        return None
    from outpost_tools.readings.sources import ready_files

    return ready_files.read(args.sources)
