"""Collector mode: a record stays in flash until the collector says "durable up to seq N of stream S".

Why: a broker's PUBACK is no durability. Measured: mosquitto killed after acknowledging 5,000 messages for an absent subscriber
lost 1 to 5,000 of them under every setting tried. So PUBACK only frees the place in the window; this client takes in the
collector's word, and decides when what stays unconfirmed is sent again: after every reconnect, and after `timeout_ms` without
progress, doubled each time up to 64-fold, so that an absent collector does not make a board talk for ever.

The word is a retained message on the device's topic: `<stream: 8 hex digits> <seq>`. One that is stale, foreign, garbled or
from the future only counts. Knows no stream and no clock; takes no heap after construction.
"""

from micropython import const

from outpost.client import nothing
from outpost.session import elapsed_ms
from outpost.subscriber import Subscriber

# After a connect: wait so long for the retained word before sending again what it may confirm; once SUBACK is there, which
# servers send right before it, only the shorter time. What ends the wait too early costs duplicates, no message.
_HOLD_MS = const(1500)
_AFTER_SUBACK_MS = const(250)
_LONGEST = const(64)
_CONNECTED = const(2)


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


class DurableClient(Subscriber):
    """topic: where the collector's word is published (bytes). timeout_ms: silence after which unconfirmed messages go again.

    The other arguments: see Subscriber. `through`: messages up to this number are durable.
    """

    def __init__(self, link, outbox, client_id, topic, timeout_ms=10_000, **options):
        if outbox.renumbers:
            raise ValueError("client: this outbox policy gives kept messages new numbers; collector mode cannot follow")
        self.topic = topic
        self.timeout_ms = timeout_ms
        self.through = -1
        self.confirmations = self.replays = 0
        self._factor = 1
        self._progress_ms = self._exchanged = 0  # below _exchanged, each message was acknowledged by the server once
        # _waits: no new message is sent before a replay. It is due at once, and the retained word may still come.
        self._reconnected = self._held_up = self._waits = False
        self._hold_ms = 0
        Subscriber.__init__(self, link, outbox, client_id, **options)
        self.maybe_sent = outbox.next_seq
        self._discard = nothing  # the collector's word frees

    def is_dup(self):
        """A replay is a new exchange, unless the first one is still open, or may be."""
        return self.next_send < self.high or self._exchanged <= self.next_send < self.maybe_sent

    def _established(self):
        """What is unconfirmed goes again, once the retained word had time to come: SUBSCRIBE brings it. No word can confirm what
        was never sent."""
        Subscriber._established(self)
        self.subscribe(self.topic)
        self._reconnected = self._waits = True
        self._held_up = self.outbox.oldest_seq < max(self.maybe_sent, self.high, self._exchanged)
        self._hold_ms = _HOLD_MS
        self._progress_ms = self.now_ms

    def _message(self):
        if not self.is_on(self.topic):
            return Subscriber._message(self)
        self._word(parse_confirmation(self.buffer, self.payload_at, self.payload_length, self.outbox.stream))
        return True

    def _word(self, seq):
        """The collector's word came in."""
        if seq >= self.outbox.next_seq or seq <= self.through:
            self.ignored += 1
            self._held_up = self._held_up and seq < 0
            return
        self.through = seq
        self._held_up = False
        self.confirmations += 1
        self._factor = 1
        self._progress_ms = self.now_ms
        self._free_durable()

    def _acknowledged(self, seq):
        """If none is unconfirmed before this message, the silence begins now."""
        if seq == self.outbox.oldest_seq:
            self._progress_ms = self.now_ms
        self._free_durable()
        Subscriber._acknowledged(self, seq)

    def _free_durable(self):
        """Free what the collector confirmed, but nothing whose exchange with the server is still open."""
        through = self.through
        if self.high > self.base:
            through = min(through, self.base - 1)
        if through >= self.outbox.oldest_seq:
            self.outbox.discard_through(through)

    def _next(self):
        """New messages wait for the retained word, and until a replay has begun; those of the connection before do not."""
        if self.next_send > self.outbox.next_seq:  # its numbers begin anew
            self.through = -1
            self._exchanged = 0
        return (not self._waits or self.next_send < self.high) and Subscriber._next(self)

    def due(self):
        """Begin a replay that is due, when nothing is in flight any more. One that the word made needless meanwhile holds no new
        message back."""
        if self.state == _CONNECTED:
            is_due = self._replay_due()
            self._waits = is_due or self._held_up
            if is_due and self.high <= self.base:
                self._replay()
        return Subscriber.due(self)

    def _replay_due(self):
        """After a connect: when the word is there, or had time to come. Later: when some that the server acknowledged stay
        unconfirmed."""
        if self._held_up and elapsed_ms(self.now_ms, self._progress_ms) < self._hold():
            return False
        self._held_up = False
        if self._reconnected:
            return True
        silent = elapsed_ms(self.now_ms, self._progress_ms) >= self.timeout_ms * self._factor
        return silent and self.outbox.oldest_seq < self.base

    def _hold(self):
        """How long the replay waits for the word, from the connect on."""
        if self._hold_ms == _HOLD_MS and self._is_answered():
            self._hold_ms = min(elapsed_ms(self.now_ms, self._progress_ms) + _AFTER_SUBACK_MS, _HOLD_MS)
        return self._hold_ms

    def _is_answered(self):
        for entry in self.filters:
            if entry[0] == self.topic:
                return entry[2] >= 0
        return False

    def _replay(self):
        """The messages from the oldest held one on go again."""
        self.replays += self.outbox.oldest_seq < self.base
        if not self._reconnected:
            self._factor = min(self._factor * 2, _LONGEST)
        self._reconnected = self._waits = False
        self._progress_ms = self.now_ms
        self._exchanged = max(self._exchanged, self.base)
        self.restart_at(self.outbox.oldest_seq)
        self.high = self.base
