"""The part of a session that tells when something does not come in time: looked at once a tick.

Must not know a packet. Allocation: none.
"""
# pyright: reportAttributeAccessIssue=false

from micropython import const

_CONNECTING = const(1)
_CONNECTED = const(2)
_OK = const(0)
_TIMED_OUT = const(-22)
_TICKS = const(0x3FFFFFFF)
_HALF = const(0x20000000)
_CAME = const(2)  # is_tick: bytes came
_BYTE_MS = const(64)  # what a byte of a packet that is on its way is good for: 16 bytes/s
_ANSWER = const(6)  # how many times response_ms an acknowledgement may take,
_BEHIND = const(30)  # and a PINGRESP while other bytes come, with _BYTE_MS a byte of their packet
_LONG_BYTES = const(0x200000)
_LEAST_PONG_MS = const(2000)
_SAVE_MS = const(600_000)  # a board that measures more often programs nothing for them


def elapsed_ms(now_ms, then_ms):
    """Milliseconds from then to now, over a wrap too; 0 when `then` is later (up to 6 days)."""
    passed = (now_ms - then_ms) & _TICKS
    return passed if passed < _HALF else 0


class Deadlines:
    """A base of Session."""

    def __init__(self):
        # An acknowledgement of any message is awaited since these ticks; -1: none is
        self._exchange_ms = -1
        self._acked_seen = 0  # `acknowledged` at the last tick
        self._rested_seq = self._rested_ms = 0  # the last outbox.oldest_seq, and since which ticks

    def settle(self, moved):
        """The end of a tick. The status to close the stream with; OK: all came in time.

        When nothing moved: erase ahead, save acknowledgements that no record came to carry."""
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
        """What came since the last tick, and what is awaited from this one on."""
        now_ms = self.now_ms
        if self.acknowledged != self._acked_seen:
            self._acked_seen = self.acknowledged
            self._inbound_ms = now_ms
            self._exchange_ms = -1
        elif self.is_tick == _CAME:
            self._inbound_ms = now_ms
        if self.next_send == self.base:
            self._exchange_ms = -1
        elif self._exchange_ms < 0:
            self._exchange_ms = now_ms

    def _waited(self, since_ms):
        """Milliseconds since then; 0 when nothing is awaited."""
        return elapsed_ms(self.now_ms, since_ms) if since_ms >= 0 else 0

    def _on_late(self, spared_ms):
        """True when an acknowledgement was overdue `spared_ms` ago, and still is."""
        return self._waited(self._exchange_ms) - spared_ms >= _ANSWER * self.response_ms

    def _overdue(self):
        """A packet stalls: the server's, or this side's; CONNACK or PINGRESP does not come, or only
        other bytes do."""
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
            spent_ms = min(self._waited(self._sent_ms), self.response_ms) - count * _BYTE_MS
            self._sent_ms = (self.now_ms - max(spent_ms, 0)) & _TICKS
            if self.state == _CONNECTING:
                self._awaited_ms = self._sent_ms
        return count > 0
