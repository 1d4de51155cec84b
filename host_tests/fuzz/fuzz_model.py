"""The expected effect of bytes from a server, by the standard and the firmware's documented
choices, without a line of the firmware.

The model parses both directions on its own: byte by byte what the client has consumed, and packet
by packet what it starts to send. Each action of the client (a call of the handler, a released
message, an acknowledgement, a closed connection) must be the one that the model expects at that
byte, and what the model expects must happen.
"""

from __future__ import annotations

from typing import Any

from fuzz_facts import (
    ARRIVED,
    CONNECTED,
    CONNECTING,
    PROTOCOL_ERROR,
    REFUSED,
    STORAGE,
    TOO_MANY,
    BadLength,
    Connection,
    Message,
    Violation,
    decode,
    id_of,
    next_packet,
    require,
    well_formed,
)  # fmt: skip
from scripted_server import Malformed

_ACKS = {"PUBACK": 0x40, "PUBREC": 0x50, "PUBCOMP": 0x70}


class Model:
    """mode: "subscriber", "streamer", "durable", "exactly_once". rx_bytes, window: as given to the
    client.
    """

    def __init__(
        self, mode: str, window: int, rx_bytes: int, word_topic: bytes, stream: bytes, spare: Any
    ) -> None:
        self.mode, self.window, self.rx_bytes = mode, window, rx_bytes
        self.word_topic, self.stream = word_topic, stream
        self.qos_2 = mode == "exactly_once"
        self.collector = mode == "durable"
        self.messages: dict[int, Message] = {}  # accepted, not released
        self.connection: Connection | None = None
        self.arrived: set[int] = set()
        self.noted: set[int] = set()
        # what had arrived when the server lost the session: it may still be in the note
        self.stale: set[int] = set()
        self.noted_released: set[int] = set()
        self.through = -1  # the collector's highest confirmation
        self.next_seq = 0
        self.zero: bytes | None = None  # the packet of QoS 0 that must be sent
        self.pieces: list[list[Any]] = []  # [topic, length of the payload, what came, failed]
        self.raises = False  # what the handler does
        self.connect_packet = b""
        self.now_ms = 0
        self._spare = spare

    # --- From the server ---

    def sync(self, data: bytearray, consumed: int) -> None:
        """The client has taken data[:consumed]."""
        one = self.connection
        while one and not one.error and one.parsed < consumed:
            try:
                packet = next_packet(data, one.parsed, consumed)
            except BadLength:
                one.error = PROTOCOL_ERROR
                return
            if packet is None or packet[1] + packet[2] > consumed:
                return
            first, at, length = packet
            one.parsed = at + length
            if one.call or one.acked or one.saving:
                self.nothing_is_left("before the next packet")
            require(one.answer is None, "a packet taken while %s was owed", one.answer)
            self._spare(first ^ one.state << 8 ^ (length == 2) << 10 ^ bool(one.flight) << 9)
            one.error = self._packet(first, bytes(data[at : at + length]))

    def nothing_is_left(self, when: str) -> None:
        one = self.connection
        assert one
        require(one.call is None, "%s: the handler was not called for %r", when, one.call)
        require(one.acked is None, "%s: not reported as acknowledged: %r", when, one.acked)
        require(one.saving is None, "%s: not noted: %r", when, one.saving)

    def _packet(self, first: int, body: bytes) -> int:
        """Returns the error in which the packet must end, or 0."""
        one = self.connection
        assert one
        if one.state == CONNECTING:
            return self._connack(first, body)
        if first >> 4 == 3:
            return self._publish(first, body)
        if first == 0xD0 and not body:
            one.ping_ms = -1
            return 0
        if first in (0x90, 0xB0):
            return self._answer_to_request(first, body)
        if len(body) != 2:
            return PROTOCOL_ERROR
        return self._acknowledgement(first, body[0] * 256 + body[1])

    def _connack(self, first: int, body: bytes) -> int:
        one = self.connection
        assert one
        if first != 0x20 or len(body) != 2 or body[0] > 1:
            return PROTOCOL_ERROR
        if body[1]:
            return REFUSED
        one.state = CONNECTED
        if not body[0]:
            self.stale = set(self.arrived)
            self.arrived.clear()
            for message in self.messages.values():
                message.released = False
        return 0

    def _publish(self, first: int, body: bytes) -> int:
        qos = first // 2 % 4
        if len(body) < 3:
            return PROTOCOL_ERROR
        end = 2 + body[0] * 256 + body[1]
        at = end + (2 if qos else 0)
        if qos > 2 or (first & 8 and not qos) or end == 2 or at > len(body):
            return PROTOCOL_ERROR
        packet_id = body[end] * 256 + body[end + 1] if qos else -1
        if not packet_id:
            return PROTOCOL_ERROR
        if at <= self.rx_bytes and not well_formed(body[2:end]):
            return PROTOCOL_ERROR  # a topic that the buffer does not hold is not checked
        return self._message(first, packet_id, body[2:end], body[at:], len(body) > self.rx_bytes)

    def _message(
        self, first: int, packet_id: int, topic: bytes, payload: bytes, too_long: bool
    ) -> int:
        one = self.connection
        assert one
        qos = first // 2 % 4
        if qos == 2 and not self.qos_2:
            one.answer = "PUBREC", packet_id
        elif qos == 2:
            if packet_id in self.arrived:
                one.answer = "PUBREC", packet_id
                return 0
            if len(self.arrived) == ARRIVED or (one.passed_over and not first & 8):
                one.passed_over = True
                return 0
            one.saving = packet_id, True
        elif qos:
            one.answer = "PUBACK", packet_id
        if too_long:
            self._long_message(topic, payload, qos)
        elif self.collector and topic == self.word_topic:
            self._word(payload)
        else:
            one.call = first, topic, payload
        return 0

    def _long_message(self, topic: bytes, payload: bytes, qos: int) -> None:
        if self.mode != "streamer" or 2 + len(topic) + 2 * bool(qos) > self.rx_bytes:
            return
        require(self.pieces, "a long message was not handed over")
        its_topic, length, data, failed = self.pieces.pop(0)
        require(
            (its_topic, length) == (topic, len(payload)),
            "handed over: %r of %d bytes",
            its_topic,
            length,
        )
        require(payload.startswith(bytes(data)), "handed over in pieces: %r of %r", data, payload)
        if not failed:
            require(len(data) == length, "handed over: %d bytes of %d", len(data), length)

    def _word(self, payload: bytes) -> None:
        stream, space, number = payload[:8], payload[8:9], payload[9:]
        if (
            stream == self.stream
            and space == b" "
            and 1 <= len(number) <= 10
            and number.isdigit()
            and int(number) < self.next_seq
        ):
            self.through = max(self.through, int(number))

    def _answer_to_request(self, first: int, body: bytes) -> int:
        one = self.connection
        assert one
        asked, one.asked = one.asked, None
        if not asked or len(body) < 2 or body[0] * 256 + body[1] != asked[1]:
            return PROTOCOL_ERROR
        if asked[0] == "UNSUBSCRIBE":
            return 0 if first == 0xB0 and len(body) == 2 else PROTOCOL_ERROR
        if first != 0x90 or len(body) != 2 + asked[2] or set(body[2:]) - {0, 1, 2, 128}:
            return PROTOCOL_ERROR
        return 0

    def _acknowledgement(self, first: int, packet_id: int) -> int:
        one = self.connection
        assert one
        if first == 0x62:
            return self._pubrel(packet_id)
        if first != 0x40 and not (self.qos_2 and first in (0x50, 0x70)):
            return PROTOCOL_ERROR
        message = one.flight.get(packet_id)
        if not message or (first == 0x40 and packet_id == one.half_sent):
            return 0  # nothing awaits it yet
        two = self.qos_2 and message.qos == 2
        if first == 0x50 and two:
            message.released = True
            one.due.add(packet_id)
        elif (first == 0x40 and not two) or (
            first == 0x70 and message.released and packet_id not in one.due
        ):
            message.acked, message.released, message.written = True, False, False
            del one.flight[packet_id]
            one.due.discard(packet_id)
            one.acked = message
        return 0

    def _pubrel(self, packet_id: int) -> int:
        one = self.connection
        assert one
        if not packet_id:
            return PROTOCOL_ERROR
        if packet_id in self.arrived:
            one.saving = packet_id, False
        else:
            one.answer = "PUBCOMP", packet_id
        return 0

    # --- What the client does ---

    def called(self, first: int, topic: bytes, payload: bytes) -> None:
        one = self.connection
        require(
            one and one.call == (first, topic, payload),
            "handler called with %r, expected %r",
            (first, topic, payload),
            one and one.call,
        )
        assert one
        one.call = None

    def freed(self, seq: int) -> None:
        one = self.connection
        require(
            one and one.acked and one.acked.seq == seq,
            "message %d freed, acknowledged: %r",
            seq,
            one and one.acked,
        )
        self.messages.pop(seq, None)

    def freed_through(self, seq: int) -> None:
        require(seq <= self.through, "freed through %d, the collector said %d", seq, self.through)
        for message in (self.connection.flight if self.connection else {}).values():
            require(message.seq > seq, "message %d freed while its exchange is open", message.seq)
        for gone in [held for held in self.messages if held <= seq]:
            del self.messages[gone]

    def reported(self, seq: int) -> None:
        one = self.connection
        require(
            one and one.acked and one.acked.seq == seq,
            "message %d reported, acknowledged: %r",
            seq,
            one and one.acked,
        )
        assert one
        require(
            self.collector or seq not in self.messages, "message %d reported but not freed", seq
        )
        one.acked = None

    def note_saved(self, note: bytes, ok: bool) -> None:
        """note: as `exactly_once.py` documents it."""
        one = self.connection
        saving = one.saving if one else None
        if one:
            one.saving = None
        if not ok:
            if one and saving:
                one.error = STORAGE
            return
        if one and saving:
            (self.arrived.add if saving[1] else self.arrived.discard)(saving[0])
            one.answer = ("PUBREC" if saving[1] else "PUBCOMP"), saving[0]
            if one.passed_over and not self.arrived:
                one.error, one.answer = TOO_MANY, None
        self.take_note(note)
        require(
            self.noted in (self.arrived, self.stale),
            "noted %r, arrived %r",
            self.noted,
            self.arrived,
        )

    def take_note(self, note: bytes) -> None:
        numbers = [note[at] * 256 + note[at + 1] for at in range(0, len(note), 2)]
        base, bits = numbers[0] * 65_536 + numbers[1], numbers[2]
        self.noted = set(numbers[3:])
        self.noted_released = {seq for seq in range(base, base + 16) if bits >> seq % 16 & 1}

    # --- To the server ---

    def started(self, data: bytes) -> None:
        """Check all bytes of this connection that were written or wait in the client to be
        written."""
        one = self.connection
        assert one
        require(
            data.startswith(one.started),
            "what was to be written has changed: %r, now %r",
            bytes(one.started),
            data,
        )
        rest = data[len(one.started) :]
        while rest:
            try:
                step = decode(rest)
            except Malformed as error:
                raise Violation(f"malformed packet written: {error}: {rest.hex()}") from error
            require(step, "a piece of a packet: %r", rest)
            assert step
            whole = rest[: len(rest) - len(step[2])]
            one.started += whole
            one.packets += 1
            self._sent(step[0], step[1], whole)
            rest = step[2]

    def _sent(self, kind: str, fields: dict[str, Any], whole: bytes) -> None:
        one = self.connection
        assert one
        if kind == "CONNECT":
            require(one.packets == 1 and whole == self.connect_packet, "CONNECT %r", whole)
            return
        is_early = kind == "DISCONNECT" and one.state == CONNECTING  # before CONNACK: 3.1.4
        require(
            (one.state == CONNECTED or is_early) and not one.error,
            "%s in state %d, error %d",
            kind,
            one.state,
            one.error,
        )
        is_numbered = kind == "PUBLISH" and fields["qos"]
        one.last_publish_id = fields["packet_id"] if is_numbered else 0
        if kind == "PUBLISH":
            self._sent_publish(fields, whole)
        elif kind in _ACKS:
            self._sent_answer(kind, fields["packet_id"])
        elif kind == "PUBREL":
            self._sent_pubrel(fields["packet_id"])
        elif kind == "PINGREQ":
            one.ping_ms = self.now_ms
        else:
            require(kind in ("SUBSCRIBE", "UNSUBSCRIBE", "DISCONNECT"), "a client sent %s", kind)
            if kind != "DISCONNECT":
                require(
                    not one.asked and fields["packet_id"] not in one.flight, "%s %r", kind, fields
                )
                one.asked = kind, fields["packet_id"], len(fields["filters"])

    def _sent_answer(self, kind: str, packet_id: int) -> None:
        one = self.connection
        assert one
        require(
            one.answer == (kind, packet_id), "%s %d sent, owed: %r", kind, packet_id, one.answer
        )
        one.answer = None
        if not self.qos_2:
            return
        if kind == "PUBREC":
            require(packet_id in self.noted, "PUBREC %d before the note", packet_id)
        elif kind == "PUBCOMP":
            require(packet_id not in self.noted, "PUBCOMP %d while noted", packet_id)

    def _sent_pubrel(self, packet_id: int) -> None:
        one = self.connection
        assert one
        if packet_id in one.due:
            one.due.discard(packet_id)
            message = one.flight[packet_id]
        else:
            found = [
                m
                for m in self.messages.values()
                if id_of(m.seq) == packet_id and m.released and m.seq > one.last_seq
            ]
            require(found and packet_id not in one.flight, "PUBREL %d for nothing", packet_id)
            message = found[0]
            self._in_its_turn(message)
        require(message.seq in self.noted_released, "PUBREL %d before the note", packet_id)

    def _in_its_turn(self, message: Message) -> None:
        one = self.connection
        assert one
        require(
            message.seq > one.last_seq or (self.collector and not one.flight),
            "message %d after %d",
            message.seq,
            one.last_seq,
        )
        one.last_seq = message.seq
        one.flight[id_of(message.seq)] = message
        spread = message.seq - min(m.seq for m in one.flight.values())
        require(
            len(one.flight) <= self.window and spread < self.window, "%d in flight", len(one.flight)
        )

    def _sent_publish(self, fields: dict[str, Any], whole: bytes) -> None:
        one = self.connection
        assert one
        if not fields["qos"]:
            require(whole == self.zero, "QoS 0: %r instead of %r", whole, self.zero)
            self.zero = None
            return
        seq = int(fields["payload"][:10])
        message = self.messages.get(seq)
        require(message, "message %d published, not held", seq)
        assert message
        now = (
            fields["topic"],
            fields["payload"],
            fields["qos"],
            fields["retain"],
            fields["packet_id"],
        )
        wanted = message.topic, message.payload, message.qos, message.retain, id_of(seq)
        require(now == wanted, "published %r instead of %r", now, wanted)
        require(not message.released, "message %d published after PUBREC", seq)
        require(
            not message.acked or self.collector,
            "message %d published after its acknowledgement",
            seq,
        )
        require(
            fields["packet_id"] not in one.flight, "identifier %d is in flight", fields["packet_id"]
        )
        require(fields["dup"] or not message.written, "message %d again, without DUP", seq)
        require(
            not fields["dup"] or message.loads > 1, "message %d for the first time, with DUP", seq
        )
        message.acked = False
        message.written = True
        self._in_its_turn(message)
