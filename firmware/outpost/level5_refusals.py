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
_LONGEST_PAUSE_S = const(64)
_FOR_GOOD = b"\x83\x87\x90\x95\x99\x9a\x9b"  # these refuse one message permanently


class Refusals:
    """See Level5."""

    def __init__(self, keeps_unmatched):
        self.reason = 0
        # Counters: messages that the server refused; messages without a subscriber.
        self.denied = self.unmatched = 0
        self._keeps_unmatched = keeps_unmatched
        self._denied = 0  # bit seq & 15 of a message in flight: that exchange has failed
        self._anew = self._anew_end = 0  # bit seq & 15 below the end: starts another
        self._pause_ms = -1  # ticks at which a pause began; -1: none
        self._pause_s = self._pause_acked = 0  # its length; `acknowledged` when it began

    def _pauses(self):
        if elapsed_ms(self.now_ms, self._pause_ms) < self._pause_s * 1000:
            return True
        self._pause_ms = -1
        return False

    def _pause(self):
        """Send nothing for a while: 1 s, doubled while nothing is acknowledged in between."""
        if self._pause_ms < 0 or not self._pause_s:
            is_again = self.acknowledged == self._pause_acked and self._pause_s
            self._pause_s = min(self._pause_s * 2, _LONGEST_PAUSE_S) if is_again else 1
            self._pause_acked = self.acknowledged
            self._pause_ms = self.now_ms

    def _refuse(self, seq, code):
        """The server refused message seq, permanently or for now."""
        self.reason = code
        self.denied += 1
        is_aside = code in _FOR_GOOD and self._load_suspects()
        if not is_aside or self.suspects.refuse(seq) != _OK:
            self._denied |= 1 << (seq & 15)
            self._pause()
        if self.on_refused:
            self.on_refused(seq, code)

    def _on_denied(self, first, packet_id, code):
        """PUBACK or PUBREC with a reason code of failure: that exchange is over."""
        place = self._place_of(packet_id)
        seq = self.base + place
        if place >= 0 and (getattr(self, "_two", 0) >> (seq & 15) & 1) == (first == 0x50):
            self._refuse(seq, code)
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
        """Once all in flight have their answer, those that failed begin a new exchange."""
        seq = self.base
        while seq < self.next_send:
            if not (self._denied >> (seq & 15) | self._acked >> seq - self.base) & 1:
                return
            seq += 1
        self._anew |= self._denied
        self._anew_end = max(self._anew_end, seq)
        self._denied = 0
        self._exchanged = max(self._exchanged, seq)
        if self.high <= seq:
            self.high = self.base
        self.next_send = self.base

    def _begin_anew(self, seq):
        """A message that was refused starts a new exchange, without DUP [MQTT-4.3.2-2], whatever
        was sent after it."""
        bit = self._anew & 1 << (seq & 15)
        if bit and seq < self._anew_end:
            self.redelivered -= self.tx[0] >> 3 & 1
            self.tx[0] &= 0xF7
        self._anew ^= bit

    def _withdraw(self, is_long):
        """The server does not accept the composed message, which was stored before that was known.
        False: nothing goes out."""
        self.out_end = 0
        self.sent -= 1
        self.next_send -= 1
        if not self.tx[0] & 8:
            self.high = self.next_send  # it never went out
        code = 0x95 if is_long else 0x9A if self.tx[0] & 1 & self._barred else 0x9B
        self._refuse(self.next_send, code)
        return False

    def _expire(self, seq):
        """Release the composed message as if it were acknowledged, but without counting or
        reporting it as acknowledged. False: nothing goes out."""
        self.out_end = 0
        self.sent -= 1
        told, self.on_acknowledged = self.on_acknowledged, None
        self._on_puback(1 + seq % _IDS)
        self.acknowledged -= 1
        self.on_acknowledged = told
        self.expiry.tell(seq)
        return False

    # --- A fault of the server's ---

    def _fail(self, code):
        """Send a DISCONNECT with this reason code, accept no more input, and end the connection
        with PROTOCOL_ERROR (4.13)."""
        self.reason = self._fault = code
        self._answer = -1  # receive() stops
        self.owes = True
        return _OK

    def _say_fault(self):
        if not self._is_said and not self.out_end:
            self._is_said = True
            self._base._start(self, bytes((0xE0, 1, self._fault)), 3)
        return self.out_end > 0
