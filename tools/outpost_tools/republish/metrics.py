"""The newest values in Prometheus' text format: which boards are current, and the values of those.
A value that is not current has no sample, so Prometheus sees that it ended."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from outpost_tools.common.errors import ToolError
from outpost_tools.republish.newest import Newest


class Values(Collector):
    """Called by the server's thread, so it takes copies, each in one step."""

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


def serve(newest: Newest, port: int) -> None:
    """Serve on loopback, in a separate thread. Raises ToolError."""
    try:
        start_http_server(port, addr="127.0.0.1", registry=registry_of(newest))
    except (OSError, OverflowError) as error:
        raise ToolError(f"--metrics-port {port}: {error}; give a free port, 1 to 65535") from None
