"""The part of a session that exchanges no packets: takes messages from the application, detects
answers that do not come in time, and notices when connections end on messages.

Must not know when a stored message goes out. Allocation: none; suspects, when there are some.
"""
# pyright: reportAttributeAccessIssue=false

from micropython import const

from outpost.memory import copy, put_publish
from outpost.reader import Reader, is_topic
from outpost.ticks import elapsed_ms

_CONNECTING = const(1)
_CONNECTED = const(2)
_OK = const(0)
_TIMED_OUT = const(-22)
_TICKS = const(0x3FFFFFFF)
_CAME = const(2)  # is_tick: bytes arrived
_BYTE_MS = const(64)  # each byte of an arriving packet extends a wait by this: 16 bytes/s
_ANSWER = const(6)  # an acknowledgement may take this many times response_ms
_BEHIND = const(30)  # or a PINGRESP while other bytes come, plus _BYTE_MS per byte of their packet
_LONG_BYTES = const(0x200000)
_LEAST_PONG_MS = const(2000)
_SAVE_MS = const(600_000)  # boards that measure more often spend no program on acknowledgements
_TOO_BIG = const(-2)
_BUSY = const(-3)
_OFFLINE = const(-4)
_BAD_TOPIC = const(-6)
_BAD_QOS = const(-8)
_BAD_LENGTH = const(-9)
# Bit -status: the server or the path ended the connection (PROTOCOL_ERROR, TIMED_OUT, LINK_LOST,
# NO_ANSWER, TAKEN_OVER, SERVER_LEFT, MOVED), not this side.
_OF_SERVER = const(0x36D00000)


def is_of_server(error):
    """True when the server or the path ended the connection, or did not answer; not this side."""
    return -32 < error < 0 and _OF_SERVER >> -error & 1 > 0


class SessionBase(Reader):
    """See Session."""

    _anew_seq = -1  # MQTT 5.0: the message that goes out now starts a new exchange, without DUP

    def __init__(self, outbox, rx_bytes):
        self._topic = self  # the topic checked last; self: none yet, since a caller may pass None
        self._append = outbox.append
        Reader.__init__(self, rx_bytes)
        self._retain = False  # RETAIN of the QoS 0 message that is being published
        # Ticks since which an acknowledgement of any message is awaited; -1: none is
        self._exchange_ms = -1
        self._acked_seen = 0  # `acknowledged` at the last tick
        self._rested_seq = self._rested_ms = 0  # the last outbox.oldest_seq, and since which ticks
        self.suspects = None  # a Suspects, while messages are suspected, or aside
        self._ends = 0  # connections in a row that ended with this message as the oldest in flight
        self._ended_seq = -1

    # --- Publish ---

    def publish(self, topic, payload, length, qos=1, retain=False) -> int:
        """Send payload[:length] on topic (bytes). Returns a status. OK with QoS 1: the message is
        stored, survives a power cut and will arrive.

        QoS 0 goes out with the next poll() or not at all: OFFLINE without a connection, BUSY while
        another packet goes out.
        """
        if topic is not self._topic:
            if isinstance(payload, str):  # its length is not that of its bytes; once: it takes time
                raise TypeError("publish: payload must be bytes")
            if not self._is_topic(topic):
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
        """[MQTT-3.3.2-2]. A topic that is bytes is checked once: most programs reuse theirs."""
        if not topic:
            return False
        is_plain = True
        for byte in topic:
            if byte < 1 or byte > 127 or byte == 0x23 or byte == 0x2B:  # TypeError when it is a str
                is_plain = False
                break
        if not is_plain and not is_topic(topic, 0, len(topic)):
            return False
        if isinstance(topic, bytes):
            self._topic = topic
        return True

    def _publish_now(self, topic, payload, length):
        if self.state != _CONNECTED:
            return _OFFLINE
        if self._is_taken():
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

    def _is_taken(self):
        """True while no QoS 0 message can begin: another packet goes out, or one is tested."""
        return self.out_end or (self.suspects and self.suspects.is_testing())

    # --- Deadlines: checked once a tick ---

    def settle(self, moved):
        """End a tick. Returns the status to close the stream with; OK: nothing is overdue.

        If nothing moved, erase ahead, and save acknowledgements that no record has carried."""
        now_ms, outbox = self.now_ms, self.outbox
        if self._rested_seq != outbox.oldest_seq:
            self._rested_seq = outbox.oldest_seq
            self._rested_ms = now_ms
        if not moved:
            self._tidy()
        return self._overdue() if self.state else _OK

    def _tidy(self):
        try:
            self.outbox.erase_ahead()
            if self.outbox.unsaved() and self._waited(self._rested_ms) >= _SAVE_MS:
                self.outbox.save_state()
        except OSError:
            pass  # of the flash driver: no reason to end the connection

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

    # --- Messages that the server does not take ---

    def _on_lost(self, error):
        """Was a message the reason? The second end in a row with the same one as the oldest in
        flight suggests it, or the first while messages are aside. Then `suspects.py` judges."""
        is_end = is_of_server(error)
        if self.suspects and self.suspects.on_lost(error, is_end):
            return
        if self._ended_seq != self.base:
            self._ended_seq = self.base
            self._ends = min(self._ends, 0)
        # What the server has (QoS 2) cannot be set aside: only others can gain by a trial.
        is_reason = self.next_send != self.base and (
            not self.has_received(self.base) or self.outbox.next_seq > self.base + 1
        )
        if is_end and is_reason:
            self._ends += 1
            if self._ends > (0 if self.outbox.aside else 1) and self._load_suspects():
                self.suspects.begin()

    def _load_suspects(self):
        """False: there is no memory for it now."""
        try:
            if not self.suspects:
                from outpost.suspects import Suspects

                self.suspects = Suspects(self)
        except (ImportError, MemoryError):
            return False
        return True
