"""Outboxes for the fuzzer: one in RAM that behaves like the one in flash, and an observer of
either.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

_MOST = 40


class SteadyOutbox:
    """The calls of `outbox.py` and `state_note.py`, over a dict that survives a reset, so that
    thousands of resets a second are possible.

    The limits of a record (16 bytes of overhead, 255 of topic, acknowledgements 16 wide) are those
    of the real outbox.
    """

    renumbers = False
    boot = topic_at = aside = 0
    lent = ()
    world: Any = None

    def __init__(self, stream: bytes, record_bytes: int, first_seq: int) -> None:
        self.stream, self.record_bytes = stream, record_bytes
        self.next_seq = self.oldest_seq = first_seq
        self.acked = self.loaded_seq = self.flags = self.topic_length = self.payload_length = 0
        self.saved = first_seq, 0
        self.records: dict[int, tuple[int, bytes, bytes]] = {}
        self.buffer = bytearray(record_bytes)
        self.note, self.note_length = bytearray(72), 0

    def unsaved(self) -> int:
        return self.oldest_seq - self.saved[0]

    def _fails(self) -> bool:
        failing = self.world.fails > 0
        self.world.fails -= failing
        return failing

    def append(self, topic: bytes, payload: bytes, length: int, flags: int = 0x10) -> int:
        if len(topic) > 255 or len(topic) + length + 16 > self.record_bytes:
            return -2
        if self.next_seq - self.oldest_seq >= _MOST or self.next_seq == 0x3FFFFFFF:
            return -1
        if self._fails():
            return -5
        self.records[self.next_seq] = flags & 0x70, topic, bytes(payload[:length])
        self.next_seq += 1
        self.save_state()
        return 0

    def load(self, seq: int) -> int:
        seq = max(seq, self.oldest_seq)
        if seq >= self.next_seq:
            return -7
        self.loaded_seq = seq
        self.flags, topic, payload = self.records[seq]
        self.topic_length, self.payload_length = len(topic), len(payload)
        self.buffer[: len(topic) + len(payload)] = topic + payload
        return 0

    def discard(self, seq: int) -> bool:
        distance = seq - self.oldest_seq
        if seq >= self.next_seq or not 0 <= distance <= 16:
            return False
        self.acked |= 1 << distance >> 1
        if not distance:
            self.discard_through(seq)
        return True

    def discard_through(self, seq: int) -> None:
        """Bit i of acked: message oldest_seq + 1 + i is released."""
        seq = min(seq, self.next_seq - 1)
        done = self.acked << 1
        while self.oldest_seq <= seq or done & 1:
            self.oldest_seq += 1
            done >>= 1
        self.acked = done >> 1

    def save_state(self) -> int:
        self.saved = self.oldest_seq, self.acked
        for seq in [held for held in self.records if held < self.oldest_seq]:
            del self.records[seq]
        return 0

    def erase_ahead(self) -> bool:
        return False

    def shelf(self):
        """Always fails, because the model has no shelf. `test_suspects.py` tests it."""
        raise MemoryError

    def set_note(self, data: Any, length: int) -> int:
        if self._fails():
            return -5
        self.note[:length] = data[:length]
        self.note_length = length
        return self.save_state()

    def forget(self) -> None:
        """Forget what no record carries."""
        self.oldest_seq, self.acked = self.saved


@lru_cache(maxsize=64)
def _watched(base: type) -> type:
    class Observed(base):  # type: ignore[misc, valid-type]
        def load(self, seq: int) -> int:
            status = base.load(self, seq)
            if status == 0 and (message := self.world.model.messages.get(self.loaded_seq)):
                message.loads += 1
            return status

        def discard(self, seq: int) -> bool:
            world = self.world
            if world.is_watching:
                world.sync()
                world.model.freed(seq)
            watching, world.is_watching = world.is_watching, False
            try:
                return base.discard(self, seq)
            finally:
                world.is_watching = watching

        def discard_through(self, seq: int) -> None:
            if self.world.is_watching:
                self.world.sync()
                self.world.model.freed_through(seq)
            base.discard_through(self, seq)

        def set_note(self, data: Any, length: int) -> int:
            self.world.trying_note = bytes(data[:length])
            status = base.set_note(self, data, length)
            self.world.on_note(bytes(data[:length]), status == 0)
            return status

    return Observed


def observed(base: type, world: Any) -> Any:
    """Returns a subclass that reports to the world what is released and noted; made once per class,
    not per scenario.
    """
    kind = _watched(base)

    def make(*arguments: Any) -> Any:
        kind.world = world  # type: ignore[attr-defined]
        return kind(*arguments)

    return make
