"""`outpost alerts status`."""

from __future__ import annotations

import argparse

from outpost_tools.servers.alerts.arguments import options
from outpost_tools.terminal.command_line import add_command

SUMMARY = "list open alerts, and the messages that wait for each channel"
_DESCRIPTION = """\
List the alerts that are still open, and for each channel the waiting messages and the reason of its
last failure. The exit status is 1 if a message is waiting.
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
    """Returns 0; 1 if a message is waiting. Raises ToolError."""
    from outpost_tools.servers.alerts import settings, status

    path = options.file_of(args)
    lines, waiting = status.lines(settings.load(path), path)
    print("\n".join(lines))
    return int(waiting > 0)
