"""An MQTT 3.1.1 server with the limits of a cloud service: it closes the connection when a client
exceeds them, and notes why. `EVENT_GRID` and `AWS` are profiles from the services' own pages; they
are not the services.

    with StrictServer(AWS) as server: ...   # server.port, server.violations, server.cut()

It has sessions, QoS 0 and 1, queues for absent sessions, retained messages, shared subscriptions
and wills, as far as boards and collectors need them. asyncio in its own thread; CPython only.
"""

from __future__ import annotations

import asyncio
import random
import ssl
import threading
from collections import deque
from dataclasses import dataclass, field

from scripted_server import Malformed, decode, encode
from virtual.packets import matches

_ACKNOWLEDGED_AFTER_S = 0.002  # so that a client has several unacknowledged messages


@dataclass(frozen=True)
class Limits:
    """What the service accepts. 0: no limit."""

    retain: bool = True
    qos: int = 1
    keep_alive_s: int = 0  # the most; if set, 0 (no keep alive) is refused as well
    payload_bytes: int = 0
    slashes: int = 0  # of a topic or filter
    filters: int = 0  # of one SUBSCRIBE
    unacknowledged: int = 0  # each way
    shares: bool = True
    in_order: bool = True
    tls_name: str = ""  # SNI; no connection without it
    alpn: str = ""


# Its newer pages have retained messages, and may or may not have shared subscriptions: do not rely
# on either.
EVENT_GRID = Limits(
    retain=False, keep_alive_s=1160, payload_bytes=1 << 20, shares=False, in_order=False
)
AWS = Limits(payload_bytes=128 << 10, slashes=7, filters=8, unacknowledged=100)


class Refused(Exception):
    """The client exceeded a limit of the service."""


@dataclass
class Session:
    """One client's session, with or without a connection."""

    filters: dict[bytes, int] = field(default_factory=dict)
    queue: deque = field(default_factory=deque)  # (topic, payload), QoS 1
    in_flight: dict[int, tuple[bytes, bytes]] = field(default_factory=dict)
    next_id: int = 1
    connection: Connection | None = None


class Connection:
    """One client's connection: checks its packets against the limits."""

    def __init__(self, server: StrictServer, reader, writer) -> None:
        self._server, self._limits = server, server.limits
        self._reader, self._writer = reader, writer
        self._data = b""
        self._unacknowledged = 0
        self.session = Session()
        self.client_id = b""
        self._will = None

    async def serve(self) -> None:
        try:
            await self._serve()
        except Refused as reason:
            self._server.violations.append(f"{self.client_id.decode()}: {reason}")
        except (Malformed, OSError, asyncio.IncompleteReadError) as fault:
            if isinstance(fault, Malformed) and not self._is_question():
                self._server.violations.append(f"{self.client_id.decode()}: {fault}")
        finally:
            self.close()
            if self.session.connection is self:
                self.session.connection = None
            if self._will:
                self._server.route(self._will[0], self._will[1], self._will[2], False)

    def _is_question(self) -> bool:
        """Whether a client that was cut off without a word looks what is here, before it has said
        CONNECT: TLS, HTTP, or MQTT 5.0. The latter is answered (3.1.2.2): unacceptable level."""
        is_5 = self._data[2:9] == b"\x00\x04MQTT\x05"
        if is_5:
            self.send(encode("CONNACK", code=1))
        return not self.client_id and (is_5 or self._data[:1] in (b"\x16", b"G"))

    def close(self) -> None:
        self._writer.transport.abort()

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    async def _serve(self) -> None:
        kind, fields = await self._packet()
        if kind != "CONNECT":
            raise Refused(f"{kind} before CONNECT")
        self._connect(fields)
        self._pump()
        while True:
            kind, fields = await self._packet()
            if kind == "DISCONNECT":
                self._will = None
                return
            getattr(self, f"_on_{kind.lower()}")(fields)
            self._pump()

    async def _packet(self):
        while True:
            step = decode(self._data)
            if step is not None:
                self._data = step[2]
                return step[:2]
            data = await self._reader.read(65536)
            if not data:
                raise OSError("closed")
            self._data += data

    def _connect(self, fields) -> None:
        limits, server = self._limits, self._server
        self.client_id = fields["client_id"]
        if limits.keep_alive_s and not 0 < fields["keep_alive"] <= limits.keep_alive_s:
            raise Refused(f"keep alive {fields['keep_alive']}")
        if fields["will"]:
            topic, payload, qos, retain = fields["will"]
            self._check(topic, payload, qos, retain)
            self._will = topic, payload, qos
        old = server.sessions.get(self.client_id)
        if old and old.connection:
            old.connection.close()
        is_present = old is not None and not fields["clean"]
        self.session = old if is_present else Session()
        server.sessions[self.client_id] = self.session
        self.session.connection = self
        server.connects += 1
        self.send(encode("CONNACK", session_present=int(is_present)))
        for packet_id, (topic, payload) in self.session.in_flight.items():
            more = {"packet_id": packet_id, "dup": True}
            self.send(encode("PUBLISH", topic=topic, payload=payload, qos=1, **more))

    def _check(self, topic: bytes, payload: bytes, qos: int, retain: bool) -> None:
        limits = self._limits
        if retain and not limits.retain:
            raise Refused("RETAIN")
        if qos > limits.qos:
            raise Refused(f"QoS {qos}")
        if limits.payload_bytes and len(payload) > limits.payload_bytes:
            raise Refused(f"{len(payload)} bytes")
        self._check_slashes(topic)

    def _check_slashes(self, topic: bytes) -> None:
        if self._limits.slashes and topic.count(b"/") > self._limits.slashes:
            raise Refused(f"{topic.count(b'/')} slashes")

    # --- Packets ---

    def _on_publish(self, fields) -> None:
        topic, payload, qos = fields["topic"], fields["payload"], fields["qos"]
        self._check(topic, payload, qos, fields["retain"])
        if qos:
            self._unacknowledged += 1
            if self._limits.unacknowledged and self._unacknowledged > self._limits.unacknowledged:
                raise Refused(f"{self._unacknowledged} unacknowledged")
            loop = asyncio.get_running_loop()
            loop.call_later(_ACKNOWLEDGED_AFTER_S, self._acknowledge, fields["packet_id"])
        self._server.route(topic, payload, qos, fields["retain"])

    def _acknowledge(self, packet_id: int) -> None:
        self._unacknowledged -= 1
        self.send(encode("PUBACK", packet_id=packet_id))

    def _on_puback(self, fields) -> None:
        self.session.in_flight.pop(fields["packet_id"], None)

    def _on_subscribe(self, fields) -> None:
        filters = fields["filters"]
        if self._limits.filters and len(filters) > self._limits.filters:
            raise Refused(f"{len(filters)} filters in one SUBSCRIBE")
        codes = []
        for topic_filter, qos in filters:
            is_shared = topic_filter.startswith(b"$share/")
            if qos > self._limits.qos or (is_shared and not self._limits.shares):
                raise Refused(f"SUBSCRIBE {topic_filter.decode()} with QoS {qos}")
            self._check_slashes(topic_filter.split(b"/", 2)[2] if is_shared else topic_filter)
            self.session.filters[topic_filter] = qos
            codes.append(qos)
        self.send(encode("SUBACK", packet_id=fields["packet_id"], codes=codes))
        for topic, payload in self._server.retained.items():
            if any(matches(topic_filter, topic) for topic_filter, _ in filters):
                self.send(encode("PUBLISH", topic=topic, payload=payload, retain=True))

    def _on_unsubscribe(self, fields) -> None:
        for topic_filter in fields["filters"]:
            self.session.filters.pop(topic_filter, None)
        self.send(encode("UNSUBACK", packet_id=fields["packet_id"]))

    def _on_pingreq(self, _fields) -> None:
        self.send(encode("PINGRESP"))

    # --- Delivery ---

    def _pump(self) -> None:
        self._server.pump(self.session)


class StrictServer:
    """tls: a context with the server's certificate, for profiles with `tls_name` or `alpn`."""

    def __init__(self, limits: Limits, *, tls: ssl.SSLContext | None = None, seed: int = 1) -> None:
        self.limits = limits
        self.violations: list[str] = []
        self.names: list[str | None] = []  # SNI of each connection
        self.sessions: dict[bytes, Session] = {}
        self.retained: dict[bytes, bytes] = {}
        self.connects = self.port = 0
        self._tls, self._rng = tls, random.Random(seed)
        self._shared_turn = 0
        self._connections: set[Connection] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> StrictServer:
        if self._tls is not None:
            self._tls.sni_callback = self._on_name
            if self.limits.alpn:
                self._tls.set_alpn_protocols([self.limits.alpn])
        self._thread.start()
        self._listener = self._call(
            asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=self._tls)
        )
        self.port = self._listener.sockets[0].getsockname()[1]
        return self

    def __exit__(self, *_: object) -> None:
        # In the loop's thread: a connection that ends meanwhile closes the listener, too.
        self._loop.call_soon_threadsafe(self._listener.close)
        self.cut()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _call(self, work):
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    def cut(self, client_id: bytes | None = None) -> None:
        """End all connections, or those of one client."""

        async def cut() -> None:
            for one in list(self._connections):
                if client_id in (None, one.client_id):
                    one.close()

        self._call(cut())

    def lose_sessions(self) -> None:
        """Act as a server that restarts without its state."""

        async def lose() -> None:
            self.sessions.clear()
            self.retained.clear()

        self._call(lose())
        self.cut()

    def _on_name(self, _socket, name, _context) -> None:
        self.names.append(name)
        is_other = self.limits.tls_name not in ("", name)
        return ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME if is_other else None

    async def _accept(self, reader, writer) -> None:
        secure = writer.get_extra_info("ssl_object")
        if secure is not None and self._tls_fault(secure):
            self.violations.append(self._tls_fault(secure))
            writer.transport.abort()
            return
        one = Connection(self, reader, writer)
        self._connections.add(one)
        try:
            await one.serve()
        finally:
            self._connections.discard(one)

    def _tls_fault(self, secure: ssl.SSLObject) -> str:
        if self.limits.tls_name and not self.names:  # the callback runs for each name that is sent
            return "no SNI"
        if self.limits.alpn and secure.selected_alpn_protocol() != self.limits.alpn:
            return "no ALPN"
        return ""

    def route(self, topic: bytes, payload: bytes, qos: int, retain: bool) -> None:
        if retain:
            self.retained.pop(topic, None)
            if payload:
                self.retained[topic] = payload
        groups: dict[bytes, list[tuple[Session, int]]] = {}
        for group, session, most in self._subscribed(topic):
            if group:
                groups.setdefault(group, []).append((session, most))
            else:
                self._deliver(session, topic, payload, min(qos, most))
        for members in groups.values():
            self._shared_turn += 1
            session, most = members[self._shared_turn % len(members)]
            self._deliver(session, topic, payload, min(qos, most))

    def _subscribed(self, topic: bytes):
        """Yields (group of a shared subscription or empty, session, QoS) for each matching
        filter."""
        for session in self.sessions.values():
            for topic_filter, most in session.filters.items():
                group = b""
                if topic_filter.startswith(b"$share/"):
                    _, group, topic_filter = topic_filter.split(b"/", 2)
                if matches(topic_filter, topic):
                    yield group, session, most

    def _deliver(self, session: Session, topic: bytes, payload: bytes, qos: int) -> None:
        if qos:
            session.queue.append((topic, payload))
            if not self.limits.in_order and len(session.queue) > 1 and self._rng.random() < 0.3:
                session.queue.rotate(1)
            self.pump(session)
        elif session.connection:
            session.connection.send(encode("PUBLISH", topic=topic, payload=payload))

    def pump(self, session: Session) -> None:
        """Send what the window has room for."""
        most = self.limits.unacknowledged or 1000
        while session.connection and session.queue and len(session.in_flight) < most:
            topic, payload = session.queue.popleft()
            packet_id = session.next_id
            session.next_id = packet_id % 65535 + 1
            session.in_flight[packet_id] = (topic, payload)
            data = encode("PUBLISH", topic=topic, payload=payload, qos=1, packet_id=packet_id)
            session.connection.send(data)
