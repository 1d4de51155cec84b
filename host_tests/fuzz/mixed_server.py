"""The kit's server (boards/BENCH/virtual/) in weather: while that is bad, server and path do
whatever they may do. The server refuses, loses its session, sets limits, acknowledges late, twice
and out of order, ends the connection; the path accepts a part of a packet, delays, breaks, or dies:
it then accepts everything and delivers nothing.

What the standard forbids a client raises Violation.
"""

from __future__ import annotations

import random
from typing import Any

from fuzz_facts import Violation, require
from virtual import broker, connection, stream, world

MARK = b"!"  # at the end of a payload on which some servers end the connection
CLIENT_ID = b"dev"

# Shares of the writes and packets that are affected in bad weather:
_BREAKS, _TAKES_A_PART, _DIES = 0.01, 0.1, 0.01
_ENDS = 0.008
_REFUSES_CONNECT, _LOSES_SESSION = 0.05, 0.1
_REFUSES_MESSAGE, _REFUSES_FILTER = 0.1, 0.1
_ANSWERS_LATER, _ANSWERS_TWICE, _NO_SUBSCRIBERS = 0.15, 0.03, 0.1
# And in any weather:
_ANSWERS_LATE_ONE, _USES_ALIAS, _ADDS_PROPERTY, _TELLS_UNKNOWN = 0.6, 0.7, 0.2, 0.5
_ENDS_SILENCE = 0.5  # of the servers: they end a connection whose client is silent

_MOST_READ = 64
_DELAYS_MS = (0, 5, 40, 300)
_RESET, _BAD_FILE = 104, 9  # error numbers
_UNAVAILABLE, _NO_MATCHING_SUBSCRIBERS, _FAILURE = 0x88, 0x10, 0x80
_REFUSALS = (0x80, 0x83, 0x87, 0x97, 0x99)
_CALM_IN_FLIGHT = 16
_KEEP_ALIVE, _ALIAS, _USER_PROPERTY = 0x13, 0x23, 0x26
_NO_LIMITS = {
    "receive_maximum": 0, "maximum_packet": 0, "maximum_qos": 2, "retain_available": True,
    "topic_alias_maximum": 0,
}  # fmt: skip


class Weather(world.World):
    """The time, the choices of one seed, and whether things still go wrong."""

    def __init__(self, rng: random.Random) -> None:
        world.World.__init__(self, {"blocks": 0})
        self.rng = rng
        self.is_bad = True

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def may(self, share: float) -> bool:
        """As chance(), in bad weather only."""
        return self.is_bad and self.chance(share)


class Path(stream.Stream):
    is_dead = False

    def write(self, buf, offset, length):
        weather, count = self._world, length
        if self.is_dead and not self.is_broken():
            return length
        if weather.may(_BREAKS):
            raise OSError(_RESET)
        if weather.may(_TAKES_A_PART):
            count = weather.rng.randint(0, length)
        self.is_dead = weather.may(_DIES)
        return stream.Stream.write(self, buf, offset, count) or None

    def readinto(self, buf):
        weather = self._world
        most = weather.rng.randint(1, _MOST_READ) if weather.is_bad else _MOST_READ
        return stream.Stream.readinto(self, memoryview(buf)[:most])

    def close(self):
        if self.is_dead:
            self.break_(_BAD_FILE)
        else:
            stream.Stream.close(self)

    def say(self, data):
        return self._broker.arrives_us() if self.is_dead else stream.Stream.say(self, data)


class Connection(connection.Connection):
    def __init__(self, server: Server) -> None:
        connection.Connection.__init__(self, server)
        self._weather, self._rng = server.world, server.world.rng
        self._late: list[tuple[str, int]] = []  # acknowledgements that it holds back

    def _take(self, kind, fields, size):
        if self._weather.may(_ENDS):
            self.close()
            return
        while kind == "PINGREQ" and self._late:
            self._say_late(0)
        connection.Connection._take(self, kind, fields, size)

    def _fate(self, _topic, fields):
        weather, server = self._weather, self.broker
        if weather.is_bad and server.ends_on_mark and fields["payload"].endswith(MARK):
            return "closes", 0
        if fields["qos"] and self.level == 5:
            if weather.may(_REFUSES_MESSAGE):
                return "drops", self._rng.choice(_REFUSALS)
            if weather.may(_NO_SUBSCRIBERS):
                return "takes", _NO_MATCHING_SUBSCRIBERS
        return "takes", 0

    def _answer(self, kind, packet_id, code=0):
        """Answer now or later, and maybe twice; a refusal now, because the exchange that follows it
        has the same identifier."""
        if code < _FAILURE and self._weather.may(_ANSWERS_LATER):
            self._late.append((kind, packet_id))
            return connection.NEVER_US
        at_us = self.say(kind, packet_id=packet_id, code=code)
        if code < _FAILURE and self._weather.may(_ANSWERS_TWICE):
            self.say(kind, packet_id=packet_id, code=code)
        if self._late and self._weather.chance(_ANSWERS_LATE_ONE):
            self._say_late(self._rng.randrange(len(self._late)))
        return at_us

    def _say_late(self, place: int) -> None:
        kind, packet_id = self._late.pop(place)
        at_us = self.say(kind, packet_id=packet_id)
        if kind != "PUBREC":
            self._publishing[packet_id] = at_us

    def _code_of_unknown(self):
        is_told = self._weather.chance(_TELLS_UNKNOWN)
        return connection.Connection._code_of_unknown(self) if is_told else 0

    def _granted(self, topic_filter, qos):
        if topic_filter != self.broker.never_refused and self._weather.may(_REFUSES_FILTER):
            return _FAILURE
        return connection.Connection._granted(self, topic_filter, qos)

    def _short_topic(self, topic):
        """Any number, whatever it stood for."""
        if not self._alias_maximum or not self._weather.chance(_USES_ALIAS):
            return topic, []
        number = self._rng.randint(1, self._alias_maximum)
        return b"" if self._aliases.get(number) == topic else topic, [(_ALIAS, number)]


class Server(broker.Broker):
    """loses_sessions: sometimes, between connections. ends_on_mark: it ends the connection on each
    message that ends in MARK, until the weather is good. never_refused: a filter."""

    connection_kind, stream_kind = Connection, Path

    def __init__(
        self,
        weather: Weather,
        level: int,
        loses_sessions: bool,
        ends_on_mark: bool,
        never_refused: bytes,
    ) -> None:
        broker.Broker.__init__(self, weather, {"level": level})
        self.weather, self.never_refused = weather, never_refused
        self.loses_sessions, self.ends_on_mark = loses_sessions, ends_on_mark
        self._ends_silence = weather.chance(_ENDS_SILENCE)
        self._keep_alive_s = self.sessions_lost = 0
        self.connection: Connection | None = None  # the newest
        weather.broker = self

    def accept(self):
        found = broker.Broker.accept(self)
        self.connection = found.server
        return found

    def is_up(self) -> bool:
        return self.connection is not None and self.connection.session is not None and (
            not self.connection.is_over
        )  # fmt: skip

    def filters(self) -> dict[bytes, int]:
        """QoS by filter."""
        session = self.sessions.get(CLIENT_ID)
        return {one[0]: one[1] for one in session.filters} if session else {}

    def queued(self) -> list[bytes]:
        """The payloads that the client has not acknowledged."""
        session = self.sessions.get(CLIENT_ID)
        return [message.payload for message in session.queue] if session else []

    def say(self, topic: bytes, payload: bytes, qos: int, retain: bool = False) -> None:
        """Another client publishes."""
        has_property = self.weather.chance(_ADDS_PROPERTY)
        properties = [(_USER_PROPERTY, (b"k", b"vvvvv"))] if has_property else []
        self.look()
        self.route(topic, payload, qos, retain, properties)

    def arrives_us(self):
        return self.now_us + self.weather.rng.choice(_DELAYS_MS) * 1000

    def blame(self, why):
        raise Violation(why)

    def judge(self, fields):
        require(fields["level"] == self.options["level"], "CONNECT of level %d", fields["level"])
        if self.weather.may(_REFUSES_CONNECT):
            return _UNAVAILABLE, "the weather"
        return broker.Broker.judge(self, fields)

    def open(self, connection, fields):
        old = self.sessions.get(connection.client_id)
        if old and self.loses_sessions and self.weather.may(_LOSES_SESSION):
            if old.connection:
                old.connection.close()
            self._forget(old)
        if self.options["level"] == 5:
            self._choose_limits()
        return broker.Broker.open(self, connection, fields)

    def _choose_limits(self) -> None:
        weather, rng, found = self.weather, self.weather.rng, dict(_NO_LIMITS)
        if weather.chance(0.5):
            bad = rng.choice((1, 2, 3, 5, 16, 20))
            found["receive_maximum"] = bad if weather.is_bad else _CALM_IN_FLIGHT
        if weather.may(0.25):
            found["maximum_packet"] = rng.choice((70, 100, 160))
        if weather.may(0.15):
            found["maximum_qos"] = rng.choice((0, 1))
        if weather.may(0.15):
            found["retain_available"] = False
        if weather.chance(0.5):
            found["topic_alias_maximum"] = rng.choice((1, 2, 10))
        self.options.update(found)
        self._keep_alive_s = rng.choice((5, 30, 600)) if weather.chance(0.2) else 0

    def connack_properties(self) -> list[tuple[int, Any]]:
        found = broker.Broker.connack_properties(self)
        return [*found, (_KEEP_ALIVE, self._keep_alive_s)] if self._keep_alive_s else found

    def _set_terms(self, session, fields):
        broker.Broker._set_terms(self, session, fields)
        if self._keep_alive_s:
            session.keep_us = self._keep_alive_s * 1_500_000
        if not self._ends_silence:
            session.keep_us = connection.NEVER_US
        session.silent_us = self.now_us + session.keep_us

    def _forget(self, session):
        self.sessions_lost += self.sessions.get(session.client_id) is session
        broker.Broker._forget(self, session)
