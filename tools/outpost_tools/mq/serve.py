"""`outpost mq bridge`: arguments to a running Bridge."""

from __future__ import annotations

import argparse
import signal
from pathlib import Path

from outpost_tools.errors import ToolError
from outpost_tools.mq import live
from outpost_tools.mq.bridge import Bridge, Source
from outpost_tools.mq.check import is_object_name
from outpost_tools.mq.descriptor import Descriptor
from outpost_tools.mq.make import ENCODINGS, add_layout
from outpost_tools.mq.mapping import Options
from outpost_tools.mq.storage import Files, JsonLines, Lines, Sink


def add_arguments(parser: argparse.ArgumentParser) -> None:
    source = parser.add_argument_group("from: an MQTT subscription, or the segments of `outpost collect`")
    source.add_argument("--broker", metavar="HOST:PORT", type=_address)
    source.add_argument("--filter", action="append", metavar="FILTER", help="topic filter; may be repeated (default outpost/#)")
    source.add_argument("--id", default="outpost-mq", help="MQTT client id; keep it, the broker's queue belongs to it")
    source.add_argument("--mqtt", choices=("5", "3.1.1"), default="5", help="3.1.1 cannot tell which messages are to be retained")
    source.add_argument("--user")
    source.add_argument("--password-file", metavar="FILE", type=Path, help="its first line is the password")
    source.add_argument("--segments", metavar="DIR", type=Path, help="LOG/ID of a collector; ends at the last sealed one")
    source.add_argument("--follow", action="store_true", help="with --segments: wait for more")
    source.add_argument(
        "--position", metavar="FILE", type=Path, help="with --segments: how far we are (default: beside the output)"
    )
    _add_outputs(parser.add_argument_group("to: one of these three"))
    _add_mapping(parser.add_argument_group("how"))
    parser.add_argument("--until-idle", type=float, default=0.0, metavar="S", help="end when nothing came for so many seconds")


def _add_outputs(output: argparse._ArgumentGroup) -> None:
    output.add_argument("--lines", metavar="FILE", type=Path, help="JSON lines: queue, MQMD, message in base64")
    output.add_argument("--files", metavar="DIR", type=Path, help="a file for each message's bytes, one for its MQMD")
    output.add_argument("--put", metavar="QMGR", help="a queue manager; needs IBM's `ibmmq` and MQ client")
    output.add_argument("--channel", default="", help="with --put: a client connection over this channel")
    output.add_argument("--connection", default="", metavar="HOST(PORT)", help="with --channel")
    output.add_argument("--mq-user")
    output.add_argument("--mq-password-file", metavar="FILE", type=Path)
    output.add_argument(
        "--refused", metavar="FILE", type=Path, help="what MQ cannot hold, as JSON lines (default: beside the output)"
    )


def _add_mapping(group: argparse._ArgumentGroup) -> None:
    add_layout(group)
    group.add_argument("--seq-num", action="store_true", help="SeqNum: the sequence number of an Outpost message")
    group.add_argument("--pub-time", choices=("none", "reading", "receive"), default="none", help="PubTime")
    group.add_argument("--usr", action="store_true", help="QoS and DUP into <usr>, so that the way back is exact")
    group.add_argument("--domain", default="", metavar="MSD", help="describe the body by <mcd>, jms_bytes for instance")
    group.add_argument(
        "--on-clear", choices=("refuse", "delete"), default="refuse", help="RETAIN with an empty payload: delete = DeletePub"
    )


def run(args: argparse.Namespace) -> int:
    """0 after an orderly end, 1 when taken messages could not be put. Raises ToolError."""
    folder = _check(args)
    options = Options(
        queue=args.queue,
        descriptor=Descriptor(encoding=ENCODINGS[args.encoding], reply_to_q=args.reply_to_q, reply_to_q_mgr=args.reply_to_q_mgr),
        name_value_ccsid=args.ccsid,
        seq_num=args.seq_num,
        pub_time=args.pub_time,
        usr=args.usr,
        domain=args.domain,
        on_clear=args.on_clear,
    )
    source = _source(args, folder)
    sink, refused = _sink(args), Lines(args.refused or folder / "refused.jsonl")
    bridge = Bridge(source, sink, refused, options, until_idle_s=args.until_idle)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: bridge.stop())
    try:
        return bridge.run()
    finally:
        sink.close()
        refused.close()


def _check(args: argparse.Namespace) -> Path:
    """The folder where refused messages and position go by default. Raises ToolError."""
    if (args.broker is None) == (args.segments is None):
        raise ToolError("name one source: --broker HOST:PORT, or --segments DIR")
    if sum(output is not None for output in (args.lines, args.files, args.put)) != 1:
        raise ToolError("name one output: --lines FILE, --files DIR, or --put QMGR")
    for option, name in (("--queue", args.queue), ("--reply-to-q", args.reply_to_q), ("--reply-to-q-mgr", args.reply_to_q_mgr)):
        if (name or option == "--queue") and not is_object_name(name):
            raise ToolError(f"{option} {name!r}: 1 to 48 of A-Z a-z 0-9 . _ / % are due")
    if args.lines is not None:
        return args.lines.parent
    return args.files if args.files is not None else Path(".")


def _sink(args: argparse.Namespace) -> Sink:
    if args.lines is not None:
        return JsonLines(args.lines)
    if args.files is not None:
        return Files(args.files)
    password = _first_line(args.mq_password_file) if args.mq_password_file else None
    return live.QueueManager(live.Connection(args.put, args.channel, args.connection, args.mq_user, password))


def _source(args: argparse.Namespace, folder: Path) -> Source:
    from outpost_tools.mq import sources  # late: build, parse and check need no paho-mqtt

    if args.segments is not None:
        return sources.Segments(args.segments, args.position or folder / "position.json", follow=args.follow)
    password = _first_line(args.password_file) if args.password_file else None
    return sources.Subscription(
        args.broker,
        args.id,
        args.filter or ["outpost/#"],
        version=5 if args.mqtt == "5" else 4,
        credentials=(args.user, password) if args.user is not None else None,
    )


def _first_line(path: Path) -> str:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ToolError(f"{path}: {error}") from None
    if not lines:
        raise ToolError(f"{path} is empty; its first line is the password")
    return lines[0]


def _address(text: str) -> tuple[str, int]:
    """HOST:PORT; an IPv6 host in brackets."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT")
    return host.strip("[]"), int(port)
