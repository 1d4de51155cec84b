"""From the arguments of `outpost collect`, checked, to a collector that is ready to run."""

from __future__ import annotations

import argparse
import signal

from outpost_tools.collect.exchange import Exchange
from outpost_tools.collect.health import Health
from outpost_tools.collect.link import Link
from outpost_tools.collect.log import Log, LogBusyError
from outpost_tools.collect.loop import Collector
from outpost_tools.collect.metrics import Metrics
from outpost_tools.collect.place import Question
from outpost_tools.collect.shares import ShareQuestion
from outpost_tools.common.command_line import first_line
from outpost_tools.common.errors import ToolError
from outpost_tools.common.mqtt_connection import tls_context


def collector(args: argparse.Namespace) -> Collector:
    """Its log is locked, SIGTERM and SIGINT stop it. Raises ToolError."""
    link, questions = _connections(args)
    log = _log(args)
    metrics, health = Metrics(args.id), Health()
    if args.metrics_port is not None:
        metrics.serve(args.metrics_port, health)
    made = Collector(
        log,
        link,
        metrics,
        exchange=_exchange(args, log, link),
        is_queued=args.confirmation == "queued",
        **questions,
        prefix=args.prefix,
        segment_seconds=args.segment_seconds,
        confirm_seconds=args.confirm_seconds,
        quiet=args.quiet,
        health=health,
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: made.stop())
    return made


def _connections(args: argparse.Namespace) -> tuple[Link, dict[str, Question | None]]:
    """The connection, and those that first ask the broker how far our log went, and whether it has
    shared subscriptions."""
    is_secure = args.tls or args.ca_file
    tls = tls_context(args.ca_file, args.cert, args.key) if is_secure else None
    if tls is not None and args.alpn:
        tls.set_alpn_protocols([args.alpn])
    security = {"credentials": _credentials(args), "tls": tls}
    is_queued = args.confirmation == "queued"
    how = {"share": args.share, "retiring": args.retire, "is_queued": is_queued}
    link = Link(*args.broker, args.id, args.prefix, **security, **how)
    # the broker remembers by a retained message
    is_asked = not args.new_log and not is_queued
    where = (args.broker, args.id, args.prefix)
    return link, {
        "question": Question(*where, **security) if is_asked else None,
        "share_question": ShareQuestion(*where, **security) if args.share else None,
    }


def _credentials(args: argparse.Namespace) -> tuple[str, str | None] | None:
    if args.user is None:
        return None
    file = args.password_file
    return args.user, None if file is None else first_line(file, "--password-file")


def _log(args: argparse.Namespace) -> Log:
    keeps_news = args.share is not None
    try:
        return Log(args.log, args.id, segment_bytes=args.segment_bytes, keep_news=keeps_news)
    except (LogBusyError, OSError, ValueError) as error:
        raise ToolError(str(error)) from None


def _exchange(args: argparse.Namespace, log: Log, link: Link) -> Exchange | None:
    if args.share is None:
        return None
    exchange = Exchange(args.id, log.durable)
    link.set_farewell(exchange.farewell)
    return exchange
