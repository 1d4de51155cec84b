"""Arguments that the subcommands of `outpost sources` share: where to listen, how long, as whom."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from outpost_tools.errors import ToolError
from outpost_tools.mqtt.arguments import add_login, only_with_broker
from outpost_tools.terminal.command_line import address, between

if TYPE_CHECKING:
    from outpost_tools.readings.sources.heard import Heard

_DAY_S = 86_400


def add_broker(parser: argparse.ArgumentParser, seconds: int, *, is_required: bool) -> None:
    where = parser.add_mutually_exclusive_group(required=is_required)
    where.add_argument("--broker", metavar="HOST:PORT", type=address, help="listen to this broker")
    where.add_argument(
        "--credentials",
        metavar="PATH",
        type=Path,
        help="the folder of `outpost broker init`, or a monitor's file from it; a monitor may read "
        "what its rights at the broker say",
    )
    group = parser.add_argument_group("listening")
    group.add_argument(
        "--seconds",
        metavar="S",
        type=between(float, 0.1, _DAY_S),
        default=seconds,
        help=f"how long; default {seconds}. Many devices send every five minutes",
    )
    group.add_argument(
        "--topic",
        metavar="FILTER",
        action="append",
        default=[],
        help="only these topics: 'zigbee2mqtt/#'; may be repeated; default: all, '#'",
    )
    add_login(parser.add_argument_group("with --broker"))


def heard(args: argparse.Namespace) -> Heard:
    """Listens. Raises ToolError."""
    import ssl

    from outpost_tools.mqtt import credentials
    from outpost_tools.mqtt.arguments import login, tls_of
    from outpost_tools.readings.sources import listen

    for one in args.topic:
        if not listen.is_filter(one):
            raise ToolError(f"--topic {one!r}: a topic filter is needed, such as 'zigbee2mqtt/#'")
    context: ssl.SSLContext | None
    if args.credentials is not None:
        only_with_broker(args, "--credentials")
        found = credentials.find(args.credentials, "monitor")
        where, who, context = found.address, found.login, found.tls()
        client_id = found.client_id
    else:
        where, who, context, client_id = args.broker, login(args), tls_of(args), ""
    ear = listen.Ear(where, client_id, args.topic or ["#"], who, context)
    return listen.listen(ear, args.seconds)
