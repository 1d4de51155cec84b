"""The one I/O shell: a stream, a session and an outbox, driven by poll().

Its duties to the sans-I/O parts: give the ticks to the session, its packets to the stream in one write each, whole packets
from the stream to the session; read from the outbox what the session may send, free there what is done with, and never otherwise.

poll() does a bounded piece of work and returns: at most one packet written and one chunk read. What may block is the board's
`link()` alone (DNS, TLS handshake). No heap after construction and CONNACK; connecting takes what the board's link takes.

Stream contract: non-blocking; write(buf, offset, length) and readinto(buf) give a count, None for "nothing now"; readinto
gives 0 when the peer closed; OSError when it broke. Other oddities of a port end in its board.py.
"""

from micropython import const

from outpost import packets
from outpost.memory import copy, forget
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
_OVERHEAD = const(9)  # of a PUBLISH: fixed header, length of the topic, packet identifier
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


class Client(Session):
    """link: callable, gives a connected stream, None (not yet: asked again) or raises OSError. outbox: mounted.

    The server's PUBACK frees a message (`durable.py`: the collector's word does). Options: see client_setup.client().
    on_acknowledged: called with the sequence number.
    """

    highest_qos = 1
    frees = True  # the server's acknowledgement frees a message
    outbox: "Anything"
    on_acknowledged: "Anything"
    _link: "Anything"
    _random: "Anything"
    _rx: bytearray

    def __init__(self, link, outbox, client_id, **options):
        from outpost import client_setup

        client_setup.client(self, link, outbox, client_id, **options)
        forget("client_setup")

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
        if not topic or b"#" in topic or b"+" in topic or b"\0" in topic:
            return _BAD_TOPIC
        self._flags = qos << 4 | (0x40 if retain else 0)
        if qos:
            return self._store(topic, payload, length) if 0 < qos <= self.highest_qos else _BAD_QOS
        return self._now(topic, payload, length)

    def _store(self, topic, payload, length):
        return self.outbox.append(topic, payload, length, self._flags)

    def _now(self, topic, payload, length):
        if self.state != _CONNECTED:
            return _OFFLINE
        if self.out_end:
            return _BUSY
        at = len(topic) + length  # steps: the frame must stay within 11 words
        if at + _OVERHEAD > len(self.tx):
            return _TOO_BIG
        at = packets.put_header(self.tx, self._flags >> 6 | 0x30, at + 2)
        at = packets.put_u16(self.tx, at, len(topic))
        at = self._put(at, topic, len(topic))
        at = self._put(at, payload, length)
        self._start(self.tx, at)
        return _OK

    def _put(self, at, data, length):
        return copy(self.tx, at, data, 0, length)

    # --- The loop ---

    def poll(self, now_ms):
        """A bounded piece of work. True when something moved: call again soon; False: nothing to do just now."""
        if now_ms != self.now_ms:
            self.now_ms = now_ms
            self.owes = True
        if self._stream is None and elapsed_ms(now_ms, self._since_ms) < self._wait_ms:
            self._rest()
            return False
        try:
            return self._work() if self._stream else self._connect()
        except OSError:
            self._lost(_LINK_LOST)
        return True

    def _work(self):
        moved = self._receive()
        if not self._stream:
            return True
        owes = self.owes
        if owes and not self.out_end:
            self.owes = self.due()
        if self.out_end or self._next():
            moved = self._write() or moved
        if owes and self.is_dead():
            self._lost(_TIMED_OUT)
        elif owes and not moved:
            self._rest()
        return moved

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
        count = self._stream.write(self.out, self.out_at, self.out_end - self.out_at)
        if not count:
            return False
        self.out_at += count
        if self.out_at == self.out_end:
            self.out_end = 0
        return True

    # --- Send ---

    def _next(self):
        """Start the outbox's next message, if there is one and room in the window. True when one was started."""
        outbox = self.outbox
        if self.next_send == outbox.next_seq:
            return False
        if self.next_send > outbox.next_seq:  # its numbers were used up, and began anew
            self.high = self.maybe_sent = 0
            self.restart_at(0)
        if not self.pass_over() or self.state != _CONNECTED or outbox.load(self.next_send):
            return False
        if outbox.loaded_seq != self.next_send:  # those between no longer exist
            if self.next_send != self.base:
                return False
            self.restart_at(outbox.loaded_seq)
        self._compose()
        return True

    def _compose(self):
        """PUBLISH from the outbox's buffer into `tx` (3.3)."""
        outbox = self.outbox
        first = 0x30 | outbox.flags >> 3 & 0x06 | outbox.flags >> 6
        if self.is_dup():
            first |= 8
            self.redelivered += 1
        self.sent += 1
        tx = self.tx
        at = packets.put_header(tx, first, outbox.topic_length + outbox.payload_length + 4)
        tx[at] = 0
        tx[at + 1] = outbox.topic_length
        at = copy(tx, at + 2, outbox.buffer, outbox.topic_at, outbox.topic_length)
        first = 1 + self.next_send % _IDS  # packet_id_of(), at a call less; no further variable: the frame is at 11 words
        tx[at] = first >> 8
        tx[at + 1] = first & 0xFF
        at = copy(tx, at + 2, outbox.buffer, outbox.topic_at + outbox.topic_length, outbox.payload_length)
        self.start_message(at)

    # --- Receive ---

    def _receive(self):
        if self._rx_at == self._rx_end:
            count = self._stream.readinto(self._rx)
            if count == 0:
                self._lost(_LINK_LOST)
            if not count:
                return False
            self._rx_at = 0
            self._rx_end = count
        if self._answer:
            return False  # it waits for the stream
        rx = self._rx
        while self._rx_at < self._rx_end and self._stream and not self._answer:
            at = self._rx_at
            if rx[at] != 0x40 or at + 3 >= self._rx_end or not self.is_between or self.state != _CONNECTED or rx[at + 1] != 2:
                self._take(rx)
            else:  # a PUBACK that is there as a whole needs no reader: there are many of them
                self._rx_at = at + 4
                self._puback(rx[at + 2] << 8 | rx[at + 3])
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
        if self.frees:
            self.outbox.discard(seq)
        self._saved_ms = self.now_ms
        if seq & 15 == 15 and self.outbox.unsaved() >= _SAVE_COUNT:
            self.outbox.save_state()
        if self.on_acknowledged:
            self.on_acknowledged(seq)
