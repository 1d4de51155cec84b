"""The processes and jobs, as command lines of `outpost`, and the lines printed about them."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass, field

from outpost_tools.errors import ToolError
from outpost_tools.machine import needs
from outpost_tools.servers.home import own_broker
from outpost_tools.servers.home.jobs import Job
from outpost_tools.servers.home.ports import Wanted
from outpost_tools.servers.home.state import State
from outpost_tools.terminal.command_line import address

OUTPOST = [sys.executable, "-m", "outpost_tools.cli"]
SEGMENT_S = 60  # a file each minute: the page reads the open one, the tables need not be newer
_DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Wish:
    """What the command line asks for. broker: options for `outpost collect`; empty: use our own
    broker. page: options for `outpost live`. minutes: between two updates of the tables; 0: no
    tables. sources: --sources FILE, for every reader of others' messages; empty: there are none."""

    state: State
    hosts: list[str]
    port: int | None
    broker: list[str]
    page: list[str]
    page_url: str
    minutes: float
    metrics_port: int
    collect: list[str] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)


@dataclass
class Plan:
    """commands: by process name, in starting order. told: lines to print at the start."""

    commands: dict[str, list[str]]
    jobs: list[Job]
    told: list[str]


def ports(wish: Wish) -> list[Wanted]:
    """The ports on which the processes will listen. Raises ToolError."""
    host, port = address(wish.page[wish.page.index("--listen") + 1])
    others = [
        Wanted("the page", "--listen", host, port),
        Wanted("the collector's metrics", "--metrics-port", "127.0.0.1", wish.metrics_port),
    ]
    if wish.broker:
        return others
    return [own_broker.listener(wish.state.broker, wish.hosts, wish.port), *others]


def plan(wish: Wish) -> Plan:
    """Creates the folder of our own broker, if that is used. Raises ToolError."""
    made = Plan({}, [], [f"state    {wish.state.path}"])
    broker = _broker(wish, made)
    log = ["--log", str(wish.state.log)]
    quiet = ["--quiet", "--segment-seconds", str(SEGMENT_S)]
    metrics = ["--metrics-port", str(wish.metrics_port)]
    collect = ["collect", *broker, *log, *quiet, *metrics, *wish.sources, *wish.collect]
    made.commands["collector"] = [*OUTPOST, *collect]
    made.told.append(
        f"collector stores in {wish.state.log}; metrics: http://127.0.0.1:{wish.metrics_port}/"
    )
    report = ["--report", str(wish.state.report), "--jobs", str(wish.state.logs)]
    page = [*log, *report, *wish.sources, *_alerts(wish, made), *wish.page]
    made.commands["page"] = [*OUTPOST, "live", *page]
    made.told.append(f"page     {wish.page_url}")
    _tables(wish, made)
    _export(wish, made)
    made.told += _next_steps(wish)
    return made


def _alerts(wish: Wish, made: Plan) -> list[str]:
    """The page's options for alerts. Raises ToolError."""
    path = wish.state.alerts
    if not path.exists():
        line = f"outpost alerts example > {shlex.quote(str(path))}"
        made.told.append(f"alerts   none; `{line}` writes an example to start from")
        return []
    from outpost_tools.servers.alerts import settings

    made.told.append(f"alerts   {settings.load(path).line()}")
    health = f"http://127.0.0.1:{wish.metrics_port}/healthz"
    return ["--alerts", str(path), "--collector-health", health]


def _broker(wish: Wish, made: Plan) -> list[str]:
    """The options with which the collector reaches the broker. Raises ToolError."""
    if wish.broker:
        made.told.append(f"broker   {wish.broker[1]}, not ours{_login_hint(wish)}")
        return wish.broker
    own = own_broker.OwnBroker(wish.state.broker, wish.hosts, wish.port)
    made.commands["broker"] = own.command
    made.told.append(f"broker   {own.address}, with TLS and a user for each board")
    made.told += [f"note: {one}" for one in own.notes]
    return ["--credentials", str(wish.state.broker)]


def _login_hint(wish: Wish) -> str:
    """How to log in to another broker: `--user` and `--password-file` without --collect are those
    of the page."""
    if "--credentials" in wish.broker or wish.collect:
        return ""
    return "; if it wants a user: --collect=--user=NAME --collect=--password-file=FILE"


def _tables(wish: Wish, made: Plan) -> None:
    if not wish.minutes:
        made.told.append("tables   none, as asked for")
        return
    try:
        needs.check("tables", "report")
    except ToolError as error:
        made.told.append(f"tables   none, and no report: {error}")
        return
    state = wish.state
    seen: list[dict[str, str]] = [{}]

    def commands() -> list[list[str]]:
        newest = state.newest_segments()
        if newest == seen[0]:
            return []
        seen[0] = newest
        places = ["--log", str(state.log), "--tables", str(state.tables)]
        # the local engine starts at once, without Java
        run = ["pipeline", "run", "--engine", "local", *places, *wish.sources]
        report = ["report", "--tables", str(state.tables), "--out", str(state.report)]
        return [[*OUTPOST, *run], [*OUTPOST, *report]]

    def compact() -> list[list[str]]:
        words = ["pipeline", "compact", "--tables", str(state.tables)]
        return [[*OUTPOST, *words]] if state.report.exists() else []

    made.jobs.append(Job("tables", wish.minutes * 60, commands))
    made.jobs.append(Job("compaction", _DAY_S, compact, first_s=3600))
    made.told.append(
        f"tables   every {wish.minutes:g} min in {state.tables}; report {state.report}"
    )


def _export(wish: Wish, made: Plan) -> None:
    state = wish.state
    try:
        needs.check("export")
    except ToolError as error:
        made.told.append(f"export   none: {error}")
        return

    def commands() -> list[list[str]]:
        words = ["export", "--log", str(state.log), "--days", str(state.export)]
        return [[*OUTPOST, *words]] if state.newest_segments() else []

    made.jobs.append(Job("export", _DAY_S, commands, first_s=1800))
    made.told.append(f"export   one file a day, in {state.export}")


def _next_steps(wish: Wish) -> list[str]:
    if wish.broker:
        return [f"next: provision boards for this broker; their values appear on {wish.page_url}"]
    broker, home = shlex.quote(str(wish.state.broker)), shlex.quote(str(wish.state.path))
    return [
        f"next, in another terminal: outpost setup {home}",
        f"      or without a browser: outpost broker add {broker} kitchen",
        f"      outpost provision --example --credentials {broker}/boards/kitchen.json "
        "> kitchen.toml",
        "      then fill in its Wi-Fi, and: outpost flash --board RPI_PICO_W --port /dev/ttyACM0 "
        f"--settings kitchen.toml --credentials {broker}",
        f"      its values appear on {wish.page_url}",
    ]
