"""The collector's counters: a line on stderr now and then, and on loopback, when a port is set,
Prometheus' text format and `/healthz`."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from outpost_tools.pages import http_server, web
from outpost_tools.servers.collect.health import Health

STATS_INTERVAL_S = 5.0
SAME_AGAIN_S = 600.0
_FSYNC_BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Metrics:
    """One registry for one collector. All of it is updated once per group, not once per message."""

    def __init__(self, collector: str) -> None:
        self._collector = collector
        self.registry = CollectorRegistry()
        known = {"namespace": "outpost_collector", "registry": self.registry}
        counter, gauge = partial(Counter, **known), partial(Gauge, **known)
        self._messages = counter("messages", "Messages stored durably")
        self._bytes = counter("bytes", "Bytes of frames stored durably")
        self._rate = gauge("messages_per_second", "Messages stored, lately")
        text = "Making one group durable: write and fsync, or PUT"
        self._fsync = Histogram("fsync_seconds", text, buckets=_FSYNC_BUCKETS_S, **known)
        self.confirmations = counter("confirmations", "Sent to boards: durable up to N")
        self.statements = counter("statements", "Sent to the group's other collectors")
        self.damaged = counter("damaged_messages", "Unreadable in our log, at least")
        self.cut_bytes = counter("cut_bytes", "Cut off the ends of segments, kept as .cut")
        self.forgotten = counter("forgotten_streams", "Dropped, the oldest of a device first")
        self.errors = counter("errors", "Failed writes, seals, refused statements", ["kind"])
        for kind in ("write", "seal", "statement"):
            self.errors.labels(kind)
        self.connections = counter("connections", "Connections to the broker")
        self.connected = gauge("connected", "1 while connected")
        self.unstored = gauge("backlog_messages", "Taken from the broker, not yet durable")
        self.socket_bytes = gauge("backlog_socket_bytes", "Waiting in the socket, unread")
        self.unsealed_bytes = gauge("unsealed_bytes", "Durable, not yet visible to readers")
        self.waiting_uploads = gauge("waiting_uploads", "Sealed segments that --upload must copy")
        self.waiting_segments = gauge("waiting_segments", "With messages that wait for the tables")
        self.unconfirmed = gauge("unconfirmed_messages", "In our log, not yet confirmed")
        self.streams = gauge("streams", "Streams known")
        self.takeovers = gauge("takeovers", "Connections that another client with our id ended")
        text = "Sessions that the broker had and has lost, with their queues"
        self.lost_sessions = gauge("lost_sessions", text)
        text = "Messages of MQTT 5 with an expiry: the broker deletes them if they wait too long"
        self.expiring = gauge("expiring_messages", text)
        self.foreign = gauge("foreign_dropped", "Others' copies, or with a board's key", ["kind"])
        text = "Rights that the broker refused: subscriptions, confirmations"
        self.rights_refused = gauge("rights_refused", text)
        self.clock_set = gauge("clock_set", "1 while this machine's clock is known to be right")
        self.clock_unset_messages = gauge("clock_unset_messages", "Stored while it was not")
        self._total = self._commits = self._shown = 0
        self._fsync_s, self._shown_at, self._said_at = 0.0, time.monotonic(), 0.0
        self._said: tuple[int, bool] | None = None  # of the last line

    def serve(self, port: int, health: Health, names: Sequence[str] = ()) -> None:
        """Serve on loopback, in a thread. names: by which it may be asked, besides its own. Raises
        ToolError."""
        endpoint = web.metrics(self.registry)

        async def metrics(request: Request) -> Response:
            return endpoint(request)

        async def healthz(_request: Request) -> Response:
            reason = health.reason
            return PlainTextResponse(f"{health.text}\n", 503 if reason else 200)

        paths = {"/": metrics, "/metrics": metrics, "/healthz": healthz}
        app = Starlette(routes=[Route(path, answer) for path, answer in paths.items()])
        http_server.serve_in_thread(web.OnlyByName(app, names), port, "--metrics-port")

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

    def sum_up(self, *, connected: bool, quiet: bool, last: bool = False) -> None:
        """Update the rate since the last call, and print the line, but not the same one within ten
        minutes.

        last: print the line in any case.
        """
        now = time.monotonic()
        rate = (self._total - self._shown) / max(now - self._shown_at, 1e-3)
        self._rate.set(rate)
        self._shown, self._shown_at = self._total, now
        is_news = (self._total, connected) != self._said or now - self._said_at >= SAME_AGAIN_S
        if quiet or not (is_news or last):
            return
        self._said, self._said_at = (self._total, connected), now
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
