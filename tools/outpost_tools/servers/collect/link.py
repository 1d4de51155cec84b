"""The collector's MQTT connection: receive messages, acknowledge them, publish.

It subscribes to `<prefix>/+/data`, on a shared subscription when `share` names a group. Then it
also subscribes to what the group's other collectors say (see exchange.py), with QoS 0, because a
queue of old statements would help nobody. With `foreign` it also subscribes to the topics of other
senders, whose messages become frames without a key (see foreign.py).
"""

from __future__ import annotations

import array
import fcntl
import re
import ssl
import termios
import time
from typing import Any, ClassVar

import paho.mqtt.client as mqtt

from outpost_tools.log.segments import MAX_PAYLOAD_BYTES, encode_frame
from outpost_tools.messages.message import device_in, key_in
from outpost_tools.mqtt import causes, refusals
from outpost_tools.mqtt.connection import CONNACK_TIMEOUT_S, Connection, Limits
from outpost_tools.mqtt.packets import DUP, RETAIN, Publish
from outpost_tools.servers.collect.batch import Batch, Entry
from outpost_tools.servers.collect.clock import CollectorClock
from outpost_tools.servers.collect.foreign import Foreign
from outpost_tools.servers.collect.oddities import Oddities

# One batch, one fsync. A batch ends when the socket is empty, or with the read that reaches one of
# these.
BATCH = Limits(messages=4000, seconds=0.1, bytes=4 << 20)
_NAMES_REMEMBERED = 100_000


class Link(Connection):
    """Connects by itself, with backoff, whenever take() finds no connection."""

    receive_maximum = BATCH.messages
    limit_hints: ClassVar[dict[str, str]] = {
        "retain": "For confirmations: start the collector with `--confirmation queued`, and give "
        'the boards the setting confirmation = "queued"',
    }
    refused = 0  # filters that this user may not subscribe to
    _left: set[int | None] = set()  # packet identifiers of UNSUBSCRIBEs without an answer
    # set at each connection; the loop clears it when it has confirmed everything again
    fresh = False

    def __init__(
        self, host: str, port: int, client_id: str, prefix: str, *,
        credentials: tuple[str, str | None] | None = None,
        tls: ssl.SSLContext | None = None,
        share: str | None = None,
        retiring: bool = False,
        is_queued: bool = False,
        had_session: bool = False,
        version: int = mqtt.MQTTv311,
        clock: CollectorClock | None = None,
        foreign: Foreign | None = None,
    ) -> None:  # fmt: skip
        """clock: None: trusted. foreign: None: only our boards' messages. share: the group of a
        shared subscription. retiring: unsubscribe, and take what the broker still holds. is_queued:
        publish with QoS 1, not retained. version: with MQTTv5, the broker rather than the kernel
        keeps what we do not take (receive maximum), and messages show their properties.
        """
        super().__init__(
            (host, port), client_id, BATCH, credentials=credentials, tls=tls,
            had_session=had_session and not retiring, version=version,
        )  # fmt: skip
        self.level_hint = "leave --level 5 out" if version == mqtt.MQTTv5 else "try --level 5"
        self.oddities = Oddities(prefix, client_id)
        self._client.on_properties = self.oddities.add
        self._share = f"$share/{share}/" if share else ""
        self._filter = f"{self._share}{prefix}/+/data"
        self._ours = re.compile(re.escape(prefix.encode()) + rb"/[^/]*/data\Z")
        self.clock = clock
        self._foreign = foreign
        self._devices: dict[bytes, str] = {}  # topic -> device, "" for names no board can have
        self._batch = Batch(0)
        # the topics of the group's statements
        self._table = f"{prefix}/collectors/{share}/" if share else None
        self._statements: list[tuple[str, bytes]] = []
        self._credentials, self._tls = credentials, tls
        self._asked: dict[int, str] = {}  # SUBSCRIBE: packet identifier -> filter
        self._retiring, self._is_queued = retiring, is_queued
        self._unacknowledged: set[int] = set()  # ids of those published with QoS 1
        self._client.on_publish = self._on_publish
        self._client.on_unsubscribe = self._on_unsubscribe

    def set_farewell(self, statement: bytes) -> None:
        """The statement that the broker publishes to the group when our connection breaks. Call
        this before the first take()."""
        self.set_will(f"{self._table}{self._client_id}", statement)

    def take_statements(self) -> list[tuple[str, bytes]]:
        """(collector, statement) of each statement of the group, also our own, in order."""
        statements, self._statements = self._statements, []
        return statements

    def state(self, statement: bytes) -> None:
        """Publish it to the group. QoS 0: statements are numbered; a collector that misses one
        asks for it."""
        self._client.publish(f"{self._table}{self._client_id}", statement)

    @property
    def unread_bytes(self) -> int:
        """Bytes that the kernel holds for us; 0 without a connection."""
        socket = self._client.socket()
        if socket is None:
            return 0
        count = array.array("i", [0])
        fcntl.ioctl(socket.fileno(), termios.FIONREAD, count)
        return count[0]

    def give_up_session(self) -> bool:
        """After close(): replace our session with a clean one, so that the broker keeps nothing for
        us. False, after printing the reason, when the broker does not accept it in time."""
        client = mqtt.Client(
            mqtt.CallbackAPIVersion.VERSION2,
            client_id=self._client_id,
            clean_session=None if self._version == mqtt.MQTTv5 else True,
            protocol=self._version,  # without an expiry, MQTT 5 ends it with the connection
        )
        if self._credentials is not None:
            client.username_pw_set(*self._credentials)
        if self._tls is not None:
            client.tls_set_context(self._tls)
        reason = _answer(client, self._place)
        if reason:
            self._say(f"the session is still there: {reason}; repeat --retire")
        return not reason

    def take(self, wait_s: float) -> Batch:
        """Return what has arrived, after at most `wait_s` (or one connection attempt); empty when
        nothing has."""
        self._batch = Batch(self._connection)
        self._serve(wait_s)
        return self._batch

    def ack(self, batch: Batch) -> None:
        """Send PUBACK if the batch came on this connection; on another one the broker retransmits
        it."""
        if self.connected and batch.connection == self._connection:
            self._client.ack_all(batch.packet_ids)

    def publish(self, messages: list[tuple[str, bytes]], *, retain: bool = True) -> None:
        """Publish (topic, payload) pairs. Only while connected.

        QoS 0, without an answer for each: messages are lost only with the connection, and after
        each new one everything is published again (`fresh`). Queued: QoS 1, never retained, 20 in
        flight, and what the broker has not acknowledged is retransmitted on the next connection;
        paho does both.
        """
        if not self._is_queued:
            pairs = [(topic.encode(), payload) for topic, payload in messages]
            self._client.publish_all(pairs, retain=retain)
            return
        for topic, payload in messages:
            sent = self._client.publish(topic, payload, qos=1)
            if self._client.server.maximum_qos and sent.rc != mqtt.MQTT_ERR_PAYLOAD_SIZE:
                self._unacknowledged.add(sent.mid)

    def _on_publish(self, _client, _userdata, mid, _reason, _properties) -> None:
        self._unacknowledged.discard(mid)

    @property
    def everything_written(self) -> bool:
        """True when nothing waits for the socket or for an acknowledgement."""
        return not self._client.want_write() and not self._unacknowledged

    def _subscribe(self, client: mqtt.Client) -> None:
        self.fresh = True
        self._asked.clear()
        if self._retiring:
            client.unsubscribe(self._filter)
        else:
            self._ask(client, self._filter, 1)
        if self._foreign is not None:
            self._subscribe_foreign(client, self._foreign)
        if self._table is not None:
            self._ask(client, self._table + "+", 0)

    def _subscribe_foreign(self, client: mqtt.Client, foreign: Foreign) -> None:
        wanted = [] if self._retiring else foreign.filters
        left = [*foreign.left, *(foreign.filters if self._retiring else [])]
        foreign.note([*wanted, *left])
        self._left = {client.unsubscribe(self._share + name)[1] for name in left}
        for name in wanted:
            self._ask(client, self._share + name, 1)

    def _on_unsubscribe(self, _client, _userdata, mid, _reasons, _properties) -> None:
        self._left.discard(mid)
        if self._foreign is not None and not self._left:
            self._foreign.note([] if self._retiring else self._foreign.filters)

    def _accepted(self, client: mqtt.Client, flags: Any) -> None:
        if self._foreign is not None and not flags.session_present:
            self._foreign.forget()
        super()._accepted(client, flags)

    def _ask(self, client: mqtt.Client, name: str, qos: int) -> None:
        packet_id = client.subscribe(name, qos=qos)[1]
        if packet_id is None:  # the broker does not allow it, which is said
            self.refused += 1
        else:
            self._asked[packet_id] = name

    def _on_subscribe(self, _client, _userdata, packet_id, reasons, _properties) -> None:
        name = self._asked.pop(packet_id, self._filter)
        if not any(reason.is_failure for reason in reasons):
            self._say(f"subscribed to {name}")
            if name.startswith(self._table or "\0"):
                return
            if not any(reason.value for reason in reasons):
                self._say(
                    f"grants QoS 0 alone for {name} (mosquitto: max_qos): a message is lost if the "
                    "connection breaks, unless its board is in collector mode. Allow QoS 1 there"
                )
            return
        self.refused += 1
        user = f"user {self._credentials[0]!r}" if self._credentials else "a client without --user"
        is_statement = name.startswith(self._table or "\0")
        what = "no statement will come" if is_statement else "no message will come from there"
        what = "no message will come" if name == self._filter else what
        self._say(
            f"refused to let us subscribe to {name}: {user} may not read it, so {what}. Grant it, "
            "or use credentials of `outpost broker add DIR --collector NAME`"
        )

    def _read(self) -> None:
        batch, until = self._batch, time.monotonic() + BATCH.seconds
        while (
            len(batch.frames) < BATCH.messages
            and batch.frame_bytes < BATCH.bytes
            and time.monotonic() < until
        ):
            publishes = self._client.read_publishes()
            if publishes is None:
                return
            if batch.connection != self._connection:  # the first packet was CONNACK
                batch.connection = self._connection
            self._add(publishes)
            self._add_notes()

    def _add(self, publishes: list[Publish]) -> None:
        """Add to the batch. The work here for each message is half of the collector's time."""
        if self.clock is not None:
            self.clock.hear(self._of_boards(publishes))
        batch, devices, unset = self._batch, self._devices, self._is_clock_unset
        now_ms = time.time_ns() // 1_000_000
        for kind, topic, packet_id, payload in publishes:
            device = devices.get(topic)
            if device is None:
                device = self._device_of(topic)
            if packet_id:
                batch.packet_ids.append(packet_id)
            if device is None and not self._is_foreign(kind, topic, packet_id, payload, now_ms):
                self._hear(kind, topic, payload)
                continue
            retain = kind & RETAIN
            frame = encode_frame(
                now_ms, topic, payload, retain=retain, dup=kind & DUP, clock_unset=unset
            )
            batch.frames.append(frame)
            batch.frame_bytes += len(frame)
            # as in log.frame_key()
            if device and not retain and len(payload) <= MAX_PAYLOAD_BYTES:
                key = key_in(device, payload)
                if key is not None:
                    batch.keys.append(key)

    def _of_boards(self, publishes: list[Publish]) -> list[Publish]:
        if self._foreign is None:
            return publishes
        return [one for one in publishes if self._ours.match(one[1])]

    @property
    def foreign_dropped(self) -> dict[str, int]:
        """How many of other senders' messages were not stored, by why."""
        found = self._foreign
        return {} if found is None else {"copy": found.copies, "imitation": found.imitations}

    def _is_foreign(
        self, kind: int, topic: bytes, packet_id: bytes, payload: bytes, now_ms: int
    ) -> bool:
        """Whether to store it as another sender's message; remembers it in the batch."""
        foreign = self._foreign
        if foreign is None or not foreign.takes(topic):
            return False
        found = foreign.take(kind, topic, packet_id, payload)
        if found:
            entry = Entry(len(self._batch.frames), packet_id, found, now_ms)
            self._batch.foreign.append(entry)
        return found is not None

    @property
    def _is_clock_unset(self) -> bool:
        return self.clock is not None and self.clock.is_unset

    def _add_notes(self) -> None:
        """Append the notes after the messages that they are about."""
        for topic, data in self.oddities.take():
            now_ms, unset = time.time_ns() // 1_000_000, self._is_clock_unset
            frame = encode_frame(now_ms, topic, data, clock_unset=unset)
            self._batch.frames.append(frame)
            self._batch.frame_bytes += len(frame)

    def _device_of(self, topic: bytes) -> str | None:
        """Remember the device; None when the topic is not one that we subscribed to for boards."""
        if not self._ours.match(topic):
            return None
        if len(self._devices) >= _NAMES_REMEMBERED:
            self._devices.clear()
        device = self._devices[topic] = device_in(topic) or ""
        return device

    def _hear(self, kind: int, topic: bytes, payload: bytes) -> None:
        """Handle what does not come from a board: a statement of the group, or nothing.

        amqtt sends a resumed session the retained messages of all topics: our own confirmations.
        """
        if self._table is not None and topic.startswith(self._table.encode()) and not kind & RETAIN:
            collector = topic[len(self._table) :].decode("utf-8", "replace")
            self._statements.append((collector, payload))

    def _on_message(self, _client: mqtt.Client, _userdata, message: mqtt.MQTTMessage) -> None:
        """QoS 2, which nobody asked for: stored, and not acknowledged."""
        kind = (DUP if message.dup else 0) | (RETAIN if message.retain else 0)
        self._add([(kind, message._topic, b"", message.payload)])


def _answer(client: mqtt.Client, place: causes.Place) -> str:
    """Connect and disconnect; "" when the broker accepted it. Bounded, unlike loop_forever()."""
    answers = []
    client.on_connect = lambda _client, _data, _flags, code, _properties: answers.append(code)
    until = time.monotonic() + CONNACK_TIMEOUT_S
    try:
        client.connect(*place.address, keepalive=refusals.SHORT_KEEP_ALIVE_S)
        while not answers and time.monotonic() < until:
            if client.loop(0.2) != mqtt.MQTT_ERR_SUCCESS and not answers:
                return causes.of_end(place) or "the connection was lost"
    except OSError as error:
        return causes.of_error(error, place)
    client.disconnect()
    if not answers:
        return "no answer"
    return f"refused: {refusals.why(answers[0])}" if answers[0].is_failure else ""
