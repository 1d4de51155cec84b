"""A connection in mixed_server.py's server: it requires of each packet what the standard requires
of a client. In bad weather it does whatever a server may do: refuses, loses its session, sets
limits, acknowledges late, twice and out of order, ends the connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import mixed_packets as packets
from mixed_packets import Body, Publish, acknowledgement, parse_publish, require, text, u16
from mixed_stream import Stream
from packets5 import frame, length_of

if TYPE_CHECKING:
    from mixed_server import Server

MARK = b"!"  # at the end of a payload on which some servers end the connection

# Shares of the packets that are affected in bad weather:
_ENDS = 0.008
_REFUSES_CONNECT, _LOSES_SESSION = 0.05, 0.1
_REFUSES_MESSAGE, _REFUSES_FILTER = 0.1, 0.1
_ANSWERS_LATER, _ANSWERS_TWICE, _NO_SUBSCRIBERS = 0.15, 0.03, 0.1
# And in any weather:
_ANSWERS_LATE_ONE, _USES_ALIAS, _ADDS_PROPERTY, _TELLS_UNKNOWN = 0.6, 0.7, 0.2, 0.5

_REFUSALS = (0x80, 0x83, 0x87, 0x97, 0x99)
_NO_MATCHING_SUBSCRIBERS, _NOT_FOUND = 0x10, 0x92
_BANNED = 0x88
_MOST_IN_FLIGHT = 20
_CALM_IN_FLIGHT = 16
_NO_LIMIT = 1 << 28
_USER_PROPERTY = b"\x26" + text(b"k") + text(b"v" * 5)


class Connection(Stream):
    """The server's half. A limit comes from CONNACK; a _client_ limit from CONNECT."""

    def __init__(self, server: Server) -> None:
        Stream.__init__(self, server.weather)
        self.server, self.level, self.rng = server, server.level, server.weather.rng
        self._is_accepted = self._is_present = False
        self._receive_maximum, self._packet_bytes, self._most_qos = 0xFFFF, _NO_LIMIT, 2
        self._takes_retain = True
        self._alias_maximum = self._client_alias_maximum = 0
        self._client_receive_maximum, self._client_packet_bytes = 0xFFFF, _NO_LIMIT
        self._topics: dict[int, bytes] = {}  # by alias of the client
        self._own_topics: dict[int, bytes] = {}  # by alias of the server
        self._in_flight: dict[int, tuple[bytes, bytes]] = {}  # of the client, by identifier
        self._refused: set[int] = set()  # identifiers of exchanges that failed on this connection
        self._late: list[bytes] = []  # acknowledgements that it holds back

    def is_up(self) -> bool:
        return self._is_accepted and not self.is_closed

    def on_packet(self, first: int, body: bytes, size: int) -> None:
        require(size <= self._packet_bytes, "%d bytes, at most %d", size, self._packet_bytes)
        if self.weather.may(_ENDS):
            self.end()
            return
        kind = first >> 4
        require(self._is_accepted == (kind != packets.CONNECT), "packet %x out of turn", first)
        require(kind in _HANDLERS, "a client sent %x", first)
        _HANDLERS[kind](self, first, Body(body))

    # --- CONNECT ---

    def _on_connect(self, _first: int, body: Body) -> None:
        server = self.server
        body.text()
        level, flags, _keep_alive_s = body.number(1), body.number(1), body.number()
        require(level == server.level, "CONNECT of level %d", level)
        properties = body.properties() if level == 5 else {}
        self._client_receive_maximum = properties.get(0x21, 0xFFFF)
        self._client_alias_maximum = properties.get(0x22, 0)
        self._client_packet_bytes = properties.get(0x27, _NO_LIMIT)
        if self.weather.may(_REFUSES_CONNECT):
            self.send(frame(0x20, bytes((0, _BANNED, 0)) if level == 5 else b"\x00\x03"))
            self.end()
            return
        if flags & 2 or (server.loses_sessions and self.weather.may(_LOSES_SESSION)):
            server.forget_session()
        self._is_present, server.has_session = server.has_session, True
        limits = self._choose_limits() if level == 5 else b""
        rest = length_of(len(limits)) + limits if level == 5 else b""
        self.send(frame(0x20, bytes((self._is_present and level > 3, 0)) + rest))
        self._is_accepted = True
        server.connects += 1
        for each in server.outbound:
            each.is_sent = False
        self.send_outbound()

    def _choose_limits(self) -> bytes:
        """Returns the properties of CONNACK."""
        weather, rng, found = self.weather, self.rng, b""
        if weather.chance(0.5):
            bad = rng.choice((1, 2, 3, 5, 16, 20))
            self._receive_maximum = bad if weather.is_bad else _CALM_IN_FLIGHT
            found += b"\x21" + u16(self._receive_maximum)
        if weather.may(0.25):
            self._packet_bytes = rng.choice((70, 100, 160))
            found += b"\x27" + self._packet_bytes.to_bytes(4, "big")
        if weather.may(0.15):
            self._most_qos = rng.choice((0, 1))
            found += bytes((0x24, self._most_qos))
        if weather.may(0.15):
            self._takes_retain = False
            found += b"\x25\x00"
        if weather.chance(0.5):
            self._alias_maximum = rng.choice((1, 2, 10))
            found += b"\x22" + u16(self._alias_maximum)
        if weather.chance(0.2):
            found += b"\x13" + u16(rng.choice((5, 30, 600)))
        return found

    # --- Messages of the client ---

    def _on_publish(self, first: int, body: Body) -> None:
        message = parse_publish(first, body.left, self.level)
        require(message.qos <= self._most_qos, "QoS %d above the maximum", message.qos)
        require(self._takes_retain or not message.is_retained, "RETAIN is not available")
        self._resolve_alias(message)
        if message.qos:
            self._open_exchange(message)
        if self.weather.is_bad and self.server.ends_on_mark and message.payload.endswith(MARK):
            self.end()
        elif not message.qos:
            self.server.delivered.append(message)
        elif message.packet_id not in self.server.received and self._refuses(message):
            del self._in_flight[message.packet_id]
            self._refused.add(message.packet_id)
        else:
            self._take(message)

    def _resolve_alias(self, message: Publish) -> None:
        alias = message.alias
        if alias is not None:
            require(0 < alias <= self._alias_maximum, "alias %d", alias)
            if message.topic:
                self._topics[alias] = message.topic
            message.topic = self._topics.get(alias, b"")
        require(message.topic, "PUBLISH without a topic")

    def _open_exchange(self, message: Publish) -> None:
        packet_id, content = message.packet_id, (message.topic, message.payload)
        for known in (self._in_flight, self.server.received):
            other = known.get(packet_id, content)
            require(other == content, "identifier %d is in use for %r", packet_id, other)
        self._in_flight[packet_id] = content
        count = len(self._in_flight)
        require(count <= self._receive_maximum, "%d in flight", count)
        if message.is_dup:  # without DUP it is a new exchange [MQTT-4.3.2-2], [MQTT-4.3.3-2]
            require(self._is_present or self.level < 5, "DUP without a session")
            require(packet_id not in self._refused, "DUP after %d was refused", packet_id)

    def _refuses(self, message: Publish) -> bool:
        if self.level < 5 or not self.weather.may(_REFUSES_MESSAGE):
            return False
        kind = packets.PUBREC if message.qos == 2 else packets.PUBACK
        self.send(acknowledgement(kind, message.packet_id, self.rng.choice(_REFUSALS)))
        return True

    def _take(self, message: Publish) -> None:
        server, packet_id = self.server, message.packet_id
        if message.qos == 2:
            if packet_id not in server.received:
                server.delivered.append(message)
            server.received[packet_id] = message.topic, message.payload
            self._answer(acknowledgement(packets.PUBREC, packet_id))
            return
        require(packet_id not in server.received, "identifier %d awaits PUBREL", packet_id)
        server.delivered.append(message)
        del self._in_flight[packet_id]
        is_unheard = self.level == 5 and self.weather.may(_NO_SUBSCRIBERS)
        code = _NO_MATCHING_SUBSCRIBERS if is_unheard else None
        self._answer(acknowledgement(packets.PUBACK, packet_id, code))

    def _on_pubrel(self, first: int, body: Body) -> None:
        require(first == 0x62, "PUBREL with flags %x", first & 15)
        packet_id = body.number()
        self._in_flight.pop(packet_id, None)
        is_known = self.server.received.pop(packet_id, None) is not None
        tells = self.level == 5 and not is_known and self.weather.chance(_TELLS_UNKNOWN)
        self._answer(acknowledgement(packets.PUBCOMP, packet_id, _NOT_FOUND if tells else None))

    def _answer(self, data: bytes) -> None:
        """Answer now or later, and maybe twice."""
        if self.weather.may(_ANSWERS_LATER):
            self._late.append(data)
            return
        self.send(data)
        if self.weather.may(_ANSWERS_TWICE):
            self.send(data)
        if self._late and self.weather.chance(_ANSWERS_LATE_ONE):
            self.send(self._late.pop(self.rng.randrange(len(self._late))))

    # --- The rest of what a client sends ---

    def _on_pingreq(self, _first: int, _body: Body) -> None:
        while self._late:
            self.send(self._late.pop(0))
        self.send(b"\xd0\x00")

    def _on_disconnect(self, _first: int, _body: Body) -> None:
        self.is_dead = True

    def _on_subscribe(self, _first: int, body: Body) -> None:
        packet_id, codes = self._request_id(body), b""
        while body.left:
            name, qos = body.text(), body.number(1) & 3
            if name != self.server.never_refused and self.weather.may(_REFUSES_FILTER):
                codes += b"\x80"
                continue
            self.server.filters[name] = qos
            codes += bytes((qos,))
            if name in self.server.retained:
                self.say(Publish(name, self.server.retained[name], 0, is_retained=True))
        self._answer_request(packets.SUBACK, packet_id, codes)

    def _on_unsubscribe(self, _first: int, body: Body) -> None:
        packet_id, codes = self._request_id(body), b""
        while body.left:
            self.server.filters.pop(body.text(), None)
            codes += b"\x00"
        self._answer_request(packets.UNSUBACK, packet_id, codes if self.level == 5 else b"")

    def _request_id(self, body: Body) -> int:
        packet_id = body.number()
        require(packet_id not in self._in_flight, "identifier %d is in flight", packet_id)
        if self.level == 5:
            body.properties()
        return packet_id

    def _answer_request(self, kind: int, packet_id: int, codes: bytes) -> None:
        properties = b"\x00" if self.level == 5 else b""
        self.send(frame(kind << 4, u16(packet_id) + properties + codes))

    # --- Messages for the client ---

    def _on_acknowledged(self, first: int, body: Body) -> None:
        packet_id, kind, queue = body.number(), first >> 4, self.server.outbound
        sent = [each for each in queue if each.is_sent and each.message.packet_id == packet_id]
        if sent and kind == packets.PUBREC:
            require(sent[0].message.qos == 2, "PUBREC of a message with QoS 1")
            sent[0].is_released = True
            self.send(acknowledgement(packets.PUBREL, packet_id))
        elif sent:
            is_right = sent[0].is_released if kind == packets.PUBCOMP else sent[0].message.qos == 1
            require(is_right, "%x of %r", first, sent[0])
            queue.remove(sent[0])
        self.send_outbound()

    def send_outbound(self) -> None:
        """Send as many messages as the client accepts at a time."""
        queue = self.server.outbound
        room = min(_MOST_IN_FLIGHT, self._client_receive_maximum)
        room -= sum(each.is_sent for each in queue)
        for each in [each for each in queue if not each.is_sent][: max(room, 0)]:
            each.is_sent = True
            if each.is_released:
                self.send(acknowledgement(packets.PUBREL, each.message.packet_id))
            elif self.say(each.message):
                each.message.is_dup = True
            else:
                queue.remove(each)  # MQTT 5.0 3.1.2.11.4: treat it as sent

    def say(self, message: Publish) -> bool:
        """False: the message is longer than the client accepts."""
        properties, shown, alias = b"", message, 0
        if self._client_alias_maximum and self.weather.chance(_USES_ALIAS):
            alias = self.rng.randint(1, self._client_alias_maximum)
            properties = b"\x23" + u16(alias)
            if self._own_topics.get(alias) == message.topic:
                shown = Publish(**{**vars(message), "topic": b""})
        if self.level == 5 and self.weather.chance(_ADDS_PROPERTY):
            properties += _USER_PROPERTY
        data = shown.packet(self.level, properties)
        if len(data) > self._client_packet_bytes:
            return False
        if alias:
            self._own_topics[alias] = message.topic
        self.send(data)
        return True


_HANDLERS = {
    packets.CONNECT: Connection._on_connect,
    packets.PUBLISH: Connection._on_publish,
    packets.PUBACK: Connection._on_acknowledged,
    packets.PUBREC: Connection._on_acknowledged,
    packets.PUBREL: Connection._on_pubrel,
    packets.PUBCOMP: Connection._on_acknowledged,
    packets.SUBSCRIBE: Connection._on_subscribe,
    packets.UNSUBSCRIBE: Connection._on_unsubscribe,
    packets.PINGREQ: Connection._on_pingreq,
    packets.DISCONNECT: Connection._on_disconnect,
}
