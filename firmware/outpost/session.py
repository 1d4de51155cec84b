"""One MQTT session, without I/O: bytes from the server in, packets to the server out.

It knows packets, numbers and the outbox's contract (`ram_outbox.py`). It must not know a stream, a
socket, a clock or a reconnect delay: those are its owner's, whose duties `client.py` lists. Each
feature is a class of its own, so that boards that do not use it do not pay: `subscribing.py`,
`durable.py`, `exactly_once.py`, `streaming.py`.

Hooks, in the order of a connection. A subclass overrides the methods and calls its base's; no
constructor calls one. A field on_... is the application's, and is called last.
    _on_connack()          CONNACK; when the server has accepted:
    _on_connected()
    _on_tick()             every 16 ms and after a packet came: start what is due, but for PUBLISH
    _on_released(seq)      a QoS 2 message is due: PUBLISH, or what stands in its place
    _on_puback(packet_id)  PUBACK; when a message is acknowledged:
    _release(seq)          a field: frees it
    on_acknowledged(seq)   the application's
    _on_pong()             PINGRESP
    _on_packet(first)      any other packet

Packet identifiers of outgoing messages follow from their sequence number, 1 + seq mod 65535: the
same after a power cut, without a write. The window is at most 16 numbers wide, so no two messages
in flight share one. Allocation: construction only.
"""

from micropython import const

from outpost.memory import copy, put_publish, unload
from outpost.reader import Reader, is_topic

_CLOSED = const(0)
_CONNECTING = const(1)
_CONNECTED = const(2)
_OK = const(0)
_TOO_BIG = const(-2)
_BUSY = const(-3)
_OFFLINE = const(-4)
_BAD_TOPIC = const(-6)
_BAD_QOS = const(-8)
_BAD_LENGTH = const(-9)
_PROTOCOL_ERROR = const(-20)
_REFUSED = const(-21)
_TICKS = const(0x3FFFFFFF)
_HALF = const(0x20000000)
_IDS = const(65535)
_TICK_MS = const(16)  # how often what depends on time alone is looked at
_OVERHEAD = const(9)  # of a PUBLISH: fixed header, length of the topic, packet identifier
_MOST_IN_FLIGHT = const(16)
_SAVE_COUNT = const(49)  # looked at every 16th message: a power cut forgets 64 acknowledgements
_UNSAVED = const(64)  # at most, beside those in flight
_SAVE_MS = const(600_000)  # a board that measures more often programs nothing for them


def elapsed_ms(now_ms, then_ms):
    """Milliseconds from then to now, over a wrap too; 0 when `then` is later (up to 6 days)."""
    passed = (now_ms - then_ms) & _TICKS
    return passed if passed < _HALF else 0


def packet_id_of(seq):
    """Packet identifier of an outbox message (1..65535)."""
    return 1 + seq % _IDS


class Session(Reader):
    """Publishes. outbox: mounted. client_id: bytes, what the server knows this board by.

    keep_alive_s: 0 to 65,535; a PINGREQ goes out after three quarters of it without a packet sent,
    0: never. window: PUBLISH packets in flight, 1 to 16. rx_bytes: the longest inbound packet kept;
    longer ones are skipped and counted. in_flight_bytes: bound of what is sent without proof that
    the server has it (`in_flight.py`), for ports whose write() blocks when full; 0: no bound.
    response_ms: the connection is dead when that long passes without CONNACK, PINGRESP, or the
    stream's taking a whole packet. clean, will, user, password, level: see `connect_packet.py`.
    ValueError names an option that is out of its range, TypeError one that is unknown.

    The window. Messages are sent in the order of their numbers, acknowledged in any.

               base          next_send            high               outbox.next_seq
                v                v                  v                       v
         freed  |  10   11   12  |  13    14    15  |  16    17    18    19  | not yet published
                |   in flight    |  sent before the |     never sent         |
                |  _acked = 0b100|  link broke: DUP |                        |

    Bit i of _acked: message base + i is acknowledged; bit 0 never is, the window slides.
    maybe_sent: messages below it may have been sent before the last power cut: DUP as well.
    _exchanged: below it, each was acknowledged once: a new exchange (`durable.py`), no DUP.
    """

    highest_qos = 1

    def __init__(
        self, outbox, client_id, keep_alive_s=60, window=16, rx_bytes=4, in_flight_bytes=0,
        response_ms=10_000, clean=False, will=None, user=None, password=None, level=4,
    ):  # fmt: skip
        from outpost.connect_packet import check_options, encode_connect

        check_options(keep_alive_s, window, rx_bytes, in_flight_bytes, response_ms, level)
        # What each poll() reads is made first: it then has the place that its hash names.
        self.now_ms = 0  # ticks, set by the owner
        self.check_ms = 0  # ticks from which there may be something to do other than to receive
        self.is_tick = False  # next_packet() has looked at what depends on time
        self._tick_ms = 0  # ticks from which it looks again
        Reader.__init__(self, rx_bytes)
        self.outbox = outbox
        self.out_end = self.out_at = 0  # out[out_at:out_end] is still to be written; 0: nothing is
        self.out = self.tx = bytearray(outbox.record_bytes + _OVERHEAD)  # tx: where PUBLISH is made
        self._sent_ms = 0  # ticks at which it was started
        # The window, as drawn above:
        self.base = self.next_send = outbox.oldest_seq
        self.high = self._exchanged = 0
        self._acked = outbox.acked << 1
        self.maybe_sent = min(outbox.next_seq, self.base + _MOST_IN_FLIGHT + _UNSAVED)
        self.window = window
        self.in_flight = None  # its bound, an InFlight
        if in_flight_bytes:
            from outpost.in_flight import InFlight

            self.in_flight = InFlight(in_flight_bytes, len(self.tx))
        options = clean, will, user, password, level
        self.connect_packet = encode_connect(client_id, keep_alive_s, *options)
        unload("outpost.connect_packet")
        self.keep_alive_s, self.response_ms = keep_alive_s, response_ms
        self._awaited_ms = -1  # ticks at which CONNECT or PINGREQ went out, until it is answered
        self.session_present, self.return_code = False, 0  # of the last CONNACK
        self._offline_ms = 0  # ticks at which the connection was lost
        self._topic = self  # the topic that was checked last; none yet, and None is no topic
        self._retain = False  # RETAIN of the QoS 0 message that is being published
        self._append, self._release = outbox.append, outbox.discard
        self._rested_seq = self._rested_ms = 0  # the last outbox.oldest_seq, and since which ticks
        self.on_acknowledged = None  # the application's; called with the sequence number
        # Counters. sent: PUBLISH packets with QoS 1 or 2, redelivered of them with DUP. ignored:
        # acknowledgements that nothing waits for. skipped: inbound messages that were not taken.
        self.sent = self.redelivered = self.acknowledged = self.ignored = self.skipped = 0
        self.connects = self.longest_outage_ms = 0

    # --- Publish ---

    def publish(self, topic, payload, length, qos=1, retain=False) -> int:
        """Send payload[:length] on topic (bytes). A status; OK with QoS 1: it is stored, survives a
        power cut and will arrive.

        QoS 0 goes out with the next poll() or not at all: OFFLINE without a connection, BUSY while
        another packet goes out.
        """
        if topic is not self._topic and not self._is_topic(topic):
            return _BAD_TOPIC
        if length > len(payload) or length < 0:
            return _BAD_LENGTH
        if (qos > 1 or qos < 0) and qos != self.highest_qos:
            return _BAD_QOS
        self.check_ms = self.now_ms
        if not qos:
            self._retain = retain
            return self._publish_now(topic, payload, length)
        qos = qos << 4 | (0x40 if retain else 0)
        retain = self._append  # a call of the field itself would exceed the 11-word frame
        return retain(topic, payload, length, qos)

    def _is_topic(self, topic):
        """[MQTT-3.3.2-2]. One that cannot change is checked once: most programs reuse theirs."""
        if not topic:
            return False
        is_plain = True
        for byte in topic:
            if byte < 1 or byte > 127 or byte == 0x23 or byte == 0x2B:  # TypeError when it is a str
                is_plain = False  # a call in the loop would exceed the 11-word frame
                break
        if not is_plain and not is_topic(topic, 0, len(topic)):
            return False
        if isinstance(topic, bytes):
            self._topic = topic
        return True

    def _publish_now(self, topic, payload, length):
        if self.state != _CONNECTED:
            return _OFFLINE
        if self.out_end or (self.in_flight and not self.in_flight.has_room(len(topic) + length)):
            return _BUSY
        if len(topic) + length > self.outbox.record_bytes:  # `tx` is made for them
            return _TOO_BIG
        # Both names are offsets from here on: another local would exceed the 11-word frame.
        topic = put_publish(self.tx, 0x31 if self._retain else 0x30, topic, 0, len(topic), length)
        length = copy(self.tx, topic, payload, 0, length)
        self._start(self.tx, length)
        return _OK

    # --- Connection ---

    def open(self):
        """The stream is there: CONNECT goes out."""
        self.restart()
        self.state = _CONNECTING
        self.next_send = self.base  # what was in flight goes out again, with DUP
        self._answer = 0
        self._awaited_ms = self.now_ms
        if self.in_flight:
            self.in_flight.forget()
        self._start(self.connect_packet, len(self.connect_packet))

    def lost(self):
        """The stream is gone."""
        if self.state == _CONNECTED:
            self._offline_ms = self.now_ms
        self.state = _CLOSED
        self.out_end = 0
        self.check_ms = self.now_ms

    def leave(self):
        """Start DISCONNECT. True when it was started: connected, and no other packet goes out."""
        if self.state != _CONNECTED or self.out_end:
            return False
        self._start(b"\xe0\x00", 2)
        return True

    def settle(self, moved):
        """The end of a tick. True: the server, or the stream, has not answered in time.

        When nothing moved: erase ahead, save acknowledgements that no record came to carry."""
        now_ms, outbox = self.now_ms, self.outbox
        if self._rested_seq != outbox.oldest_seq:
            self._rested_seq = outbox.oldest_seq
            self._rested_ms = now_ms
        if not moved:
            outbox.erase_ahead()
            if outbox.unsaved() and elapsed_ms(now_ms, self._rested_ms) >= _SAVE_MS:
                outbox.save_state()
        if self.state == _CLOSED:
            return False
        if self._awaited_ms >= 0 and elapsed_ms(now_ms, self._awaited_ms) >= self.response_ms:
            return True
        return self.out_end and elapsed_ms(now_ms, self._sent_ms) >= self.response_ms

    # --- Packets to the server ---

    def next_packet(self):
        """Start the packet that is due. How many bytes of `out` to write, from out_at on."""
        is_tick = self.owes or (self._tick_ms - self.now_ms - 1) & _TICKS >= _TICK_MS
        self.is_tick = is_tick
        if is_tick:
            self._tick_ms = (self.now_ms + _TICK_MS) & _TICKS
            self.owes = self.out_end > 0 or self._on_tick()  # there may be more
        if self.out_end or (self.next_send != self.outbox.next_seq and self._start_message()):
            self.check_ms = self.now_ms
            return self.out_end - self.out_at
        self.check_ms = self._tick_ms
        return 0

    def _start(self, data, length):
        self.out = data
        self.out_at = 0
        self.out_end = length
        self._sent_ms = self.now_ms
        if self.in_flight:
            self.in_flight.add(length)

    def _start_message(self):
        """PUBLISH of the outbox's next message (3.3), if the window has room. True: started."""
        outbox = self.outbox
        seq = self.next_send
        if self._acked or seq > outbox.next_seq:
            seq = self._skip_acked(outbox)
        if seq - self.base >= self.window or self.state != _CONNECTED or outbox.load(seq):
            return False
        if outbox.loaded_seq != seq:
            return seq == self.base and self._restart_window(outbox.loaded_seq)
        if self.in_flight and not self.in_flight.has_room(
            outbox.topic_length + outbox.payload_length
        ):
            return False
        first = 0x30 | outbox.flags >> 3 & 0x06 | outbox.flags >> 6
        if first & 4 and self._on_released(seq):
            return True
        if seq < self.high or (seq < self.maybe_sent and seq >= self._exchanged):
            first |= 8
            self.redelivered += 1
        first |= (1 + seq % _IDS) << 8  # packet_id_of(), a call less
        self.out = self.tx
        self.out_at = 0
        self.out_end = put_publish(
            self.tx, first, outbox.buffer, outbox.topic_at,
            outbox.topic_length, outbox.payload_length,
        )  # fmt: skip
        self._sent_ms = self.now_ms
        self.sent += 1
        if self.in_flight:
            self.in_flight.add(self.out_end)
            self.in_flight.await_proof()
        seq += 1
        self.next_send = seq
        self.high = seq if seq > self.high else self.high
        return True

    def _skip_acked(self, outbox):
        """next_send, past what was acknowledged out of order before the link broke."""
        if self.next_send > outbox.next_seq:  # its numbers were used up, and begin again at 0
            self.high = self.maybe_sent = 0
            self._restart_window(0)
        while self._acked >> (self.next_send - self.base) & 1:
            self.next_send += 1
        return self.next_send

    def _restart_window(self, seq):
        """Send from message seq on: nothing is in flight. False: the next call starts it."""
        self.base = self.next_send = seq
        self._acked = 0
        return False

    def _slide(self, place):
        """Message base + place is acknowledged, and not in order. Returns its number."""
        seq = self.base + place
        acked = self._acked | 1 << place
        while acked & 1:
            acked >>= 1
            self.base += 1
        self._acked = acked
        if self.next_send < self.base:
            self.next_send = self.base  # those were acknowledged before the link broke
        return seq

    # --- Hooks ---

    def _on_connack(self):
        """3.2: flags 0 or 1, then the return code; with a refusal the flags are 0."""
        flags, code = self.buffer[0], self.buffer[1]
        if self.first != 0x20 or self.length != 2 or flags > 1 or (code and flags):
            return _PROTOCOL_ERROR
        self.return_code = code
        if code:
            return _REFUSED
        self.session_present = flags == 1
        self.state = _CONNECTED
        self._awaited_ms = -1
        if self.in_flight:
            self.in_flight.forget()  # CONNECT arrived
        self._on_connected()
        return _OK

    def _on_connected(self):
        if self.connects:
            outage_ms = elapsed_ms(self.now_ms, self._offline_ms)
            self.longest_outage_ms = max(self.longest_outage_ms, outage_ms)
        self.connects += 1

    def _on_tick(self):
        """Start the packet that is due, if any but PUBLISH. True when one goes out."""
        if self.state != _CONNECTED:
            return False
        silent_ms = elapsed_ms(self.now_ms, self._sent_ms)
        is_due = self.keep_alive_s and silent_ms >= self.keep_alive_s * 750
        in_flight, is_idle = self.in_flight, self.next_send == self.base
        if is_due or (in_flight and self._awaited_ms < 0 and in_flight.needs_ping(is_idle)):
            self._start(b"\xc0\x00", 2)
            if self._awaited_ms < 0:
                self._awaited_ms = self.now_ms
                if in_flight:
                    in_flight.add_ping()
        return self.out_end > 0

    def _on_released(self, seq) -> bool:
        """The QoS 2 message seq is loaded. True: another packet than its PUBLISH was started."""
        return False

    def _on_pong(self):
        self._awaited_ms = -1
        if self.in_flight:
            self.in_flight.on_pong()

    def _on_puback(self, packet_id):
        """An acknowledgement that nothing waits for is ignored and counted."""
        seq = self.base
        place = (packet_id - 1 - seq) % _IDS  # in the window
        acked = self._acked
        if not packet_id or place >= self.next_send - seq or acked >> place & 1:
            self.ignored += 1
            return _OK
        if place or acked:
            seq = self._slide(place)
        else:
            self.base = seq + 1
        if self.in_flight and self.next_send == self.base:
            self.in_flight.on_all_acknowledged()
        self.acknowledged += 1
        self._release(seq)
        if seq & 15 == 15 and self.outbox.unsaved() >= _SAVE_COUNT:
            self.outbox.save_state()
        if self.on_acknowledged:
            self.on_acknowledged(seq)
        return _OK

    def _on_packet(self, first):
        """A message that a filter of an earlier session asked for is ignored and counted."""
        if first & 0xF0 != 0x30 or first & 6 == 6:
            return _PROTOCOL_ERROR
        self.skipped += 1
        return _OK
