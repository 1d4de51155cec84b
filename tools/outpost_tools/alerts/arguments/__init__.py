"""`outpost alerts`: a module for each of its subcommands."""

from __future__ import annotations

import argparse

from outpost_tools.common.command_line import add_group

SUMMARY = "tell a person what is wrong: e-mail, push, webhook, a command of yours"
_DESCRIPTION = """\
`outpost run FOLDER` tells what FOLDER/alerts.toml asks for, to whom it names: a reading beyond a
bound, a board that is silent, what needs attention on the live page, a collector that stores
nothing, a disk that gets full. Once when it begins, once when it ends. Without the file nothing is
sent to anybody.
"""
_EXAMPLES = """\
examples:
  outpost alerts example > home/alerts.toml     choose whom it tells, and of what
  chmod 600 home/alerts.toml
  outpost alerts test home                      a test to each of them, and what happened
  outpost run home                              reads the file at its start
  outpost alerts status home                    what was told, and what waits
  outpost live --log log --alerts alerts.toml   without `outpost run`
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    members = ("example", "test", "status")
    add_group(
        subparsers, "alerts", SUMMARY, __name__, members,
        description=_DESCRIPTION, examples=_EXAMPLES,
    )  # fmt: skip
