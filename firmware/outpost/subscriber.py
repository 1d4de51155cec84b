"""A client that receives: SUBSCRIBE and UNSUBSCRIBE with several filters, messages of QoS 0 and 1 to the application's handler.

A class of its own, so that boards that only publish do not pay. Takes heap for SUBSCRIBE and UNSUBSCRIBE, none for messages.
"""

from micropython import const

from outpost import packets
from outpost.client import Client
from outpost.session import packet_id_of

_OK = const(0)
_BUSY = const(-3)
_BAD_TOPIC = const(-6)
_BAD_QOS = const(-8)
_PROTOCOL_ERROR = const(-20)
_CONNECTED = const(2)
_NOT_ASKED = const(-1)
_ANSWER_BYTES = const(4)
_HELD_ANSWERS = const(32)


def is_topic(buf, at, end):
    """True when buf[at:end] is a topic: well-formed UTF-8 without NUL, shortest forms, no surrogates, up to U+10FFFF (1.5.3); and
    without wildcards (3.3.2)."""
    more = least = code = 0
    while at < end:
        byte = buf[at]
        at += 1
        if more:
            code = code << 6 | byte ^ 0x80
            more -= 1
            if byte & 0xC0 != 0x80 or (not more and (code < least or 0xD800 <= code < 0xE000 or code > 0x10FFFF)):
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
    """SUBSCRIBE of [(topic filter, QoS, ...)] (3.8), or UNSUBSCRIBE where the QoS is negative (3.10): all of one kind."""
    body = bytes((packet_id >> 8, packet_id & 255))
    qos = 0
    for topic_filter, qos, _ in entries:
        body += bytes((len(topic_filter) >> 8, len(topic_filter) & 255)) + topic_filter
        if qos >= 0:
            body += bytes((qos,))
    header = bytearray(5)
    return bytes(header[: packets.put_header(header, 0x82 if qos >= 0 else 0xA2, len(body))]) + body


class Subscriber(Client):
    """on_message: called with this client. `buffer`, `topic_length`, `payload_at` and `payload_length` tell the message (the
    topic begins at 2), `first` its DUP (8), QoS (6) and RETAIN (1) bits. What it raises only counts: not acknowledged.

    filters: [topic filter, QoS, code] of each subscription; code 0..2 granted, 128 refused, -1 not answered yet.
    """

    def __init__(self, link, outbox, client_id, rx_bytes=256, **options):
        self.filters = []
        self._ask = False
        self._asked = []  # the filters that await SUBACK or UNSUBACK
        self._asked_id = 0
        self.topic_length = self.payload_at = self.payload_length = 0  # of the PUBLISH in `buffer`
        self.on_message = None
        # With a bound of what is in flight, answers wait for room here while reading goes on: what makes room comes after them.
        self._answers = bytearray(_ANSWER_BYTES * (_HELD_ANSWERS if options.get("in_flight_bytes") else 1))
        self.received = self.handler_errors = self.refused = 0
        Client.__init__(self, link, outbox, client_id, rx_bytes=rx_bytes, **options)

    # --- Subscriptions ---

    def subscribe(self, topic_filter, qos=0):
        """Ask for messages: now, and again whenever the server has no session. Its entry in `filters` tells what came of it.

        BUSY while an earlier request awaits its answer. Takes heap, as the packets do. The identifier is the one farthest from
        those of messages in flight.
        """
        if not topic_filter or b"\0" in topic_filter:
            return _BAD_TOPIC
        if qos > self.highest_qos:
            return _BAD_QOS
        if self._asked:
            return _BUSY
        self._ask = self.owes = True
        self.check_ms = self.now_ms
        for entry in self.filters:
            if entry[0] == topic_filter:
                entry[1:] = (qos, _NOT_ASKED)
                return _OK
        self.filters.append([topic_filter, qos, _NOT_ASKED])
        return _OK

    def unsubscribe(self, topic_filter):
        """The entry in `filters` goes when the server has answered."""
        return self.subscribe(topic_filter, -1)

    def _established(self):
        Client._established(self)
        self._ask = True
        if not self.session_present:
            for entry in self.filters:
                entry[2] = _NOT_ASKED

    def open(self):
        Client.open(self)
        self._answer = self._answers_end = 0
        self._asked = []

    def due(self):
        if self.state == _CONNECTED:
            if (self._answer or self._answers_end) and self._start_answers():
                return True
            if self._ask and not self._asked and self._start_filters():
                return True
        return Client.due(self)

    def _start_answers(self):
        """PUBACK, PUBREC, PUBREL, PUBCOMP (3.4 to 3.7): `_answer` is the first byte and the packet identifier. All that wait go
        in one write, when there is room or no more can wait. True when they were started."""
        answers, end = self._answers, self._answers_end
        if self._answer:
            answers[end] = self._answer >> 16
            answers[end + 1] = 2
            self._answers_end = end = packets.put_u16(answers, end + 2, self._answer & 0xFFFF)
            self._answer = 0
        if end < len(answers) and not self.has_room(end):
            return False
        self._answers_end = 0
        self._start(answers, end)
        return True

    def _start_filters(self):
        """SUBSCRIBE of all filters that wait for it, or UNSUBSCRIBE if the first of them is to go."""
        asked = self._asked
        for entry in self.filters:
            if entry[2] < 0 and (not asked or (entry[1] < 0) == (asked[0][1] < 0)):
                asked.append(entry)
        self._ask = len(asked) > 0  # look again after the answer
        if asked:
            self._asked_id = packet_id_of(self.base + 32767)
            packet = encode_filters(self._asked_id, asked)
            self._start(packet, len(packet))
        return self._ask

    def _other(self, first):
        if first & 0xF0 == 0x30:
            return self._publish(first >> 1 & 3)
        return self._filters_answered() if self.length > 1 else _PROTOCOL_ERROR

    def _filters_answered(self):
        """SUBACK: a code for each filter (3.9); UNSUBACK: none (3.11)."""
        asked = self._asked
        if not asked or self.length > len(self.buffer) or packets.get_u16(self.buffer, 0) != self._asked_id:
            return _PROTOCOL_ERROR
        self._asked = []
        if asked[0][1] < 0:
            return self._unsubscribed(asked)
        if self.first != 0x90 or self.length != 2 + len(asked):
            return _PROTOCOL_ERROR
        for i in range(len(asked)):
            code = self.buffer[2 + i]
            if code > 2 and code != 128:
                return _PROTOCOL_ERROR
            self.refused += code == 128
            asked[i][2] = code
        return _OK

    def _unsubscribed(self, asked):
        if self.first != 0xB0 or self.length != 2:
            return _PROTOCOL_ERROR
        for entry in asked:
            self.filters.remove(entry)
        return _OK

    # --- Messages ---

    def _publish(self, qos):
        """3.3. One that is too long is acknowledged and skipped, or it would come for ever; one that was not taken is not."""
        packet_id = self._parse(2 if qos else 0)
        if packet_id < 0 and self.payload_at > len(self.buffer) and self.payload_length >= 0:
            self.skipped += 1  # a topic that the buffer does not hold, nor the identifier behind it
            return _OK
        if qos > self.highest_qos or packet_id < 0 or (not qos and self.first & 8):
            return _PROTOCOL_ERROR
        taken = self._too_long() if self.length > len(self.buffer) else self._message()
        if taken and qos:
            self._answer = 0x400000 | packet_id
        return _OK

    def _too_long(self) -> bool:
        """A message that the buffer does not hold. True: acknowledge it."""
        self.skipped += 1
        return True

    def _parse(self, id_bytes):
        """Packet identifier, 0 where there is none. -1: a field ends behind the packet, no topic, no UTF-8, identifier 0."""
        buf = self.buffer
        length = self.topic_length = packets.get_u16(buf, 0) if self.length > 2 else 0
        at = self.payload_at = 2 + length + id_bytes
        self.payload_length = self.length - at
        if not length or at > min(self.length, len(buf)) or not is_topic(buf, 2, 2 + length):
            return -1
        return (packets.get_u16(buf, at - 2) or -1) if id_bytes else 0

    def is_on(self, topic):
        """True when the message in `buffer` came on this topic (bytes)."""
        if self.topic_length != len(topic):
            return False
        for i in range(len(topic)):
            if self.buffer[2 + i] != topic[i]:
                return False
        return True

    def _message(self):
        """True when the application took the message in `buffer`, or wants none."""
        try:
            if self.on_message:
                self.on_message(self)
        except Exception:  # the application's fault, whatever it is: not acknowledged, so not lost
            self.handler_errors += 1
            return False
        self.received += 1
        return True
