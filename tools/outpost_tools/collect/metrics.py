"""What the collector counts: a line on stderr now and then, and Prometheus' text format on loopback
when a port is given."""

from __future__ import annotations

import sys
import time

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from outpost_tools.common.errors import ToolError

STATS_INTERVAL_S = 5.0
_FSYNC_BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Metrics:
    """One registry for one collector. All of it is touched once a group, not once a message."""

    def __init__(self, collector: str) -> None:
        self._collector = collector
        self.registry = registry = CollectorRegistry()
        name = "outpost_collector_"
        self._messages = Counter(name + "messages", "Messages stored durably", registry=registry)
        self._bytes = Counter(name + "bytes", "Bytes of frames stored durably", registry=registry)
        self._rate = Gauge(
            name + "messages_per_second", "Messages stored, lately", registry=registry
        )
        self._fsync = Histogram(
            name + "fsync_seconds",
            "Write and fsync of one group",
            registry=registry,
            buckets=_FSYNC_BUCKETS_S,
        )
        self.confirmations = Counter(
            name + "confirmations", "Words to boards: durable up to N", registry=registry
        )
        self.statements = Counter(
            name + "statements", "What was said to the group's other collectors", registry=registry
        )
        self.errors = Counter(
            name + "errors", "Failed writes, seals, refused statements", ["kind"], registry=registry
        )
        self.connections = Counter(
            name + "connections", "Connections to the broker", registry=registry
        )
        self.connected = Gauge(name + "connected", "1 while connected", registry=registry)
        self.unstored = Gauge(
            name + "backlog_messages", "Taken from the broker, not yet durable", registry=registry
        )
        self.socket_bytes = Gauge(
            name + "backlog_socket_bytes", "Waiting in the socket, unread", registry=registry
        )
        self.unsealed_bytes = Gauge(
            name + "unsealed_bytes", "Durable, not yet visible to readers", registry=registry
        )
        self.unconfirmed = Gauge(
            name + "unconfirmed_messages",
            "In our log, not yet confirmed to the board",
            registry=registry,
        )
        self.streams = Gauge(name + "streams", "Streams known", registry=registry)
        for kind in ("write", "seal", "statement"):
            self.errors.labels(kind)
        self._total = self._commits = 0
        self._fsync_s = 0.0
        self._shown = 0
        self._shown_at = time.monotonic()

    def serve(self, port: int) -> None:
        """On loopback, in a thread of the library's. Raises ToolError."""
        try:
            start_http_server(port, addr="127.0.0.1", registry=self.registry)
        except (OSError, OverflowError) as error:
            raise ToolError(
                f"--metrics-port {port}: {error}; give a free port, 1 to 65535"
            ) from None

    def stored(self, messages: int, length: int, seconds: float) -> None:
        """A group became durable."""
        self._messages.inc(messages)
        self._bytes.inc(length)
        self._fsync.observe(seconds)
        self._total += messages
        self._commits += 1
        self._fsync_s += seconds

    @property
    def is_due(self) -> bool:
        return time.monotonic() - self._shown_at >= STATS_INTERVAL_S

    def sum_up(self, *, connected: bool, quiet: bool) -> None:
        """The rate since the last time, and the line."""
        now = time.monotonic()
        rate = (self._total - self._shown) / max(now - self._shown_at, 1e-3)
        self._rate.set(rate)
        self._shown, self._shown_at = self._total, now
        if quiet:
            return
        sync_ms = 1000 * self._fsync_s / max(self._commits, 1)
        text = (
            f"{self._total} messages stored, {rate:.0f}/s, {self._commits} commits of "
            f"{sync_ms:.1f} ms"
        )
        print(
            f"{self._collector}: {text}, {'connected' if connected else 'not connected'}",
            file=sys.stderr,
            flush=True,
        )
