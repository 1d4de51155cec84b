"""Finds the message that the server does not accept. It is set aside, the others go on, and it is
tried again alone. Loaded when connections end on messages, or messages are aside; unloaded when all
is well.

**Suspicion.** The peer ended two connections in a row while a PUBLISH was in flight and nothing was
acknowledged (one, while messages are aside). Either a message is the reason, or the network is bad.
A control on each of the next connections, which sends no message, distinguishes the two:

    CONNACK   PINGREQ, PINGRESP ... PINGREQ, PINGRESP   PUBLISH of the oldest, alone
    |------ control: older than the one that ended ------|-- trial --|

- The connection ends in the control: the reason is the network, or a server that ends every
  connection. The suspicion is dropped, and the next one takes five ends in a row (four, while
  messages are aside).
- The peer ends it in the trial, after any of that PUBLISH went out and before its acknowledgement:
  evidence. The third in a row for the same message sets it aside.
- PUBACK: this message is fine. The next one that had been in flight goes out, alone. After the last
  of them the suspicion is over.
- Our own deadline (TIMED_OUT, NO_ANSWER) or another client with our id (TAKEN_OVER) is no
  evidence, and counting restarts. But NO_ANSWER is evidence if the server acknowledged later
  messages: then it answers, but not this one.
A message whose topic is invalid for any server is set aside without trials.

So a network that ends connections at some age, or by chance, must end three in a row in the round
trip of the same PUBLISH, and none of them in the control, which is longer.

**A server that takes nothing** must not empty the outbox onto the shelf. After four messages in a
row were set aside, no other is until one is acknowledged, and `status` is BLOCKED.

**Retry.** One minute after a message was set aside, it goes out again: a PINGREQ is answered, the
window runs empty, and it goes out alone. After PUBACK it leaves the shelf, and the next one
follows. If no answer comes or the connection ends, the next one follows a minute later; after each
round over the shelf that time doubles, up to a day. The others wait for one exchange at most. A
message of QoS 2 that the server has (PUBREC) is in the session's note before PUBREL goes out
(`exactly_once.py`) until it has left the shelf. After a power cut in between it continues with
PUBREL, and arrives once.

Must not know a stream, a clock, or where the shelf is (`ram_outbox.py` has the contract).
Allocation: construction; a message that is set aside.
"""

from micropython import const

from outpost import packets
from outpost.memory import put_publish
from outpost.reader import is_topic
from outpost.ticks import elapsed_ms

_OK = const(0)
_FULL = const(-1)
_LINK_LOST = const(-23)
_MOST_IN_FLIGHT = const(16)
_BLOCKED = const(-27)
_CALM = const(0)  # nothing is suspected; the shelf may have messages
_CONTROL = const(1)
_TRIAL = const(2)
_PINGED = const(3)  # PINGREQ is out: a message of the shelf is due
_HOLD = const(4)  # the window runs empty for it
_AGAIN = const(5)  # it went out
_RECEIVED = const(6)  # its PUBREC came
_RELEASED = const(7)  # its PUBREL went out
_ENDS = const(3)  # this many are evidence enough
_IN_A_ROW = const(4)
_PATIENCE = const(-3)
_CONTROL_MS = const(10_000)  # at most
_MOST_MINUTES = const(1440)  # a day
_MINUTE_MS = const(60_000)


class Suspects:
    """A part of its session: reads the session's fields, and decides its window."""

    def __init__(self, session):
        self._session = session
        self._full = session.window
        self._state = _CALM
        # One by one:
        self._until = 0  # messages before this one are suspected
        self._seq = self._ends = 0  # the last one on which a connection ended, and how often
        self._age_ms = 0  # of the connection that ended
        self._pinged_ms = -1  # age of this connection when PINGREQ went out; -1: not yet
        self._in_a_row = 0  # messages set aside since the last acknowledgement
        self._acknowledged = session.acknowledged
        self.status = _OK  # of the last message that should be set aside, or BLOCKED
        # Again:
        self._index = 0  # of the next message on the shelf
        self._minutes = 1  # until it is due
        self._since_ms = session.now_ms  # counted from these ticks
        self._packet_id = 0

    def is_over(self):
        return self._state == _CALM and not self._session.outbox.aside

    def begin(self):
        """Suspect the messages that were in flight."""
        self._until = self._session.high
        self._ends = 0
        self._take_age()
        self._state = _CONTROL

    def refuse(self, seq) -> int:
        """Set message seq aside, which the server says it will never accept. Returns a status."""
        outbox = self._session.outbox
        try:
            self.status = outbox.shelf().put(seq)
        except (ImportError, MemoryError):
            self.status = _FULL
        if self.status == _OK:
            if outbox.aside == 1:
                self._wait(1)
            self.pass_over(seq)
        return self.status

    def pass_over(self, seq):
        """Treat message seq as acknowledged, if it is set aside. False: it is not, or is outside
        the window."""
        session = self._session
        place = seq - session.base
        if not session.outbox.shelf().has(seq) or not 0 <= place < _MOST_IN_FLIGHT:
            return False
        session._slide(place)
        session._release(seq)
        return True

    def retry(self):
        """Make the next message of the shelf due now."""
        self._minutes = 0

    def set_window(self, window):
        """The session's window, while nothing is suspected."""
        self._full = window

    def denies(self, packet_id):
        """The server (MQTT 5.0) refused a message. True if it is the message of the shelf that went
        out again, which is then postponed."""
        if self._state < _AGAIN or packet_id != self._packet_id:
            return False
        self._state = _CALM
        self._postpone()
        return True

    # --- Events of the session ---

    def on_connected(self):
        self._pinged_ms = -1
        if elapsed_ms(self._since_ms, self._session.now_ms):  # 6 days ago, beyond the ticks' range
            self._minutes = 0
        try:
            if self._session.outbox.lent:
                self._session.outbox.shelf().tidy()
        except (ImportError, MemoryError):
            pass  # the next connection is early enough
        if self._state == _TRIAL:
            self._state = _CONTROL

    def on_lost(self, error):
        """The connection ended. Returns the count from which SessionBase._on_lost() continues;
        None: this end says nothing about what was suspected."""
        state = self._state
        if state == _CALM:
            return None
        if state > _TRIAL:
            self._state = _CALM
            if state < _AGAIN:
                return None
            self._postpone()
        elif state == _CONTROL or not self._is_out():
            if not self._is_asking():  # else it ended on SUBSCRIBE
                self._state = _CALM
                return _PATIENCE
        elif error != _LINK_LOST:
            self._ends = 0
        else:
            self._take_evidence(self._session.base)
        return 0

    def on_tick(self):
        """Returns the session's window from now on."""
        session = self._session
        outbox = session.outbox
        if session.acknowledged != self._acknowledged:
            self._acknowledged = session.acknowledged
            self._in_a_row = self.status = 0
        oldest = outbox.oldest_seq
        if outbox.aside and oldest < session.base and outbox.shelf().has(oldest):
            outbox.discard(oldest)  # collector mode: no confirmation will come for it
        if self._state == _CONTROL and self._is_proved():
            self._state = _TRIAL
            self._check_topic()
        if self._state == _TRIAL and max(session.base, oldest) >= self._until:
            self._state = _CALM
        if self._state == _CONTROL:
            return 0
        return 1 if self._state == _TRIAL else self._look_at_shelf()

    def takes(self, first, packet_id):
        """True when this acknowledgement is for the message of the shelf that went out again."""
        if self._state < _AGAIN or packet_id != self._packet_id:
            return False
        session = self._session
        if first == 0x50:
            session.note_aside(packet_id)
            self._state = _RECEIVED
            self._since_ms = session.now_ms
            return True
        if first == 0x70 and self._state != _RELEASED:
            return False
        self._state = _CALM
        session.outbox.save_state()  # or a power cut could bring it back to the ring
        if session.outbox.shelf().release(self._index) != _OK:
            self._postpone()
            return True
        if first == 0x70:
            session.note_aside(0)
        if self._index >= session.outbox.aside:
            self._index = 0
        self._wait(0)
        return True

    def begin_at(self, index):
        """Make message `index` of the shelf the next one."""
        self._index = index

    # --- One by one ---

    def _take_age(self):
        self._age_ms = min(self._age(), _CONTROL_MS)

    def _age(self):
        """Milliseconds since CONNACK."""
        return elapsed_ms(self._session.now_ms, self._session._up_ms)

    def _is_asking(self):
        """True while SUBSCRIBE or UNSUBSCRIBE awaits its answer."""
        return bool(getattr(self._session, "_requested", False))

    def _is_waiting(self):
        """True while PINGREQ awaits its answer."""
        return self._session._awaited_ms >= 0

    def _is_out(self):
        """True when some of the PUBLISH of the oldest message went out."""
        session = self._session
        if session.next_send == session.base:
            return False
        return not session.out_end or session.out_at > 0 or session.out is not session.tx

    def _is_proved(self):
        """True when the control has passed: this connection, on which nothing was published, has
        outlived the one that ended, and then PINGREQ was answered."""
        session = self._session
        if self._is_waiting() or self._is_asking():
            return False
        if self._pinged_ms >= self._age_ms:
            return True
        age_ms = self._age()
        if self._pinged_ms < 0 or age_ms >= self._age_ms:
            self._pinged_ms = age_ms
            session.start_ping()
        return False

    def _check_topic(self):
        """Check the topic of the oldest message, which another firmware may have stored."""
        outbox, seq = self._session.outbox, self._session.base
        if outbox.load(seq) == _OK and outbox.loaded_seq == seq:
            at = outbox.topic_at
            if not outbox.topic_length or not is_topic(outbox.buffer, at, at + outbox.topic_length):
                self.refuse(seq)

    def _take_evidence(self, seq):
        if self._seq != seq:
            self._seq = seq
            self._ends = 0
        self._ends += 1
        self._take_age()
        self._state = _CONTROL
        if self._ends < _ENDS or getattr(self._session, "_released", 0) >> (seq & 15) & 1:
            return  # QoS 2: the server has it
        if self._in_a_row >= _IN_A_ROW:
            self.status = _BLOCKED
        elif self.refuse(seq) == _OK:
            self._in_a_row += 1

    # --- Again ---

    def _received_id(self):
        """Identifier of the message that awaits PUBCOMP after its PUBREC; 0: there is none."""
        return getattr(self._session, "aside_id", 0)

    def _wait(self, minutes):
        self._minutes = minutes
        self._since_ms = self._session.now_ms

    def _postpone(self):
        """The message was refused or not answered. If the server has it, it stays the next one."""
        if self._packet_id and self._packet_id == self._received_id():
            self._wait(max(self._minutes, 1))
            return
        self._index += 1
        if self._index < self._session.outbox.aside:
            self._wait(self._minutes)
        else:
            self._index = 0
            self._wait(min(max(2 * self._minutes, 1), _MOST_MINUTES))

    def _look_at_shelf(self):
        """Send the message that is due, when nothing else is in flight. Returns the window."""
        state = self._state
        waited_ms = elapsed_ms(self._session.now_ms, self._since_ms)
        if state == _CALM:
            if self._session.outbox.aside and waited_ms >= self._minutes * _MINUTE_MS:
                self._state = _PINGED
                self._session.start_ping()
            return self._full
        if state == _PINGED and self._is_waiting():
            return self._full
        if state < _AGAIN:
            self._state = _HOLD
            self._send_alone()
        elif waited_ms >= self._session.response_ms:
            self._state = _CALM
            self._postpone()
            return self._full
        elif state == _RECEIVED and not self._session.out_end:
            self._send_release()
        return 0

    def _send_alone(self):
        session = self._session
        if session.next_send == session.base and not self._is_asking() and not session.out_end:
            self._send()

    def _send(self):
        """Send PUBLISH of the shelf's message, with its old identifier: if an exchange of QoS 2 was
        cut, the server takes any PUBLISH with that identifier for that message."""
        session = self._session
        outbox = session.outbox
        if outbox.shelf().load(self._index) != _OK:
            self._state, self._packet_id = _CALM, 0
            self._postpone()
            return
        length = outbox.topic_length + outbox.payload_length
        if session.in_flight and not session.in_flight.has_room(length):
            return
        self._packet_id = packets.packet_id_of(outbox.shelf().seq)
        self._since_ms = session.now_ms
        if self._packet_id == self._received_id():
            self._state = _RECEIVED
            return
        self._state = _AGAIN
        session._start(session.tx, self._put(session, outbox))

    def _put(self, session, outbox):
        """Compose PUBLISH in tx. Returns its length."""
        first = outbox.flags >> 3 & 0x06
        if first == 4 and session.highest_qos < 2:
            first = 2
        first |= 0x30 | outbox.flags >> 6 | self._packet_id << 8
        return put_publish(
            session.tx, first, outbox.buffer, outbox.topic_at,
            outbox.topic_length, outbox.payload_length,
        )  # fmt: skip

    def _send_release(self):
        """Send PUBREL: the server has the QoS 2 message of the shelf, and the note records that."""
        if not (self._session._is_noted or self._session._save()):
            return
        tx = self._session.tx
        end = packets.put_header(tx, 0x62, 2)
        self._session._start(tx, packets.put_u16(tx, end, self._packet_id))
        self._state = _RELEASED
