"""Collector mode: a record stays in flash until the collector has confirmed that it is durable.

The reason: a broker's PUBACK does not guarantee durability. Measured: mosquitto killed after
acknowledging 5,000 messages for an absent subscriber lost 1 to 5,000 of them under every setting
tried. So PUBACK only frees the place in the window. This session receives the collector's
confirmation, and decides when unconfirmed messages are sent again.

**The law of the replay.** A replay sends all held messages again, from the oldest on. It begins
when the session has reconnected, and when messages stay unconfirmed for `timeout_ms` (doubled up to
64-fold, so that an absent collector does not make a board send indefinitely). One that the end of a
connection cut short goes on where it was, and new messages follow before the next one, so that each
has its turn, also with a broker that ends the connection on some. None begins while `suspects.py`
tests a message.

The confirmation is a retained message on the device's topic, `<stream: 8 hex digits> <seq>`:
everything up to number seq is durable. One that is stale, foreign, garbled or ahead of what was
sent is ignored and counted. `queued.py` is for servers without retained messages.

**The law of the gap.** The collector also says, not retained, what it has beyond the first number
that it lacks: `<stream> <seq> <first>-<last> ...`. If the broker acknowledged the messages of that
gap in three replays, and the collector still has later ones and not these, then the broker takes
them and does not pass them on: rights, or size. They are set aside, marked, and counted in
`not_passed`; the messages after them are confirmed.

A message that is aside counts as acknowledged in the window, and the ring releases it once it is
the oldest. The messages after it then tell the collector that it is no longer held, so
confirmations go on past its number. When it goes out again, PUBACK releases it; no confirmation
follows.

Must not know a stream or a clock. Allocation: SUBSCRIBE, and construction; messages set aside.

Its hooks, in addition to those of `subscribing.py`:
    _on_acknowledged(seq)  PUBACK: the place in the window is free; stands in for `_release`
    _on_confirmation(seq)  a confirmation arrived; -1: a garbled or foreign one
    _on_beyond(first, last)  what the collector has beyond its first gap
"""

from micropython import const

from outpost.subscribing import SubscribingSession
from outpost.text import is_topic
from outpost.ticks import elapsed_ms

# After a connect: how long to wait for the retained confirmation before sending again the messages
# that it may confirm. After SUBACK, which servers send right before it, the shorter time applies.
# Too short a wait costs duplicates, but loses no message.
_HOLD_MS = const(1500)
_AFTER_SUBACK_MS = const(250)
_LONGEST = const(64)
_MOST_TIMEOUT_MS = const(86_400_000)
_QUARTER = const(0x10000000)  # of the ticks: what is measured by them is less than half
_CONNECTED = const(2)
_GIVEN_UP = const(255)
_NONE = const(-1)
_REPLAYS = const(3)  # that were acknowledged, and did not fill the gap
_NOT_PASSED = const(8)  # the mark of a message on the shelf


def parse_confirmation(buf, at, length, stream):
    """Returns seq of `<stream> <seq>` in buf[at:at+length]; -1: garbled, or another stream."""
    if not 10 <= length <= 19 or buf[at + 8] != 0x20 or not _is_stream(buf, at, stream):
        return -1
    return _decimal(buf, at + 9, at + length)


def word_end(buf, at, end):
    """Returns the offset of the next space or hyphen in buf[at:end]; `end`: there is none."""
    while at < end and buf[at] != 0x20 and buf[at] != 0x2D:
        at += 1
    return at


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


class DurableSession(SubscribingSession):
    """topic: where the collector publishes its confirmation (bytes). timeout_ms: ms without
    progress until unconfirmed messages are replayed. Other options: see SubscribingSession.

    ValueError when the outbox renumbers kept messages (RamOutbox, NewestPerTopic), or an option is
    wrong: no connection would ever bring a confirmation.
    """

    confirmation_qos = 0

    def __init__(self, outbox, client_id, topic, timeout_ms=10_000, **options):
        if outbox.renumbers:
            raise ValueError("session: collector mode cannot follow an outbox that renumbers")
        if isinstance(topic, str) or not topic or not is_topic(topic, 0, len(topic)):
            raise ValueError("session: topic")
        if not isinstance(timeout_ms, int) or not 0 < timeout_ms <= _MOST_TIMEOUT_MS:
            raise ValueError("session: timeout_ms")
        SubscribingSession.__init__(self, outbox, client_id, **options)
        self.topic = topic
        self.timeout_ms = timeout_ms
        self.through = -1  # messages up to this number are durable; -1: none is known to be
        # Counters. ahead: confirmations of messages that this outbox never sent, because another
        # board uses its stream, or because its flash was restored from an older image.
        self.confirmations = self.replays = self.ahead = 0
        self._factor = 1  # of timeout_ms
        self._progress_ms = 0  # ticks of the connect, or of the last progress
        self._is_reconnected = False  # no replay has begun since the connect
        self._replay_end = _NONE  # of the last replay
        self._is_held_up = False  # the retained confirmation may still come
        self._is_waiting = False  # a replay is due: no new message is sent before it
        self._hold_ms = 0  # for how long it is held up, in ms from the connect
        # The gap: its first message, and the one after its last; the first after what the collector
        # has beyond it; replays that did not fill it; the last of them.
        self._gap_seq = self._gap_end = self._beyond_end = _NONE
        self._gap_replays = self._gap_replay = 0
        self.not_passed = 0  # counter: messages that the broker took and did not pass on
        self.maybe_sent = outbox.next_seq
        self._release = self._on_acknowledged  # only a confirmation releases

    def _on_connected(self):
        """Unconfirmed messages are replayed after the retained confirmation, which SUBSCRIBE
        brings, has had time to arrive. Messages that were never sent do not wait for it."""
        SubscribingSession._on_connected(self)
        if self._code() != _GIVEN_UP:  # else the connection would end on it again
            self.subscribe(self.topic, self.confirmation_qos)
        # A replay is complete when a message after it was acknowledged, if there is one.
        is_complete = self.base >= min(self._replay_end + 1, self.outbox.next_seq)
        self._is_reconnected = is_complete  # else it goes on
        self._is_waiting = True
        self._is_held_up = self.outbox.oldest_seq < self._after_sent()
        self._hold_ms = _HOLD_MS
        self._progress_ms = self.now_ms

    # --- Confirmations ---

    def _on_message(self):
        if not self.is_on(self.topic):
            return SubscribingSession._on_message(self)
        at, end = self.payload_at, self.payload_at + self.payload_length
        after = word_end(self.buffer, at + 10, end)  # the hyphen of -1 is before it
        seq = parse_confirmation(self.buffer, at, after - at, self.outbox.stream)
        self._on_confirmation(seq)
        if after < end and (seq >= 0 or self._is_empty(at)):
            end = word_end(self.buffer, after + 1, end)
            self._on_beyond(_decimal(self.buffer, after + 1, end), self._number_after(end))
        return True

    def _is_empty(self, at):
        """True when buffer[at:] begins with this stream and -1: the collector lacks the first."""
        if self.buffer[at + 9] != 0x2D or self.buffer[at + 10] != 0x31:
            return False
        return _is_stream(self.buffer, at, self.outbox.stream)

    def _number_after(self, at):
        """Returns the number at buffer[at + 1:]; -1: none is there."""
        end = word_end(self.buffer, at + 1, self.payload_at + self.payload_length)
        return _decimal(self.buffer, at + 1, end)

    def _after_sent(self):
        """No message with this number or a higher one was ever sent."""
        return max(self.maybe_sent, self.high, self._exchanged)

    def _on_confirmation(self, seq):
        is_ahead = seq >= self._after_sent()  # also for a message that is stored but not yet sent
        self.ahead += is_ahead
        if is_ahead or seq <= self.through:
            self.ignored += 1
            self._is_held_up = self._is_held_up and seq < 0
            return
        self.through = seq
        self._is_held_up = False
        self.confirmations += 1
        self._factor = 1
        self._progress_ms = self.now_ms
        self._free_durable()

    def _on_acknowledged(self, seq):
        """Restart the timeout if no message before this one is unconfirmed."""
        if seq == self.outbox.oldest_seq:
            self._progress_ms = self.now_ms
        self._free_durable()

    def _free_durable(self):
        """Release confirmed messages, except those whose exchange with the server is still open."""
        through = self.through
        if self.high > self.base:
            through = min(through, self.base - 1)
        if through >= self.outbox.oldest_seq:
            self.outbox.discard_through(through)

    # --- What the broker does not pass on ---

    def _on_beyond(self, first, last):
        """The collector has first..last beyond its first gap. The next gap's turn comes when this
        one is closed."""
        gap_seq = max(self.through + 1, self.outbox.oldest_seq)
        if not gap_seq < first <= last < self._after_sent() or first >= self.base:
            return
        if gap_seq != self._gap_seq:
            self._gap_seq, self._gap_replays, self._gap_replay = gap_seq, 0, self.replays
        self._gap_end, self._beyond_end = first, last + 1
        if self._gap_replay != self.replays:
            self._gap_replay = self.replays
            self._gap_replays += 1

    def _close_gap(self):
        """Set aside one message of the gap. When there is none, those after it are confirmed."""
        oldest = self.outbox.oldest_seq
        if oldest < self._gap_end:
            if oldest >= self.base or not self._load_suspects():
                return
            if self.suspects.refuse(oldest, _NOT_PASSED):  # no room: the rest goes on
                self._gap_replays = 0
                return
            self.not_passed += 1
            self.outbox.discard(oldest)
        else:
            through, self._beyond_end = self._beyond_end - 1, _NONE
            self._gap_replays = 0
            self._on_confirmation(through)

    # --- Retransmission ---

    def _start_message(self):
        """New messages wait until a replay that is due has begun. Those of the previous connection
        do not wait."""
        if self.through >= self.outbox.next_seq:  # the outbox's numbers restarted at 0
            self.through = -1
            self._exchanged = 0
        if self._is_waiting and self.next_send >= self.high:
            return False
        return SubscribingSession._start_message(self)

    def _on_tick(self):
        """Begin a replay that is due, once nothing is in flight. A replay that a confirmation made
        unnecessary does not hold back new messages."""
        if self.state == _CONNECTED:
            is_due = self._is_replay_due()
            self._is_waiting = is_due or self._is_held_up
            if is_due and self.high <= self.base:
                self._replay()
            elif self._gap_replays >= _REPLAYS:
                self._close_gap()
        return SubscribingSession._on_tick(self)

    def _is_replay_due(self):
        """After a connect: when the confirmation has arrived, or has had time to. Later: when
        messages that the server acknowledged stay unconfirmed."""
        silent_ms = elapsed_ms(self.now_ms, self._progress_ms)
        if self._is_held_up and silent_ms < self._hold(silent_ms):
            return False
        self._is_held_up = False
        if self.suspects and self.suspects.is_testing():
            return False
        if self._is_reconnected:
            return True
        return silent_ms >= self.timeout_ms * self._factor and self.outbox.oldest_seq < self.base

    def _hold(self, since_ms):
        """Returns how long, in ms from the connect, the replay waits for the confirmation."""
        if self._hold_ms == _HOLD_MS and self._is_subscribed():
            self._hold_ms = min(since_ms + _AFTER_SUBACK_MS, _HOLD_MS)
        return self._hold_ms

    def _is_subscribed(self):
        return self._code() >= 0

    def _code(self):
        """Returns the SUBACK code of the confirmation's filter; -1: no answer yet."""
        for entry in self.filters:
            if entry[0] == self.topic:
                return entry[2]
        return -1

    def _replay(self):
        """Send all held messages again as new exchanges, from the oldest on."""
        oldest = self.outbox.oldest_seq
        self.replays += oldest < self.base
        if not self._is_reconnected and self.timeout_ms * self._factor < _QUARTER:
            self._factor = min(self._factor * 2, _LONGEST)
        self._is_reconnected = self._is_waiting = False
        self._progress_ms = self.now_ms
        self._exchanged = max(self._exchanged, self.base)
        self._replay_end = self.base
        self._restart_window(oldest)
        self.high = self.base
