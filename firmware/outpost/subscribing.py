"""A session that receives: SUBSCRIBE and UNSUBSCRIBE with several filters; messages of QoS 0 and 1
go to the application's handler.

A class of its own, so that boards that only publish do not pay. Must not know a stream or a clock.
Allocation: SUBSCRIBE and UNSUBSCRIBE; none for messages.

Its hooks, in addition to those of `session.py`, in their order:
    _on_publish(qos)  a PUBLISH, whole or its first bytes, is in `buffer`
    _on_message()     it is whole and well-formed; true: it was taken, so acknowledge it
    _on_too_long()    the buffer does not hold it; true: acknowledge it
    _on_failed()      the application's handler raised; true: acknowledge it
    _on_pubrel(id)    PUBREL of an inbound message
    _on_vain_request()  the connection ends on SUBSCRIBE or UNSUBSCRIBE
    _on_code(entry, at)  a filter has its answer, buffer[at]
    on_message(self)  the application's
"""

from micropython import const

from outpost import packets
from outpost.memory import unload
from outpost.session import Session
from outpost.text import is_topic

_OK = const(0)
_BUSY = const(-3)
_BAD_TOPIC = const(-6)
_BAD_QOS = const(-8)
_PROTOCOL_ERROR = const(-20)
_CONNECTED = const(2)
_UNANSWERED = const(-1)
_ANSWER_BYTES = const(4)
_ANSWER = const(6)  # times response_ms
_HELD_ANSWERS = const(32)
_MOST_UNACKNOWLEDGED = const(16)  # mosquitto allows 20 in flight, and then falls silent
_REFUSED_CODE = const(128)
_GIVEN_UP = const(255)
_MOST_FILTERS = const(8)  # of one request: AWS IoT closes the connection on nine
_TOGETHER = const(2)  # requests on which connections ended, before a filter goes alone
_GIVE_UP_AFTER = const(4)


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
    `payload_length` describe the message (its topic begins at 2). `first` has its DUP (8), QoS (6)
    and RETAIN (1) bits.

    filters: [topic filter, QoS, code] of each subscription; code 0..2: granted, 128: refused, 255:
    given up, because the connection ended on it each time; -1: not yet answered. Refused filters
    are requested again on each connection, given-up ones after a connection that ended otherwise.

    unacknowledged: 0 to 16, how many messages of a connection stay unacknowledged because the
    handler raised on them: the server sends them again on the next connection. All others are
    acknowledged and counted, because a server falls silent when too many are not.
    """

    _before_codes = 2  # bytes of SUBACK: the buffer must hold the codes after them

    def __init__(
        self, outbox, client_id, rx_bytes=256, in_flight_bytes=0, unacknowledged=0, **options
    ):  # fmt: skip
        if not isinstance(unacknowledged, int) or not 0 <= unacknowledged <= _MOST_UNACKNOWLEDGED:
            raise ValueError("session: unacknowledged must be 0 to 16, not %r" % unacknowledged)
        options["rx_bytes"], options["in_flight_bytes"] = rx_bytes, in_flight_bytes
        Session.__init__(self, outbox, client_id, **options)
        self.filters = []
        self._is_request_due = False  # a filter awaits SUBSCRIBE or UNSUBSCRIBE
        self._requested = []  # the filters that await SUBACK or UNSUBACK
        self._vain = None  # a dictionary: how many connections ended on a filter
        self._was_vain = False  # the last one did: the next requests no filter that was given up
        self._request_id = 0  # packet identifier of the request
        self._request_ms = -1  # ticks at which the request went out
        self.topic_length = self.payload_at = self.payload_length = 0  # of the PUBLISH in `buffer`
        self._passed_id = 0  # its identifier, when that is not in `buffer`
        self._is_clean = options.get("clean")
        self._pubrel_bits = 0xF7 if options.get("level") == 3 else 0xFF  # in 3.1 it may have DUP
        self.unacknowledged = unacknowledged
        self._held_back = 0  # messages of this connection that are not acknowledged
        self._is_others_turn = False  # other packets go out before further answers
        # Answers, which go out in one write. If the bytes in flight are bounded, answers wait here
        # for room while reading goes on, because what makes room comes after them.
        self._answers_end = 0  # bytes of them
        self._answers = bytearray(_ANSWER_BYTES * (_HELD_ANSWERS if in_flight_bytes else 1))
        self.on_message = None
        # Counters: messages taken; handlers that raised; filters refused, or given up.
        self.received = self.handler_errors = self.refused = 0

    # --- Subscriptions ---

    def subscribe(self, topic_filter: bytes, qos: int = 0) -> int:
        """Subscribe: now, and again whenever the server has no session. OK, BAD_TOPIC, BAD_QOS, or
        BUSY while an earlier request awaits its answer; the entry in `filters` has the outcome.

        Allocates, as its packets do. Their identifier is the one farthest from those in flight.
        """
        from outpost.topics import is_filter

        topic_filter = bytes(topic_filter)  # a bytearray may change, and cannot be a key
        is_sound = is_filter(topic_filter)
        unload("outpost.topics")
        if not is_sound:
            return _BAD_TOPIC
        if qos > self.highest_qos:
            return _BAD_QOS
        if self._requested and self.state == _CONNECTED:
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
        """Unsubscribe. The server's answer removes the entry in `filters`. As subscribe()."""
        return self.subscribe(topic_filter, -1)

    def _on_connected(self):
        Session._on_connected(self)
        self._requested = []
        self._request_ms = -1
        self._answers_end = self._held_back = 0
        self._is_request_due = True
        # a clean session starts empty, whatever the server says [MQTT-3.2.2-1]
        least = 0 if not self.session_present or self._is_clean else _REFUSED_CODE
        most = _REFUSED_CODE if self._was_vain else _GIVEN_UP
        self._was_vain = False
        for entry in self.filters:
            if least <= entry[2] <= most:
                entry[2] = _UNANSWERED

    def _on_tick(self):
        """Answers and other packets take turns. Otherwise a flood of messages would block all else;
        and a full outbox the answers, if the bytes in flight are bounded."""
        if self.state != _CONNECTED:
            return False
        is_answer_due = self._answer or self._answers_end
        if is_answer_due and not self._is_others_turn and self._start_answers():
            self._is_others_turn = True
            return True
        self._is_others_turn = False
        if self._is_request_due and not self._requested and self._start_request():
            return True
        if Session._on_tick(self):
            return True
        if not is_answer_due or (self.in_flight and self.in_flight.answers_wait):
            return False
        if self.next_send != self.outbox.next_seq:
            self._start_message()
        # on_expired or on_refused may have closed the connection, or published with QoS 0
        if self.state == _CONNECTED and not self.out_end:
            self._is_others_turn = self._start_answers()
        return self.out_end > 0

    def _on_late(self, spared_ms):
        is_late = self._waited(self._request_ms) - spared_ms >= _ANSWER * self.response_ms
        return is_late or Session._on_late(self, spared_ms)

    def _start_answers(self):
        """Start PUBACK, PUBREC, PUBREL, PUBCOMP (3.4 to 3.7). All waiting answers go out in one
        write, when there is room for them or no more can wait. True when they were started."""
        answers, end = self._answers, self._answers_end
        if self._answer:
            answers[end] = self._answer >> 16
            answers[end + 1] = 2
            self._answers_end = end = packets.put_u16(answers, end + 2, self._answer & 0xFFFF)
            self._answer = 0
        in_flight = self.in_flight
        if in_flight:
            in_flight.answers_wait = False  # else has_room() says False
            in_flight.answers_wait = end < len(answers) and not in_flight.has_room(end)
            if in_flight.answers_wait:
                return False
        self._answers_end = 0
        self._start(answers, end)
        return True

    def _start_request(self):
        """SUBSCRIBE for all filters that await it, eight at a time, or UNSUBSCRIBE if the first of
        them is to be removed. Filters on which connections ended follow one by one."""
        requested, vain = self._requested, self._vain
        for entry in self.filters:
            if len(requested) == min(_MOST_FILTERS, len(self.buffer) - self._before_codes):
                break
            if entry[2] < 0 and (not vain or vain.get(entry[0], 0) < _TOGETHER):
                if not requested or (entry[1] < 0) == (requested[0][1] < 0):
                    requested.append(entry)
        for entry in self.filters:
            if entry[2] < 0 and not requested:
                requested.append(entry)
        self._is_request_due = len(requested) > 0  # look again after the answer
        if requested:
            self._request_id = packets.packet_id_of(self.base + 32767)
            packet = encode_filters(self._request_id, requested)
            self._start(packet, len(packet))
            self._request_ms = self.now_ms
        return self._is_request_due

    def _on_lost(self, error, is_end):
        """If messages are in flight as well, they may be the reason; but not for a request that
        was not answered in time."""
        is_late = self._waited(self._request_ms) >= _ANSWER * self.response_ms
        Session._on_lost(self, error, is_end)
        if is_end and self._requested and (is_late or self.next_send == self.base):
            self._on_vain_request()

    def _on_vain_request(self):
        """The connection ended on the pending request. After two ends together with others and two
        alone, a filter is given up, until a connection has ended for another reason."""
        self._was_vain = True
        if self._vain is None:
            self._vain = {}
        for entry in self._requested:
            count = self._vain[entry[0]] = self._vain.get(entry[0], 0) + 1
            if count == _GIVE_UP_AFTER:
                self._vain[entry[0]] -= 1  # one more end is enough, unless there is an answer
                entry[2] = _GIVEN_UP
                self.refused += 1
        self._requested = []

    def _on_packet(self, first):
        if first & 0xF0 == 0x30:
            return self._on_publish(first >> 1 & 3)
        if (
            first & self._pubrel_bits == 0x62
            and self.length == 2
            and self.buffer[0] | self.buffer[1]
        ):
            return self._on_pubrel(packets.get_u16(self.buffer, 0))
        if self._request_answered():
            return _OK
        self._on_vain_request()
        return _PROTOCOL_ERROR

    def _on_pubrel(self, packet_id):
        """PUBREL of a message that an earlier session of another class requested with QoS 2. It
        arrives at least once."""
        self._answer = 0x700000 | packet_id
        return _OK

    def _request_answered(self):
        """SUBACK: a code for each filter (3.9); UNSUBACK: none (3.11). False: it is neither."""
        requested, buffer = self._requested, self.buffer
        if not requested or not 2 <= self.length <= len(buffer):
            return False
        if packets.get_u16(buffer, 0) != self._request_id:
            return False
        if not (self._has_codes(len(requested)) if requested[0][1] >= 0 else self._has_none()):
            return False
        self._take_codes()
        self._requested = []
        self._request_ms = -1
        return True

    def _take_codes(self):
        at = 2
        for entry in self._requested:
            self._on_code(entry, at)
            at += 1

    def _has_codes(self, count):
        for place in range(2, self.length):
            if self.buffer[place] > 2 and self.buffer[place] != _REFUSED_CODE:
                return False
        return self.first == 0x90 and self.length == 2 + count

    def _has_none(self):
        return self.first == 0xB0 and self.length == 2

    def _on_code(self, entry, at):
        if self._vain:
            self._vain.pop(entry[0], None)
        if entry[1] < 0:
            self.filters.remove(entry)
        else:
            entry[2] = self.buffer[at]
            self.refused += entry[2] == _REFUSED_CODE

    # --- Messages ---

    def _on_publish(self, qos):
        """PUBLISH (3.3). Acknowledge and skip one that is too long, or it would come forever."""
        packet_id = self._parse(2 if qos else 0)
        if qos > 2 or packet_id < 0 or (not qos and self.first & 8):
            return _PROTOCOL_ERROR
        is_long = self.length > len(self.buffer)
        if (self._on_too_long() if is_long else self._on_message()) and qos:
            self._answer = (0x400000 if qos == 1 else 0x500000) | packet_id
        return _OK

    def _on_too_long(self) -> bool:
        self.skipped += 1
        return True

    def _on_failed(self) -> bool:
        """The handler raised. True when the message is acknowledged anyway."""
        self.handler_errors += 1
        if not self.first & 6 or self._held_back == self.unacknowledged:
            return True
        self._held_back += 1
        return False

    def _parse(self, id_bytes):
        """Packet identifier, 0 where there is none. -1: a field exceeds the packet, no topic, not
        UTF-8, identifier 0. A topic that does not fit into the buffer is not checked."""
        buf = self.buffer
        length = self.topic_length = packets.get_u16(buf, 0) if self.length > 2 else 0
        at = self.payload_at = 2 + length + id_bytes
        self.payload_length = self.length - at
        if not length or at > self.length:
            return -1
        if at > len(buf):  # _passed_id has the identifier, or its last byte
            at = self._passed_id if at > len(buf) + 1 else buf[-1] << 8 | self._passed_id & 0xFF
            return (at or -1) if id_bytes else 0
        if not is_topic(buf, 2, 2 + length):
            return -1
        return (packets.get_u16(buf, at - 2) or -1) if id_bytes else 0

    def _on_rest(self, data, at, count):
        """Keep the packet identifier after a topic that the buffer does not hold, or not wholly."""
        if 0x30 < self.first & 0xF6 < 0x40:
            place = 2 + packets.get_u16(self.buffer, 0) - self.have
            self._pass(data, at, place, count)
            self._pass(data, at, place + 1, count)

    def _pass(self, data, at, place, count):
        if 0 <= place < count:
            self._passed_id = self._passed_id << 8 & 0xFF00 | data[at + place]

    def is_on(self, topic: bytes) -> bool:
        """True when the message in `buffer` arrived on this topic (bytes)."""
        if isinstance(topic, str):  # it would equal none
            raise TypeError("is_on: topic must be bytes: write text.encode()")
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
        except Exception:  # the application's fault, whatever it is
            return self._on_failed()
        self.received += 1
        return True
