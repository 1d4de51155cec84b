"""One MQTT session, sans I/O: connection state, keep alive, and the window of PUBLISH packets in flight.

Time comes in as `now_ms` (ticks, wrap at 2^30 or beyond), packets as a Reader's buffer, and what is to be sent goes out through
`next_packet()`. Knows no stream, no flash and no clock.

Packet identifiers of outgoing messages follow from their sequence number, 1 + seq mod 65535: the same after a power cut,
without a write. The window is at most 16 numbers wide, so two in flight never share one. SUBSCRIBE takes the identifier
farthest from those in flight. Allocation after construction: CONNECT only.
"""

from micropython import const

from outpost import packets

CLOSED = const(0)
CONNECTING = const(1)
CONNECTED = const(2)

NOTHING = const(0)
ESTABLISHED = const(1)
ACKNOWLEDGED = const(2)
MESSAGE = const(3)
SUBSCRIBED = const(4)
PROTOCOL_ERROR = const(-20)
CONNECTION_REFUSED = const(-21)
TIMED_OUT = const(-22)

_CLOSED = const(0)
_CONNECTING = const(1)
_CONNECTED = const(2)
_NOTHING = const(0)
_ESTABLISHED = const(1)
_ACKNOWLEDGED = const(2)
_MESSAGE = const(3)
_SUBSCRIBED = const(4)
_PROTOCOL_ERROR = const(-20)
_REFUSED = const(-21)
_TIMED_OUT = const(-22)

_CONNACK = const(0x20)
_PUBLISH = const(0x30)
_PUBACK = const(0x40)
_SUBACK = const(0x90)
_PINGREQ = const(0xC0)
_PINGRESP = const(0xD0)
_DISCONNECT = const(0xE0)
_TICKS = const(0x3FFFFFFF)
_IDS = const(65535)


def elapsed_ms(now_ms, then_ms):
    """Milliseconds from then to now, also over a wrap of the ticks; 0 when `then` is later (up to 6 days)."""
    passed = (now_ms - then_ms) & _TICKS
    return passed if passed < 0x20000000 else 0


def packet_id_of(seq):
    """Packet identifier of an outbox message (1..65535)."""
    return 1 + seq % _IDS


class Inbound:
    """The PUBLISH that came in last: buffer, topic_at, topic_length, payload_at, payload_length, qos, retain, dup, packet_id."""

    def __init__(self):
        self.buffer = b""
        self.topic_at = 2
        self.topic_length = self.payload_at = self.payload_length = self.qos = self.packet_id = 0
        self.retain = self.dup = False

    def parse(self, reader, qos):
        """False when the packet breaks 3.3: no topic, a field behind its end, packet identifier 0."""
        self.buffer = reader.buffer
        self.retain, self.dup, self.qos = reader.first & 1 == 1, reader.first & 8 == 8, qos
        self.topic_length = packets.get_u16(self.buffer, 0) if reader.length > 2 else 0
        self.payload_at = 2 + self.topic_length + (2 if qos else 0)
        if not self.topic_length or self.payload_at > min(reader.length, len(self.buffer)):
            return False
        self.payload_length = reader.length - self.payload_at
        self.packet_id = packets.get_u16(self.buffer, self.payload_at - 2) if qos else 0
        return qos == 0 or self.packet_id > 0

    def is_on(self, topic):
        """True when it came on this topic (bytes)."""
        if self.topic_length != len(topic):
            return False
        for i in range(len(topic)):
            if self.buffer[2 + i] != topic[i]:
                return False
        return True


class Session:
    """will: (topic, message, qos, retain), all strings bytes. window: PUBLISH packets in flight, 1..16.

    keep_alive_s 0 switches it off; else a PINGREQ goes out after three quarters of it without a packet sent, and the link is dead
    when `response_ms` pass without the PINGRESP. The same limit stands for CONNACK.
    """

    def __init__(self, client_id, keep_alive_s=60, clean=False, will=None, user=None, password=None, window=16, level=4):
        if not 1 <= window <= 16:
            raise ValueError("session: window must be 1..16")
        self.client_id, self.will, self.user, self.password = client_id, will, user, password
        self.keep_alive_s, self.clean, self.level, self.window = keep_alive_s, clean, level, window
        self.response_ms = 10_000
        self.state = _CLOSED
        self.session_present = False
        self.return_code = 0
        self.topic_filter = None  # subscribed to on every connection
        self.filter_qos = 0
        # Sent: numbers base..high-1, on this connection base..next_send-1; acknowledged of them: bit i of _acked is base + i.
        self.base = self.next_send = self.high = self._acked = 0
        self.maybe_sent = 0  # messages below this number may have been sent before the last power cut
        self._acked_below = 0
        self.acknowledged_seq = -1
        self.redelivered = self.ignored_acks = self.skipped = 0
        self._sent_ms = self._waiting_ms = 0
        self._waiting = self._subscribe = self._connect_due = False
        self._ack_id = self._subscribe_id = 0
        self.inbound = Inbound()

    # --- Connection ---

    def open(self, now_ms):
        """The stream is there: a CONNECT is due."""
        self.state = _CONNECTING
        self.session_present = False
        self._waiting = True
        self._waiting_ms = self._sent_ms = now_ms
        self._connect_due = True
        self._subscribe = False
        self._ack_id = 0

    def close(self):
        """The stream is gone. What was in flight will go out again, with DUP."""
        self.state = _CLOSED
        self.next_send = self.base

    def next_packet(self, buf, now_ms):
        """Encode what is due, but for PUBLISH: its length, 0 when nothing is."""
        if self.state == _CONNECTING:
            self._sent_ms = now_ms
            return self._connect(buf) if self._connect_due else 0
        return self._due(buf, now_ms)

    def _connect(self, buf):
        self._connect_due = False
        return packets.encode_connect(
            buf, self.client_id, self.keep_alive_s, self.clean, self.will, self.user, self.password, self.level
        )

    def _due(self, buf, now_ms):
        length = 0
        if self._ack_id:
            length = packets.encode_acknowledgement(buf, 0, _PUBACK, self._ack_id)
            self._ack_id = 0
        elif self._subscribe:
            self._subscribe = False
            self._subscribe_id = packet_id_of(self.base + 32767)
            length = packets.encode_subscribe(buf, 0, self._subscribe_id, self.topic_filter, self.filter_qos)
        elif not self._waiting and self._ping_due(now_ms):
            self._waiting = True
            self._waiting_ms = now_ms
            length = packets.encode_empty(buf, 0, _PINGREQ)
        if length:
            self._sent_ms = now_ms
        return length

    def _ping_due(self, now_ms):
        return self.keep_alive_s and elapsed_ms(now_ms, self._sent_ms) >= self.keep_alive_s * 750

    def check(self, now_ms):
        """TIMED_OUT when the server has not answered a CONNECT or PINGREQ in time, else NOTHING."""
        if self._waiting and self.state != _CLOSED and elapsed_ms(now_ms, self._waiting_ms) >= self.response_ms:
            return _TIMED_OUT
        return _NOTHING

    # --- Packets from the server ---

    def received(self, reader):
        """What a whole packet means: an event (0 and up), or PROTOCOL_ERROR, CONNECTION_REFUSED: close the stream."""
        first = reader.first
        kind = first & 0xF0
        if self.state == _CONNECTING:
            return self._connack(reader) if first == _CONNACK else _PROTOCOL_ERROR
        if kind == _PUBLISH:
            return self._publish(reader, first >> 1 & 3)
        if first == _PUBACK and reader.length == 2:
            return self._puback(packets.get_u16(reader.buffer, 0))
        if first == _PINGRESP and reader.length == 0:
            self._waiting = False
            return _NOTHING
        if first == _SUBACK and reader.length >= 3:
            return _SUBSCRIBED if packets.get_u16(reader.buffer, 0) == self._subscribe_id else _PROTOCOL_ERROR
        return _PROTOCOL_ERROR

    def _connack(self, reader):
        """3.2: flags 0 or 1, then the return code."""
        flags, self.return_code = reader.buffer[0], reader.buffer[1]
        if reader.length != 2 or flags > 1 or (self.return_code and flags):
            return _PROTOCOL_ERROR
        if self.return_code:
            return _REFUSED
        self.session_present = flags == 1
        self.state = _CONNECTED
        self._waiting = False
        self._subscribe = self.topic_filter is not None
        return _ESTABLISHED

    def _publish(self, reader, qos):
        """3.3: an oversize one is acknowledged and skipped, or it would come for ever."""
        inbound = self.inbound
        if qos > 1 or not inbound.parse(reader, qos):
            return _PROTOCOL_ERROR
        self._ack_id = inbound.packet_id
        self.skipped += reader.oversize
        return _NOTHING if reader.oversize else _MESSAGE

    @property
    def ack_due(self):
        """True until the acknowledgement of the last inbound message is encoded: take no further packet before."""
        return self._ack_id != 0

    def withhold_ack(self):
        """The application did not take the message: the server keeps it."""
        self._ack_id = 0

    def _puback(self, packet_id):
        """The window slides when its oldest is acknowledged; an acknowledgement that nobody asked for only counts."""
        distance = (packet_id - packet_id_of(self.base)) % _IDS
        if not packet_id or distance >= self.next_send - self.base or self._acked >> distance & 1:
            self.ignored_acks += 1
            return _NOTHING
        self.acknowledged_seq = self.base + distance
        self._acked |= 1 << distance
        while self._acked & 1:
            self._slide()
        return _ACKNOWLEDGED

    def _slide(self):
        self._acked >>= 1
        self.base += 1
        self.next_send = max(self.next_send, self.base)

    # --- Messages to the server ---

    def restart_at(self, seq, acked=0):
        """Send from message seq on. Only with nothing unacknowledged. Bit i of acked: message seq + i is acknowledged."""
        self._acked_below = max(self._acked_below, self.base)
        self.base = self.next_send = self.high = seq
        self._acked = acked

    @property
    def is_dup(self):
        """True when message next_send is a further attempt of an exchange still open, or may be one, begun before a power cut."""
        return self.high > self.next_send or self._acked_below <= self.next_send < self.maybe_sent

    @property
    def has_unacknowledged(self):
        """True while a message was sent, on this connection or an earlier one, and not acknowledged."""
        return self.high > self.base

    @property
    def is_resending(self):
        """True while messages of the connection before are still to go out again."""
        return self.high > self.next_send

    def may_send(self):
        return self.state == _CONNECTED and self.next_send - self.base < self.window

    def pass_over(self):
        """True when message next_send was acknowledged out of order before the link broke: it is left out."""
        if not self._acked >> (self.next_send - self.base) & 1:
            return False
        self.next_send += 1
        self.high = max(self.high, self.next_send)
        return True

    def skip_to(self, seq):
        """The messages from next_send up to seq no longer exist. Only with nothing unacknowledged."""
        self.base = self.next_send = self.high = seq
        self._acked = 0

    def sent(self, now_ms):
        """Message next_send is on its way."""
        self.redelivered += self.is_dup
        self.next_send += 1
        self.high = max(self.high, self.next_send)
        self._sent_ms = now_ms
