"""`outpost alerts`: a module for each subcommand."""

from __future__ import annotations

import argparse

from outpost_tools.terminal.command_line import add_group

SUMMARY = "report problems to a person: e-mail, push, webhook, your own command"
_DESCRIPTION = """\
`outpost run FOLDER` sends the alerts that FOLDER/alerts.toml asks for to the recipients named
there: for a reading outside its bounds, a silent board, a board that needs attention on the live
page, a collector that stores nothing, or a disk that is getting full. It sends one message when a
problem begins and one when it ends. Without the file, it sends nothing.
"""
_EXAMPLES = """\
examples:
  outpost alerts example > home/alerts.toml     choose recipients and conditions
  chmod 600 home/alerts.toml
  outpost alerts test home                      test each channel
  outpost run home                              read the file at the start
  outpost alerts status home                    open alerts, and waiting messages
  outpost live --log log --alerts alerts.toml   without `outpost run`
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    members = ("example", "test", "status")
    add_group(
        subparsers, "alerts", SUMMARY, __name__, members,
        description=_DESCRIPTION, examples=_EXAMPLES,
    )  # fmt: skip
