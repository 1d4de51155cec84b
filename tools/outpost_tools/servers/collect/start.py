"""Builds a collector that is ready to run, from the checked arguments of `outpost collect`."""

from __future__ import annotations

import argparse
import errno
import sys
from typing import TYPE_CHECKING

from paho.mqtt.client import MQTTv5, MQTTv311

from outpost_tools.errors import ToolError
from outpost_tools.machine import needs
from outpost_tools.machine.machine_clock import MachineClock
from outpost_tools.readings.sources.option import sources_of
from outpost_tools.servers.collect import access, disk_log, store_log
from outpost_tools.servers.collect.access import Access
from outpost_tools.servers.collect.clock import AGREE_S, FAR_S, CollectorClock, newest_arrival_s
from outpost_tools.servers.collect.exchange import Exchange
from outpost_tools.servers.collect.foreign import Foreign
from outpost_tools.servers.collect.health import Health
from outpost_tools.servers.collect.link import Link
from outpost_tools.servers.collect.log import Log
from outpost_tools.servers.collect.loop import Collector
from outpost_tools.servers.collect.metrics import Metrics
from outpost_tools.servers.collect.place import Question
from outpost_tools.servers.collect.rights import RightsQuestion
from outpost_tools.servers.collect.shares import ShareQuestion
from outpost_tools.servers.collect.upload import Upload
from outpost_tools.store.base import StoreError
from outpost_tools.store.local import LocalStore

if TYPE_CHECKING:
    from outpost_tools.servers.collect.reach import Reach

_FULL = (errno.ENOSPC, errno.EDQUOT)


class NotNowError(ToolError):
    """Not the fault of the arguments: the disk may have space at the next try, or the bucket may be
    within reach."""


def collector(args: argparse.Namespace) -> Collector:
    """With its log locked; SIGTERM and SIGINT stop it. Raises NotNowError, ToolError."""
    if args.confirm_tables is not None:
        needs.check("tables")
    found = access.of(args)
    log = _log(args, found)
    where = "{}:{}".format(*found.address)
    print(f"{found.collector}: log {args.log}, connecting to broker {where}", file=sys.stderr)
    link, questions = _connections(args, found, log)
    metrics, health = Metrics(found.collector), Health()
    if args.metrics_port is not None:
        metrics.serve(args.metrics_port, health, args.http_name)
    made = Collector(
        log,
        link,
        metrics,
        exchange=_exchange(found, log, link),
        is_queued=args.confirmation == "queued",
        reach=_reach(args, log),
        **questions,
        prefix=found.prefix,
        confirm_seconds=args.confirm_seconds,
        quiet=args.quiet,
        health=health,
    )
    made.ending.on_signals()
    return made


def _connections(
    args: argparse.Namespace, found: Access, log: Log
) -> tuple[Link, dict[str, Question | None]]:
    """The connection, and the questions that first ask the broker how far our log had got, whether
    it has shared subscriptions, and whether we may write confirmations."""
    version = MQTTv5 if args.level == "5" else MQTTv311
    security = {"credentials": found.login, "tls": found.tls, "version": version}
    is_queued = args.confirmation == "queued"
    how = {"share": found.share, "retiring": args.retire, "is_queued": is_queued}
    link = Link(
        *found.address, found.collector, found.prefix, **security, **how, clock=_clock(log),
        had_session=log.stored_through >= 0, foreign=_foreign(args, found, log),
    )  # fmt: skip
    link.receive_maximum = log.in_flight or link.receive_maximum
    # the broker remembers the number in a retained message
    is_asked = not args.new_log and not is_queued
    where = (found.address, found.collector, found.prefix)
    security["second"] = found.second
    return link, {
        "question": Question(*where, **security) if is_asked else None,
        "share_question": ShareQuestion(*where, **security) if found.share else None,
        "rights_question": RightsQuestion(*where, **security),
    }


def _foreign(args: argparse.Namespace, found: Access, log: Log) -> Foreign | None:
    """None: there are no other senders, and there were none. Raises NotNowError, ToolError."""
    mapping = sources_of(args)
    try:
        made = Foreign(mapping, found.prefix, log)
    except OSError as error:
        raise NotNowError(f"cannot read {log.place}: {error}") from None
    return made if made.filters or made.left else None


def _clock(log: Log) -> CollectorClock:
    newest_s = newest_arrival_s(log.newest_sealed())
    return CollectorClock(MachineClock(FAR_S, AGREE_S, newest_s=newest_s))


def _reach(args: argparse.Namespace, log: Log) -> Reach | None:
    """It looks from now on. Late: it needs Arrow and Delta."""
    if args.confirm_tables is None:
        return None
    from outpost_tools.servers.collect.reach import Reach

    made = Reach(args.confirm_tables, log)
    made.start()
    return made


def _log(args: argparse.Namespace, found: Access) -> Log:
    """Raises NotNowError, ToolError."""
    try:
        return _kind_of_log(args, found)
    except StoreError as error:
        raise NotNowError(str(error)) from None
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno in _FULL:
            raise NotNowError(
                f"cannot write {args.log}: {error.strerror}; free some space and start again"
            ) from None
        raise ToolError(str(error)) from None


def _kind_of_log(args: argparse.Namespace, found: Access) -> Log:
    """Raises OSError, ValueError, ToolError."""
    name, is_local = found.collector, isinstance(args.log, LocalStore)
    kind = disk_log if is_local else store_log
    how = {
        "segment_bytes": args.segment_bytes or kind.SEGMENT_BYTES,
        "segment_seconds": args.segment_seconds or kind.SEGMENT_S,
        "keep_news": found.share is not None,
        "waits_for_tables": args.confirm_tables is not None,
        "is_new": args.new_log,
    }
    if not is_local:
        return store_log.StoreLog(args.log, name, **how)
    upload = Upload(args.log / name, args.upload / name) if args.upload else None
    return disk_log.DiskLog(args.log.path, name, upload=upload, **how)


def _exchange(found: Access, log: Log, link: Link) -> Exchange | None:
    if found.share is None:
        return None
    exchange = Exchange(found.collector, log.durable)
    link.set_farewell(exchange.farewell)
    return exchange
