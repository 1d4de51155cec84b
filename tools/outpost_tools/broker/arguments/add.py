"""`outpost broker add`."""

from __future__ import annotations

import argparse

from outpost_tools.broker.arguments import options
from outpost_tools.common.command_line import add_command

SUMMARY = "a user for a board, a collector or a monitor, with its rights"
_DESCRIPTION = """\
Make credentials for a board (or a collector, or a monitor), and let it in. A broker that runs knows
it at once. The password is in the file that is named, and is not printed.

Repeated, it keeps the password, and gives the broker again what it should have.
"""
_EXAMPLES = """\
examples:
  outpost broker add fleet kitchen                    a board; its device_id is its user name
  outpost broker add fleet kitchen --new-password     the old one no longer holds
  outpost broker add fleet --collector collector-2    another collector of the group
  outpost broker add fleet --monitor wall             reads messages, writes nothing
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
    parser.add_argument(
        "--new-password", action="store_true", help="in place of the one that it has"
    )


def run(args: argparse.Namespace) -> int:
    """0. Raises ToolError."""
    from outpost_tools.broker import members
    from outpost_tools.broker.folder import Folder

    role, name = options.member(args)
    print(members.add(Folder(args.folder), role, name, new_password=args.new_password))
    return 0
