"""The verdict on messages that the server does not take. Loaded when connections end on messages,
or messages are refused or aside; unloaded when all is well.

**The law of progress.** Against any server that acknowledges the messages that it takes, and
answers the others with anything else (close, reset, DISCONNECT, a refusing acknowledgement,
garbage, silence), each message that it takes is acknowledged within 5 r + 5 connections, where r
others come before it, in whatever order and mixture, while the shelf has room; from the fifth in a
row, each costs up to 26. When the shelf has no room, `status` says so, and the rest flows as long
as the ring has room. A network that fails at random sets nothing aside.

This module alone decides. How a connection ended is reported elsewhere (status, reason code,
TAKEN_OVER) and sets the delay before the next one; it never counts for or against a message.

**Suspicion** begins when two connections in a row ended with the same oldest message in flight
(one, while messages are aside). Until every message that had been in flight is acknowledged or set
aside, each connection then begins with a control, and messages go out one at a time:

    CONNACK   PINGREQ, PINGRESP ... PINGREQ, PINGRESP   PUBLISH, alone
    |------ control: older than the one that ended ------|-- trial --|

- The message is acknowledged: its count ends. The next one goes out.
- The connection ends in the control: the reason is the network, or a server that ends every
  connection. Suspicion ends, and the next one takes five ends in a row.
- The server ends it in the trial: this counts for the message, which has the next trial too.
- No acknowledgement comes in time: the next message has its trial. The silence counts if a later
  message was acknowledged, or once another one is, or when the whole window has been silent.
- A refusal for now (MQTT 5.0) counts from the second on, also outside of a trial; the others go on.

At a count of three, or at once if its topic is invalid or the refusal is permanent, the message is
set aside. If the shelf has no room, it is left in the ring and the window passes it, as long as the
ring has room, too; `left` has its number until the shelf takes it. Acknowledgements beyond the 16th
after it are known in RAM alone, so a reset sends those messages again. After four in a row without
an acknowledgement, it takes 6, 12, 24 (`status` BLOCKED), or a server that takes nothing would
empty the outbox onto the shelf. A message that must stay in the window (its QoS 2 exchange awaits
PUBCOMP) lets the others go first, and then has a trial a minute. QoS 0 is BUSY while only the
message on trial may end the connection.

A bad network sets nothing aside: it would have to end three connections in a row within the round
trip of the same message, and none of them in the control, which lasts longer (at most 10 s).

So each connection acknowledges a message, or counts for exactly one, or lets another have its turn.
`retry.py` sends messages of the shelf again; what happens to them counts for no message.

Must not know a stream, a clock, or where the shelf is (`ram_outbox.py` has the contract).
Allocation: construction; a count that begins; a message that is set aside.
"""

from micropython import const

from outpost import packets
from outpost.memory import unload
from outpost.text import is_topic
from outpost.ticks import elapsed_ms

_OK = const(0)
_FULL = const(-1)
_TIMED_OUT = const(-22)
_NO_ANSWER = const(-25)
_BLOCKED = const(-27)
_MOST_IN_FLIGHT = const(16)
_CALM = const(0)  # nothing is suspected; messages may have counts, or be aside
_CONTROL = const(1)
_TRIAL = const(2)
_NONE = const(-1)
_ENOUGH_ENDS = const(3)
_IN_A_ROW = const(4)
_MOST_DOUBLINGS = const(2)
_CONTROL_MS = const(10_000)  # at most
_JUDGED = const(1)
_PATIENCE = const(-3)
_MINUTE_MS = const(60_000)


class Suspects:
    """A part of its session: reads the session's fields, and decides its window. status: OK, or why
    a message is not set aside: BLOCKED, or what the shelf's put() returned."""

    def __init__(self, session):
        self._session = session
        self._full = session.window
        self._state = _CALM
        self.status = _OK
        self._shelved = None  # a Retry, while messages are aside
        self._counts = {}  # number of a message: how much evidence there is against it
        self._silent = []  # numbers of messages that were not acknowledged in time
        self._proved = []  # of them, those for which the silence counts
        self._in_a_row = 0  # messages set aside since the last acknowledgement
        self.left = []  # numbers of messages in the ring that the shelf had no room for
        self._full_at = 0  # messages on the shelf when it had none
        # The trials:
        self._until = 0  # messages before this one are suspected
        self._seq = _NONE  # the message that has its trial
        self._turn = 0  # the next trial is for this one, or the first after it
        self._age_ms = 0  # of the connection that ended
        self._pinged_ms = _NONE  # age of this connection when PINGREQ went out; -1: not yet
        self._tried_ms = session.now_ms  # ticks at which the last trial began

    def is_over(self):
        if self._state != _CALM or self._counts or self.left:
            return False
        return not self._session.outbox.aside

    def is_testing(self):
        """True while nothing but the message on trial, or that of the shelf, may end the
        connection."""
        if self._state == _CONTROL or (self._shelved and self._shelved.is_out()):
            return True
        return self._state == _TRIAL and self._seq >= 0 and not self._is_late()

    def is_late(self):
        """True when PINGRESP says so of the message of the shelf that went out again."""
        return self._shelved is not None and self._shelved.is_late()

    def shelved(self):
        """Returns the Retry, which sends messages of the shelf again."""
        if not self._shelved:
            from outpost.retry import Retry

            self._shelved = Retry(self._session)
        return self._shelved

    def begin(self):
        """Suspect the messages that were in flight; but what the server has (QoS 2) cannot be set
        aside, so only others could gain by a trial."""
        session = self._session
        if session._released >> (session.base & 15) & 1:
            if session.outbox.next_seq == session.base + 1:
                return
        self._until = session.high
        self._counts.clear()
        self._silent.clear()
        self._proved.clear()
        self._turn = self._session.base
        self._take_age()
        self._state = _CONTROL

    def refuse(self, seq, mark=0) -> int:
        """Set message seq aside. Returns a status. mark: see the shelf's put()."""
        outbox = self._session.outbox
        try:
            self.status = outbox.shelf().put(seq, mark)
            if self.status == _OK:
                self.shelved().added()
        except (ImportError, MemoryError):
            self.status = _FULL
        if self.status == _OK:
            self._counts.pop(seq, None)
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
        self.shelved().hurry()

    def set_window(self, window):
        """The session's window, while nothing is suspected."""
        self._full = window

    # --- Events of the session ---

    def on_connected(self):
        self._pinged_ms = _NONE
        self._seq = _NONE
        if self._state == _TRIAL:
            self._state = _CONTROL
        try:
            if self._session.outbox.lent:
                self._session.outbox.shelf().tidy()
            if self._session.outbox.aside:
                self.shelved().on_connected()
        except (ImportError, MemoryError):
            pass  # the next connection is early enough

    def on_lost(self, error, is_end):
        """The connection ended. is_end: the server ended it, or did not answer. 0: this end may
        begin a suspicion. Else it is judged, and the count of ends goes on from this or below."""
        if self._state == _CALM:
            return _JUDGED if self._shelved and self._shelved.on_lost() else 0
        is_control, self._state = self._state == _CONTROL, _CONTROL
        if not is_end or self._session._requested:  # or it ended on SUBSCRIBE
            return _JUDGED
        if is_control:
            self._state = _CALM
            return _PATIENCE
        if self._is_out():
            self._take_age()
            self._judge(error)
        return _JUDGED

    def on_acknowledged(self, seq):
        """Message seq is acknowledged. Returns the session's window."""
        self._counts.pop(seq, None)
        if seq in self._silent:
            self._silent.remove(seq)
        self._proved.extend(self._silent)  # the server acknowledges others
        self._silent.clear()
        if self._in_a_row >= _IN_A_ROW:
            self.retry()
        self._in_a_row = 0
        self.status = _OK
        if seq == self._seq:
            self._seq = _NONE
        return 0 if self._state == _TRIAL else self._session.window

    def on_refused(self, seq, is_final):
        """The server (MQTT 5.0) refused message seq, permanently or for now. True: it is set
        aside."""
        if seq == self._seq:
            self._pass(seq)
        is_aside = self.refuse(seq) == _OK if is_final else self._count(seq)
        if is_aside:
            self.shelved().ended(packets.packet_id_of(seq))
        return is_aside

    def takes(self, first, packet_id):
        """True when this acknowledgement is for the message of the shelf that went out again."""
        return self._shelved is not None and self._shelved.takes(first, packet_id)

    def denies(self, packet_id):
        """True when this refusal (MQTT 5.0) is."""
        return self._shelved is not None and self._shelved.denies(packet_id)

    def on_tick(self):
        """Returns the session's window from now on."""
        self._drop()
        if self.left:
            self._look_at_left()
        if self._proved:
            self._count(self._proved.pop())
        if self._state == _CONTROL and self._is_proved():
            self._state = _TRIAL
        if self._state == _TRIAL:
            return self._try_next()
        if self._state == _CONTROL:
            return 0
        return self.shelved().on_tick(self._full) if self._session.outbox.aside else self._full

    # --- Evidence ---

    def _judge(self, error):
        """The connection ended in the trial of message _seq."""
        seq = self._turn = self._seq
        if error != _TIMED_OUT and error != _NO_ANSWER and not self._is_late():
            self._count(seq)
            return
        self._pass(seq)
        has_later = self._session._acked >> max(seq - self._session.base, 0)
        if has_later or len(self._silent) == _MOST_IN_FLIGHT:  # or each has had its turn
            self._count(seq)
        elif seq not in self._silent:
            self._silent.append(seq)

    def _needed(self):
        if self._in_a_row < _IN_A_ROW:
            return _ENOUGH_ENDS
        return 2 * _ENOUGH_ENDS << min(self._in_a_row - _IN_A_ROW, _MOST_DOUBLINGS)

    def _count(self, seq):
        """One more against message seq. True when it was set aside."""
        count = self._counts[seq] = self._counts.get(seq, 0) + 1
        if count < self._needed():
            if self._in_a_row >= _IN_A_ROW:
                self.status = _BLOCKED
            return False
        if not self._session._released >> (seq & 15) & 1 and self.refuse(seq) == _OK:
            self._in_a_row += 1
            return True
        if self.status == _FULL:
            self._leave(seq)
        self._pass(seq)
        return False

    def _leave(self, seq):
        """The shelf has no room: let the window pass the message, if the ring keeps it."""
        session = self._session
        if session.outbox.renumbers or session._released >> (seq & 15) & 1:
            return
        self._full_at = session.outbox.aside
        self.left.append(seq)
        self.left.sort()
        self._counts.pop(seq, None)
        session._slide(seq - session.base)

    def _look_at_left(self):
        """Set the first of those aside when the shelf may have room again. What is before the next
        one was acknowledged."""
        outbox, seq = self._session.outbox, self.left[0]
        if seq >= outbox.oldest_seq:
            if outbox.aside >= max(self._full_at, 1) or self.refuse(seq) != _OK:
                return
        self.left.pop(0)
        end = min(self.left[0], self._session.base) if self.left else self._session.base
        for acknowledged in range(max(seq, outbox.oldest_seq), end):
            self._session._release(acknowledged)

    def _pass(self, seq):
        """Others have their turn before message seq."""
        self._turn = seq + 1
        self._seq = _NONE

    def _drop(self):
        """Forget a message that was released without an acknowledgement, and release one that is
        aside: in collector mode, no confirmation will come for it."""
        outbox = self._session.outbox
        oldest = outbox.oldest_seq
        for seq in self._counts:
            if seq < oldest:
                del self._counts[seq]
                break
        if outbox.aside and oldest < self._session.base and outbox.shelf().has(oldest):
            outbox.discard(oldest)

    # --- One by one ---

    def _take_age(self):
        self._age_ms = min(self._age(), _CONTROL_MS)

    def _age(self):
        """Milliseconds since CONNACK."""
        return elapsed_ms(self._session.now_ms, self._session._up_ms)

    def _is_late(self):
        """True when the message on trial went out long ago."""
        return elapsed_ms(self._session.now_ms, self._tried_ms) >= self._session.response_ms

    def _is_out(self):
        """True when some of the message on trial went out."""
        session = self._session
        if self._seq < 0 or session.next_send <= self._seq:
            return False
        return not session.out_end or session.out_at > 0 or session.out is not session.tx

    def _is_proved(self):
        """True when the control has passed: this connection, on which nothing was published, has
        outlived the one that ended, and then PINGREQ was answered."""
        session = self._session
        if session._requested or session._awaited_ms >= 0:
            return False
        if self._pinged_ms >= self._age_ms:
            return True
        age_ms = self._age()
        if self._pinged_ms < 0 or age_ms >= self._age_ms:
            self._pinged_ms = age_ms
            session.start_ping()
        return False

    def _try_next(self):
        """Choose the message that has its trial, unless one is out. Returns the window."""
        session = self._session
        if max(session.base, session.outbox.oldest_seq) >= self._until:
            self._state = _CALM
            return self._full
        if not self._is_held(self._seq):
            self._seq = self._choose()
            session.go_to(self._seq if self._seq >= 0 else session.base)
            if self._seq >= 0:
                self._tried_ms = session.now_ms
        return self._seq - session.base + 1 if self._seq >= 0 else 0

    def _choose(self):
        """Returns the number of the message whose turn it is; -1: none may go out now."""
        session = self._session
        end = min(max(session.high, session.base) + 1, session.outbox.next_seq)
        end = min(end, session.base + _MOST_IN_FLIGHT)
        seq = self._turn
        for _ in range(_MOST_IN_FLIGHT):
            if not session.base <= seq < end:
                seq = session.base
            if self._may_go(seq):
                return seq
            seq += 1
        return _NONE

    def _may_go(self, seq):
        """True when message seq may have its trial. One that could not be set aside waits."""
        session = self._session
        if not self._is_held(seq) or session._denied >> (seq & 15) & 1:
            return False
        is_stuck = self._counts.get(seq, 0) >= self._needed()
        if is_stuck and elapsed_ms(session.now_ms, self._tried_ms) < _MINUTE_MS:
            return False
        return not self._is_invalid(seq)

    def _is_held(self, seq):
        """True when message seq is in the window, and neither acknowledged nor aside."""
        session = self._session
        place = seq - session.base
        if not 0 <= place < _MOST_IN_FLIGHT or session._acked >> place & 1:
            return False
        return not session.outbox.aside or not session.outbox.shelf().has(seq)

    def _is_invalid(self, seq):
        """True when message seq is gone; or when no server takes its topic, which another firmware
        may have stored: then it is set aside."""
        outbox = self._session.outbox
        if outbox.load(seq) != _OK or outbox.loaded_seq != seq:
            return seq != self._session.base  # the session moves on to the next one that is there
        at = outbox.topic_at
        if outbox.topic_length and is_topic(outbox.buffer, at, at + outbox.topic_length):
            return False
        return self.refuse(seq) == _OK

    def unload(self):
        """All is well: the session forgets this object."""
        unload("outpost.retry")
        unload("outpost.suspects")
