"""Listens, until SIGTERM or SIGINT."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import uvicorn
from starlette.types import ASGIApp

from outpost_tools.errors import ToolError
from outpost_tools.pages import http_server
from outpost_tools.servers.live.app import Login, application
from outpost_tools.servers.live.events import MOST_BROWSERS, Changes
from outpost_tools.servers.live.fleet import Fleet
from outpost_tools.servers.live.follow import Follower
from outpost_tools.store.base import Store
from outpost_tools.terminal.ending import exit_on_signals

if TYPE_CHECKING:
    from outpost_tools.readings.sources.mapping import Mapping

_MOST_CONNECTIONS = 2 * MOST_BROWSERS  # so that event streams leave room for pages


@dataclass(frozen=True, slots=True)
class Address:
    """certificate, key: for HTTPS; None: HTTP."""

    host: str
    port: int
    certificate: Path | None = None
    key: Path | None = None

    @property
    def url(self) -> str:
        scheme = "https" if self.certificate else "http"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{host}:{self.port}/"


class _Server(http_server.Server):
    """Ends the event streams before it waits for open connections. Otherwise it would wait for each
    open page, then cut it off and print a traceback."""

    def __init__(self, config: uvicorn.Config, changes: Changes) -> None:
        super().__init__(config, _MOST_CONNECTIONS)
        self._changes = changes

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._changes.stop()
        await super().shutdown(sockets)


def serve(
    log: Store,
    address: Address,
    login: Login | None,
    *,
    history_bytes: int,
    report: Path | None,
    jobs: Path | None,
    say,
    names: Sequence[str] = (),
    alerts=None,
    mapping: Mapping | None = None,
) -> None:
    """mapping: of other people's messages; None: only boards are shown.

    say: called with the page's address once the port is open. names: see application(). alerts:
    called with the fleet and the follower; returns the alerts to start. Raises ToolError."""
    fleet = Fleet(mapping=mapping)
    fleet.log, fleet.home = log, jobs.parent if jobs else None
    follower = Follower(log, fleet, history_bytes=history_bytes, jobs=jobs)
    changes = Changes(fleet)
    follower.on_change = changes.changed
    where = f"--listen {address.host}:{address.port}"
    listener = http_server.listener(address.host, address.port, where)
    config = _config(application(fleet, follower, changes, login, report, names), address)
    exit_on_signals()
    telling = alerts(fleet, follower) if alerts is not None else None
    follower.start()
    try:
        if telling is not None:
            telling.start()
        say(address.url)
        _Server(config, changes).run(sockets=[listener])
    finally:
        if telling is not None:
            telling.stop()
        follower.stop()
        listener.close()


def _config(app: ASGIApp, address: Address) -> uvicorn.Config:
    """Raises ToolError."""
    config = http_server.configuration(
        app,
        lifespan="on",
        ssl_certfile=address.certificate,
        ssl_keyfile=address.key,
    )
    try:
        config.load()
    except OSError as error:  # ssl.SSLError is one
        raise ToolError(f"--cert {address.certificate}, --key {address.key}: {error}") from None
    return config
