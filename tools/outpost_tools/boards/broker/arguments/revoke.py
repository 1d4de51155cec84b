"""`outpost broker revoke`."""

from __future__ import annotations

import argparse

from outpost_tools.boards.broker.arguments import options
from outpost_tools.terminal.command_line import add_command

SUMMARY = "revoke the rights of a board, a collector or a monitor, at once"
_DESCRIPTION = """\
Revoke the rights of a user. A running broker disconnects it and no longer accepts it; no restart is
needed. The command deletes its credentials file. Messages that it has sent stay in the tables.
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
    from outpost_tools.boards.broker import members
    from outpost_tools.boards.broker.folder import Folder

    print(members.revoke(Folder(args.folder), *options.member(args)))
    return 0
