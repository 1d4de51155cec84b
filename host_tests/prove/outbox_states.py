"""States of the outbox and their canonical form: what is equal for all that can happen from there.

A state is the chip (bytes of each block, both faces), the fields of the outbox in RAM, and the
promise. Its key forgets what the future cannot depend on: the absolute numbers of messages and
sectors, boot counts, counters, which block comes first in the ring, what a block holds that no
mount can reach. `firmware/PROOF.md` says for each why that is sound; `prove_outbox.py` expands a
sample of the states that were folded together from both of their forms and compares.

To forget numbers inside bytes, every program is taken apart when it happens into pieces (header,
record) with their fields; the key holds the fields, relative, and whether the bytes of a piece are
on flash whole, damaged, or not at all.
"""

from __future__ import annotations

import marshal
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

from outbox_chip import Chip
from outbox_real import crc30

# How the fields of an outbox enter the key. "loaded": only while a message is in the buffer;
# "cursor": only while the cursor is somewhere. A field that is not here stops the proof.
FIELDS = {
    "next_seq": "seq", "oldest_seq": "seq", "_first_seq": "seq", "_saved_oldest": "seq",
    "_sector_no": "sector",
    "_head": "block", "_tail": "block", "_ready": "block",
    "acked": "plain", "_offset": "plain", "_has_header": "plain", "_busy": "plain",
    "_saved_acked": "plain", "note_length": "plain", "note": "note", "stream": "stream",
    "loaded_seq": "loaded", "flags": "drop", "topic_at": "drop", "topic_length": "drop",
    "payload_length": "drop",
    "_cursor_seq": "cursor", "_cursor_block": "cursor", "_cursor_offset": "cursor",
    "_cursor_end": "cursor", "_cursor_salt": "drop",
    "_salt": "drop", "boot": "drop", "buffer": "drop", "_filled": "drop", "_record_size": "drop",
    "_prefix": "drop", "_topic": "drop", "_payload": "drop",
    "appended": "drop", "refused": "drop", "dropped": "drop", "unreadable": "drop",
    "damaged": "drop", "sealed_torn": "drop", "erases": "drop", "storage_errors": "drop",
    "_views": "fixed", "_raw": "fixed", "_place": "fixed", "_device": "fixed", "blocks": "fixed",
    "record_bytes": "fixed", "_align": "fixed", "_page": "fixed",
}  # fmt: skip


class Piece(NamedTuple):
    """What one program put on flash: a header or a record."""

    at: int
    data: bytes
    is_header: bool
    sector: int = 0  # of a header
    stream: bytes = b""
    first: int = 0  # first number of the sector; of a record, its own number
    oldest: int = 0
    acked: int = 0
    kind: int = 0  # of a record, with the lengths
    payload: bytes = b""


def pieces_of(offset: int, data: bytes, align: int, before: tuple, numbers: Sequence[int]) -> tuple:
    """The pieces of a program. before: those of its block; numbers: one of them is the record's."""
    found: list[Piece] = []
    at = 0
    if offset == 0 and data[:2] == b"OB":
        found.append(_header(data[:32]))
        at = max(32, align)
    while at < len(data) and data[at] == 0xFF:
        at += 1
    if at < len(data):
        header = [piece for piece in (*before, *found) if piece.is_header][-1]
        found.append(_record(offset, data, at, header, numbers))
    return tuple(found)


def _u32(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def _u16(data: bytes, at: int) -> int:
    return data[at] | data[at + 1] << 8


def _header(data: bytes) -> Piece:
    return Piece(
        0, data, True, _u32(data, 4), data[8:16], _u32(data, 16), _u32(data, 20), _u16(data, 24)
    )


def _record(offset: int, data: bytes, at: int, header: Piece, numbers: Sequence[int]) -> Piece:
    end = at + 12 + data[at + 1] + _u16(data, at + 2)
    crc, salt = _u32(data, end), _u32(header.data, 28)
    for seq in numbers:
        if crc30(salt ^ seq, bytearray(data), at, end) == crc:
            break
    else:
        raise AssertionError("a record without a number")
    payload = data[at + 12 + data[at + 1] : end]
    return Piece(
        offset + at, data[at : end + 4], False, header.sector, b"", seq,
        _u32(data, at + 4), _u16(data, at + 8), _u32(data, at), payload,
    )  # fmt: skip


class TaggedChip(Chip):
    """A chip that knows the pieces which its blocks were programmed with since the last erase.

    numbers: those that the next record may have.
    """

    align = 4

    def __init__(self, blocks: int, unit_bytes: int = 1, block_bytes: int = 128) -> None:
        Chip.__init__(self, blocks, unit_bytes, block_bytes)
        self.pieces: list[tuple[Piece, ...]] = [()] * blocks
        self.numbers: Sequence[int] = range(1)

    def perform(self, is_erase: bool, block: int, offset: int, data: bytes) -> None:
        Chip.perform(self, is_erase, block, offset, data)
        self._note(is_erase, block, offset, data)
        if is_erase and self.bad[block] is None:
            self.pieces[block] = ()

    def cut(self, is_erase: bool, block: int, offset: int, data: bytes, way: str) -> None:
        Chip.cut(self, is_erase, block, offset, data, way)
        self._note(is_erase, block, offset, data)
        self.settle(block)

    def settle(self, block: int) -> None:
        """Forget the pieces of which no byte is left."""
        faces = [face for face in (self.data[block], self.other[block]) if face is not None]
        self.pieces[block] = tuple(
            piece
            for piece in self.pieces[block]
            if any(face[piece.at : piece.at + len(piece.data)].strip(b"\xff") for face in faces)
        )

    def _note(self, is_erase: bool, block: int, offset: int, data: bytes) -> None:
        if not is_erase and self.bad[block] not in ("deaf", "refusing"):
            before = self.pieces[block]
            self.pieces[block] = before + pieces_of(offset, data, self.align, before, self.numbers)

    def snapshot(self) -> tuple:
        return (
            tuple(self.data), tuple(self.other), tuple(self.pieces), tuple(self.bad), self.view,
        )  # fmt: skip

    def restore(self, state: tuple) -> None:
        data, other, pieces, bad, self.view = state
        self.data, self.other, self.pieces, self.bad = (
            list(data), list(other), list(pieces), list(bad),
        )  # fmt: skip
        self.fail_call = self.cut_at = self.reads = 0


class Ram:
    """The fields of one outbox: saved, restored, and relative."""

    def __init__(self, outbox: Any) -> None:
        unknown = set(vars(outbox)) - set(FIELDS)
        if unknown:
            raise AssertionError(f"fields that the proof does not know: {sorted(unknown)}")
        self.outbox = outbox
        transient = ("_topic", "_payload")  # only inside of a call
        self.names = [
            name for name in vars(outbox) if FIELDS[name] != "fixed" and name not in transient
        ]
        self._plain = [name for name in self.names if FIELDS[name] == "plain"]

    def snapshot(self) -> tuple:
        fields = vars(self.outbox)
        return tuple(
            bytes(value) if type(value) is bytearray else value
            for value in (fields[name] for name in self.names)
        )

    def restore(self, state: tuple) -> None:
        fields = vars(self.outbox)
        for name, value in zip(self.names, state, strict=True):
            if type(fields[name]) is bytearray:
                fields[name][:] = value
            else:
                fields[name] = value

    def key(self, seq: int, sector: int, turn: int) -> tuple:
        o = self.outbox
        blocks = o.blocks
        fields = vars(o)
        found = [fields[name] for name in self._plain]
        found += [
            o.next_seq - seq, o.oldest_seq - seq, o._first_seq - seq, o._saved_oldest - seq,
            (o._sector_no - sector) & 0x3FFFFFFF, (o._head - turn) % blocks,
            (o._tail - turn) % blocks, -1 if o._ready < 0 else (o._ready - turn) % blocks,
        ]  # fmt: skip
        if o.loaded_seq >= 0:
            found += [o.loaded_seq - seq, o.flags, o.topic_at, o.topic_length, o.payload_length]
        else:
            found.append(None)
        if o._cursor_seq >= 0:
            found += [o._cursor_seq - seq, (o._cursor_block - turn) % blocks, o._cursor_offset]
            found.append(o._cursor_end - seq if o._cursor_end >= 0 else None)
        else:
            found.append(None)
        return tuple(found)


class Folding(NamedTuple):
    """What the key may forget in a scope: see PROOF.md, "States"."""

    turn: bool = True  # which block is the first of the ring
    blank: bool = True  # whether a block without a header is blank
    acks: bool = True  # acknowledgements in records that are not the last
    torn: bool = True  # what is torn at the end of a sector that is not the newest
    numbers: bool = True  # absolute numbers


_INTACT, _DAMAGED, _BLANK = 2, 1, 0


class Keys:
    """Canonical forms of the states of one scope."""

    def __init__(self, chip: TaggedChip, ram: Ram, folding: Folding) -> None:
        self.chip, self.ram, self.folding = chip, ram, folding
        self._keeps_torn = not folding.torn

    def on(self, promise: Any) -> bytes:
        """The key of a running outbox."""
        promised = self._promise(promise)
        seq, sector, turn, flash = self._flash(promise)
        return _digest((promised, flash, self.ram.key(seq, sector, turn), self._view()))

    def off(self, promise: Any) -> bytes:
        """The key without power."""
        promised = self._promise(promise)
        return _digest((promised, self._flash(promise)[3]))

    def _view(self) -> int:
        return 0 if self.chip.is_settled() else self.chip.view

    def _promise(self, promise: Any) -> tuple:
        base = promise.next_seq if self.folding.numbers else 0
        self._attempts: dict[int, list[int]] = {}
        return (
            [(seq - base, self._tag(seq, promise.held[seq])) for seq in sorted(promise.held)],
            [(seq - base, self._tag(seq, promise.unsaved[seq])) for seq in sorted(promise.unsaved)],
            [
                (seq - base, *[self._tag(seq, data) for data in promise.maybe[seq]])
                for seq in sorted(promise.maybe)
            ],
            promise.next_seq - base, promise.note, promise.maybe_note, promise.renewing,
            promise.extra,
        )  # fmt: skip

    def _tag(self, seq: int, data: bytes) -> tuple:
        """A payload: which of the attempts under this number that the state still tells apart, and
        its form. The outbox does not look into payloads, so the attempts may change places."""
        attempts = self._attempts.setdefault(seq, [])
        if data[0] not in attempts:
            attempts.append(data[0])
        return attempts.index(data[0]), len(data), data[-1] in (0, 0xFF) and data[-1]

    def _flash(self, promise: Any) -> tuple:
        base = promise.next_seq if self.folding.numbers else 0
        blocks = [self._statuses(block) for block in range(self.chip.blocks)]
        sectors = [s for block in blocks for s in block[1]]
        newest = max((piece.sector for piece, _ in sectors), default=0)
        head = next((b for b, (_, hs, _) in enumerate(blocks)
                     if any(piece.sector == newest for piece, _ in hs)), 0)  # fmt: skip
        starts = {piece.sector: piece.first for piece, _ in sectors}
        least = min(self._oldest(blocks, newest), default=0)
        turn = head if self.folding.turn else 0
        count = self.chip.blocks
        order = [(turn + i) % count for i in range(count)]
        facts = base, newest, starts, least
        sector = newest if self.folding.numbers else 0
        return base, sector, turn, tuple(self._block(b, blocks[b], facts) for b in order)

    def _oldest(self, blocks: list, newest: int) -> list[int]:
        """What a mount may take for the oldest message."""
        near = [pieces for _, hs, pieces in blocks for piece, _ in hs if piece.sector >= newest - 1]
        found = [
            [piece.oldest for piece, states in pieces if _INTACT in states] for pieces in near
        ]
        if self.folding.acks and self.chip.is_settled():
            return [
                one[-1] for one, pieces in zip(found, near, strict=True)
                if pieces[0][0].sector == newest
            ]  # fmt: skip
        return [oldest for one in found for oldest in one]

    def _statuses(self, block: int) -> tuple:
        """(whether blank, headers that some face has whole, all pieces): pieces with their state
        in each face."""
        chip = self.chip
        data, other = chip.data[block], chip.other[block]
        faces = [data]
        if other is not None:
            view, chip.view = chip.view, 2
            faces += [other, chip.face(block)]
            chip.view = view
        found = []
        for piece in chip.pieces[block]:
            end = piece.at + len(piece.data)
            states = tuple(
                _INTACT if face[piece.at : end] == piece.data
                else _DAMAGED if face[piece.at : end].strip(b"\xff")
                else _BLANK
                for face in faces
            )  # fmt: skip
            found.append((piece, states))
        headers = [one for one in found if one[0].is_header and _INTACT in one[1]]
        is_blank = not any(face.strip(b"\xff") for face in faces)
        return is_blank, headers, found

    def _block(self, block: int, statuses: tuple, facts: tuple) -> tuple:
        is_blank, headers, pieces = statuses
        base, newest, starts, least = facts
        bad = self.chip.bad[block]
        if not headers:
            return bad, is_blank if bad or not self.folding.blank else None
        header = headers[-1][0]
        age = newest - header.sector
        end = starts.get(header.sector + 1)
        if age > self.chip.blocks:
            return bad, "old"
        if age > 1 and end is not None and end <= least:
            return bad, "released", age
        acks_from = self._acks_from(age, pieces)
        key: list[Any] = [bad, age if self.folding.numbers else header.sector, header.stream]
        for index, (piece, states) in enumerate(pieces):
            if age and end is not None and self.folding.torn and not piece.is_header:
                if piece.first >= end:
                    continue
            key.append(self._piece(piece, states, base, index >= acks_from))
        return tuple(key)

    def _acks_from(self, age: int, pieces: list) -> int:
        """The first piece whose acknowledgements a mount may read."""
        if not self.folding.acks or not self.chip.is_settled():
            return 0
        if age:
            return len(pieces)
        whole = [i for i, (_, states) in enumerate(pieces) if states[0] == _INTACT]
        return whole[-1]

    def _piece(self, piece: Piece, states: tuple, base: int, has_acks: bool) -> tuple:
        if _INTACT not in states:
            return piece.at, states
        acks = (piece.oldest - base, piece.acked) if has_acks else None
        return (
            piece.at, states, len(piece.data), piece.first - base, piece.kind, acks,
            self._tag(piece.first, piece.payload) if piece.kind & 1 else piece.payload,
        )  # fmt: skip


def payload(seq: int, attempt: int, size: int, filler: int = -1) -> bytes:
    """Of message `seq`; each attempt to store one has its own. filler: all further bytes."""
    head = bytes((0x20 + attempt, seq & 0x7F))
    if filler >= 0:
        return head + bytes([filler]) * (size - 2)
    return head + bytes((0x40 + (seq + 3 * attempt + 5 * i) % 61) for i in range(size - 2))


def attempt_of(data: bytes) -> int:
    return data[0] - 0x20


def _digest(key: tuple) -> bytes:
    return blake2b(marshal.dumps(key, 2), digest_size=16).digest()
