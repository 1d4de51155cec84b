"""`outpost alerts example`."""

from __future__ import annotations

import argparse

from outpost_tools.terminal.command_line import add_command

SUMMARY = "print an alerts.toml to start from"
_EXAMPLES = """\
examples:
  outpost alerts example > home/alerts.toml
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    add_command(subparsers, "example", SUMMARY, run, examples=_EXAMPLES)


def run(args: argparse.Namespace) -> int:
    """Returns 0."""
    from outpost_tools.servers.alerts.example import EXAMPLE

    print(EXAMPLE, end="")
    return 0
