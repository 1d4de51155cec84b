"""Decides who may use the page. The page can write to boards and read settings, but every web page
that is open in the browser, and every user of this machine, can reach its port.

- A request must use this machine's name and this port, so a foreign name that points here (DNS
  rebinding) is refused.
- The printed address contains a token, which is exchanged for a cookie. The browser sends the
  cookie only to our own path (cookies do not distinguish ports, so the path has a random name), and
  never from another site. No script can read it.
- Every change is a POST of JSON whose Origin is our own page. No answer allows another origin.
"""

from __future__ import annotations

import hmac
import secrets

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from outpost_tools.pages import web

MOST_BYTES = 64 * 1024  # of one request's body
_COOKIE = "outpost_setup"
_HEADERS = web.headers() | {
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_OTHER_NAME = "ask for this page by 127.0.0.1 or localhost\n"
_STRANGER = "open the address that `outpost setup` printed\n"
# Not a redirect: if a link on another site led here, the browser would not send the cookie with it.
_ENTRANCE = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>Outpost, setup</title>'
    '<link rel="icon" href="{path}static/icon.svg">'
    '<meta http-equiv="refresh" content="0;url={path}"><p><a href="{path}">Set up a board</a></p>'
)


class Guard:
    """Wraps the application. port: the one that it listens on. url: the address to print."""

    def __init__(self, app: ASGIApp, port: int) -> None:
        self._app = app
        self._token, self._cookie = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        self._path = f"/{secrets.token_urlsafe(8)}"
        self._hosts = (f"127.0.0.1:{port}", f"localhost:{port}")
        self.url = f"http://127.0.0.1:{port}/?token={self._token}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = self._answer(Request(scope))
        if answer is None:
            scope = {**scope, "root_path": self._path}
        await (answer or self._app)(scope, receive, web.with_headers(send, _HEADERS))

    def _answer(self, request: Request) -> Response | None:
        """None: the application answers."""
        host = request.headers.get("host", "").lower()
        if host not in self._hosts:
            return PlainTextResponse(_OTHER_NAME, 421)
        if request.url.path == "/" and request.method == "GET":
            return self._entrance(request)
        if not self._is_known(request):
            return PlainTextResponse(_STRANGER, 403)
        return _refusal(request, host) if request.method == "POST" else None

    def _entrance(self, request: Request) -> Response:
        if not _is_same(request.query_params.get("token", ""), self._token):
            return PlainTextResponse(_STRANGER, 403)
        answer = HTMLResponse(_ENTRANCE.format(path=f"{self._path}/"))
        cookie = f"{_COOKIE}={self._cookie}; Path={self._path}/; HttpOnly; SameSite=Strict"
        MutableHeaders(raw=answer.raw_headers)["Set-Cookie"] = cookie
        return answer

    def _is_known(self, request: Request) -> bool:
        is_ours = request.url.path.startswith(f"{self._path}/")
        return _is_same(request.cookies.get(_COOKIE, ""), self._cookie) and is_ours


def _refusal(request: Request, host: str) -> Response | None:
    if request.headers.get("origin", "").lower() != f"http://{host}":
        return PlainTextResponse("only this page itself may ask for that\n", 403)
    if request.headers.get("content-type", "").partition(";")[0] != "application/json":
        return PlainTextResponse("JSON is needed\n", 415)
    length = request.headers.get("content-length", "")
    if not length.isdecimal():
        return PlainTextResponse("Content-Length is required\n", 411)
    if len(length) > 9 or int(length) > MOST_BYTES:
        return PlainTextResponse(f"at most {MOST_BYTES} bytes\n", 413)
    return None


def _is_same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(), wanted.encode())
