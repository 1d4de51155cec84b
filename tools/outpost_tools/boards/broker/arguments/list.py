"""`outpost broker list`."""

from __future__ import annotations

import argparse

from outpost_tools.boards.broker.arguments import options
from outpost_tools.terminal.command_line import add_command

SUMMARY = "list users: who has credentials, and whom the broker accepts"
_DESCRIPTION = """\
List boards, collectors, monitors and other users: whether the folder has their credentials, and
whether the broker accepts them. The exit status is 1 if the two differ.
"""
_EXAMPLES = """\
examples:
  outpost broker list fleet
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = add_command(
        subparsers, "list", SUMMARY, run, description=_DESCRIPTION, examples=_EXAMPLES
    )
    options.add_folder(parser)


def run(args: argparse.Namespace) -> int:
    """0; 1 if the broker's users differ from the folder's. Raises ToolError."""
    import sys

    from outpost_tools.boards.broker import members
    from outpost_tools.boards.broker.folder import Folder

    found, source = members.members(Folder(args.folder))
    print(source, file=sys.stderr)
    for one in found:
        print(f"{one.role:<10} {one.name:<32} {_state(one)}")
    return int(any(_state(one) != "accepted" for one in found))


def _state(one) -> str:
    if one.role == "?":
        return "accepted, but has no credentials here: `outpost broker revoke`, unless in use"
    if not one.is_known:
        return "unknown to the broker: `outpost broker add` it again"
    return "accepted" if one.is_bound else "accepted under any name: `outpost broker add` it again"
