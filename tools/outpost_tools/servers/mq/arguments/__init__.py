"""`outpost mq`: a module for each subcommand; options.py has what several of them share."""

from __future__ import annotations

import argparse

from outpost_tools.terminal.command_line import add_group

SUMMARY = "IBM MQ Publish command messages: build, parse, check, bridge from MQTT"
_DESCRIPTION = """\
Build and read IBM MQ Publish command messages (MQRFH2 with a <psc> folder), find their faults, and
build them from MQTT messages. Only a live put needs IBM's software. The manual is tools/MQ.md.
"""
_EXAMPLES = """\

examples:
  outpost mq build --topic Sport/Soccer/Event/MatchStarted --form hex
  outpost mq build --topic plant/boiler --option RetainPub --text 21.5 --out command.jsonl
  outpost mq check command.jsonl
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    members = ("build", "parse", "check", "bridge")
    add_group(
        subparsers, "mq", SUMMARY, __name__, members, description=_DESCRIPTION, examples=_EXAMPLES
    )
