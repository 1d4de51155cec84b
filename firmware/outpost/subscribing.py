"""A session that receives: SUBSCRIBE and UNSUBSCRIBE with several filters, messages of QoS 0 and 1
to the application's handler.

A class of its own, so that boards that only publish do not pay. Must not know a stream or a clock.
Allocation: SUBSCRIBE and UNSUBSCRIBE; none for messages.

Its hooks, beside those of `session.py`, in their order:
    _on_publish(qos)  a PUBLISH, whole or its first bytes, is in `buffer`
    _on_message()     it is whole and well-formed; true: it is taken, so acknowledge it
    _on_too_long()    the buffer does not hold it; true: acknowledge it
    on_message(self)  the application's
"""

from micropython import const

from outpost import packets
from outpost.session import Session, packet_id_of

_OK = const(0)
_BUSY = const(-3)
_BAD_TOPIC = const(-6)
_BAD_QOS = const(-8)
_PROTOCOL_ERROR = const(-20)
_CONNECTED = const(2)
_UNANSWERED = const(-1)
_ANSWER_BYTES = const(4)
_HELD_ANSWERS = const(32)


def is_topic(buf, at, end):
    """True when buf[at:end] is a topic: well-formed UTF-8 without NUL, shortest forms, no
    surrogates, up to U+10FFFF (1.5.3), and no wildcard (3.3.2)."""
    more = least = code = 0
    while at < end:
        byte = buf[at]
        at += 1
        if more:
            code = code << 6 | byte ^ 0x80
            more -= 1
            is_wrong = code < least or 0xD800 <= code < 0xE000 or code > 0x10FFFF
            if byte & 0xC0 != 0x80 or (not more and is_wrong):
                return False
        elif byte > 127:
            more = (byte > 0xDF) + (byte > 0xEF) + 1
            least = 1 << 5 * more + 1
            code = byte & 0x3F >> more
            if byte < 0xC2 or byte > 0xF4:
                return False
        elif not byte or byte == 0x23 or byte == 0x2B:
            return False
    return not more


def encode_filters(packet_id, entries):
    """SUBSCRIBE of [(topic filter, QoS, ...)] (3.8), or UNSUBSCRIBE where the QoS is negative
    (3.10): all of one kind."""
    body = bytes((packet_id >> 8, packet_id & 255))
    qos = 0
    for topic_filter, qos, _ in entries:
        body += bytes((len(topic_filter) >> 8, len(topic_filter) & 255)) + topic_filter
        if qos >= 0:
            body += bytes((qos,))
    header = bytearray(5)
    end = packets.put_header(header, 0x82 if qos >= 0 else 0xA2, len(body))
    return bytes(header[:end]) + body


class SubscribingSession(Session):
    """rx_bytes: the longest message taken: topic, payload and 4 bytes. The other options: see
    Session.

    on_message: called with this session. `buffer`, `topic_length`, `payload_at` and
    `payload_length` tell the message (its topic begins at 2), `first` its DUP (8), QoS (6) and
    RETAIN (1) bits. A message that the handler raises on is counted and not acknowledged.

    filters: [topic filter, QoS, code] of each subscription; code 0..2: granted, 128: refused, -1:
    not yet answered.
    """

    def __init__(self, outbox, client_id, rx_bytes=256, in_flight_bytes=0, **options):
        options["rx_bytes"], options["in_flight_bytes"] = rx_bytes, in_flight_bytes
        Session.__init__(self, outbox, client_id, **options)
        self.filters = []
        self._is_request_due = False  # a filter awaits SUBSCRIBE or UNSUBSCRIBE
        self._requested = []  # the filters that await SUBACK or UNSUBACK
        self._request_id = 0  # and its packet identifier
        self.topic_length = self.payload_at = self.payload_length = 0  # of the PUBLISH in `buffer`
        # Answers that go out in one write. Where what is in flight is bounded, they wait here for
        # room while reading goes on, since what makes room comes after them.
        self._answers_end = 0  # bytes of them
        self._answers = bytearray(_ANSWER_BYTES * (_HELD_ANSWERS if in_flight_bytes else 1))
        self.on_message = None
        # Counters: messages taken; handlers that raised; filters that the server refused.
        self.received = self.handler_errors = self.refused = 0

    # --- Subscriptions ---

    def subscribe(self, topic_filter: bytes, qos: int = 0) -> int:
        """Subscribe: now, and again whenever the server has no session. OK, BAD_TOPIC, BAD_QOS, or
        BUSY while an earlier request awaits its answer; the entry in `filters` has the outcome.

        Allocates, as its packets do. Their identifier is the one farthest from those in flight.
        """
        if not topic_filter or b"\0" in topic_filter:
            return _BAD_TOPIC
        if qos > self.highest_qos:
            return _BAD_QOS
        if self._requested:
            return _BUSY
        self._is_request_due = self.owes = True
        self.check_ms = self.now_ms
        for entry in self.filters:
            if entry[0] == topic_filter:
                entry[1:] = (qos, _UNANSWERED)
                return _OK
        self.filters.append([topic_filter, qos, _UNANSWERED])
        return _OK

    def unsubscribe(self, topic_filter: bytes) -> int:
        """Its entry in `filters` goes when the server has answered. As subscribe()."""
        return self.subscribe(topic_filter, -1)

    def _on_connected(self):
        Session._on_connected(self)
        self._requested = []
        self._answers_end = 0
        self._is_request_due = True
        if not self.session_present:
            for entry in self.filters:
                entry[2] = _UNANSWERED

    def _on_tick(self):
        if self.state == _CONNECTED:
            if (self._answer or self._answers_end) and self._start_answers():
                return True
            if self._is_request_due and not self._requested and self._start_request():
                return True
        return Session._on_tick(self)

    def _start_answers(self):
        """PUBACK, PUBREC, PUBREL, PUBCOMP (3.4 to 3.7): all that wait go in one write, when there
        is room for them or no more can wait. True when they were started."""
        answers, end = self._answers, self._answers_end
        if self._answer:
            answers[end] = self._answer >> 16
            answers[end + 1] = 2
            self._answers_end = end = packets.put_u16(answers, end + 2, self._answer & 0xFFFF)
            self._answer = 0
        in_flight = self.in_flight
        if in_flight:
            in_flight.answers_wait = end < len(answers) and not in_flight.has_room(end)
            if in_flight.answers_wait:
                return False
        self._answers_end = 0
        self._start(answers, end)
        return True

    def _start_request(self):
        """SUBSCRIBE of all filters that await it, or UNSUBSCRIBE if the first of them is to go."""
        requested = self._requested
        for entry in self.filters:
            if entry[2] < 0 and (not requested or (entry[1] < 0) == (requested[0][1] < 0)):
                requested.append(entry)
        self._is_request_due = len(requested) > 0  # look again after the answer
        if requested:
            self._request_id = packet_id_of(self.base + 32767)
            packet = encode_filters(self._request_id, requested)
            self._start(packet, len(packet))
        return self._is_request_due

    def _on_packet(self, first):
        if first & 0xF0 == 0x30:
            return self._on_publish(first >> 1 & 3)
        return self._request_answered() if self.length > 1 else _PROTOCOL_ERROR

    def _request_answered(self):
        """SUBACK: a code for each filter (3.9); UNSUBACK: none (3.11)."""
        requested, buffer = self._requested, self.buffer
        if not requested or self.length > len(buffer):
            return _PROTOCOL_ERROR
        if packets.get_u16(buffer, 0) != self._request_id:
            return _PROTOCOL_ERROR
        self._requested = []
        if requested[0][1] < 0:
            return self._unsubscribed(requested)
        if self.first != 0x90 or self.length != 2 + len(requested):
            return _PROTOCOL_ERROR
        for i in range(len(requested)):
            code = buffer[2 + i]
            if code > 2 and code != 128:
                return _PROTOCOL_ERROR
            self.refused += code == 128
            requested[i][2] = code
        return _OK

    def _unsubscribed(self, requested):
        if self.first != 0xB0 or self.length != 2:
            return _PROTOCOL_ERROR
        for entry in requested:
            self.filters.remove(entry)
        return _OK

    # --- Messages ---

    def _on_publish(self, qos):
        """3.3. A message that is too long is acknowledged and skipped, or it would come forever;
        one that was not taken is not acknowledged."""
        packet_id = self._parse(2 if qos else 0)
        size = len(self.buffer)
        if packet_id < 0 and self.payload_at > size and self.payload_length >= 0:
            self.skipped += 1  # the buffer holds neither its topic nor the identifier that follows
            return _OK
        if qos > self.highest_qos or packet_id < 0 or (not qos and self.first & 8):
            return _PROTOCOL_ERROR
        is_taken = self._on_too_long() if self.length > size else self._on_message()
        if is_taken and qos:
            self._answer = 0x400000 | packet_id
        return _OK

    def _on_too_long(self) -> bool:
        self.skipped += 1
        return True

    def _parse(self, id_bytes):
        """Packet identifier, 0 where there is none. -1: a field exceeds the packet, no topic, no
        UTF-8, identifier 0."""
        buf = self.buffer
        length = self.topic_length = packets.get_u16(buf, 0) if self.length > 2 else 0
        at = self.payload_at = 2 + length + id_bytes
        self.payload_length = self.length - at
        if not length or at > min(self.length, len(buf)) or not is_topic(buf, 2, 2 + length):
            return -1
        return (packets.get_u16(buf, at - 2) or -1) if id_bytes else 0

    def is_on(self, topic: bytes) -> bool:
        """True when the message in `buffer` came on this topic (bytes)."""
        if self.topic_length != len(topic):
            return False
        for i in range(len(topic)):
            if self.buffer[2 + i] != topic[i]:
                return False
        return True

    def _on_message(self):
        try:
            if self.on_message:
                self.on_message(self)
        except Exception:  # the application's fault, whatever it is: not acknowledged, so not lost
            self.handler_errors += 1
            return False
        self.received += 1
        return True
