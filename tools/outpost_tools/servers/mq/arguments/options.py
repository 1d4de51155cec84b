"""Options that several subcommands about MQ messages share."""

from __future__ import annotations

import argparse


def add_layout(group: argparse._ArgumentGroup) -> None:
    """Options for the message's layout and destination."""
    from outpost_tools.servers.mq.header import CODECS
    from outpost_tools.servers.mq.make import ENCODINGS
    from outpost_tools.servers.mq.mapping import DEFAULT_QUEUE

    group.add_argument(
        "--encoding",
        choices=ENCODINGS,
        default="big",
        help="byte order (MQMD.Encoding 273 or 546)",
    )
    group.add_argument(
        "--ccsid", type=int, choices=sorted(CODECS), default=1208, help="NameValueCCSID"
    )
    group.add_argument(
        "--queue", default=DEFAULT_QUEUE, help="a stream queue (default: %(default)s)"
    )
    group.add_argument("--reply-to-q", default="", metavar="NAME", help="MQMD.ReplyToQ")
    group.add_argument("--reply-to-q-mgr", default="", metavar="NAME", help="MQMD.ReplyToQMgr")


def add_input(parser: argparse.ArgumentParser) -> None:
    """Options for the messages to read."""
    from outpost_tools.servers.mq.form import FORMS
    from outpost_tools.servers.mq.make import ENCODINGS

    parser.add_argument("file", help="JSON lines, hex digits or message bytes; - is standard input")
    parser.add_argument(
        "--form",
        choices=("auto", *FORMS),
        default="auto",
        help="default: detect it from the first bytes",
    )
    parser.add_argument(
        "--encoding",
        choices=ENCODINGS,
        default="big",
        help="byte order of hex or bytes (MQMD.Encoding)",
    )
