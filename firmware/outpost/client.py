"""The one I/O shell: a stream, a session and an outbox, driven by poll().

Its duties to the sans-I/O parts: give the ticks to the session, its packets to the stream in one write each, whole packets
from the stream to the session; read from the outbox what the session may send, free there what is done with, and never otherwise.

poll() does a bounded piece of work and returns: at most one packet written and one chunk read. What may block is the board's
`link()` alone (DNS, TLS handshake). No heap after construction and CONNACK; connecting takes what the board's link takes.

Stream contract: non-blocking; write(buf, offset, length) and readinto(buf) give a count, None for "nothing now"; readinto
gives 0 when the peer closed; OSError when it broke. Other oddities of a port end in its board.py.
"""

from micropython import const

from outpost.memory import copy, puback_id, put_publish, unload
from outpost.session import Session, elapsed_ms

_OK = const(0)
_TOO_BIG = const(-2)
_BUSY = const(-3)
_OFFLINE = const(-4)
_BAD_TOPIC = const(-6)
_BAD_QOS = const(-8)
_CLOSED = const(0)
_CONNECTED = const(2)
_PROTOCOL_ERROR = const(-20)
_TIMED_OUT = const(-22)
_LINK_LOST = const(-23)
_IDS = const(65535)
_TICKS = const(0x3FFFFFFF)
_HALF = const(0x20000000)
_TICK_MS = const(16)  # how often what depends on time alone is looked at
_SAVE_COUNT = const(49)  # looked at every 16th time: 64 messages at most come again after a power cut, beside those in flight
_SAVE_MS = const(600_000)  # a board that measures more often than that pays no program for acknowledgements
_FIRST_WAIT_MS = const(500)
_LONGEST_WAIT_MS = const(60_000)


def backoff_ms(attempt, random_bits):
    """Milliseconds to wait before connection attempt 2, 3, ...: doubling up to a minute, half of it fixed, half random, so that
    a thousand boards do not come back in step after a broker's restart. random_bits: 16 random bits.
    """
    step = min(_FIRST_WAIT_MS << min(attempt - 1, 7), _LONGEST_WAIT_MS) // 2
    return step + (random_bits & 0xFFFF) * step // 0x10000


def nothing(argument):
    """Stands in for readinto() where there is no stream."""
    return None


class Client(Session):
    """link: callable, gives a connected stream, None (not yet: asked again) or raises OSError. outbox: mounted.

    The server's PUBACK frees a message (`durable.py`: the collector's word does). Options: see client_setup.client().
    on_acknowledged: called with the sequence number.
    """

    highest_qos = 1
    outbox: "Anything"
    on_acknowledged: "Anything"
    _link: "Anything"
    _random: "Anything"
    _append: "Anything"
    _discard: "Anything"  # the outbox's; where the server's acknowledgement frees nothing, `nothing`
    _rx: bytearray

    def __init__(self, link, outbox, client_id, **options):
        from outpost import client_setup

        client_setup.client(self, link, outbox, client_id, **options)
        self._read = nothing
        unload("outpost.client_setup")

    def is_connected(self):
        return self.state == _CONNECTED

    def is_drained(self):
        """True when nothing that was published still waits for its acknowledgement (collector mode: for the collector's word)."""
        return self.outbox.oldest_seq == self.outbox.next_seq

    # --- Publish ---

    def publish(self, topic, payload, length, qos=1, retain=False):
        """Send payload[:length] on topic (bytes). Status; OK with QoS 1: stored, it survives a power cut and will arrive.

        QoS 0 goes out with the next poll() or not at all: OFFLINE without a connection, BUSY while another packet goes out.
        """
        if topic is not self._topic and not self._is_good(topic):
            return _BAD_TOPIC
        if (qos > 1 or qos < 0) and qos != self.highest_qos:
            return _BAD_QOS
        self.check_ms = self.now_ms
        if not qos:
            self._retain = retain
            return self._now(topic, payload, length)
        qos = qos << 4 | (0x40 if retain else 0)
        retain = self._append  # the call of a method would take one word more, and the frame would exceed 11
        return retain(topic, payload, length, qos)

    def _is_good(self, topic):
        """[MQTT-3.3.2-2]. A topic that cannot change, as most programs use one over and over, is checked once."""
        if not topic or b"#" in topic or b"+" in topic or b"\0" in topic:
            return False
        if isinstance(topic, bytes):
            self._topic = topic
        return True

    def _now(self, topic, payload, length):
        if self.state != _CONNECTED:
            return _OFFLINE
        if self.out_end or (self.in_flight_bytes and not self.has_room(len(topic) + length)):
            return _BUSY
        if len(topic) + length > self.outbox.record_bytes:  # `tx` is made for them
            return _TOO_BIG
        topic = put_publish(self.tx, 0x31 if self._retain else 0x30, topic, 0, len(topic), length)  # from here on an offset
        topic = copy(self.tx, topic, payload, 0, length)
        self._start(self.tx, topic)
        return _OK

    # --- The loop ---

    def poll(self, now_ms):
        """A bounded piece of work. True when something moved: call again soon; False: nothing to do just now."""
        self.now_ms = now_ms
        try:
            now_ms = self._rx_end or self._read(self._rx)  # from here on a count: a frame with `try` has room for two names
            if now_ms is None and (self.now_ms - self.check_ms) & _TICKS >= _HALF:
                return False
            return self._work(now_ms)
        except OSError:
            self._lost(_LINK_LOST)
        return True

    def _work(self, count):
        """The rest of poll(): `count` bytes came (0: the stream ended, None: nothing), or it is time to look for work."""
        if self._stream is None:
            return self._offline()
        moved = count is not None and self._receive(count)
        count = self.owes or (self.now_ms - self._tick_ms) & _TICKS < _HALF  # from here on: true when time has passed
        if count:
            self._tick_ms = (self.now_ms + _TICK_MS) & _TICKS
            self.owes = self.out_end > 0 or self.due()  # there may be more
        if self.out_end or (self.next_send != self.outbox.next_seq and self._next()):  # neither, when the link was lost
            moved = self._write() or moved
        if count and self._stream and self.is_dead():
            self._lost(_TIMED_OUT)
        elif count and not moved:
            self._rest()
        self.check_ms = self.now_ms if moved or self.out_end or self.owes else self._tick_ms
        return moved

    def _offline(self):
        wait_ms = self._wait_ms - elapsed_ms(self.now_ms, self._since_ms)
        if wait_ms <= 0:
            return self._connect()
        self.check_ms = (self.now_ms + min(wait_ms, _TICK_MS)) & _TICKS
        self._rest()
        return False

    def _rest(self):
        """Nothing moves: erase ahead, and give acknowledgements that no next record comes to carry one of their own."""
        self.outbox.erase_ahead()
        if self.outbox.unsaved() and elapsed_ms(self.now_ms, self._saved_ms) >= _SAVE_MS:
            self.outbox.save_state()

    def close(self):
        """DISCONNECT, if a connection stands, and write down what is acknowledged. The outbox keeps the rest."""
        try:
            if self.state == _CONNECTED and not self.out_end:
                self._start(b"\xe0\x00", 2)
                self._write()
        except OSError:
            pass
        if self._stream:
            self._lost(_OK)
        return self.outbox.save_state()

    def _connect(self):
        try:
            self._stream = self._link()
        except OSError as error:
            self._lost(error.args[0] if error.args else _LINK_LOST)
        if self._stream is None:
            return False
        self._read = self._stream.readinto
        self._rx_at = self._rx_end = 0
        self.open()
        return self._write()

    def _lost(self, error):
        """The stream is of no more use, or did not come: close it, and connect after a delay."""
        try:
            if self._stream:
                self._stream.close()
        except OSError:
            pass
        self._stream = None
        self._read = nothing
        self.check_ms = self.now_ms
        if self.state == _CONNECTED:
            self._offline_ms = self.now_ms
        self.state = _CLOSED
        self.out_end = 0
        self.last_error = error
        self.failures += error != _OK
        self._attempt += 1
        self._since_ms = self.now_ms
        self._wait_ms = backoff_ms(self._attempt, self._random() if self._random else 0)

    def _write(self):
        """Go on with the packet that goes out: one write, resumed at its offset when the stream took less."""
        at = self.out_at
        count = self._stream.write(self.out, at, self.out_end - at)
        if not count:
            return False
        at += count
        self.out_at = at
        if at == self.out_end:
            self.out_end = 0
        return True

    # --- Send ---

    def _next(self):
        """Start the outbox's next message, if there is one and room in the window. True when one was started."""
        outbox = self.outbox
        seq = self.next_send
        if seq > outbox.next_seq:  # its numbers were used up, and begin at 0 again
            self.high = self.maybe_sent = seq = 0
            self.restart_at(0)
        if self._acked:
            seq = self.pass_over()
        if seq - self.base >= self.window or self.state != _CONNECTED or outbox.load(seq):
            return False
        if outbox.loaded_seq != seq:  # those between no longer exist
            if seq != self.base:
                return False
            self.restart_at(outbox.loaded_seq)
        if self.in_flight_bytes and not self.has_room(outbox.topic_length + outbox.payload_length):
            return False
        self._compose()
        return True

    def _compose(self):
        """PUBLISH from the outbox's buffer into `tx` (3.3)."""
        outbox = self.outbox
        first = 0x30 | outbox.flags >> 3 & 0x06 | outbox.flags >> 6
        if (self.next_send < self.high or self.next_send < self.maybe_sent) and self.is_dup():
            first |= 8
            self.redelivered += 1
        self.sent += 1
        first |= (1 + self.next_send % _IDS) << 8  # packet_id_of(), at a call less
        first = put_publish(self.tx, first, outbox.buffer, outbox.topic_at, outbox.topic_length, outbox.payload_length)
        self.start_message(first)

    # --- Receive ---

    def _receive(self, count):
        """Take what stands in _rx up to `count`. True when something was taken."""
        if not count:
            self._lost(_LINK_LOST)
            return True
        self._rx_end = count
        if self._answer:
            return False  # it waits for the stream
        rx = self._rx
        at = self._rx_at
        while True:
            packet_id = puback_id(rx, at, count) if self.is_between else 0
            if packet_id and self.state == _CONNECTED:  # there as a whole, it needs no reader: there are many of them
                self._rx_at = at + 4
                self._puback(packet_id)
            else:
                self._take(rx)
            at = self._rx_at
            if at >= count:
                self._rx_at = self._rx_end = 0
                return True
            if self._answer or self._stream is None:  # a handler may have closed it
                return True

    def _take(self, rx):
        """One packet, or what there is of it."""
        self.owes = True
        at = self._rx_at = self.feed(rx, self._rx_at, self._rx_end)
        if at < 0:
            self._lost(_PROTOCOL_ERROR)
        elif self.is_between:
            at = self.handle()
            if at:
                self._lost(at)

    def _established(self):
        if self.connects:
            self.longest_outage_ms = max(self.longest_outage_ms, elapsed_ms(self.now_ms, self._offline_ms))
        self.connects += 1
        self._attempt = 0

    def _acknowledged(self, seq):
        self.acknowledged += 1
        self._discard(seq)
        self._saved_ms = self.now_ms
        if seq & 15 == 15 and self.outbox.unsaved() >= _SAVE_COUNT:
            self.outbox.save_state()
        if self.on_acknowledged:
            self.on_acknowledged(seq)
