"""One MQTT session, sans I/O: connection state, keep alive, and the window of PUBLISH packets in flight.

Bytes from the server come in through feed() (see `reader.py`) and handle(); what goes out is started in `out`, one packet at a
time, `out[out_at:out_end]` being what is still to be written. The owner sets `now_ms` (ticks, wrap at 2^30 or beyond). Knows no
stream, no flash and no clock.

Packet identifiers of outgoing messages follow from their sequence number, 1 + seq mod 65535: the same after a power cut,
without a write. The window is at most 16 numbers wide, so two in flight never share one. No heap after construction.

A subclass says what happens: _established(), _acknowledged(seq). `subscriber.py` has what a client needs that receives messages.
"""

from micropython import const

from outpost.reader import Reader

_CONNECTING = const(1)
_CONNECTED = const(2)
_OK = const(0)
_PROTOCOL_ERROR = const(-20)
_REFUSED = const(-21)
_TICKS = const(0x3FFFFFFF)
_IDS = const(65535)
_OVERHEAD = const(9)  # of a PUBLISH: fixed header, length of the topic, packet identifier
_PACKET_COST = const(130)  # beside the bytes of a packet: lwIP's buffer and segment headers 100, a TLS record 29
_LEAST_COST = const(200)  # segments are few as well: this times lwIP's 32 is less than the 6,500 bytes that its heap takes


def elapsed_ms(now_ms, then_ms):
    """Milliseconds from then to now, also over a wrap of the ticks; 0 when `then` is later (up to 6 days)."""
    passed = (now_ms - then_ms) & _TICKS
    return passed if passed < 0x20000000 else 0


def cost_of(length):
    """What a packet of that many bytes takes of the network stack until the server's TCP has it: its share of in_flight_bytes."""
    return max(length + _PACKET_COST, _LEAST_COST)


def packet_id_of(seq):
    """Packet identifier of an outbox message (1..65535)."""
    return 1 + seq % _IDS


class Session(Reader):
    """Its fields are made by client_setup.session().

    keep_alive_s 0 switches keep alive off; else a PINGREQ goes out after three quarters of it without a packet sent. The
    connection is dead when `response_ms` pass without CONNACK, PINGRESP, or the stream's taking a whole packet.
    """

    connect_packet: bytes
    keep_alive_s: int
    window: int
    response_ms = 10_000
    now_ms: int
    tx: bytearray
    owes: bool  # a packet came, or one was due: another may be due
    check_ms: int  # ticks at which there may be something to do other than to receive
    maybe_sent: int
    in_flight_bytes: int  # bound of _unproven, 0: none, and nothing is counted
    _unproven: int  # cost of the packets started that no answer has shown to have reached the server
    _proof_end: int  # of it, the share up to the last PUBLISH that the server must acknowledge
    _ping_end: int  # the share up to the PINGREQ whose answer is awaited
    _answers_end = 0  # bytes of answers that a subclass holds back until there is room

    # --- Connection ---

    def open(self):
        """The stream is there: CONNECT goes out."""
        self.restart()
        self.state = _CONNECTING
        self.next_send = self.base  # what was in flight goes out again, with DUP
        self._answer = 0
        self._asked_ms = self.now_ms
        self._unproven = self._proof_end = self._ping_end = 0
        self._start(self.connect_packet, len(self.connect_packet))

    def _start(self, data, length):
        self.out = data
        self.out_at = 0
        self.out_end = length
        self._sent_ms = self.now_ms
        if self.in_flight_bytes:
            self._unproven += cost_of(length)

    def has_room(self, length):
        """True when a packet with `length` bytes of topic and payload may be started. write() of a full network stack may take
        seconds, so what the stack holds is bounded; a single packet goes out whatever its length."""
        return not self._unproven or self._unproven + cost_of(length + _OVERHEAD) <= self.in_flight_bytes

    def _prove(self, end):
        """The first `end` of what is unproven has reached the server: TCP keeps the order."""
        self._unproven -= end
        self._proof_end = max(self._proof_end - end, 0)
        self._ping_end = max(self._ping_end - end, 0)

    def _needs_proof(self):
        """True when half of the bound, or the room for the longest packet, is taken by packets that no acknowledgement will
        prove, or when answers wait for room."""
        if self._answers_end:
            return True
        if self.next_send != self.base or not self._unproven:
            return False
        return self._unproven * 2 > self.in_flight_bytes or not self.has_room(len(self.tx) - _OVERHEAD)

    def is_dead(self):
        """True when the server, or the stream, has not answered in time."""
        if self._asked_ms >= 0 and elapsed_ms(self.now_ms, self._asked_ms) >= self.response_ms:
            return True
        return self.out_end and elapsed_ms(self.now_ms, self._sent_ms) >= self.response_ms

    def due(self):
        """Start the packet that is due, if any but PUBLISH. True when one was started."""
        if self.state != _CONNECTED:
            return False
        is_due = self.keep_alive_s and elapsed_ms(self.now_ms, self._sent_ms) >= self.keep_alive_s * 750
        if is_due or (self.in_flight_bytes and self._asked_ms < 0 and self._needs_proof()):
            self._start(b"\xc0\x00", 2)
            if self._asked_ms < 0:
                self._asked_ms = self.now_ms
                self._ping_end = self._unproven
        return self.out_end > 0

    # --- Packets from the server ---

    def handle(self):
        """Take the whole packet in `buffer`. OK, or PROTOCOL_ERROR, REFUSED: close the stream."""
        if self.state == _CONNECTING:
            return self._connack()
        if self.first == 0x40 and self.length == 2:
            return self._puback(self.buffer[0] << 8 | self.buffer[1])
        if self.first != 0xD0 or self.length:
            return self._other(self.first)
        self._asked_ms = -1
        self._prove(self._ping_end)
        return _OK

    def _connack(self):
        """3.2: flags 0 or 1, then the return code; with a refusal the flags are 0."""
        flags, code = self.buffer[0], self.buffer[1]
        if self.first != 0x20 or self.length != 2 or flags > 1 or (code and flags):
            return _PROTOCOL_ERROR
        self.return_code = code
        if code:
            return _REFUSED
        self.session_present = flags == 1
        self.state = _CONNECTED
        self._asked_ms = -1
        self._unproven = 0  # CONNECT came
        self._established()  # pyright: ignore[reportAttributeAccessIssue] - the subclass has it
        return _OK

    def _other(self, first):
        """A message: nobody here asked for one, but a session of the past may have; it only counts (`clean=True` ends such a
        session, `Subscriber` takes its messages). All else is not for this client."""
        if first & 0xF0 != 0x30 or first & 6 == 6:
            return _PROTOCOL_ERROR
        self.skipped += 1
        return _OK

    def _puback(self, packet_id):
        """The window slides when its oldest is acknowledged; an acknowledgement that nobody asked for is ignored and counted."""
        seq = self.base
        place = (packet_id - 1 - seq) % _IDS  # in the window
        acked = self._acked
        if not packet_id or place >= self.next_send - seq or acked >> place & 1:
            self.ignored += 1
            return _OK
        if place:
            self._acked = acked | 1 << place
            seq += place
        else:  # the window slides over it, and over those that were acknowledged out of order
            self.base += 1
            while acked:
                acked >>= 1
                if not acked & 1:
                    break
                self.base += 1
            self._acked = acked
            if self.next_send < self.base:
                self.next_send = self.base  # those were acknowledged before the link broke
        if self._proof_end and self.next_send == self.base:  # the last one proves all that went out before it
            self._prove(self._proof_end)
        self._acknowledged(seq)  # pyright: ignore[reportAttributeAccessIssue] - the subclass has it
        return _OK

    # --- Messages to the server ---

    def restart_at(self, seq, acked=0):
        """Send from message seq on: nothing is in flight. Bit i of acked: message seq + i is acknowledged."""
        self.base = self.next_send = seq
        self._acked = acked

    def is_dup(self):
        """True when message next_send was sent before, or may have been, before a power cut."""
        return self.next_send < self.high or self.next_send < self.maybe_sent

    def pass_over(self):
        """Leave out what was acknowledged out of order before the link broke. Returns next_send."""
        while self._acked >> (self.next_send - self.base) & 1:
            self.next_send += 1
        return self.next_send

    def start_message(self, length):
        """Message next_send is in `tx`, a PUBLISH of this many bytes: it goes out."""
        self.out = self.tx
        self.out_at = 0
        self.out_end = length
        self._sent_ms = self.now_ms
        if self.in_flight_bytes:
            self._proof_end = self._unproven = self._unproven + cost_of(length)
        length = self.next_send + 1
        self.next_send = length
        if length > self.high:
            self.high = length
