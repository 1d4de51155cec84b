"""`outpost broker add`."""

from __future__ import annotations

import argparse

from outpost_tools.boards.broker.arguments import options
from outpost_tools.terminal.command_line import add_command

SUMMARY = "add a user for a board, a collector or a monitor, with its rights"
_DESCRIPTION = """\
Create credentials for a board, a collector, a monitor or another user, and tell the broker to
accept them. A running broker accepts them at once. The command prints the name of the credentials
file, which contains the password, but never the password itself.

If you repeat the command, it keeps the password and restores the user and its rights at the broker.
"""
_EXAMPLES = """\
examples:
  outpost broker add fleet kitchen                    a board; its device_id is its user name
  outpost broker add fleet kitchen --new-password     the old one stops working
  outpost broker add fleet --collector collector-2    another collector of the group
  outpost broker add fleet --monitor wall             reads messages, sends nothing
  outpost broker add fleet --republisher republisher  for `outpost republish`
  outpost broker add fleet --reader home-assistant    reads what that publishes
  outpost broker add fleet --operator desk            may send commands: `outpost send`
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = add_command(
        subparsers, "add", SUMMARY, run, description=_DESCRIPTION, examples=_EXAMPLES
    )
    options.add_folder(parser)
    options.add_member(parser)
    parser.add_argument("--new-password", action="store_true", help="replace the existing password")


def run(args: argparse.Namespace) -> int:
    """0. Raises ToolError."""
    from outpost_tools.boards.broker import members
    from outpost_tools.boards.broker.folder import Folder

    role, name = options.member(args)
    print(members.add(Folder(args.folder), role, name, new_password=args.new_password))
    return 0
