"""A server that shares no line with the firmware: its session, and the messages it received. Its
half of a connection is mixed_connection.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from mixed_connection import Connection
from mixed_packets import Publish
from mixed_stream import Weather


@dataclass
class Outbound:
    """A message for the client that is not acknowledged. is_sent: on this connection."""

    message: Publish
    is_released: bool = False
    is_sent: bool = False


class Server:
    """loses_sessions: sometimes, between connections. ends_on_mark: it ends the connection on each
    message that ends in MARK, until the weather is good. never_refused: a filter."""

    def __init__(
        self,
        weather: Weather,
        level: int,
        loses_sessions: bool,
        ends_on_mark: bool,
        never_refused: bytes,
    ) -> None:
        self.weather, self.level, self.never_refused = weather, level, never_refused
        self.loses_sessions, self.ends_on_mark = loses_sessions, ends_on_mark
        self.delivered: list[Publish] = []
        self.retained: dict[bytes, bytes] = {}
        self.connects = self.sessions_lost = 0
        self.connection: Connection | None = None
        self._start_session()

    def _start_session(self) -> None:
        self.has_session = False
        self.received: dict[int, tuple[bytes, bytes]] = {}  # by identifier; they await PUBREL
        self.filters: dict[bytes, int] = {}
        self.outbound: list[Outbound] = []
        self._last_id = 0

    def forget_session(self) -> None:
        self.sessions_lost += self.has_session
        self._start_session()

    def accept(self) -> Connection:
        self.connection = Connection(self)
        return self.connection

    def is_up(self) -> bool:
        return self.connection is not None and self.connection.is_up()

    def publish(self, topic: bytes, payload: bytes, qos: int) -> None:
        """Another client publishes a message to which this client has subscribed."""
        if not qos:
            if self.is_up():
                self.connection.say(Publish(topic, payload, 0))
            return
        used = {each.message.packet_id for each in self.outbound}
        self._last_id = self._last_id % 0xFFFF + 1
        while self._last_id in used:
            self._last_id = self._last_id % 0xFFFF + 1
        self.outbound.append(Outbound(Publish(topic, payload, qos, self._last_id)))
        if self.is_up():
            self.connection.send_outbound()

    def retain(self, topic: bytes, payload: bytes) -> None:
        self.retained[topic] = payload
        if topic in self.filters:
            self.publish(topic, payload, 0)
