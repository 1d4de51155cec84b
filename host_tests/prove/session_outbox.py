"""The two outboxes under the sessions that the explorer drives.

FastStore is the outbox contract over a few tuples: a record is in flash whole or not at all, which
is what `prove_outbox.py` shows about the real outbox. Each record is one operation, cut before or
after it. ChipStore is the firmware's outbox on a chip of a few blocks, cut in each program and
erase, in each way that the chip knows; states take 20 times as long.

A store has: outbox; operations, the flash operations since arm(); arm(at, mode), which sets a cut;
save() and restore(saved) for everything; key(origin); boot() after a cut; durable_oldest().
"""

from __future__ import annotations

from typing import Any

from fake_flash import PowerCut, flash_in_ram, image_of

OK, TOO_BIG, STORAGE, EMPTY = 0, -2, -5, -7
STREAM = b"0badcafe"
RECORD_BYTES = 128


def canonical_note(note: bytes, origin: int, exact: bool) -> tuple:
    """Returns (how far its base is behind `origin`, the bits of its window in order, identifiers).
    Unless exact, only the bits of messages that may come back."""
    if len(note) < 6:
        return (0, 0, b"")
    base = int.from_bytes(note[:4], "big")
    behind = min(max(origin - base, -1), 17)
    bits = int.from_bytes(note[4:6], "big") if behind < 17 else 0
    turn = origin & 15
    bits = (bits >> turn | bits << 16 - turn) & 0xFFFF
    if not exact:
        bits &= 0xFFFF >> min(max(behind, 0), 16)
    return behind if bits or exact else 0, bits, note[6:]


class FastOutbox:
    """flash: (next_seq, oldest_seq, acked, note) of the newest record; kinds: flags of each message
    in flash."""

    renumbers = False
    stream, boot, topic_at, record_bytes = STREAM, 1, 0, RECORD_BYTES
    aside = lent = 0

    def __init__(self, first_seq: int) -> None:
        self.flash = first_seq, first_seq, 0, b""
        self.kinds: dict[int, int] = {}
        self.buffer = bytearray(RECORD_BYTES)
        self.note = bytearray(72)
        self.operations, self.cut_at, self.mode = 0, 0, ""
        self.mount()

    def mount(self) -> int:
        self.next_seq, self.oldest_seq, self.acked, note = self.flash
        self.note_length = len(note)
        self.note[: len(note)] = note
        self.loaded_seq, self.flags, self.topic_length, self.payload_length = -1, 0, 0, 0
        self.refused = 0
        return OK

    def _program(self, next_seq: int, note: bytes) -> int:
        """Program the newest record, with the fields that every record has."""
        self.operations += 1
        is_cut = self.operations == self.cut_at
        if is_cut and self.mode == "refuse":
            return STORAGE
        if is_cut and self.mode == "before":
            raise PowerCut
        oldest = self.oldest_seq
        self.flash = next_seq, oldest, self.acked, note
        self.kinds = {seq: flags for seq, flags in self.kinds.items() if seq >= oldest}
        if is_cut:
            raise PowerCut
        return OK

    def append(self, topic: bytes, payload: Any, length: int, flags: int = 0x10) -> int:
        if len(topic) + length + 16 > RECORD_BYTES:
            return TOO_BIG
        seq = self.next_seq
        if int.from_bytes(payload[:length], "big") != seq:
            raise ValueError("a message of the explorer is its number")
        before, self.kinds = self.kinds, {**self.kinds, seq: flags & 0x70}
        status = self._program(seq + 1, self.flash[3])
        if status:
            self.kinds = before
        else:
            self.next_seq = seq + 1
        return status

    def load(self, seq: int) -> int:
        seq = max(seq, self.oldest_seq)
        if seq >= self.next_seq:
            return EMPTY
        self.loaded_seq, self.flags = seq, self.kinds[seq]
        self.topic_length, self.payload_length = 1, 4
        self.buffer[:5] = b"t" + seq.to_bytes(4, "big")
        return OK

    def discard(self, seq: int) -> bool:
        distance = seq - self.oldest_seq
        if seq >= self.next_seq or not 0 <= distance <= 16:
            return False
        done = self.acked << 1 | 1 << distance  # bit i: oldest_seq + i
        while done & 1:
            self.oldest_seq += 1
            done >>= 1
        self.acked = done >> 1
        return True

    def discard_through(self, seq: int) -> None:
        done = self.acked << 1
        while self.oldest_seq <= min(seq, self.next_seq - 1) or done & 1:
            self.oldest_seq += 1
            done >>= 1
        self.acked = done >> 1

    def save_state(self) -> int:
        if self.flash[1:3] == (self.oldest_seq, self.acked):
            return OK
        return self._program(self.next_seq, self.flash[3])

    def set_note(self, data: Any, length: int) -> int:
        note = bytes(data[:length])
        status = self._program(self.next_seq, note)
        if status == OK:
            self.note[:length], self.note_length = note, length
        return status

    def unsaved(self) -> int:
        return self.oldest_seq - self.flash[1]

    def erase_ahead(self) -> bool:
        return False


class FastStore:
    MODES = ("before", "after")

    def __init__(self, first_seq: int, with_note: bool) -> None:
        self.outbox = FastOutbox(first_seq)

    @property
    def operations(self) -> int:
        return self.outbox.operations

    def arm(self, at: int, mode: str) -> None:
        outbox = self.outbox
        outbox.operations, outbox.cut_at, outbox.mode = 0, at, mode

    def save(self) -> dict:
        return self.outbox.__dict__.copy()

    def restore(self, saved: dict) -> None:
        outbox = self.outbox
        outbox.__dict__ = saved.copy()
        outbox.loaded_seq = -1
        note = saved["flash"][3]
        outbox.note[: len(note)] = note

    def boot(self) -> None:
        self.arm(0, "")
        self.outbox.mount()

    def durable_oldest(self) -> int:
        return self.outbox.flash[1]

    def durable_note(self) -> bytes:
        return self.outbox.flash[3]

    def kind_of(self, seq: int) -> int:
        return self.outbox.kinds[seq]

    def key(self, origin: int, exact: bool) -> tuple:
        """Returns the key of what still matters, with numbers relative to `origin`."""
        outbox = self.outbox
        _, oldest, acked, note = outbox.flash
        now = outbox.next_seq - origin, outbox.oldest_seq - origin, outbox.acked
        return acked, oldest - origin, now, canonical_note(note, origin, exact)


class ChipStore:
    MODES = ("nothing", "all", "first", "last")
    BLOCKS, PAGE_BYTES = 3, 256

    def __init__(self, first_seq: int, with_note: bool) -> None:
        from outpost.outbox import Outbox
        from outpost.state_note import NotedOutbox

        self.chip = flash_in_ram(self.BLOCKS, self.PAGE_BYTES)
        self.outbox = (NotedOutbox if with_note else Outbox)(self.chip, RECORD_BYTES)
        if self.outbox.format(STREAM, False, first_seq):
            raise ValueError("format")
        self._buffers = [name for name in ("_prefix", "note") if self._is_buffer(name)]
        self._before = 0

    def _is_buffer(self, name: str) -> bool:
        return isinstance(getattr(self.outbox, name), bytearray)

    @property
    def operations(self) -> int:
        return self.chip.operations - self._before

    def arm(self, at: int, mode: str) -> None:
        self._before = self.chip.operations
        self.chip.cut_at = self._before + at if at else 0
        self.chip.cut_mode = mode or "all"

    def save(self) -> tuple:
        fields = self.outbox.__dict__
        return image_of(self.chip), fields.copy(), [bytes(fields[name]) for name in self._buffers]

    def restore(self, saved: tuple) -> None:
        image, fields, buffers = saved
        self.chip._file.seek(0)
        self.chip._file.write(image)
        outbox = self.outbox
        outbox.__dict__ = fields.copy()
        outbox.loaded_seq = outbox._cursor_seq = -1
        for name, data in zip(self._buffers, buffers, strict=True):
            fields[name][:] = data

    def boot(self) -> None:
        self.arm(0, "")
        status = self.outbox.mount()
        if status:
            raise ValueError(f"mount: {status}")

    def durable_oldest(self) -> int:
        return self.outbox.oldest_seq - self.outbox.unsaved()

    def durable_note(self) -> bytes:
        return bytes(self.outbox.note[: self.outbox.note_length])

    def kind_of(self, seq: int) -> int:
        if self.outbox.load(seq) or self.outbox.loaded_seq != seq:
            raise ValueError(f"message {seq} is lost")
        return self.outbox.flags

    def key(self, origin: int, exact: bool) -> tuple:
        outbox = self.outbox
        now = outbox.next_seq - origin, outbox.oldest_seq - origin, outbox.acked
        saved = outbox._saved_acked, self.durable_oldest() - origin
        return (*saved, now, canonical_note(self.durable_note(), origin, exact))
