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
from outpost.backoff import delay_ms
from outpost.reader import Reader
from outpost.session import elapsed_ms, packet_id_of

try:
    from outpost.viper import copy
except (ImportError, AttributeError, SyntaxError, ValueError):
    from outpost.bytecode import copy

_OK = const(0)
_TOO_BIG = const(-2)
_BUSY = const(-3)
_OFFLINE = const(-4)
_BAD_TOPIC = const(-6)
_BAD_QOS = const(-8)
_PACKET = const(1)
_ERROR = const(-1)
_CONNECTED = const(2)
_ESTABLISHED = const(1)
_ACKNOWLEDGED = const(2)
_MESSAGE = const(3)
_PROTOCOL_ERROR = const(-20)
_LINK_LOST = const(-23)
_CHUNK = const(128)
_IN_FLIGHT = const(16)
_PUBLISH_OVERHEAD = const(9)
_SAVE_COUNT = const(64)  # so many messages at most come again after a power cut, beside those in flight
_SAVE_MS = const(30_000)


class Client:
    """link: callable, gives a connected stream, None (not yet: asked again) or raises OSError. outbox: mounted.

    durable: None, the server's PUBACK frees a record (broker mode); a `Durable`, the collector's word does (collector mode).
    rx_bytes: the longest inbound packet kept; longer ones are skipped and counted. random: callable, 16 random bits or more.
    on_message: called with the session's Inbound; on_acknowledged: called with the sequence number.
    """

    def __init__(self, link, session, outbox, durable=None, rx_bytes=256, random=None):
        self.session, self.outbox, self.durable = session, outbox, durable
        self._link, self._random = link, random
        self._reader = Reader(rx_bytes)
        connect = packets.connect_length(session.client_id, session.will, session.user, session.password)
        self._tx = bytearray(max(outbox.record_bytes + _PUBLISH_OVERHEAD, connect))
        self._rx = bytearray(_CHUNK)
        self._tx_at = self._tx_end = self._rx_at = self._rx_end = 0
        self._stream = None
        self._first = self._saved_ms = 0
        self._attempt = self._wait_ms = self._since_ms = 0
        self._offline_ms = -1
        self.on_message = self.on_acknowledged = None
        # Counters, for the user to read and publish.
        self.sent = self.acknowledged = self.received = self.connects = self.failures = self.handler_errors = 0
        self.longest_outage_ms = 0
        self.last_error = 0
        session.maybe_sent = outbox.next_seq if durable else min(outbox.next_seq, outbox.oldest_seq + _IN_FLIGHT)
        session.restart_at(outbox.oldest_seq, outbox.acked << 1)
        if durable:
            if outbox.renumbers:
                raise ValueError("client: this outbox policy gives kept messages new numbers; collector mode cannot follow")
            session.topic_filter = durable.topic

    @property
    def is_connected(self):
        return self.session.state == _CONNECTED

    @property
    def is_drained(self):
        """True when nothing that was published still waits for its acknowledgement (collector mode: for the collector's word)."""
        return self.outbox.oldest_seq == self.outbox.next_seq

    # --- Publish ---

    def publish(self, topic, payload, length, qos=1, retain=False):
        """Send payload[:length] on topic (bytes). Status; OK with QoS 1: stored, it survives a power cut and will arrive.

        QoS 0 goes out at once or not at all: OFFLINE without a connection, BUSY while a packet is being written.
        """
        if not topic or 0x23 in topic or 0x2B in topic or 0 in topic:
            return _BAD_TOPIC
        if qos == 1:
            return self.outbox.stage(topic, payload, length) or self.outbox.store(0x50 if retain else 0x10)
        self._first = 0x31 if retain else 0x30
        return self._now(topic, payload, length) if qos == 0 else _BAD_QOS

    def _now(self, topic, payload, length):
        if not self.is_connected:
            return _OFFLINE
        if self._tx_end:
            return _BUSY
        if len(topic) + length + _PUBLISH_OVERHEAD > len(self._tx):
            return _TOO_BIG
        at = self._put_header(self._first, len(topic) + length + 2)
        at = packets.put_string(self._tx, at, topic)
        self._tx_end = self._put(at, payload, 0, length)
        self._write()
        return _OK

    def _put_header(self, first, length):
        return packets.put_fixed_header(self._tx, 0, first, length)

    def _put(self, at, data, start, length):
        return copy(self._tx, at, data, start, length)

    # --- The loop ---

    def poll(self, now_ms):
        """A bounded piece of work. True when something moved: call again soon; False: nothing to do just now."""
        if self._stream is None:
            return self._connect(now_ms)
        moved = self._write()
        if self._stream:
            moved = self._receive(now_ms) or moved
        if self._stream and not self._tx_end:
            moved = self._send(now_ms) or moved
        status = self.session.check(now_ms)
        if status < 0 and self._stream:
            self._lost(status)
        if not moved:
            self.outbox.erase_ahead()
            self._save_when_quiet(now_ms)
        return moved

    def drain(self, ticks_ms, timeout_ms, idle=None):
        """Poll until nothing waits for its acknowledgement, or timeout_ms have passed: before sleep. True when all is delivered.

        ticks_ms: callable; idle: callable, waits a moment (and feeds the watchdog).
        """
        start = ticks_ms()
        while not self.is_drained and elapsed_ms(ticks_ms(), start) < timeout_ms:
            if not self.poll(ticks_ms()) and idle:
                idle(self)
        return self.is_drained

    def _save_when_quiet(self, now_ms):
        """Acknowledgements ride on the next record; when none comes for a while, they get one of their own."""
        if not self.outbox.unsaved:
            self._saved_ms = now_ms
        elif elapsed_ms(now_ms, self._saved_ms) >= _SAVE_MS:
            self.outbox.save_state()

    def close(self):
        """DISCONNECT, if a connection stands, and write down what is acknowledged. The outbox keeps the rest."""
        if self.is_connected and not self._tx_end:
            self._tx_end = packets.encode_empty(self._tx, 0, packets.DISCONNECT)
            self._write()
        if self._stream:
            self._lost(_OK)
        return self.outbox.save_state()

    def _connect(self, now_ms):
        if self._offline_ms < 0:
            self._offline_ms = self._since_ms = now_ms
        return elapsed_ms(now_ms, self._since_ms) >= self._wait_ms and self._open(now_ms)

    def _open(self, now_ms):
        try:
            self._stream = self._link()
        except OSError as error:
            self.last_error = error.args[0] if error.args else _LINK_LOST
            self._failed(now_ms)
        if self._stream is None:
            return False
        self._reader.restart()
        self._tx_at = self._tx_end = self._rx_at = self._rx_end = 0
        self._failed(now_ms)  # until CONNACK says otherwise
        self.session.open(now_ms)
        return self._send(now_ms)

    def _failed(self, now_ms):
        self.failures += 1
        self._attempt += 1
        self._since_ms = now_ms
        self._wait_ms = delay_ms(self._attempt, self._random() if self._random else 0)

    def _lost(self, error):
        """The stream is of no more use: close it, and connect again after a delay."""
        self.last_error = error
        try:
            self._stream.close()
        except OSError:
            pass
        self._stream = None
        self._tx_end = 0
        self.session.close()

    # --- Send ---

    def _write(self):
        """Go on with the packet in the transmit buffer: one write, resumed at its offset when the stream took less."""
        count = self._write_some() if self._tx_end else 0
        if not count:
            return False
        if count < 0:
            self._lost(_LINK_LOST)
            return False
        self._tx_at += count
        if self._tx_at == self._tx_end:
            self._tx_at = self._tx_end = 0
        return True

    def _write_some(self):
        try:
            return self._stream.write(self._tx, self._tx_at, self._tx_end - self._tx_at)
        except OSError:
            return -1

    def _send(self, now_ms):
        self._tx_end = self.session.next_packet(self._tx, now_ms)
        if not self._tx_end and self.session.may_send() and self._choose(now_ms):
            self._compose()
            self.session.sent(now_ms)
            self.outbox.advance()
            self.sent += 1
        return self._write()

    def _choose(self, now_ms):
        """True when the outbox has the session's next message loaded."""
        session, outbox = self.session, self.outbox
        if session.next_send > outbox.next_seq:
            self._new_stream()
        if not session.is_resending and self.durable and not self._may_go_on(now_ms):
            return False
        if session.pass_over():
            return False
        if outbox.cursor_seq != session.next_send:
            outbox.seek(session.next_send)
        if outbox.load() != _OK:
            return False
        if outbox.cursor_seq != session.next_send:
            if session.has_unacknowledged:
                return False
            session.skip_to(outbox.cursor_seq)
        return True

    def _new_stream(self):
        """The outbox's numbers were used up, and began anew."""
        self.session.restart_at(0)
        self.session.maybe_sent = 0
        if self.durable:
            self.durable.through = -1

    def _may_go_on(self, now_ms):
        """Collector mode, nothing left to resend: new messages wait for the retained word, and behind a replay."""
        session, durable = self.session, self.durable
        if durable.holds_up(now_ms):
            return False
        unconfirmed = self.outbox.oldest_seq < session.base
        if durable.replay_due(now_ms, unconfirmed):
            if session.has_unacknowledged:
                return False
            durable.replayed(now_ms, unconfirmed)
            session.restart_at(self.outbox.oldest_seq)
        return True

    def _compose(self):
        """PUBLISH from the outbox's buffer into the transmit buffer (3.3)."""
        outbox = self.outbox
        first = 0x30 | outbox.flags >> 3 & 0x06 | outbox.flags >> 6
        if self.session.is_dup:
            first |= packets.DUP
        length = packets.publish_length(outbox.topic_length, outbox.payload_length, 1)
        at = self._put_header(first, length)
        at = packets.put_u16(self._tx, at, outbox.topic_length)
        self._compose_body(at)

    def _compose_body(self, at):
        outbox = self.outbox
        at = self._put(at, outbox.buffer, outbox.topic_at, outbox.topic_length)
        at = packets.put_u16(self._tx, at, packet_id_of(self.session.next_send))
        self._tx_end = self._put(at, outbox.buffer, outbox.topic_at + outbox.topic_length, outbox.payload_length)

    # --- Receive ---

    def _receive(self, now_ms):
        if self._rx_at == self._rx_end and not self._read_chunk():
            return False
        while self._rx_at < self._rx_end and not self.session.ack_due and self._stream:
            status = self._reader.feed(self._rx, self._rx_at, self._rx_end)
            self._rx_at = self._reader.taken
            if status == _PACKET:
                status = self._handle(self.session.received(self._reader), now_ms)
            if status < 0:
                self._lost(_PROTOCOL_ERROR if status == _ERROR else status)
        return True

    def _read_chunk(self):
        count = self._read_some()
        if count == 0:
            self._lost(_LINK_LOST)
        self._rx_at, self._rx_end = 0, count or 0
        return self._rx_end > 0

    def _read_some(self):
        """As the stream's readinto(), but 0 also when it broke."""
        try:
            return self._stream.readinto(self._rx)
        except OSError:
            return 0

    def _handle(self, event, now_ms):
        if event == _ACKNOWLEDGED:
            self._acknowledge(now_ms)
        elif event == _MESSAGE:
            self._deliver(now_ms)
        elif event == _ESTABLISHED:
            self._established(now_ms)
        return event

    def _established(self, now_ms):
        self.connects += 1
        self.failures -= 1
        self._attempt = self._wait_ms = 0
        self.longest_outage_ms = max(self.longest_outage_ms, elapsed_ms(now_ms, self._offline_ms))
        self._offline_ms = -1
        if self.durable:
            self.durable.connected(now_ms)

    def _acknowledge(self, now_ms):
        self.acknowledged += 1
        seq = self.session.acknowledged_seq
        if self.durable:
            if seq == self.outbox.oldest_seq:
                self.durable.silence_begins(now_ms)
            self._free_durable()
        else:
            self.outbox.discard(seq)
            self._save_if_many()
        if self.on_acknowledged:
            self.on_acknowledged(seq)

    def _free_durable(self):
        """Free what the collector confirmed, but nothing whose exchange with the server is still open."""
        through, session = self.durable.through, self.session
        if session.has_unacknowledged:
            through = min(through, session.base - 1)
        if through >= self.outbox.oldest_seq:
            self.outbox.discard_through(through)
            self._save_if_many()

    def _save_if_many(self):
        if self.outbox.unsaved >= _SAVE_COUNT:
            self.outbox.save_state()

    def _deliver(self, now_ms):
        inbound = self.session.inbound
        if self.durable and inbound.is_on(self.durable.topic):
            self.durable.take(inbound, self.outbox, now_ms)
            self._free_durable()
        elif self.on_message and not self._application_took(inbound):
            self.handler_errors += 1
            self.session.withhold_ack()
            return
        self.received += 1

    def _application_took(self, inbound):
        try:
            self.on_message(inbound)
            return True
        except Exception:  # the application's fault, whatever it is: not acknowledged, so not lost
            return False
