"""`outpost republish`."""

from __future__ import annotations

import argparse
from pathlib import Path

from outpost_tools.errors import ToolError
from outpost_tools.mqtt.arguments import add_login, check_topic, login, only_with_broker, tls_of
from outpost_tools.pages.arguments import add_http_names
from outpost_tools.readings.sources.option import add_sources, sources_of
from outpost_tools.terminal.command_line import add_command, address, positive

SUMMARY = "publish the newest value of every sensor for Home Assistant and others"
_DESCRIPTION = """\
Publish the newest value of every sensor as a retained message on its own topic, for Home Assistant,
Telegraf, Node-RED and other programs that read plain numbers. Values that a board sends late, after
an outage, are not published as new; the collector stores them, and the tables contain them.

  PREFIX/<board>/latest/<sensor>   a number
  PREFIX/<board>/latest            all values: a SenML pack with full names and times
  PREFIX/<board>/available         online while the values are current, otherwise offline

Run it in parallel with `outpost collect`. It keeps nothing on disk, and may be killed at any time.
"""
_EXAMPLES = """\
examples:
  outpost republish --broker 127.0.0.1:1883 --home-assistant
  outpost broker add fleet --republisher republisher       with a broker of `outpost broker`
  outpost republish --credentials fleet --home-assistant
  outpost republish --broker 127.0.0.1:1883 --sources sources.toml --home-assistant
                                               also Shelly, LoRaWAN, your own JSON
  outpost republish --broker 127.0.0.1:1883 --home-assistant --retire kitchen
                                               remove a board from all consumers, and end
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = add_command(
        subparsers, "republish", SUMMARY, run, description=_DESCRIPTION, examples=_EXAMPLES
    )
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--broker", metavar="HOST:PORT", type=address, help="address of the broker")
    where.add_argument(
        "--credentials",
        metavar="PATH",
        type=Path,
        help="DIR, or the file, of `outpost broker add DIR --republisher NAME`",
    )
    parser.add_argument(
        "--prefix", default="outpost", help="prefix of the boards' topics; default outpost"
    )
    parser.add_argument(
        "--home-assistant",
        metavar="PREFIX",
        nargs="?",
        const="homeassistant",
        help="announce the boards to Home Assistant's MQTT discovery; default prefix homeassistant",
    )
    parser.add_argument(
        "--metrics-port",
        type=positive(int),
        metavar="PORT",
        help="serve the newest values to Prometheus on 127.0.0.1",
    )
    _add_sources(parser)
    add_http_names(parser)
    parser.add_argument("--id", default="republisher", help="MQTT client identifier")
    parser.add_argument(
        "--retire",
        metavar="BOARD",
        help="remove a board's retained messages, so that consumers drop it, and end",
    )
    add_login(parser.add_argument_group("security"))


def _add_sources(parser: argparse.ArgumentParser) -> None:
    add_sources(
        parser,
        "also publish the values of other people's devices, as this file says; those of sources "
        "with home_assistant = true are not announced to Home Assistant, which has them",
    )


def run(args: argparse.Namespace) -> int:
    """Returns 0. Raises ToolError."""
    from outpost_tools.messages import name_rules
    from outpost_tools.readings.sources.idents import is_ident
    from outpost_tools.servers.republish.run import Republisher, retire

    link, topics = _link(args)
    if args.retire is not None:
        if not (name_rules.is_device(args.retire) or is_ident(args.retire)):
            raise ToolError(f"--retire {args.retire}: not a board's name")
        count = retire(link, topics, args.home_assistant, args.retire, 30.0)
        print(f"{args.retire}: removed, with {count} sensors")
        return 0
    mapping = sources_of(args)
    others = None
    if mapping is not None:
        from outpost_tools.servers.republish.others import Others

        others = Others(mapping, topics.prefix)
    made = Republisher(link, topics, args.home_assistant, others=others)
    if args.metrics_port is not None:
        from outpost_tools.servers.republish import metrics

        metrics.serve(made.newest, args.metrics_port, args.http_name)
    made.ending.on_signals()
    return made.run()


def _link(args: argparse.Namespace):
    from outpost_tools.mqtt import credentials
    from outpost_tools.servers.republish.link import Link
    from outpost_tools.servers.republish.topics import Topics

    check_topic("--prefix", args.prefix)
    if args.home_assistant is not None:
        check_topic("--home-assistant", args.home_assistant)
    # --retire runs briefly beside the permanent republisher, so it needs another client identifier
    has_will = args.retire is None
    suffix = "" if has_will else "-retire"
    if args.credentials is not None:
        only_with_broker(args, "--credentials")
        found = credentials.find(args.credentials, "republisher")
        found = found if has_will else found.second
        topics = Topics(found.topic_prefix)
        where = (found.address, found.client_id, topics, args.home_assistant)
        link = Link(*where, login=found.login, tls=found.tls(), has_will=has_will)
        if not has_will:  # credentials of an earlier version lack the second user
            link.login_hint = "repeat `outpost broker add DIR --republisher NAME`"
        return link, topics
    topics = Topics(args.prefix)
    where = (args.broker, args.id + suffix, topics, args.home_assistant)
    return Link(*where, login=login(args), tls=tls_of(args), has_will=has_will), topics
