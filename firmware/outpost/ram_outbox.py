"""An outbox in RAM, for a program that needs no promise over a reset: the same calls as `outbox.py`, a slot for each message.

Numbers begin at 0 with every boot. For broker mode. Allocation: construction only.
"""

from micropython import const

from outpost.memory import copy

_OK = const(0)
_FULL = const(-1)
_TOO_BIG = const(-2)
_EMPTY = const(-7)


class RamOutbox:
    """slots: messages held at most, 1..16. record_bytes: topic and payload of the largest together, up to 16,383."""

    renumbers = True  # with every boot: collector mode could not follow
    stream = b""
    boot = acked = topic_at = 0

    def __init__(self, slots=4, record_bytes=128):
        self.record_bytes = record_bytes
        self._texts = [bytearray(record_bytes) for _ in range(slots)]
        self._slots = slots
        self._heads = [0] * slots  # flags:7 topic_length:8 payload_length:14
        self.next_seq = self.oldest_seq = self._done = self.refused = 0
        self.loaded_seq = self.flags = self.topic_length = self.payload_length = 0
        self.buffer = b""

    def append(self, topic, payload, length, flags=0x10):
        """As Outbox.append(): OK, FULL, TOO_BIG."""
        if len(topic) > 255 or len(topic) + length > self.record_bytes:
            return _TOO_BIG
        if self.next_seq - self.oldest_seq == self._slots:
            self.refused += 1
            return _FULL
        self.topic_length = len(topic)  # steps, and fields: the frame must stay within 11 words
        self._heads[self.next_seq % self._slots] = (flags << 8 | self.topic_length) << 14 | length
        flags = self._texts[self.next_seq % self._slots]
        copy(flags, 0, topic, 0, self.topic_length)
        copy(flags, self.topic_length, payload, 0, length)
        self.next_seq += 1
        return _OK

    def load(self, seq):
        """As Outbox.load(): OK, EMPTY."""
        if seq >= self.next_seq:
            return _EMPTY
        self.loaded_seq = seq
        seq %= self._slots
        self.buffer = self._texts[seq]
        seq = self._heads[seq]
        self.flags = seq >> 22
        self.topic_length = seq >> 14 & 255
        self.payload_length = seq & 0x3FFF
        return _OK

    def discard(self, seq):
        """As Outbox.discard()."""
        distance = seq - self.oldest_seq
        if distance < 0 or seq >= self.next_seq:
            return False
        if not distance and not self._done:
            self.oldest_seq = seq + 1
            return True
        self._done |= 1 << distance
        while self._done & 1:
            self._done >>= 1
            self.oldest_seq += 1
        return True

    def save_state(self):
        return _OK

    erase_ahead = unsaved = save_state
