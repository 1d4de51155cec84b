"""What the pages served from this machine have in common: security headers, the check of the host
name, static files, the listener. Knows no page.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from importlib import resources
from pathlib import Path

import uvicorn
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Send

from outpost_tools.common.errors import ToolError

OWN_NAMES = ("localhost", "127.0.0.1", "[::1]")
OTHER_NAME = "ask for this page by 127.0.0.1 or localhost\n"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_SHARED = ("page.css", "icon.svg")  # beside this module


def headers(policy: str = "") -> dict[str, str]:
    """Scripts and styles only from the server; no caching, no framing.

    policy: additions to the Content-Security-Policy.
    """
    return {
        "Content-Security-Policy": f"{_POLICY}; {policy}" if policy else _POLICY,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-store",
    }


def with_headers(send: Send, wanted: dict[str, str]) -> Send:
    """Adds the headers that an answer does not set itself."""
    ours = [(name.lower().encode(), value.encode()) for name, value in wanted.items()]

    async def send_more(message) -> None:
        if message["type"] == "http.response.start":
            known = {name for name, _ in message["headers"]}
            message["headers"] += [one for one in ours if one[0] not in known]
        await send(message)

    return send_more


def own_name(request: Request) -> str:
    """The host name that the browser used; "" if it is not this machine's own. So a foreign name
    that points to 127.0.0.1 (DNS rebinding) reads nothing."""
    asked = request.headers.get("host", "").lower()
    name, _, port = asked.rpartition(":")
    name = name if port.isdecimal() and name else asked
    return name if name in OWN_NAMES else ""


def static(package: str, *names: str) -> Callable[[Request], Response]:
    """The endpoint for these files of a package, and for those that all pages share."""
    packages = dict.fromkeys(_SHARED, __package__ or "") | dict.fromkeys(names, package)

    def endpoint(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in packages:
            return PlainTextResponse("not found\n", 404)
        data = resources.files(packages[name]).joinpath(name).read_bytes()
        return Response(data, headers={"Content-Type": _TYPES[Path(name).suffix]})

    return endpoint


def listener(host: str, port: int, option: str) -> socket.socket:
    """option: the beginning of the error message. Raises ToolError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
        made.listen(128)
    except OSError as error:
        made.close()
        raise ToolError(
            f"{option}: {error.strerror}; another program may use it: give another port"
        ) from None
    return made


def configuration(app: ASGIApp, most_connections: int, **more) -> uvicorn.Config:
    """more: further options of uvicorn."""
    return uvicorn.Config(
        app,
        loop="asyncio",
        ws="none",
        limit_concurrency=most_connections,
        log_level="error",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=2,  # a client that does not read would stay forever
        **more,
    )
