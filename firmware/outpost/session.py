"""One MQTT session, without I/O: messages and bytes from the server in, packets to the server out.

It knows packets, numbers and the outbox's contract (`ram_outbox.py`). It must not know a stream, a
socket, a clock or a reconnect delay: those are its owner's, whose duties `client.py` lists. Each
feature is a class of its own, so that boards that do not use it do not pay: `subscribing.py`,
`durable.py`, `exactly_once.py`, `streaming.py`.

**The law of the buffer.** A packet longer than the buffer is skipped in place: its first bytes are
kept (the topic and packet identifier of a PUBLISH are among them), and the rest is dropped as it
arrives. Hostile lengths end in an error, never in a growing buffer.

Hooks, in the order of a connection. A subclass overrides the methods and calls its base's. No
constructor calls a hook. A field on_... is the application's, and is called last.
    _on_connack()          CONNACK; when the server has accepted:
    _on_connected()
    _on_lost(error, is_end)  the connection ended, with this status; is_end: the server or the path
                           ended it, or did not answer, not this side
    _on_tick()             every 16 ms and after a packet came: start what is due, except PUBLISH
    _on_released(seq)      a QoS 2 message is due: PUBLISH, or what replaces it
    _prepare(seq)          5.0, if it asked for it: PUBLISH of a message is due; False: not now
    _on_puback(packet_id)  PUBACK; when a message is acknowledged:
    _release(seq)          a field: releases it
    on_acknowledged(seq)   the application's
    _on_unexpected(first, packet_id)  an acknowledgement of no message in flight
    _on_pong()             PINGRESP
    _on_late(spared_ms)    is an acknowledgement overdue?
    _on_packet(first)      any other packet
    _on_rest(data, at, count)  bytes arrive of a packet that the buffer does not hold

Packet identifiers of outgoing messages follow from their sequence number, 1 + seq mod 65535. So
they are the same after a power cut, without a write. The window is at most 16 numbers wide, so no
two messages in flight share one. Allocation: construction only.
"""
# pyright: reportAttributeAccessIssue=false

from micropython import const

from outpost.memory import copy, puback_id, put_publish, unload
from outpost.text import is_topic
from outpost.ticks import elapsed_ms

_CLOSED = const(0)
_CONNECTING = const(1)
_CONNECTED = const(2)
_OK = const(0)
_PROTOCOL_ERROR = const(-20)
_REFUSED = const(-21)
_NO_ANSWER = const(-25)
_TICKS = const(0x3FFFFFFF)
_BEFORE = const(0x3FFFFFF0)  # ticks since a time that is 1 to 16 ms ahead: at least this
_IDS = const(65535)
_TICK_MS = const(16)  # how often the timers are checked
_OVERHEAD = const(9)  # of a PUBLISH: fixed header, length of the topic, packet identifier
_MOST_IN_FLIGHT = const(16)
_SAVE_COUNT = const(49)  # checked every 16th message: a power cut forgets 64 acknowledgements
_UNSAVED = const(64)  # at most, besides those in flight
_LIVED_MS = const(30_000)
_TIMED_OUT = const(-22)
_CAME = const(2)  # is_tick: bytes arrived
_BYTE_MS = const(64)  # each byte of an arriving packet extends a wait by this: 16 bytes/s
_ANSWER = const(6)  # an acknowledgement may take this many times response_ms
_BEHIND = const(30)  # or a PINGRESP while other bytes come, plus _BYTE_MS per byte of their packet
_LONG_BYTES = const(0x200000)
_LEAST_PONG_MS = const(2000)
_SAVE_MS = const(600_000)  # boards that measure more often spend no program on acknowledgements
_AT_MOST_ONCE = const(0)
_AT_LEAST_ONCE = const(1)
_TOO_BIG = const(-2)
_BUSY = const(-3)
_OFFLINE = const(-4)
_BAD_TOPIC = const(-6)
_BAD_LENGTH = const(-9)
# Bit -status: the server or the path ended the connection (PROTOCOL_ERROR, TIMED_OUT, LINK_LOST,
# NO_ANSWER, TAKEN_OVER, SERVER_LEFT, MOVED), not this side.
_OF_SERVER = const(0x36D00000)
_FIRST = const(-7)  # _shift while the packet's first byte is awaited
_TOO_LONG = const(28)  # _shift after four bytes of length that all announce another
_BODY = const(35)  # _shift once the length is complete


class Session:
    """Publishes. outbox: mounted. client_id: bytes; the server knows this board by it.

    keep_alive_s: 0 to 65,535; a PINGREQ goes out after three quarters of it without a packet sent,
    or a byte received; 0: never. window: PUBLISH packets in flight, 1 to 16. rx_bytes: the longest
    inbound packet kept; longer ones are skipped and counted. in_flight_bytes: bound on what is sent
    without proof that the server has it (`in_flight.py`), for ports whose write() blocks when full;
    0: no bound. response_ms: how long CONNACK, PINGRESP, and the next byte of a packet in either
    direction may take; acknowledgements may take six times as long. clean, will, user, password,
    level: see `connect_packet.py`. ValueError names an option that is out of range, TypeError one
    that is unknown.

    The window. Messages are sent in the order of their numbers, and acknowledged in any order.

               base          next_send            high               outbox.next_seq
                v                v                  v                       v
         freed  |  10   11   12  |  13    14    15  |  16    17    18    19  | not yet published
                |   in flight    |  sent before the |     never sent         |
                |  _acked = 0b100|  link broke: DUP |                        |

    Bit i of _acked: message base + i is acknowledged; never bit 0, because the window slides.
    maybe_sent: messages below it may have been sent before the last power cut: DUP as well.
    _exchanged: below it, each was acknowledged once: a new exchange (`durable.py`), no DUP.
    """

    highest_qos = 1
    # What only some sessions have. aside_id: of a message aside, from PUBREC to PUBCOMP (QoS 2).
    # Bit seq & 15 of a message in flight: the server has it (QoS 2), or has refused it (5.0).
    # _requested: the filters that await SUBACK.
    aside_id = _released = _denied = 0
    _requested = ()
    _anew_seq = -1  # MQTT 5.0: the message that goes out now starts a new exchange, without DUP

    def __init__(  # noqa: PLR0915 - every field is made here
        self, outbox, client_id, keep_alive_s=60, window=16, rx_bytes=4, in_flight_bytes=0,
        response_ms=10_000, clean=False, will=None, user=None, password=None, level=4,
    ):  # fmt: skip
        from outpost.connect_packet import check_options, encode_connect, widen

        check_options(keep_alive_s, window, rx_bytes, in_flight_bytes, response_ms, level)
        widen(self)
        # The fields that each message reads come first, so that each gets the place its hash names.
        self.now_ms = 0  # ticks, set by the owner
        self.check_ms = 0  # ticks from which there may be work other than receiving
        self.is_tick = False  # next_packet() has checked the timers
        self._tick_ms = 0  # ticks from which it checks them again
        # Then the methods that each message calls, found without a search through the classes.
        self._start, self._start_message = self._start, self._start_message
        self._publish_now, self._on_puback = self._publish_now, self._on_puback
        self.outbox = outbox
        self.out_end = self.out_at = 0  # out[out_at:out_end] is still to be written; 0: nothing is
        self.out = self.tx = bytearray(outbox.record_bytes + _OVERHEAD)  # tx: where PUBLISH is made
        self._sent_ms = 0  # ticks at which that packet was started
        # The window, as drawn above:
        self.base = self.next_send = outbox.oldest_seq
        self.high = self._exchanged = 0
        self._acked = outbox.acked << 1
        self.maybe_sent = min(outbox.next_seq, self.base + _MOST_IN_FLIGHT + _UNSAVED)
        self.window = window
        self.in_flight = None  # an InFlight, if that is bounded
        self._release = outbox.discard
        self.on_acknowledged = None  # the application's; called with the sequence number
        # Counters. sent: PUBLISH packets with QoS 1 or 2; redelivered: those with DUP. ignored:
        # acknowledgements that nothing waits for. skipped: inbound messages that were not taken.
        self.sent = self.acknowledged = 0
        self._topic = self  # the topic checked last; self: none yet, since a caller may pass None
        self._append = outbox.append
        self._retain = False  # RETAIN of the QoS 0 message that is being published
        # Ticks since which an acknowledgement of any message is awaited; -1: none is
        self._exchange_ms = -1
        self._acked_seen = 0  # `acknowledged` at the last tick
        self._rested_seq = self._rested_ms = 0  # the last outbox.oldest_seq, and since which ticks
        self.suspects = None  # a Suspects, while messages are suspected, or aside
        self._ends = 0  # connections in a row that ended with this message as the oldest in flight
        self._ended_seq = -1
        self.state = _CLOSED  # or CONNECTING (CONNECT is out), CONNECTED
        self.owes = False  # bytes arrived (_CAME), or a packet was due: another may be due
        self._answer = 0  # an answer that is due, first byte << 16 | packet identifier; 0: none
        self.buffer = bytearray(rx_bytes)  # the packet after its fixed header
        self.restart()
        self.redelivered = self.ignored = self.skipped = 0
        options = clean, will, user, password, level
        self.connect_packet = encode_connect(client_id, keep_alive_s, *options)
        unload("outpost.connect_packet")
        self.keep_alive_s, self.response_ms = keep_alive_s, response_ms
        self._awaited_ms = -1  # ticks at which CONNECT or PINGREQ went out, until it is answered
        self.session_present, self.return_code = False, 0  # of the last CONNACK
        # Of the present connection, or the last one: the ticks of its CONNACK, of its last inbound
        # bytes and of its end; `acknowledged` at its CONNACK.
        self._up_ms = self._inbound_ms = self._offline_ms = self._acked_before = 0
        self.connects = self.longest_outage_ms = 0
        self._properties = 0  # MQTT 5.0: those of PUBLISH, see put_publish() in `memory.py`
        if in_flight_bytes:
            from outpost.in_flight import InFlight

            bound = self.in_flight = InFlight(self, in_flight_bytes)
            # It replaces these methods:
            self._start, self._start_message = bound.start, bound.start_message
            self._publish_now, self._on_tick = bound.publish_now, bound.on_tick

    # --- Connection ---

    def open(self):
        """The stream is open: start CONNECT."""
        self.restart()
        self.state = _CONNECTING
        self.next_send = self.base  # what was in flight goes out again, with DUP
        self._answer = 0
        self._awaited_ms = self._inbound_ms = self.now_ms
        self._exchange_ms = -1
        self._start(self.connect_packet, len(self.connect_packet))

    def has_progress(self):
        """True when the server has acknowledged a message of this connection; or nothing is in
        flight, and the server was heard from for half a minute. Valid until lost() returns."""
        if self.state != _CONNECTED:
            return False
        if self.next_send == self.base and elapsed_ms(self._inbound_ms, self._up_ms) >= _LIVED_MS:
            return True
        return self.acknowledged != self._acked_before

    def lost(self, error):
        """The stream is gone, or did not open. error: the status that ended it, as it is: OK is
        close()."""
        if self.state == _CONNECTED:
            self._offline_ms = self.now_ms
            self._on_lost(error, -32 < error < 0 and _OF_SERVER >> -error & 1)
        self.state = _CLOSED
        self.out_end = 0
        self.check_ms = self.now_ms

    def leave(self):
        """Start DISCONNECT. True when it was started: CONNECT went out, and no other packet does.
        The server takes it also before its CONNACK has come (3.14)."""
        if not self.state or self.out_end:
            return False
        self._start(b"\xe0\x00", 2)
        return True

    # --- Publish ---

    def publish(self, topic, payload, qos=1, retain=False, length=None) -> int:
        """Send payload on topic (bytes), or payload[:length] of a buffer that is used again.
        Returns a status. OK with QoS 1: the message is stored, survives a power cut and will
        arrive. TypeError: an argument is of another type.

        QoS 0 goes out with the next poll() or not at all: OFFLINE without a connection, BUSY while
        another packet goes out.
        """
        if topic is not self._topic and not self._is_topic(topic, payload):
            return _BAD_TOPIC
        if length is None:
            length = len(payload)
        elif length > len(payload) or length < 0:
            return _BAD_LENGTH
        self.check_ms = self.now_ms
        if qos is not _AT_LEAST_ONCE:  # `is`: True, where others have `retain`, equals 1
            if qos is _AT_MOST_ONCE:
                self._retain = retain
                return self._publish_now(topic, payload, length)
            if qos is not self.highest_qos:
                return _explain(topic, payload, qos)
        qos = qos << 4 | (0x40 if retain else 0)
        retain = self._append  # a call of the field itself would exceed the 11-word frame
        return retain(topic, payload, length, qos)

    def _is_topic(self, topic, payload):
        """[MQTT-3.3.2-2]. A topic that is bytes is checked once: most programs reuse theirs. So is
        the type of its payload: a str would be cut to as many bytes as it has characters."""
        if isinstance(payload, str) or isinstance(topic, str):
            _explain(topic, payload, 1)
        if not topic or not is_topic(topic, 0, len(topic)):
            return False
        if isinstance(topic, bytes):
            self._topic = topic
        return True

    def _publish_now(self, topic, payload, length):
        if self.state != _CONNECTED:
            return _OFFLINE
        if self.out_end or (self.suspects and self.suspects.is_testing()):
            return _BUSY
        if len(topic) + length > self.outbox.record_bytes:  # `tx` is made for that
            return _TOO_BIG
        # Both names are offsets from here on: another local would exceed the 11-word frame.
        topic = put_publish(
            self.tx, 0x31 if self._retain else 0x30, topic, 0,
            len(topic) << 14 | length, self._properties,
        )  # fmt: skip
        length = copy(self.tx, topic, payload, 0, length)
        self._start(self.tx, length)
        return _OK

    # --- Packets to the server ---

    def next_packet(self):
        """Start the packet that is due. Returns how many bytes to write, from out[out_at] on."""
        is_tick = self.owes or (self.now_ms - self._tick_ms) & _TICKS < _BEFORE
        self.is_tick = is_tick
        if is_tick:
            self._tick_ms = (self.now_ms + _TICK_MS) & _TICKS
            self.owes = self.out_end > 0 or self._on_tick()  # there may be more
        if self.out_end or (self.next_send != self.outbox.next_seq and self._start_message()):
            self.check_ms = self.now_ms
            return self.out_end - self.out_at
        self.check_ms = self._tick_ms
        return 0

    def start_ping(self):
        self._start(b"\xc0\x00", 2)
        if self._awaited_ms < 0:
            self._awaited_ms = self.now_ms

    def _start(self, data, length):
        self.out = data
        self.out_at = 0
        self.out_end = length
        self._sent_ms = self.now_ms

    def _start_message(self):
        """Start PUBLISH of the next message (3.3), if the window has room. True: started."""
        outbox = self.outbox
        seq = self._skip_acked(outbox) if self._acked or outbox.aside else self.next_send
        if seq - self.base >= self.window or self.state != _CONNECTED or outbox.load(seq):
            return False
        if outbox.loaded_seq != seq:
            return seq == self.base and self._restart_window(outbox.loaded_seq)
        if self.in_flight and not self.in_flight.has_room(
            outbox.topic_length + outbox.payload_length
        ):
            return False
        if outbox.flags & 0x20 and self._on_released(seq):
            return True
        if self._properties and self._prepares and not self._prepare(seq):
            return False
        head = outbox.flags
        head = 0x30 | head >> 3 & 0x06 | head >> 6
        if seq >= self.high:
            self.high = seq + 1
            if seq < self.maybe_sent and seq >= self._exchanged:
                head |= 8
                self.redelivered += 1
        else:
            head |= (seq != self._anew_seq) << 3
            self.redelivered += head >> 3 & 1
        head |= (1 + seq % _IDS) << 8  # packets.packet_id_of(), inlined
        self.out = self.tx
        self.out_at = 0
        self.out_end = put_publish(
            self.tx, head, outbox.buffer, outbox.topic_at,
            outbox.topic_length << 14 | outbox.payload_length, self._properties,
        )  # fmt: skip
        self._sent_ms = self.now_ms
        self.sent += 1
        self.next_send = seq + 1
        return True

    def _skip_acked(self, outbox):
        """next_send, moved past messages acknowledged before the link broke, or set aside."""
        while True:
            while self._acked >> (self.next_send - self.base) & 1:
                self.next_send += 1
            if not (outbox.aside and self.suspects and self.suspects.pass_over(self.next_send)):
                break
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

    # --- Bytes from the server ---

    def restart(self):
        """Await the first byte of a packet."""
        self.first = 0  # first byte of the packet: type and flags
        self.length = 0  # remaining length of the packet, in bytes
        self.have = 0  # bytes of it that have arrived
        self._seen = -1  # `have` when the session last looked; -1: a packet has begun since
        self.is_between = True  # the last packet is complete, and none has begun
        self._shift = _FIRST  # 0 to 21: bits of the remaining length that have arrived

    def receive(self, data, at, end):
        """Take data[at:end]. Returns `end`; an earlier offset when an answer must go out first; or
        the status to close the stream with."""
        if self._answer:
            return at
        while at < end:
            packet_id = puback_id(data, at, end) if self.is_between else 0
            if packet_id and self.state == _CONNECTED:  # whole, as most are: feed() is not needed
                at += 4
                self._on_puback(packet_id)
            else:
                at = self._take(data, at, end)
                if self.state == _CLOSED:  # a handler of the application closed it
                    return end
                if at < 0 or self._answer:
                    break
        return at

    def _take(self, data, at, end):
        """Take one packet, or the part of it that is there. Returns as receive()."""
        self.owes = _CAME
        at = self.feed(data, at, end)
        if at < 0:
            return _PROTOCOL_ERROR
        if not self.is_between:
            return at
        if self.state == _CONNECTING:
            return self._on_connack() or at
        if self.first == 0x40 and self.length == 2:
            self._on_puback(self.buffer[0] << 8 | self.buffer[1])
        elif self.first == 0xD0 and not self.length:
            return self._on_pong() or at
        else:
            return self._on_packet(self.first) or at
        return at

    def feed(self, data, at, end):
        """Take data[at:end], up to the end of one packet. Returns the offset of the first byte not
        taken, or -1 when the remaining length has more than four bytes.

        Fixed header (2.2.3): type and flags, then 1 to 4 bytes of remaining length, lowest 7 bits
        first.
        """
        if self.is_between:
            self.restart()
            self.is_between = False
        shift = self._shift
        while at < end and shift < _TOO_LONG:
            if shift < 0:
                self.first = data[at]
                shift = 0
            else:
                self.length |= (data[at] & 127) << shift
                shift = shift + 7 if data[at] > 127 else _BODY
            at += 1
        self._shift = shift
        if shift == _TOO_LONG:
            return -1
        if shift == _BODY:
            end = min(end - at, self.length - self.have)  # now a count: the frame has 11 words
            self._keep(data, at, end)
            self.have += end
            self.is_between = self.have == self.length
            at += end
        return at

    def _keep(self, data, at, count):
        """Keep data[at:at+count], which begins `have` bytes from the packet's start."""
        room = len(self.buffer) - self.have
        if room < count:
            if room > 0:
                copy(self.buffer, self.have, data, at, room)
            self._on_rest(data, at, count)
        else:
            copy(self.buffer, self.have, data, at, count)

    def _on_rest(self, data, at, count):
        """As _keep(); the buffer has no room for the last of these bytes."""

    # --- Deadlines: checked once a tick ---

    def settle(self, moved):
        """End a tick. Returns the status to close the stream with; OK: nothing is overdue.

        If nothing moved, erase ahead, and save acknowledgements that no record has carried."""
        if self._rested_seq != self.outbox.oldest_seq:
            self._rested_seq = self.outbox.oldest_seq
            self._rested_ms = self.now_ms
        if not moved:
            try:
                self.outbox.erase_ahead()
                if self._waited(self._rested_ms) >= _SAVE_MS and self.outbox.unsaved():
                    self.outbox.save_state()
            except OSError:
                pass  # of the flash driver: no reason to end the connection
        return self._overdue() if self.state else _OK

    def _see(self):
        """Note what came since the last tick, and what is awaited from this one on."""
        now_ms = self.now_ms
        if self.next_send > self.outbox.next_seq:  # its numbers were used up, and restarted at 0
            self.high = self.maybe_sent = 0
            self._restart_window(0)
        if self.acknowledged != self._acked_seen:
            self._acked_seen = self.acknowledged
            self._inbound_ms = now_ms
            self._exchange_ms = -1
        elif self.is_tick == _CAME:
            if self.is_between or self._seen < 0:
                self._inbound_ms = now_ms
            else:
                self._inbound_ms = self._moved_on(self._inbound_ms, self.have - self._seen)
            self._seen = self.have
        if self.next_send == self.base:
            self._exchange_ms = -1
        elif self._exchange_ms < 0:
            self._exchange_ms = now_ms

    def _waited(self, since_ms):
        """Returns the milliseconds since then; 0 when nothing is awaited."""
        return elapsed_ms(self.now_ms, since_ms) if since_ms >= 0 else 0

    def _moved_on(self, since_ms, count):
        """Returns since_ms moved on by `count` bytes of a packet, _BYTE_MS each."""
        spent_ms = min(self._waited(since_ms), self.response_ms) - count * _BYTE_MS
        return (self.now_ms - max(spent_ms, 0)) & _TICKS

    def _on_late(self, spared_ms):
        """True when an acknowledgement was overdue `spared_ms` ago, and still is."""
        return self._waited(self._exchange_ms) - spared_ms >= _ANSWER * self.response_ms

    def _overdue(self):
        """TIMED_OUT when a packet stalls, in either direction; when CONNACK or PINGRESP does not
        come, or only other bytes do."""
        self._see()
        limit_ms = self.response_ms
        silent_ms = self._waited(self._inbound_ms)
        late_ms = self._waited(self._sent_ms) if self.out_end else 0
        if late_ms >= limit_ms or (silent_ms >= limit_ms and not self.is_between):
            return _TIMED_OUT
        late_ms = self._waited(self._awaited_ms)
        if late_ms >= _BEHIND * limit_ms + min(self.length, _LONG_BYTES) * _BYTE_MS:
            return _TIMED_OUT
        if self.keep_alive_s and self.state == _CONNECTED:
            limit_ms = min(limit_ms, max(self.keep_alive_s * 750, _LEAST_PONG_MS))
        return _TIMED_OUT if min(late_ms, silent_ms) >= limit_ms else _OK

    def part_written(self, count):
        """The stream took `count` bytes of the packet, perhaps none, but not all that were left.
        True when it took some."""
        if count:
            self.out_at += count
            self._sent_ms = self._moved_on(self._sent_ms, count)
            if self.state == _CONNECTING:
                self._awaited_ms = self._sent_ms
        return count > 0

    # --- Hooks ---

    def _on_connack(self):
        """CONNACK (3.2): flags 0 or 1, then the return code."""
        flags, code = self.buffer[0], self.buffer[1]
        if self.first != 0x20 or self.length != 2 or flags > 1:
            return _PROTOCOL_ERROR
        self.return_code = code
        if code:  # the flags should be 0 then; mosquitto above its max_keepalive sends 1
            return _REFUSED
        self.session_present = flags == 1
        self.state = _CONNECTED
        self._awaited_ms = -1
        self._up_ms = self.now_ms
        self._acked_before = self.acknowledged
        self._on_connected()
        return _OK

    def _on_connected(self):
        if self.connects:
            outage_ms = elapsed_ms(self.now_ms, self._offline_ms)
            self.longest_outage_ms = max(self.longest_outage_ms, outage_ms)
        self.connects += 1
        if (self.outbox.aside or self.outbox.lent or self.suspects) and self._load_suspects():
            self.suspects.on_connected()

    def _on_tick(self):
        """Start the packet that is due, other than PUBLISH. True when one goes out."""
        if self.state != _CONNECTED:
            return False
        if self.suspects:
            self.window = self.suspects.on_tick()
            if self.suspects.is_over():
                self.suspects.unload()
                self.suspects = None
            if self.out_end:
                return True
        keep_ms = self.keep_alive_s * 750
        is_due = keep_ms and self._waited(self._sent_ms) >= keep_ms
        if not is_due and self._awaited_ms < 0:
            is_due = (keep_ms and self._waited(self._inbound_ms) >= keep_ms) or self._on_late(0)
        if is_due:
            self.start_ping()
        return self.out_end > 0

    def _on_released(self, seq) -> bool:
        """The QoS 2 message seq is loaded. True: a packet other than its PUBLISH was started. Here
        an earlier session left it, so it goes out with QoS 1: at least once, not never."""
        self.outbox.flags ^= 0x30
        return False

    def _on_pong(self):
        """Returns a status. If a message sent before the PINGREQ is overdue, it will never be
        acknowledged, because servers answer in order."""
        self._see()
        is_late = self._awaited_ms >= 0 and self._on_late(self._waited(self._awaited_ms))
        if self.suspects:
            is_late |= self.suspects.is_late()
        self._awaited_ms = -1
        self._inbound_ms = self.now_ms  # before the tick looks whether a PINGREQ is due
        return _NO_ANSWER if is_late else _OK

    def _on_puback(self, packet_id):
        """An acknowledgement that nothing waits for is ignored and counted."""
        seq = self.base
        place = (packet_id - 1 - seq) % _IDS  # in the window
        acked = self._acked
        end = self.next_send - seq
        if self.out_end and self.out is self.tx and self.tx[0] & 0x36 > 0x30:
            end -= 1  # the last PUBLISH is half written
        if not packet_id or place >= end or acked >> place & 1:
            self._on_unexpected(0x40, packet_id)
            return _OK
        if place or acked:
            seq = self._slide(place)
        else:
            self.base = seq + 1
        self.acknowledged += 1
        if self.suspects:
            self.window = self.suspects.on_acknowledged(seq)
        self._release(seq)
        if seq & 15 == 15 and self.outbox.unsaved() >= _SAVE_COUNT:
            self.outbox.save_state()
        if self.on_acknowledged:
            self.on_acknowledged(seq)
        return _OK

    def _on_unexpected(self, first, packet_id):
        """An acknowledgement of no message in flight: of one set aside, or ignored and counted."""
        if self.suspects and self.suspects.takes(first, packet_id):
            self.acknowledged += first != 0x50
        else:
            self.ignored += 1

    def _on_packet(self, first):
        """A message that a filter of an earlier session asked for is ignored and counted; so is
        the PUBREL of one, which the server sends after each CONNACK."""
        if (first & 0xF0 != 0x30 or first & 6 == 6) and (first & 0xF7 != 0x62 or self.length != 2):
            return _PROTOCOL_ERROR
        self.skipped += 1
        return _OK

    # --- Messages that the server does not take: `suspects.py` judges ---

    def _on_lost(self, error, is_end):
        """Was a message the reason? The second end in a row with the same one as the oldest in
        flight suggests it, or the first while messages are aside. Then `suspects.py` judges."""
        verdict = self.suspects.on_lost(error, is_end) if self.suspects else 0
        if verdict:
            self._ends = min(self._ends, verdict)
            return
        if self._ended_seq != self.base:
            self._ended_seq = self.base
            self._ends = min(self._ends, 0)
        if is_end and self.next_send != self.base:
            self._ends += 1
            if self._ends > (0 if self.outbox.aside else 1) and self._load_suspects():
                self.suspects.begin()

    def _load_suspects(self):
        """False: there is no memory for it now."""
        try:
            if not self.suspects:
                from outpost.suspects import Suspects

                self.suspects = Suspects(self)
        except Exception:  # ImportError, MemoryError: a tuple of both would take memory
            return False
        return True

    def go_to(self, seq):
        """Send message seq next, alone. Nothing is in flight."""
        self.next_send = seq


def _explain(topic, payload, qos):
    """TypeError, in words; or BAD_QOS."""
    from outpost.connect_packet import check

    return check(topic, payload, qos)
