"""`outpost republish`."""

from __future__ import annotations

import argparse
from pathlib import Path

from outpost_tools.common.command_line import (
    add_command,
    add_login,
    address,
    check_topic,
    login,
    only_with_broker,
    positive,
)
from outpost_tools.common.errors import ToolError

SUMMARY = "the newest value of every sensor on a plain topic; Home Assistant finds the boards"
_DESCRIPTION = """\
Publish the newest value of every sensor, decoded, on retained topics of its own: for Home
Assistant, Telegraf, Node-RED, and whoever else reads plain numbers. What a board sends late, after
an outage, is not published as new; the collector has it, and the tables show it.

  PREFIX/<board>/latest/<sensor>   a number
  PREFIX/<board>/latest            all of them: a SenML pack with whole names and times
  PREFIX/<board>/available         online while they are current, else offline

It runs beside `outpost collect`, keeps nothing on disk, and may be killed at any time.
"""
_EXAMPLES = """\
examples:
  outpost republish --broker 127.0.0.1:1883 --home-assistant
  outpost broker add fleet --republisher republisher       where `outpost broker` made the broker
  outpost republish --credentials fleet --home-assistant
  outpost republish --broker 127.0.0.1:1883 --home-assistant --retire kitchen
                                               the board is gone: consumers forget it, and this ends
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = add_command(
        subparsers, "republish", SUMMARY, run, description=_DESCRIPTION, examples=_EXAMPLES
    )
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--broker", metavar="HOST:PORT", type=address)
    where.add_argument(
        "--credentials",
        metavar="PATH",
        type=Path,
        help="of `outpost broker add DIR --republisher NAME`: its file, or DIR",
    )
    parser.add_argument("--prefix", default="outpost", help="of the boards' topics")
    parser.add_argument(
        "--home-assistant",
        metavar="PREFIX",
        nargs="?",
        const="homeassistant",
        help="describe the boards to Home Assistant's MQTT discovery; default prefix homeassistant",
    )
    parser.add_argument(
        "--metrics-port",
        type=positive(int),
        metavar="PORT",
        help="the newest values in Prometheus' text format on 127.0.0.1",
    )
    parser.add_argument("--id", default="republisher", help="MQTT client identifier")
    parser.add_argument(
        "--retire",
        metavar="BOARD",
        help="remove what the broker remembers of a board, so that consumers forget it, and end",
    )
    add_login(parser.add_argument_group("security"))


def run(args: argparse.Namespace) -> int:
    """0. Raises ToolError."""
    from outpost_tools.common import labels
    from outpost_tools.republish.run import Republisher, retire

    link, topics = _link(args)
    if args.retire is not None:
        if not labels.is_device(args.retire):
            raise ToolError(f"--retire {args.retire}: no name of a board")
        count = retire(link, topics, args.home_assistant, args.retire, 30.0)
        print(f"{args.retire}: taken away, with {count} sensors")
        return 0
    made = Republisher(link, topics, args.home_assistant)
    if args.metrics_port is not None:
        from outpost_tools.republish import metrics

        metrics.serve(made.newest, args.metrics_port)
    made.ending.on_signals()
    return made.run()


def _link(args: argparse.Namespace):
    from outpost_tools.common import credentials
    from outpost_tools.common.mqtt_connection import tls_context
    from outpost_tools.republish.link import Link
    from outpost_tools.republish.topics import Topics

    check_topic("--prefix", args.prefix)
    if args.home_assistant is not None:
        check_topic("--home-assistant", args.home_assistant)
    # beside the one that runs, for a moment
    has_will = args.retire is None
    suffix = "" if has_will else "-retire"
    if args.credentials is not None:
        only_with_broker(args, "--credentials")
        found = credentials.find(args.credentials, "republisher")
        topics = Topics(found.topic_prefix)
        where = (found.address, found.client_id + suffix, topics, args.home_assistant)
        return Link(*where, login=found.login, tls=found.tls(), has_will=has_will), topics
    tls = tls_context(args.ca_file) if args.tls or args.ca_file else None
    topics = Topics(args.prefix)
    where = (args.broker, args.id + suffix, topics, args.home_assistant)
    return Link(*where, login=login(args), tls=tls, has_will=has_will), topics
