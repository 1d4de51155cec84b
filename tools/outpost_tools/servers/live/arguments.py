"""`outpost live`."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from outpost_tools.pages.arguments import add_http_names, add_page, page_password
from outpost_tools.readings.sources.option import add_sources, sources_of
from outpost_tools.store import at
from outpost_tools.terminal.command_line import add_command, positive

SUMMARY = "show the newest values of all boards on a live page, without Spark"
_DESCRIPTION = """\
Serve a page with the newest value of every sensor, straight from the collectors' log. The page
shows sparklines, age, battery, signal, backlog, and what needs attention, with advice; for each
board, it has charts of an hour to a year. New values appear by themselves. The command only
reads the log, which may be written, sealed and deleted meanwhile.
"""
_EXAMPLES = """\
examples:
  outpost live --log log                              http://127.0.0.1:8180/
  outpost live --log log --listen 0.0.0.0:8180 --password-file password.txt
                                                      for the whole house: user "outpost"
  outpost live --log log --listen 0.0.0.0:8443 --password-file password.txt \\
               --cert live.pem --key live.key         HTTPS
  outpost live --log log --forget old-board           takes a board off the page
  outpost live --log log --alerts alerts.toml         reports problems to a person
  outpost live --log log --sources sources.toml       also Tasmota, Zigbee2MQTT, your own JSON
  curl -s 127.0.0.1:8180/metrics                      the readings, for Prometheus

Without a password, it listens only on this machine. Nothing can be changed through the page.
It needs about 33 KiB of memory for each sensor that was read in the last hour to the last year.
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = add_command(
        subparsers, "live", SUMMARY, run, description=_DESCRIPTION, examples=_EXAMPLES
    )
    parser.add_argument(
        "--log",
        type=at.argument,
        required=True,
        metavar="PLACE",
        help="the --log of `outpost collect`: a folder, or s3://BUCKET/FOLDER (gs, az)",
    )
    parser.add_argument(
        "--history-mib",
        type=positive(int),
        default=64,
        metavar="N",
        help="MiB of the log to read at the start for the charts, newest first; default 64",
    )
    parser.add_argument(
        "--report", type=Path, metavar="FILE", help="page of `outpost report` to link to"
    )
    parser.add_argument(
        "--jobs", type=Path, metavar="DIR", help="folder logs/ of `outpost run`: shows failed jobs"
    )
    add_sources(parser, "also show other people's devices, as this file says")
    parser.add_argument(
        "--alerts",
        type=Path,
        metavar="FILE",
        help="report problems as this file says: see `outpost alerts --help`; default: no alerts",
    )
    parser.add_argument(
        "--collector-health",
        default="",
        metavar="URL",
        help="the collector's /healthz, for --alerts; default: check whether one holds the log",
    )
    _add_forget(parser)
    add_http_names(parser)
    add_page(parser)


def _add_forget(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--forget",
        action="append",
        default=[],
        metavar="NAME",
        help="do not serve: take this board off the page until it sends again; the log keeps all",
    )


def run(args: argparse.Namespace) -> int:
    """Returns 0: after SIGTERM or SIGINT, or once --forget is done. Raises ToolError."""
    if args.forget:
        return _forget(args)
    password = page_password(args)
    from outpost_tools.servers.live.app import Login
    from outpost_tools.servers.live.serve import Address, serve

    where = Address(*args.listen, certificate=args.cert, key=args.key)
    login = Login(args.user, password) if password else None
    alerts = _alerts(args)
    mapping = sources_of(args)

    def say(url: str) -> None:
        _say(f"live page: {url} (Ctrl-C ends it)")
        if not args.log.is_there():
            command = f"outpost collect --log {shlex.quote(str(args.log))}"
            _say(f"--log {args.log} does not exist yet: start `{command}`, or")
            _say("correct the folder; the page shows what arrives there")

    serve(
        args.log, where, login, history_bytes=args.history_mib << 20, report=args.report,
        jobs=args.jobs, say=say, names=args.http_name, alerts=alerts, mapping=mapping,
    )  # fmt: skip
    return 0


def _forget(args: argparse.Namespace) -> int:
    import time

    from outpost_tools.servers.live import forgotten

    forgotten.add(args.log, args.forget, time.time_ns() // 1_000_000)
    _say(f"forgotten: {', '.join(args.forget)}; the page follows within seconds")
    return 0


def _alerts(args: argparse.Namespace):
    """A function that makes the alerts for the page; None without --alerts. Raises ToolError."""
    if args.alerts is None:
        return None
    from outpost_tools.servers.alerts import conditions, settings, store, watch

    wish = settings.load(args.alerts)

    def is_wanted(key: str) -> bool:
        return conditions.is_wanted(wish, key)

    keys = [one.key for one in wish.channels]
    kept = store.Store(store.path_beside(args.alerts), keys, is_wanted, _say)
    _say(f"alerts: {wish.line()}")
    return lambda fleet, follower: watch.Alerts(
        wish, kept, fleet, follower, args.log, _say, health=args.collector_health
    )


def _say(line: str) -> None:
    import sys

    print(line, file=sys.stderr, flush=True)
