"""Options that several of the subcommands share."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_folder(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder", metavar="DIR", type=Path, help="the folder of `outpost broker init`"
    )


def add_member(parser: argparse.ArgumentParser) -> None:
    """NAME of a board, or --collector NAME, or --monitor NAME, and so on."""
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("board", metavar="BOARD", nargs="?", help="a board's device_id")
    group.add_argument("--collector", metavar="NAME", help="a collector's --id")
    group.add_argument(
        "--monitor", metavar="NAME", help="a user that reads messages and sends nothing"
    )
    group.add_argument("--republisher", metavar="NAME", help="for `outpost republish`")
    group.add_argument(
        "--reader",
        metavar="NAME",
        help="reads the values of `outpost republish`: Home Assistant, Telegraf, ...",
    )
    group.add_argument(
        "--operator", metavar="NAME", help="a user that may send commands: `outpost send`"
    )


def member(args: argparse.Namespace) -> tuple[str, str]:
    """Role and name."""
    from outpost_tools.boards.broker.members import ROLES

    found = {role: getattr(args, role) for role in ROLES}
    return next((role, name) for role, name in found.items() if name is not None)
