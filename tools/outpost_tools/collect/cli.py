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


_EXAMPLES = """\
examples:
  outpost collect --broker 127.0.0.1:1883 --log log                          one collector, plain TCP
  outpost collect --broker broker.example:8883 --log log --ca-file ca.pem --user collector --password-file password.txt
  outpost collect --broker 127.0.0.1:1883 --log log --id c2 --share fleet    one of several that share the load
  outpost collect --broker 127.0.0.1:1883 --log log --id c2 --share fleet --retire     take c2 away again

Each collector of a group has an --id of its own; their logs stay where the pipeline reads them.
tools/outpost_tools/mosquitto.conf is a configuration for the broker, with reasons.
"""


def add_parser(subparsers) -> None:
    parser = subparsers.add_parser(
        "collect",
        help=SUMMARY,
        description=SUMMARY,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--broker", required=True, metavar="HOST:PORT", type=address)
    parser.add_argument("--log", required=True, metavar="DIR", type=Path, help="segments go to DIR/ID")
    parser.add_argument("--id", default="collector-1", help="MQTT client id; keep it, the broker's queue belongs to it")
    parser.add_argument("--prefix", default="outpost", help="topics are PREFIX/<device>/data and .../durable")
    parser.add_argument("--segment-bytes", type=_positive(int), default=16 << 20, metavar="N")
    parser.add_argument("--segment-seconds", type=_positive(float), default=5.0, metavar="S")
    parser.add_argument(
        "--confirm-seconds", type=_positive(float), default=0.2, metavar="S", help="at most one word per device in so long"
    )
    parser.add_argument("--new-log", action="store_true", help="an older or empty log on purpose, its tables made anew, too")
    parser.add_argument("--quiet", action="store_true", help="no statistics on stderr")
    parser.add_argument("--metrics-port", type=_positive(int), metavar="PORT", help="Prometheus' text format on 127.0.0.1")
    _add_group(parser.add_argument_group("several collectors"))
    _add_security(parser.add_argument_group("security"))
    parser.set_defaults(func=run)


def _add_group(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--share", metavar="GROUP", help="one shared subscription for all collectors of this name")
    group.add_argument("--retire", action="store_true", help="take what the broker still holds for --id, then give it up")


def _add_security(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--user")
    group.add_argument("--password-file", metavar="FILE", type=Path, help="its first line is the password")
    group.add_argument("--tls", action="store_true", help="verify the broker by the system's authorities")
    group.add_argument("--ca-file", metavar="FILE", type=Path, help="verify the broker by these (PEM); includes --tls")
    group.add_argument("--cert", metavar="FILE", type=Path, help="our certificate, with --key, for a broker that asks for one")
    group.add_argument("--key", metavar="FILE", type=Path)


def run(args: argparse.Namespace) -> int:
    """0 after SIGTERM or --retire; 1 when taken messages could not be stored. Raises ToolError."""
    from outpost_tools.collect.loop import Collector  # late: --help needs neither paho-mqtt nor prometheus-client
    from outpost_tools.collect.metrics import Metrics

    _check(args)
    link, question = _connections(args)
    log = _log(args)
    metrics = Metrics(args.id)
    if args.metrics_port is not None:
        metrics.serve(args.metrics_port)
    options = {"prefix": args.prefix, "segment_seconds": args.segment_seconds, "quiet": args.quiet}
    options["confirm_seconds"] = args.confirm_seconds
    collector = Collector(log, link, metrics, exchange=_exchange(args, log, link), question=question, **options)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: collector.stop())
    return collector.retire() if args.retire else collector.run()


def _check(args: argparse.Namespace) -> None:
    """Raises ToolError."""
    if not _ID.match(args.id):
        raise ToolError(f"--id {args.id!r}: use 1 to 64 letters, digits, '_', '-' or '.', not '.' first")
    if not _PREFIX.match(args.prefix):
        raise ToolError(f"--prefix {args.prefix!r}: a topic without '+', '#' and empty levels is needed")
    if args.share is not None and not _ID.match(args.share):
        raise ToolError(f"--share {args.share!r}: use 1 to 64 letters, digits, '_', '-' or '.', not '.' first")
    if (args.key is None) != (args.cert is None):
        raise ToolError("--cert and --key go together")
    if args.cert is not None and not (args.tls or args.ca_file):
        raise ToolError("--cert needs --tls or --ca-file")


def _connections(args: argparse.Namespace):
    """The connection, and the one that asks before."""
    from outpost_tools.collect.link import Link
    from outpost_tools.collect.place import Question
    from outpost_tools.mqtt_connection import tls_context

    tls = tls_context(args.ca_file, args.cert, args.key) if args.tls or args.ca_file else None
    security = {"credentials": _credentials(args), "tls": tls}
    link = Link(*args.broker, args.id, args.prefix, **security, share=args.share, retiring=args.retire)
    return link, None if args.new_log else Question(args.broker, args.id, args.prefix, **security)


def _log(args: argparse.Namespace):
    from outpost_tools.collect.log import Log, LogBusyError

    try:
        return Log(args.log, args.id, segment_bytes=args.segment_bytes, keep_news=args.share is not None)
    except (LogBusyError, OSError, ValueError) as error:
        raise ToolError(str(error)) from None


def _exchange(args: argparse.Namespace, log, link):
    from outpost_tools.collect.exchange import Exchange

    if args.share is None:
        return None
    exchange = Exchange(args.id, log.durable)
    link.set_farewell(exchange.farewell)
    return exchange


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
