"""`outpost alerts status`."""

from __future__ import annotations

import argparse

from outpost_tools.alerts.arguments import options
from outpost_tools.common.command_line import add_command

SUMMARY = "what was told and is not over, and what waits for each channel"
_DESCRIPTION = """\
List what was told and is not over, and what waits for each channel with the reason of its last
failure. Exit status 1 when something waits.
"""
_EXAMPLES = """\
examples:
  outpost alerts status home
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = add_command(
        subparsers, "status", SUMMARY, run, description=_DESCRIPTION, examples=_EXAMPLES
    )
    options.add_place(parser)


def run(args: argparse.Namespace) -> int:
    """0; 1 when something waits. Raises ToolError."""
    from outpost_tools.alerts import settings, status

    path = options.file_of(args)
    lines, waiting = status.lines(settings.load(path), path)
    print("\n".join(lines))
    return int(waiting > 0)
