"""`outpost pipeline`: a module for each subcommand; options.py has what several of them share."""

from __future__ import annotations

import argparse

from outpost_tools.terminal.command_line import add_group

SUMMARY = "turn the collector's segments into tables: silver, quarantine, gold, gaps"
_EXAMPLES = """\
examples:
  outpost pipeline run --log log --tables tables                 one round, then stop
  outpost pipeline run --log log --tables tables --continuous    every 30 s, until SIGTERM
  outpost pipeline package outpost.zip                           for spark-submit and executors
  outpost pipeline status --log log --tables tables              backlog, contents of the tables,
                                                                 quarantine by reason
  outpost pipeline receipt --tables tables --device kitchen      which numbers are in which version
  outpost pipeline replay --tables tables --reason "unknown version 2"
                                                                 after a fix, before the next run
  outpost pipeline compact --tables tables                       merge small files; also during a
                                                                 run
  outpost pipeline delete --tables tables --before 2025-01-01     readings and windows of older days
  outpost pipeline delete --tables tables --device board-1        everything from a board
  outpost pipeline prune --log log                               delete the segments that every
                                                                 reader has committed
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    members = ("run", "package", "status", "receipt", "replay", "compact", "delete", "prune")
    add_group(subparsers, "pipeline", SUMMARY, __name__, members, examples=_EXAMPLES)
