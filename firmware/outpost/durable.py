"""Collector mode: a record stays in flash until the collector says "durable up to seq N of stream S".

Why: a broker's PUBACK is no durability. Measured: mosquitto killed after acknowledging 5,000 messages for an absent subscriber
lost 1 to 5,000 of them under every setting tried. So PUBACK only frees the place in the window; this class takes in the
collector's word, and decides when what stays unconfirmed is sent again: after every reconnect, and after `timeout_ms` without
progress, doubled each time up to 64-fold, so that an absent collector does not make a board talk for ever.

The word is a retained message on the device's topic: `<stream: 8 hex digits> <seq>`. One that is stale, foreign, garbled or
from the future only counts. Knows no stream and no clock; takes no heap after construction.
"""

from micropython import const

from outpost.session import elapsed_ms

_HOLD_MS = const(1500)  # after a connect: wait so long for the retained word before sending again what it may confirm
_LONGEST = const(64)


def parse_confirmation(buf, at, length, stream):
    """seq of `<stream> <seq>` in buf[at:at+length]; -1 when it is garbled or of another stream."""
    if not 10 <= length <= 19 or buf[at + 8] != 0x20 or not _is_stream(buf, at, stream):
        return -1
    return _decimal(buf, at + 9, at + length)


def _is_stream(buf, at, stream):
    for i in range(8):
        if buf[at + i] != stream[i]:
            return False
    return True


def _decimal(buf, at, end):
    seq = 0
    while at < end:
        digit = buf[at] - 0x30
        if not 0 <= digit <= 9 or seq > 107374182:
            return -1
        seq = seq * 10 + digit
        at += 1
    return seq if seq < 0x40000000 else -1


class Durable:
    """topic: where the collector's word is published (bytes). timeout_ms: silence after which unconfirmed messages go again."""

    def __init__(self, topic, timeout_ms=10_000):
        self.topic = topic
        self.timeout_ms = timeout_ms
        self.through = -1  # messages up to this number are durable
        self.confirmations = self.ignored = self.replays = 0
        self._factor = 1
        self._progress_ms = 0
        self._reconnected = self._held_up = False

    def connected(self, now_ms):
        """A new connection: what is unconfirmed goes again, once the retained word had time to come."""
        self._reconnected = self._held_up = True
        self._progress_ms = now_ms

    def take(self, inbound, outbox, now_ms):
        """The collector's word came in."""
        seq = parse_confirmation(inbound.buffer, inbound.payload_at, inbound.payload_length, outbox.stream)
        if seq >= outbox.next_seq or seq <= self.through:
            self.ignored += 1
            self._held_up = self._held_up and seq < 0
            return
        self.through = seq
        self._held_up = False
        self.confirmations += 1
        self._factor = 1
        self._progress_ms = now_ms

    def silence_begins(self, now_ms):
        """The server acknowledged a message, and none is unconfirmed before it."""
        self._progress_ms = now_ms

    def holds_up(self, now_ms):
        """True for a moment after a connect."""
        if self._held_up and elapsed_ms(now_ms, self._progress_ms) >= _HOLD_MS:
            self._held_up = False
        return self._held_up

    def replay_due(self, now_ms, unconfirmed):
        """True when all held messages should go again. unconfirmed: the server acknowledged some that the collector did not."""
        silent = unconfirmed and elapsed_ms(now_ms, self._progress_ms) >= self.timeout_ms * self._factor
        return silent or self._reconnected

    def replayed(self, now_ms, unconfirmed):
        """The messages from the oldest held one on go again."""
        self.replays += unconfirmed
        if not self._reconnected:
            self._factor = min(self._factor * 2, _LONGEST)
        self._reconnected = False
        self._progress_ms = now_ms
