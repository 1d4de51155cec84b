"""Messages that are set aside, in RAM. Loaded when the first one is set aside. Must not know why.
Allocation: a copy of each message.
"""

from micropython import const

_OK = const(0)
_FULL = const(-1)
_EMPTY = const(-7)
_MOST_HELD = const(4)


class RamShelf:
    """RamOutbox.shelf() returns this: a Shelf (`shelf.py`) for four messages."""

    def __init__(self, outbox):
        self._outbox, self.seq = outbox, -1  # seq: number of the loaded message
        self.mark = 0  # 1: it was put there with a mark
        # (number, flags, length of the topic, topic and payload, mark) of each message
        self._held = []

    def put(self, seq, mark=0):
        """OK, FULL, EMPTY."""
        outbox = self._outbox
        if self.has(seq):
            return _OK
        if outbox.load(seq) or outbox.loaded_seq != seq:
            return _EMPTY
        if outbox.aside == _MOST_HELD:
            return _FULL
        text = bytes(outbox.buffer[: outbox.topic_length + outbox.payload_length])
        self._held.append((seq, outbox.flags, outbox.topic_length, text, int(mark != 0)))
        outbox.aside += 1
        return _OK

    def has(self, seq):
        return any([held[0] == seq for held in self._held])

    def load(self, index):
        outbox = self._outbox
        outbox.loaded_seq = -1
        if not 0 <= index < outbox.aside:
            return _EMPTY
        self.seq, outbox.flags, outbox.topic_length, outbox.buffer, self.mark = self._held[index]
        outbox.payload_length = len(outbox.buffer) - outbox.topic_length
        return _OK

    def release(self, index):
        if not 0 <= index < len(self._held):
            return _EMPTY
        del self._held[index]
        self._outbox.aside -= 1
        return _OK
