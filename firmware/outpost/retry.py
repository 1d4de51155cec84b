"""Sends the messages that are set aside again. A part of `suspects.py`, loaded while there are any.

**The law.** A message that is aside goes out again alone, at growing intervals, and never counts
against another one: one minute after it was set aside, a PINGREQ is answered, the window runs
empty, and it goes out. After PUBACK it leaves the shelf, and the next one follows at once. If it is
refused or the connection ends, the next one follows a minute later; after each round over the shelf
that time doubles, up to a day. The others wait for one exchange at most, and go first on each
connection: otherwise pauses of a minute between connections would leave them no turn. The first
acknowledgement after a row of messages without one makes the shelf due.

A message without an answer takes a place among those that the server allows, and may not go out
again, until the connection ends. So it ends: if PINGRESP comes and no acknowledgement, none will
come, because servers answer in order.

A message of QoS 2 that the server has (PUBREC) is in the session's note before PUBREL goes out
(`exactly_once.py`) until it has left the shelf. After a power cut in between it continues with
PUBREL, and arrives once. A message that the broker acknowledges and does not pass on
(`durable.py`) stays on the shelf: another PUBACK would say nothing.

Must not know why a message is aside. Allocation: construction; an exchange that begins.
"""

from micropython import const

from outpost import packets
from outpost.memory import put_publish
from outpost.ticks import elapsed_ms

_OK = const(0)
_CALM = const(0)
_PINGED = const(1)  # PINGREQ is out: a message is due
_HOLD = const(2)  # the window runs empty for it
_AGAIN = const(3)  # it went out
_RECEIVED = const(4)  # its PUBREC came
_RELEASED = const(5)  # its PUBREL went out
_MOST_MINUTES = const(1440)  # a day
_MINUTE_MS = const(60_000)
_DUP = const(8)


class Retry:
    """A part of its session: reads the session's fields."""

    def __init__(self, session):
        self._session = session
        self._state = _CALM
        self._index = 0  # of the next message on the shelf
        self._minutes = 1  # until it is due
        self._since_ms = session.now_ms  # counted from these ticks
        self._packet_id = 0  # of the message that goes out
        self._exchanges = {}  # identifier: DUP while its exchange is open at the server; else 0
        self._dup = _DUP  # of those that are not there
        self._is_late = False  # no answer within response_ms, and PINGREQ followed

    def is_out(self):
        return self._state >= _AGAIN

    def is_late(self):
        """True when PINGRESP says that the message that went out will not be answered."""
        return self._is_late and self._state >= _AGAIN

    def hurry(self):
        self._minutes = 0

    def begin_at(self, index):
        """Make message `index` of the shelf the next one."""
        self._index = index

    def added(self):
        """A message was set aside."""
        if self._session.outbox.aside == 1:
            self._wait(1)

    def ended(self, packet_id):
        """The server refused this message: its exchange is over, and the next one is new."""
        self._exchanges[packet_id] = 0

    def on_connected(self):
        session = self._session
        if not session.session_present:
            self._exchanges.clear()
            self._dup = 0
        if elapsed_ms(self._since_ms, session.now_ms):  # 6 days ago, beyond the ticks' range
            self._minutes = 0

    def on_lost(self):
        """The connection ended. True when a message of the shelf was out."""
        was_out, self._state = self._state >= _AGAIN, _CALM
        if was_out:
            self._postpone()
        return was_out

    def takes(self, first, packet_id):
        """True when this acknowledgement is for the message that went out."""
        if not self._is_awaited(packet_id):
            return False
        session = self._session
        if first == 0x50:
            session.note_aside(packet_id)
            self._await(_RECEIVED)
            return True
        if first == 0x70 and self._state != _RELEASED:
            return False
        self._state = _CALM
        session.outbox.save_state()  # or a power cut could bring it back to the ring
        if session.outbox.shelf().release(self._index) != _OK:
            self._postpone()
            return True
        self._exchanges.pop(packet_id, None)
        if first == 0x70:
            session.note_aside(0)
        if self._index >= session.outbox.aside:
            self._index = 0
        self._wait(0)
        return True

    def denies(self, packet_id):
        """True when the server (MQTT 5.0) refused the message that went out: it is postponed, and
        its exchange is over."""
        if not self._is_awaited(packet_id):
            return False
        self.ended(packet_id)
        self._state = _CALM
        self._postpone()
        return True

    def _is_awaited(self, packet_id):
        return self._state >= _AGAIN and packet_id == self._packet_id

    def on_tick(self, window):
        """Send the message that is due, when nothing else is in flight. Returns the window from now
        on: `window`, or 0."""
        state, session = self._state, self._session
        waited_ms = elapsed_ms(session.now_ms, self._since_ms)
        if state == _CALM:
            if waited_ms >= self._minutes * _MINUTE_MS and (
                session.acknowledged != session._acked_before
                or session.base == session.outbox.next_seq  # no other one waits
            ):
                self._state = _PINGED
                session.start_ping()
            return window
        if state == _PINGED and session._awaited_ms >= 0:
            return window
        if state < _AGAIN:
            self._state = _HOLD
            self._send_alone()
        elif waited_ms >= session.response_ms:
            self._ask()
        elif state == _RECEIVED and not session.out_end:
            self._send_release()
        return 0

    def _ask(self):
        session = self._session
        if not self._is_late and session._awaited_ms < 0 and not session.out_end:
            self._is_late = True
            session.start_ping()

    def _await(self, state):
        """An answer, from now on."""
        self._state, self._is_late = state, False
        self._since_ms = self._session.now_ms

    def _wait(self, minutes):
        self._minutes = minutes
        self._since_ms = self._session.now_ms

    def _postpone(self):
        """The message was refused, or the connection ended. If the server has it, it stays the next
        one."""
        if self._packet_id and self._packet_id == self._session.aside_id:
            self._wait(max(self._minutes, 1))
            return
        self._index += 1
        if self._index < self._session.outbox.aside:
            self._wait(self._minutes)
        else:
            self._index = 0
            self._wait(min(max(2 * self._minutes, 1), _MOST_MINUTES))

    def _send_alone(self):
        session = self._session
        if session.next_send == session.base and not session._requested and not session.out_end:
            self._send()

    def _send(self):
        """Send PUBLISH with the message's old identifier: if an exchange of QoS 2 was cut, the
        server takes any PUBLISH with that identifier for that message."""
        session, outbox = self._session, self._session.outbox
        if outbox.shelf().load(self._index) != _OK or outbox.shelf().mark:
            self._state, self._packet_id = _CALM, 0
            self._postpone()
            return
        length = outbox.topic_length + outbox.payload_length
        if session.in_flight and not session.in_flight.has_room(length):
            return
        self._packet_id = packets.packet_id_of(outbox.shelf().seq)
        if self._packet_id == session.aside_id:
            self._await(_RECEIVED)
            return
        length = self._put(session, outbox)
        if not length:
            self._state = _CALM
            self._postpone()
            return
        self._await(_AGAIN)
        session._start(session.tx, length)
        self._exchanges[self._packet_id] = _DUP

    def _put(self, session, outbox):
        """Compose PUBLISH in tx. Returns its length; 0: this server (MQTT 5.0) does not take it."""
        if session._properties and session._prepares and not session._prepare(-1):
            return 0
        head = outbox.flags >> 3 & 0x06
        if head == 4 and session.highest_qos < 2:
            head = 2
        head |= self._exchanges.get(self._packet_id, self._dup)
        head |= 0x30 | outbox.flags >> 6 | self._packet_id << 8
        return put_publish(
            session.tx, head, outbox.buffer, outbox.topic_at,
            outbox.topic_length << 14 | outbox.payload_length, session._properties,
        )  # fmt: skip

    def _send_release(self):
        """Send PUBREL: the server has the QoS 2 message, and the note records that."""
        session = self._session
        if not (session._is_noted or session._save()):
            return
        end = packets.put_header(session.tx, 0x62, 2)
        session._start(session.tx, packets.put_u16(session.tx, end, self._packet_id))
        self._state = _RELEASED
