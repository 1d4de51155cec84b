"""`outpost sources`: a module for each subcommand; options.py has what several of them share."""

from __future__ import annotations

import argparse

from outpost_tools.terminal.command_line import add_group

SUMMARY = "map other people's MQTT messages (Tasmota, Zigbee2MQTT, ...) to readings"
_DESCRIPTION = """\
One TOML file says which topics of other senders are read, and what their payloads mean. There are
ready files for Tasmota, Zigbee2MQTT, Shelly, ESPHome, ChirpStack, SenML, Home Assistant's
statestream and plain objects of numbers; for anything else, a draft is made from a live broker.

"""
_EXAMPLES = """\
examples:
  outpost sources ready                                       what there is
  outpost sources ready zigbee2mqtt > sources.toml            start from a ready file
  outpost sources check sources.toml                          run the examples in the file
  outpost sources check sources.toml --broker 127.0.0.1:1883  and listen: which message matches what
  outpost sources learn --broker 127.0.0.1:1883 > sources.toml
                                                              a first draft, from a minute

What is promised: a message that the broker has delivered is counted exactly once. Before the
broker, it depends on what the sender says: with an identifier or a time of its own, a message that
it sends twice counts once; without, it counts twice. Nothing is confirmed to these senders, and
nobody notices a message that never came: only Outpost's boards number theirs.
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    from outpost_tools.readings.sources.reference import KEYS

    members = ("ready", "check", "learn")
    texts = {"description": _DESCRIPTION + KEYS, "examples": _EXAMPLES}
    add_group(subparsers, "sources", SUMMARY, __name__, members, **texts)
