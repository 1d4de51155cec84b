"""Handles messages that an MQTT 5.0 server refuses: the reason code decides whether a message is
set aside, or sent again after a pause. Also ends a connection whose server breaks the rules. A part
of MQTT 5.0's session (`level5_session.py`).

Must not know a packet. Allocation: a message that is set aside.
"""
# pyright: reportAttributeAccessIssue=false

from micropython import const

from outpost.ticks import elapsed_ms

_OK = const(0)
_IDS = const(65535)
_NOTHING = const(-2)  # -1 is a message of the shelf
_SAVE_COUNT = const(49)  # as in `session.py`
_LONGEST_PAUSE_S = const(64)
_FOR_GOOD = const(b"\x83\x87\x90\x95\x99\x9a\x9b")  # these refuse one message permanently


class Refusals:
    """See Level5."""

    def __init__(self, keeps_unmatched):
        self.reason = 0
        # Counters: messages that the server refused; messages without a subscriber.
        self.denied = self.unmatched = 0
        self._keeps_unmatched = keeps_unmatched
        self._denied = 0  # bit seq & 15 of a message in flight: that exchange has failed
        # At place seq & 15: the message of the window whose exchange is over, because it was
        # refused, and that was not sent since. _anew: how many there are, or were.
        self._over, self._anew = [_NOTHING] * 16, 0
        self._refused = [_NOTHING] * 16  # likewise: the message that was refused before
        self._pause_ms = -1  # ticks at which a pause began; -1: none
        self._pause_s = self._pause_acked = 0  # its length; `acknowledged` when it began

    def _pauses(self):
        if elapsed_ms(self.now_ms, self._pause_ms) < self._pause_s * 1000:
            return True
        self._pause_ms = -1
        return False

    def _pause(self):
        """Refused messages wait: 1 s, doubled while nothing is acknowledged in between."""
        if self._pause_ms < 0 or not self._pause_s:
            is_again = self.acknowledged == self._pause_acked and self._pause_s
            self._pause_s = min(self._pause_s * 2, _LONGEST_PAUSE_S) if is_again else 1
            self._pause_acked = self.acknowledged
            self._pause_ms = self.now_ms

    def _refuse(self, seq, code):
        """The server refused message seq, permanently or for now: `suspects.py` judges it. Unless
        it is set aside, it waits, and starts another exchange; the others go on."""
        self.reason = code
        self.denied += 1
        is_final = code in _FOR_GOOD
        # A first refusal may be a busy server's: it loads nothing.
        is_judged = is_final or self._refused[seq & 15] == seq
        self._refused[seq & 15] = seq
        is_judged = is_judged and self._load_suspects()
        if not is_judged or not self.suspects.on_refused(seq, is_final):
            self._denied |= 1 << (seq & 15)
            self._pause()
        if self.on_refused:
            self.on_refused(seq, code)

    def _on_denied(self, first, packet_id, code):
        """PUBACK or PUBREC with a reason code of failure: that exchange is over."""
        place = self._place_of(packet_id)
        seq = self.base + place
        if place >= 0 and (self._two >> (seq & 15) & 1) == (first == 0x50):
            self._refuse(seq, code)
            if self._place_of(packet_id) >= 0:  # it was not set aside
                self._end_exchange(seq)
        elif not (self.suspects and self.suspects.denies(packet_id)):
            self.ignored += 1

    def _place_of(self, packet_id):
        """The place in the window of the message in flight with this identifier; -1: none."""
        place = (packet_id - 1 - self.base) % _IDS
        end = self.next_send - self.base
        if self.out_end and self.out is self.tx and self.tx[0] & 0x36 > 0x30:
            end -= 1  # the last PUBLISH is half written
        return place if place < end and not self._acked >> place & 1 else -1

    def _resend_denied(self):
        """Once all in flight have their answer and the pause is over, those that failed begin a new
        exchange. `suspects.py` chooses what goes out while it tests messages."""
        is_testing = self.suspects and self.suspects.is_testing()
        if not is_testing and not self._is_all_answered():
            return
        if not is_testing:
            self._exchange_ms = self.now_ms  # nothing is overdue
        if self._pause_ms >= 0 and self._pauses():
            return
        self._denied = 0
        if not is_testing:
            self.next_send = self.base

    def _is_all_answered(self):
        """True when no message in flight awaits its acknowledgement."""
        seq = self.base
        while seq < self.next_send:
            if not (self._denied >> (seq & 15) | self._acked >> seq - self.base) & 1:
                return False
            seq += 1
        return True

    def _end_exchange(self, seq):
        """Message seq was refused, and stays in the window: what goes out next is new."""
        self._anew += self._over[seq & 15] < 0
        self._over[seq & 15] = seq
        self._prepares = True

    def _begin_anew(self, seq):
        """A message that was refused starts a new exchange, without DUP [MQTT-4.3.2-2], whatever
        was sent after it, and on this connection or the next [MQTT-4.4.0-2]."""
        if self._over[seq & 15] == seq:
            self._over[seq & 15] = _NOTHING
            self._anew -= 1
            self._anew_seq = seq

    def _is_repeat(self, seq):
        """True when PUBLISH of message seq goes out with DUP."""
        if seq < self.high:
            return seq != self._anew_seq
        return self.maybe_sent > seq >= self._exchanged

    def _withdraw(self, seq, is_long):
        """The server does not accept message seq, which was stored before that was known."""
        code = 0x95 if is_long else 0x9B
        if code == 0x9B and self.outbox.flags >> 6 & self._barred:
            code = 0x9A
        self._refuse(seq, code)
        if self._denied >> (seq & 15) & 1:  # it could not be set aside: the others go on
            self._end_exchange(seq)
            self.next_send = seq + 1
            self.high = max(self.high, seq + 1)

    def _expire(self, seq):
        """Release message seq without counting or reporting it as acknowledged. False: it does not
        go out."""
        self._slide(seq - self.base)
        self._release(seq)
        if seq & 15 == 15 and self.outbox.unsaved() >= _SAVE_COUNT:
            self.outbox.save_state()
        self.expiry.tell(seq)
        return False

    # --- A fault of the server's ---

    def _fail(self, code):
        """Send a DISCONNECT with this reason code, accept no more input, and end the connection
        with PROTOCOL_ERROR (4.13)."""
        self.reason = self._fault = code
        self._prepares = True
        self._answer = -1  # receive() stops
        self.owes = True
        return _OK

    def _say_fault(self):
        if not self._is_said and not self.out_end:
            self._is_said = True
            self._base._start(self, bytes((0xE0, 1, self._fault)), 3)
        return self.out_end > 0
