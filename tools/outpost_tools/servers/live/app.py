"""The addresses of the live page. Read-only: only GET and HEAD.

    /  /board/NAME?span=hour|hours|day|week|month|year  /board/NAME/charts  /events  /metrics
    /report  /healthz  /static/*

Text from others is never run as a script: the Content-Security-Policy allows scripts and styles
only from /static. Without a password, only requests for one of this machine's own names are
answered, so a foreign host name that points to 127.0.0.1 (DNS rebinding) reads nothing.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
from collections.abc import Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import (
    FileResponse,
    HTMLResponse,
    PlainTextResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from outpost_tools.pages import web
from outpost_tools.servers.live import device_page, page
from outpost_tools.servers.live.device import Device
from outpost_tools.servers.live.events import MOST_BROWSERS, Changes
from outpost_tools.servers.live.fleet import Fleet
from outpost_tools.servers.live.follow import Follower
from outpost_tools.servers.live.history import SPANS, fitting
from outpost_tools.servers.live.prometheus import Readings

# The axis of a chart positions each label with an inline style.
_HEADERS = web.headers("style-src-attr 'unsafe-inline'")
# The report contains its script and its data. The sandbox gives it an origin of its own, so it
# cannot reach our pages.
_OF_REPORT = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data: blob:; frame-ancestors 'none'"
)
_WRONG_S = 1.0  # the delay after a wrong password; such requests wait one after the other


@dataclass(frozen=True, slots=True)
class Login:
    user: str
    password: str


def application(
    fleet: Fleet,
    follower: Follower,
    changes: Changes,
    login: Login | None,
    report: Path | None = None,
    names: Sequence[str] = (),
) -> ASGIApp:
    """login: None if no password is needed. report: the file of `outpost report`, which may be
    created later. names: host names that requests without a password may use, besides this
    machine's own."""
    pages = _Pages(fleet, follower, changes, report)

    @asynccontextmanager
    async def lifespan(_app: Starlette):
        await changes.start()
        try:
            yield
        finally:
            await changes.stop()

    routes = [
        Route("/", pages.overview),
        Route("/board/{name}", pages.board),
        Route("/board/{name}/charts", pages.charts),
        Route("/events", pages.events),
        Route("/metrics", web.metrics(pages.registry)),
        Route("/report", pages.report),
        Route("/healthz", pages.health),
        Route("/static/{name}", web.static("outpost_tools.servers.live", "live.css", "live.js")),
    ]
    return _Guard(Starlette(routes=routes, lifespan=lifespan), login, names)


class _Pages:
    def __init__(
        self, fleet: Fleet, follower: Follower, changes: Changes, report: Path | None
    ) -> None:
        self._fleet, self._follower, self._changes = fleet, follower, changes
        self._report = report
        self.registry = CollectorRegistry()
        self.registry.register(Readings(fleet))

    # not `async`: it runs in a thread, so that a large page does not delay the events
    def overview(self, _request: Request) -> Response:
        with self._fleet.lock:
            has_report = self._report is not None and self._report.is_file()
            cursor = self._changes.cursor()
            return HTMLResponse(page.overview(self._fleet, cursor, has_report=has_report))

    def board(self, request: Request) -> Response:
        fleet = self._fleet
        with fleet.lock:
            board = fleet.boards.get(request.path_params["name"])
            if board is None:
                return PlainTextResponse("no such device has sent anything\n", 404)
            text = device_page.render(
                fleet, board, _span(request, fleet, board), self._changes.cursor()
            )
            return HTMLResponse(text)

    def charts(self, request: Request) -> Response:
        with self._fleet.lock:
            board = self._fleet.boards.get(request.path_params["name"])
            if board is None:
                return PlainTextResponse("no such device has sent anything\n", 404)
            return HTMLResponse(self._charts_of(board, request))

    def _charts_of(self, board: Device, request: Request) -> str:
        return device_page.all_charts(self._fleet, board, _span(request, self._fleet, board))

    async def events(self, request: Request) -> Response:
        if self._changes.browsers >= MOST_BROWSERS:
            return PlainTextResponse(f"{MOST_BROWSERS} browsers are connected already\n", 503)
        cursor = request.headers.get("last-event-id") or request.query_params.get("since", "")
        board = request.query_params.get("board") or None
        stream = self._changes.stream(cursor, board)
        return StreamingResponse(stream, media_type="text/event-stream")

    def report(self, _request: Request) -> Response:
        if self._report is None or not self._report.is_file():
            return PlainTextResponse("no report was made yet\n", 404)
        return FileResponse(
            self._report, media_type="text/html", headers={"Content-Security-Policy": _OF_REPORT}
        )

    async def health(self, _request: Request) -> Response:
        reason = self._follower.reason
        return PlainTextResponse(f"{reason or 'ok'}\n", 503 if reason else 200)


def _span(request: Request, fleet: Fleet, board: Device) -> str:
    """The requested span, or else the one that fits the age of the board's oldest reading."""
    asked = request.query_params.get("span", "")
    return asked if asked in SPANS else fitting((fleet.clock() - board.oldest_ms) / 1000)


class _Guard:
    """Checks who may see the page, and adds the security headers to every answer."""

    def __init__(self, app: ASGIApp, login: Login | None, names: Sequence[str]) -> None:
        self._app, self._login, self._names = app, login, names
        self._wrong = asyncio.Semaphore(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)

        refusal = await self._refusal(request)
        await (refusal or self._app)(scope, receive, web.with_headers(send, _HEADERS))

    async def _refusal(self, request: Request) -> Response | None:
        if self._login is None:
            return web.refusal_of_name(request, self._names)
        if _is_right(request.headers.get("authorization", ""), self._login):
            return None
        if "authorization" in request.headers:
            async with self._wrong:
                await asyncio.sleep(_WRONG_S)
        realm = {"WWW-Authenticate": 'Basic realm="outpost", charset="UTF-8"'}
        return PlainTextResponse("user and password required\n", 401, realm)


def _is_right(header: str, login: Login) -> bool:
    kind, _, text = header.partition(" ")
    try:
        given = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    wanted = f"{login.user}:{login.password}".encode()
    return kind.lower() == "basic" and hmac.compare_digest(given, wanted)
