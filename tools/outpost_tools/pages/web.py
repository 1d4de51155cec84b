"""What the pages served from this machine have in common: security headers, the check of the host
name, static files. Knows no page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

OWN_NAMES = ("localhost", "127.0.0.1", "[::1]")
OTHER_NAME = "ask for this page by 127.0.0.1 or localhost, or allow the name: --http-name\n"
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


def refusal_of_name(request: Request, names: Sequence[str] = ()) -> Response | None:
    """None if the request is for one of this machine's own names, or one of `names`, with any port.
    Otherwise a refusal, so that a foreign name that points to 127.0.0.1 (DNS rebinding) reads
    nothing."""
    asked = request.headers.get("host", "").lower()
    name, _, port = asked.rpartition(":")
    name = name if port.isdecimal() and name else asked
    return None if name in (*OWN_NAMES, *names) else PlainTextResponse(OTHER_NAME, 421)


class OnlyByName:
    """Wraps an application. Requests for other host names are refused, see refusal_of_name()."""

    def __init__(self, app: ASGIApp, names: Sequence[str] = ()) -> None:
        self._app, self._names = app, names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_asked = scope["type"] == "http"
        answer = refusal_of_name(Request(scope), self._names) if is_asked else None
        await (answer or self._app)(scope, receive, with_headers(send, headers()))


def metrics(registry: CollectorRegistry) -> Callable[[Request], Response]:
    """The endpoint for Prometheus."""
    return lambda _request: Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)


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
