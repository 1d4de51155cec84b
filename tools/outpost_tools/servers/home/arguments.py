"""`outpost run`."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from pathlib import Path

from outpost_tools.errors import ToolError
from outpost_tools.pages.arguments import add_page, page_password
from outpost_tools.readings.sources.option import add_sources, sources_of
from outpost_tools.terminal.command_line import add_command, address, at_least, between, is_host

SUMMARY = "run everything that a home needs: broker, collector, live page, tables"
_DESCRIPTION = """\
Run a broker (mosquitto, with TLS and a user for each board), the collector and the live page. From
time to time, also update the tables and their report, compact the tables, and write a CSV file for
each day. If one of these programs ends, it is restarted, at growing intervals, and the restart is
reported.

All state is in one folder. After a restart, even after a power cut, the command continues where it
stopped. SIGTERM and Ctrl-C end it cleanly. With FOLDER/alerts.toml, it also reports problems to a
person: see `outpost alerts --help`.
"""
_EXAMPLES = """\
examples:
  outpost run home                                the live page: http://127.0.0.1:8180/
  outpost run home --host 192.168.1.10            boards use this address of the broker
  outpost run home --listen 0.0.0.0:8180 --password-file password.txt
                                                  the live page for the whole house
  outpost run home --broker 127.0.0.1:1883        with an existing broker
  outpost run home --broker 127.0.0.1:1883 --sources sources.toml
                                                  also Tasmota, Zigbee2MQTT, your own JSON
  outpost run home --credentials fleet            with a broker of `outpost broker init`
  outpost run home --broker broker.example:8883 --collect=--ca-file=ca.pem \\
                   --collect=--user=collector --collect=--password-file=word.txt

then, for each board:
  outpost broker add home/broker kitchen
  outpost provision --example --credentials home/broker/boards/kitchen.json > kitchen.toml
  outpost flash --board RPI_PICO_W --port /dev/ttyACM0 --settings kitchen.toml \\
                --credentials home/broker

Exit status: 0 after SIGTERM or Ctrl-C; 1 if one of its ports is in use; 2 for wrong arguments.

As a service: `outpost service --home`.
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    parser = add_command(
        subparsers, "run", SUMMARY, run, description=_DESCRIPTION, examples=_EXAMPLES
    )
    parser.add_argument("state", type=Path, metavar="FOLDER", help="created if it does not exist")
    _add_broker(parser.add_argument_group("the broker (default: its own)"))
    parser.add_argument(
        "--minutes",
        type=at_least(0),
        default=15,
        metavar="N",
        help="minutes between two updates of the tables; 0: no tables; default 15",
    )
    parser.add_argument(
        "--metrics-port",
        type=between(int, 1, 65535),
        default=9100,
        metavar="PORT",
        help="port of the collector's /metrics and /healthz on this machine; default 9100",
    )
    add_page(parser)
    add_sources(parser, "with --broker: also store and show other people's messages, by this file")
    parser.add_argument(
        "--collect",
        action="append",
        default=[],
        metavar="=ARGUMENT",
        help="argument for `outpost collect`: --collect=--ca-file=ca.pem; may be repeated",
    )


def _add_broker(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--host",
        action="append",
        default=[],
        metavar="NAME",
        help="boards' address of its own broker; may be repeated; default: this machine's address",
    )
    group.add_argument(
        "--port",
        type=between(int, 1, 65535),
        metavar="PORT",
        help="port of its own broker; default 8883",
    )
    group.add_argument(
        "--broker", metavar="HOST:PORT", type=_checked, help="use this broker, unchanged"
    )
    group.add_argument(
        "--credentials", metavar="PATH", type=Path, help="use a broker of `outpost broker init`"
    )


def _checked(text: str) -> str:
    address(text)
    return text


def run(args: argparse.Namespace) -> int:
    """Returns 0 after SIGTERM or SIGINT; 1 if a port is in use, which may be free at the next
    attempt. Raises ToolError for wrong arguments before anything is created or changed."""
    wish_of = _wish(args)
    _check_collector(wish_of, args.parse)
    _check_alerts(wish_of)
    from outpost_tools.servers.home import plan, ports
    from outpost_tools.servers.home.supervisor import Supervisor

    wish_of.state.take()
    try:
        ports.check(plan.ports(wish_of))
    except ports.Taken as error:
        print(f"outpost: {error}", file=sys.stderr)
        return 1
    return Supervisor(wish_of, plan.plan(wish_of)).run()


def _check_collector(wish, parse: Callable[[list[str]], argparse.Namespace]) -> None:
    """Checks the collector's arguments now, as the collector itself will: otherwise it would fail
    and be restarted repeatedly. Raises ToolError, SystemExit."""
    from outpost_tools.servers.collect import access

    ours = ["--credentials", str(wish.state.broker)]
    words = ["collect", *(wish.broker or ours), "--log", str(wish.state.log), *wish.collect]
    args = parse(words)
    if wish.broker:
        access.of(args)


def _check_alerts(wish) -> None:
    """Checks alerts.toml, if there is one, before anything is created. Raises ToolError."""
    if wish.state.alerts.exists():
        from outpost_tools.servers.alerts import settings

        settings.load(wish.state.alerts)


def _check_broker(args: argparse.Namespace) -> None:
    """Raises ToolError."""
    if args.broker and args.credentials:
        raise ToolError("--broker and --credentials: give one of them")
    if (args.broker or args.credentials) and (args.host or args.port):
        raise ToolError("--host and --port are for Outpost's own broker; leave them out")
    if args.sources and not (args.broker or args.credentials):
        raise ToolError(
            "--sources reads other people's messages at the broker that they come to: give that as "
            "--broker HOST:PORT; Outpost's own lets only Outpost's boards in"
        )


def _wish(args: argparse.Namespace):
    """Raises ToolError."""
    page_password(args)
    from outpost_tools.servers.home.plan import Wish
    from outpost_tools.servers.home.state import State

    _check_broker(args)
    for host in args.host:
        if not re.fullmatch(r"[\x21-\x7e]+", host) or not is_host(host):
            raise ToolError(f"--host {host!r}: a name or an address is needed")
    host, port = args.listen
    page = ["--listen", f"[{host}]:{port}" if ":" in host else f"{host}:{port}"]
    page += ["--user", args.user]
    for name in ("password_file", "cert", "key"):
        if value := getattr(args, name):
            page += [f"--{name.replace('_', '-')}", str(value.absolute())]
    scheme = "https" if args.cert else "http"
    broker = ["--broker", args.broker] if args.broker else []
    if args.credentials:
        broker = ["--credentials", str(args.credentials.absolute())]
    return Wish(
        State(args.state), args.host, args.port, broker, page, f"{scheme}://{host}:{port}/",
        args.minutes, args.metrics_port, list(args.collect), _sources(args),
    )  # fmt: skip


def _sources(args: argparse.Namespace) -> list[str]:
    """The option for each reader of others' messages. Raises ToolError if the file is not right."""
    return [] if sources_of(args) is None else ["--sources", str(args.sources.absolute())]
