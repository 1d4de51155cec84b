"""`outpost broker`: a module for each subcommand."""

from __future__ import annotations

import argparse

from outpost_tools.terminal.command_line import add_group

SUMMARY = "set up a broker with TLS, a user and rights for each board"
_DESCRIPTION = """\
Write a configuration for mosquitto with a certificate authority, a user for each board and the
rights that each needs, and change users and rights while the broker runs. SECURITY.md says what is
protected against whom.
"""
_EXAMPLES = """\
examples, from nothing to a board in the tables (the broker's machine is broker.home):
  outpost broker init fleet --host broker.home --host 192.168.1.10
  mosquitto -c fleet/server/mosquitto.conf &
  outpost broker add fleet kitchen
  outpost provision --board RPI_PICO_W --port /dev/ttyACM0 --credentials fleet kitchen.toml
  outpost collect --credentials fleet --log log &
  outpost monitor --credentials fleet --device kitchen
  outpost broker revoke fleet kitchen           disconnect it and keep it out
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    members = ("init", "add", "revoke", "list")
    add_group(
        subparsers, "broker", SUMMARY, __name__, members,
        description=_DESCRIPTION, examples=_EXAMPLES,
    )  # fmt: skip
