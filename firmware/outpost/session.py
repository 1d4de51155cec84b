"""One MQTT session, without I/O: bytes from the server in, packets to the server out.

It knows packets, numbers and the outbox's contract (`ram_outbox.py`). It must not know a stream, a
socket, a clock or a reconnect delay: those are its owner's, whose duties `client.py` lists. Each
feature is a class of its own, so that boards that do not use it do not pay: `subscribing.py`,
`durable.py`, `exactly_once.py`, `streaming.py`.

Hooks, in the order of a connection. A subclass overrides the methods and calls its base's. No
constructor calls a hook. A field on_... is the application's, and is called last.
    _on_connack()          CONNACK; when the server has accepted:
    _on_connected()
    _on_lost(error)        the connection ended, with the status that ended it
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

Packet identifiers of outgoing messages follow from their sequence number, 1 + seq mod 65535. So
they are the same after a power cut, without a write. The window is at most 16 numbers wide, so no
two messages in flight share one. Allocation: construction only.
"""
# pyright: reportAttributeAccessIssue=false

from micropython import const

from outpost.memory import put_publish, unload
from outpost.session_base import SessionBase
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
_PATIENCE = const(-3)


class Session(SessionBase):
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
    aside_id = 0  # identifier of a message set aside, from PUBREC to PUBCOMP (QoS 2)
    # Found in this class, they cost one look-up less.
    settle, _overdue, _see = SessionBase.settle, SessionBase._overdue, SessionBase._see
    _waited, _publish_now = SessionBase._waited, SessionBase._publish_now

    def __init__(
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
        SessionBase.__init__(self, outbox, rx_bytes)
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

    def is_idle(self):
        """True when the server owes no answer except to a PINGREQ. Valid until lost() returns."""
        if self.suspects and self.suspects.is_retrying():
            return False
        return self.next_send == self.base and not self.is_asking()

    def lost(self, error):
        """The stream is gone, or did not open. error: the status that ended it, as it is: OK is
        close()."""
        if self.state == _CONNECTED:
            self._offline_ms = self.now_ms
            self._on_lost(error)
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

    # --- What `suspects.py` asks and does ---

    def is_pinging(self):
        """True while PINGREQ awaits its answer."""
        return self._awaited_ms >= 0

    def is_asking(self):
        """True while SUBSCRIBE or UNSUBSCRIBE awaits its answer."""
        return False

    def has_received(self, seq):
        """True when the server has message seq, and must not get it again (QoS 2)."""
        return False

    def is_paused(self, seq):
        """True while message seq may not go out, because the server refused it (MQTT 5.0)."""
        return False

    def go_to(self, seq):
        """Send message seq next, alone. Nothing is in flight."""
        self.next_send = seq

    def be_patient(self):
        """The next suspicion takes five ends in a row."""
        self._ends = _PATIENCE

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
