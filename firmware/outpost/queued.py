"""Collector mode over a server without retained messages (Azure Event Grid closed the connection on
RETAIN).

The collector publishes its confirmations with QoS 1, and the server queues them for this board's
session. So the board cannot look anything up after a connect: what was queued arrives by itself,
and if the server has lost the session, nothing does. The board then sends its oldest held message
again, alone, which every collector answers by confirming everything that it has. So even after
hours of messages that were confirmed to nobody, only one goes twice. If no answer comes within
1.5 s, the others follow. If the connection ends before, the next message asks.

A class of its own, so that boards with retained confirmations do not pay. Must not know a stream or
a clock. Allocation: as `durable.py`. Its hooks are those of `durable.py`.
"""

from micropython import const

from outpost.durable import DurableSession
from outpost.ticks import elapsed_ms

_ANSWER_MS = const(1500)
_NONE = const(-1)


class QueuedSession(DurableSession):
    """Options: see DurableSession. With `clean` nothing is queued, so every connect asks."""

    confirmation_qos = 1

    def __init__(self, outbox, client_id, topic, timeout_ms=10_000, **options):
        DurableSession.__init__(self, outbox, client_id, topic, timeout_ms, **options)
        self._asked_seq = _NONE  # the message sent alone; those after it wait for the answer

    def _on_connected(self):
        was_asking = self._asked_seq >= 0
        DurableSession._on_connected(self)
        self._asked_seq = self.base if was_asking and not self._is_reconnected else _NONE

    def _on_confirmation(self, seq):
        DurableSession._on_confirmation(self, seq)
        if self.through >= self._asked_seq:
            self._asked_seq = _NONE

    def _hold(self, since_ms):
        """In a new session nothing is queued."""
        if not self.session_present and self._is_subscribed():
            return 0
        return DurableSession._hold(self, since_ms)

    def _replay(self):
        """A message that was sent before goes alone, to ask for a confirmation."""
        is_repeat = self.outbox.oldest_seq < max(self.maybe_sent, self.high, self._exchanged)
        DurableSession._replay(self)
        if is_repeat:
            self._asked_seq = self.base

    def _start_message(self):
        if 0 <= self._asked_seq < self.next_send:
            return False
        return DurableSession._start_message(self)

    def _is_replay_due(self):
        """Not before the message that went alone was answered, or had time to be."""
        if self._asked_seq >= 0:
            self._is_held_up = False
            if elapsed_ms(self.now_ms, self._progress_ms) < _ANSWER_MS:
                return False
            self._asked_seq = _NONE
            self._progress_ms = self.now_ms
        return DurableSession._is_replay_due(self)
