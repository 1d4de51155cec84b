"""`outpost mq bridge`."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from outpost_tools.errors import ToolError
from outpost_tools.mqtt.arguments import add_login, only_with_broker
from outpost_tools.servers.mq.arguments import options
from outpost_tools.terminal.command_line import MOST, add_command, address, between

_LEVEL = r"(?:\+|[^+#/\0\ud800-\udfff]*)"  # the last range: bytes that are not UTF-8
_FILTER = re.compile(rf"(?=.)({_LEVEL}/)*(#|{_LEVEL})\Z", re.DOTALL)
SUMMARY = "forward MQTT messages to MQ"
_EXAMPLES = """\
The bridge acknowledges a message (PUBACK) only after it is durable at the output: fsync, or commit.
A stop or a kill at any moment loses nothing. Unacknowledged messages arrive again, so there may be
repetitions.

With a broker of `outpost broker`, give the bridge a monitor's user: `outpost broker add fleet
--monitor mq`, then use --credentials fleet/monitors/mq.json instead of --broker.

examples:
  outpost mq bridge --broker 127.0.0.1:1883 --filter 'outpost/#' --lines publish.jsonl \\
                    --until-idle 2
  outpost mq bridge --broker 127.0.0.1:1883 --files commands --usr --seq-num --pub-time reading \\
                    --until-idle 2
  outpost mq bridge --segments build/log/collector-1 --lines from-log.jsonl --seq-num
  outpost mq check publish.jsonl

with IBM's client and `pip install 'outpost-mqtt[mq]'`:
  outpost mq bridge --broker 127.0.0.1:1883 --put QM1 --channel DEV.APP.SVRCONN \\
                    --connection 'localhost(1414)' --until-idle 2
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = add_command(subparsers, "bridge", SUMMARY, run, examples=_EXAMPLES)
    title = "input: an MQTT subscription, or the segments of `outpost collect`"
    source = parser.add_argument_group(title)
    _add_source(source)
    add_login(source)
    _add_segments(source)
    _add_output(parser.add_argument_group("output: one of these three"))
    _add_mapping(parser.add_argument_group("mapping"))
    parser.add_argument(
        "--until-idle",
        type=between(float, 0, MOST),
        default=0.0,
        metavar="S",
        help="end when no message has arrived for this many seconds",
    )


def _add_source(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--broker", metavar="HOST:PORT", type=address, help="address of the broker")
    group.add_argument(
        "--credentials",
        metavar="FILE",
        type=Path,
        help="a monitor's file of `outpost broker`: broker, user, TLS, identifier; do not use one "
        "that `outpost monitor` uses at the same time",
    )
    group.add_argument(
        "--filter",
        action="append",
        metavar="FILTER",
        help="topic filter; may be repeated (default outpost/#, with --credentials outpost/+/data)",
    )
    group.add_argument(
        "--id",
        help="MQTT client identifier, default outpost-mq; keep it, because the broker's queue "
        "belongs to it",
    )
    group.add_argument(
        "--mqtt",
        choices=("5", "3.1.1"),
        default="5",
        help="with 3.1.1, the bridge cannot tell which messages are to be retained",
    )


def _add_segments(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--segments",
        metavar="DIR",
        type=Path,
        help="LOG/ID of a collector; ends after the last sealed segment",
    )
    group.add_argument(
        "--follow", action="store_true", help="with --segments: wait for more segments"
    )
    group.add_argument(
        "--position",
        metavar="FILE",
        type=Path,
        help="with --segments: file that stores the position (default: beside the output)",
    )


def _add_output(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--lines", metavar="FILE", type=Path, help="JSON lines: queue, MQMD, message in base64"
    )
    group.add_argument(
        "--files",
        metavar="DIR",
        type=Path,
        help="a file for each message's bytes, one for its MQMD",
    )
    group.add_argument(
        "--put", metavar="QMGR", help="a queue manager; needs IBM's `ibmmq` and MQ client"
    )
    group.add_argument(
        "--channel", default="", help="with --put: a client connection over this channel"
    )
    group.add_argument("--connection", default="", metavar="HOST(PORT)", help="with --channel")
    group.add_argument("--mq-user")
    group.add_argument("--mq-password-file", metavar="FILE", type=Path)
    group.add_argument(
        "--refused",
        metavar="FILE",
        type=Path,
        help="what MQ cannot hold, as JSON lines (default: beside the output)",
    )


def _add_mapping(group: argparse._ArgumentGroup) -> None:
    options.add_layout(group)
    group.add_argument(
        "--seq-num",
        action="store_true",
        help="write the sequence number of an Outpost message to SeqNum",
    )
    group.add_argument(
        "--pub-time",
        choices=("none", "reading", "receive"),
        default="none",
        help="time for PubTime",
    )
    group.add_argument(
        "--usr",
        action="store_true",
        help="write QoS and DUP to <usr>, so that the way back is exact",
    )
    group.add_argument(
        "--domain",
        default="",
        metavar="MSD",
        help="describe the body in <mcd>, for example jms_bytes",
    )
    group.add_argument(
        "--on-clear",
        choices=("refuse", "delete"),
        default="refuse",
        help="what to do with RETAIN and an empty payload; delete: send DeletePub",
    )


def run(args: argparse.Namespace) -> int:
    """0 after an orderly end, 1 when messages that were taken could not be put.

    Raises ToolError.
    """
    _check(args)
    _check_filters(args.filter or [])
    from outpost_tools.servers.mq import serve

    return serve.serve(args)


def _check(args: argparse.Namespace) -> None:
    """Raises ToolError."""
    from outpost_tools.servers.mq.check import is_object_name

    if sum(source is not None for source in (args.broker, args.credentials, args.segments)) != 1:
        raise ToolError(
            "name one source: --broker HOST:PORT, --credentials FILE, or --segments DIR"
        )
    if args.password_file is not None and args.user is None:
        raise ToolError("--password-file needs --user")
    if args.broker is None:
        source = "--credentials" if args.credentials is not None else "--segments"
        only_with_broker(args, source, "id")
    if sum(output is not None for output in (args.lines, args.files, args.put)) != 1:
        raise ToolError("name one output: --lines FILE, --files DIR, or --put QMGR")
    for option in ("--queue", "--reply-to-q", "--reply-to-q-mgr"):
        name = getattr(args, option.removeprefix("--").replace("-", "_"))
        if (name or option == "--queue") and not is_object_name(name):
            raise ToolError(f"{option} {name!r}: use 1 to 48 of A-Z a-z 0-9 . _ / %")


def _check_filters(names: list[str]) -> None:
    """Raises ToolError."""
    for name in names:
        if not _FILTER.match(name):
            raise ToolError(f"--filter {name!r}: '+' is a level, '#' the last one")
