"""The newest values in Prometheus' text format: which boards are current, and their values. A value
that is not current has no sample, so Prometheus sees that its series has ended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from outpost_tools.pages import http_server, web
from outpost_tools.servers.republish.newest import Newest


class Values(Collector):
    """collect() is called by the server's thread, so it copies each collection in one step."""

    def __init__(self, newest: Newest) -> None:
        self._newest = newest

    def collect(self) -> Iterator[GaugeMetricFamily]:
        boards = list(self._newest.boards.values())
        current = GaugeMetricFamily(
            "outpost_board_current", "1: the board's values are current", labels=["board"]
        )
        value = GaugeMetricFamily(
            "outpost_value", "The newest value of a sensor", labels=["board", "sensor", "unit"]
        )
        for board in boards:
            current.add_metric([board.name], int(board.is_current))
            for name, one in list(board.values.items()) if board.is_current else ():
                value.add_metric([board.name, name, one.unit or ""], one.value)
        yield current
        yield value


def registry_of(newest: Newest) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(Values(newest))
    return registry


def serve(newest: Newest, port: int, names: Sequence[str] = ()) -> None:
    """Serves on loopback, in a thread. names: host names that requests may use, besides this
    machine's own. Raises ToolError."""
    endpoint = web.metrics(registry_of(newest))

    async def answer(request: Request) -> Response:
        return endpoint(request)

    app = Starlette(routes=[Route(path, answer) for path in ("/", "/metrics")])
    http_server.serve_in_thread(web.OnlyByName(app, names), port, "--metrics-port")
