"""`outpost broker revoke`."""

from __future__ import annotations

import argparse

from outpost_tools.broker.arguments import options
from outpost_tools.common.command_line import add_command

SUMMARY = "take a board's, a collector's or a monitor's rights away, at once"
_DESCRIPTION = """\
Take a user's rights away: a broker that runs disconnects it and lets it in no more, no restart
needed. Its credentials file is deleted. What it has sent stays in the tables.
"""
_EXAMPLES = """\
examples:
  outpost broker revoke fleet kitchen
  outpost broker revoke fleet --monitor wall
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = add_command(
        subparsers, "revoke", SUMMARY, run, description=_DESCRIPTION, examples=_EXAMPLES
    )
    options.add_folder(parser)
    options.add_member(parser)


def run(args: argparse.Namespace) -> int:
    """0. Raises ToolError."""
    from outpost_tools.broker import members
    from outpost_tools.broker.folder import Folder

    print(members.revoke(Folder(args.folder), *options.member(args)))
    return 0
