"""`outpost collect`: arguments in, a running Collector out."""

from __future__ import annotations

import argparse
import re
import signal
from pathlib import Path

from outpost_tools.errors import ToolError

SUMMARY = "store what boards publish; acknowledge and confirm it after fsync"
_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,63}\Z")
_PREFIX = re.compile(r"[^+#/\0]+(/[^+#/\0]+)*\Z")


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser("collect", help=SUMMARY, description=SUMMARY)
    parser.add_argument("--broker", required=True, metavar="HOST:PORT", type=address)
    parser.add_argument("--log", required=True, metavar="DIR", type=Path, help="segments go to DIR/ID")
    parser.add_argument("--id", default="collector-1", help="MQTT client id; keep it, the broker's queue belongs to it")
    parser.add_argument("--prefix", default="outpost", help="topics are PREFIX/<device>/data and .../durable")
    parser.add_argument("--user")
    parser.add_argument("--password-file", metavar="FILE", type=Path, help="its first line is the password")
    parser.add_argument("--segment-bytes", type=_positive(int), default=16 << 20, metavar="N")
    parser.add_argument("--segment-seconds", type=_positive(float), default=5.0, metavar="S")
    parser.add_argument("--quiet", action="store_true", help="no statistics on stderr")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    from outpost_tools.collect.link import Link  # late: --help needs no paho-mqtt
    from outpost_tools.collect.log import Log, LogBusyError
    from outpost_tools.collect.loop import Collector

    if not _ID.match(args.id):
        raise ToolError(f"--id {args.id!r}: use 1 to 64 letters, digits, '_', '-' or '.', not '.' first")
    if not _PREFIX.match(args.prefix):
        raise ToolError(f"--prefix {args.prefix!r}: a topic without '+', '#' and empty levels is needed")
    credentials = _credentials(args)
    try:
        log = Log(args.log, args.id, segment_bytes=args.segment_bytes)
    except (LogBusyError, OSError, ValueError) as error:
        raise ToolError(str(error)) from None
    link = Link(*args.broker, args.id, args.prefix, credentials=credentials)
    collector = Collector(log, link, prefix=args.prefix, segment_seconds=args.segment_seconds, quiet=args.quiet)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: collector.stop())
    return collector.run()


def address(text: str) -> tuple[str, int]:
    """HOST:PORT; an IPv6 host in brackets."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT")
    return host.strip("[]"), int(port)


def _positive(kind):
    def convert(text: str):
        try:
            value = kind(text)
        except ValueError:
            value = 0
        if not value > 0:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
        return value

    return convert


def _credentials(args: argparse.Namespace) -> tuple[str, str | None] | None:
    if args.user is None:
        if args.password_file is not None:
            raise ToolError("--password-file needs --user")
        return None
    if args.password_file is None:
        return args.user, None
    try:
        lines = args.password_file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ToolError(f"--password-file {args.password_file}: {error}") from None
    if not lines:
        raise ToolError(f"--password-file {args.password_file} is empty")
    return args.user, lines[0]
