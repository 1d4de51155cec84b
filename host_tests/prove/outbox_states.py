"""States of the outbox and their canonical form: states with one key have the same future.

A state is the chip (bytes of each block, both faces), the fields of the outbox in RAM, and the
promise. Its key omits what the future cannot depend on: the absolute numbers of messages and
sectors, boot counts, counters, which block comes first in the ring, and what a block holds that no
mount can reach. `firmware/PROOF.md` says for each why that is sound. `prove_outbox.py` expands a
sample of the folded states from both of their forms and compares.

To omit the numbers inside bytes, every program is split, when it happens, into pieces (header,
record) with their fields. The key holds the fields, relative, and whether the bytes of a piece are
in flash whole, damaged, or not at all.
"""

from __future__ import annotations

import marshal
from collections.abc import Sequence
from hashlib import blake2b
from itertools import pairwise
from typing import Any, NamedTuple

from virtual.chip import Chip

# How the fields of an outbox enter the key. "loaded": only while a message is in the buffer;
# "cursor": only while the cursor has a position. A field that is not listed stops the proof.
FIELDS = {
    "next_seq": "seq", "oldest_seq": "seq", "_first_seq": "seq", "_saved_oldest": "seq",
    "_sector_no": "sector",
    "_head": "block", "_tail": "block", "_ready": "block",
    "_limit": "plain", "_is_worn_out": "plain", "_doubt": "plain", "_shown_end": "number",
    "_failed_block": "place", "_out": "places", "lent": "places", "left_out": "drop",
    "mended": "drop", "_mended_block": "drop",
    "acked": "plain", "_offset": "plain", "_has_header": "plain", "_busy": "plain",
    "_saved_acked": "plain", "note_length": "plain", "note": "note", "stream": "stream",
    "loaded_seq": "loaded", "flags": "drop", "topic_at": "drop", "topic_length": "drop",
    "payload_length": "drop",
    "_cursor_seq": "cursor", "_cursor_block": "cursor", "_cursor_offset": "cursor",
    "_cursor_end": "cursor", "_cursor_salt": "drop",
    "_salt": "drop", "boot": "drop", "buffer": "drop", "_filled": "drop", "_record_size": "drop",
    "_prefix": "drop", "_topic": "drop", "_payload": "drop",
    "_mounted_seq": "drop", "refused": "drop", "dropped": "drop", "unreadable": "drop",
    "damaged": "drop", "sealed_torn": "drop", "erases": "drop", "storage_errors": "drop",
    "_views": "fixed", "_raw": "fixed", "_place": "fixed", "_device": "fixed", "blocks": "fixed",
    "record_bytes": "fixed", "_align": "fixed", "_page": "fixed",
    "_least_align": "fixed", "_geometry": "fixed", "_may_be_longer": "drop",
    "aside": "fixed", "_shelf": "fixed",  # no scope sets a message aside
    # Fields of an outbox that holds series; `series_states.py` adds them to the key.
    "_is_marked": "plain", "_gather": "fixed", "_owner": "drop", "_record_at": "drop",
    "where": "fixed", "_tools": "fixed", "sample": "drop",
}  # fmt: skip


HEADER, COPY, RECORD, MARKER, SAMPLE = range(5)
_SERIES = 3  # the kind of a record


class Piece(NamedTuple):
    """What one program put into flash: a header, its copy, a record, a marker of format(), or a
    sample of a series. payload: of a series, its content (`series_states.py`); of a sample, its
    place."""

    at: int
    data: bytes
    sort: int
    sector: int = 0  # of a header
    stream: bytes = b""
    first: int = 0  # first number of the sector; of a record, its own number
    oldest: int = 0
    acked: int = 0
    kind: int = 0  # of a record, with the lengths
    payload: bytes = b""
    boot: int = 0  # of a record


MARK = b"outpost: "  # format() programs it before anything else


def pieces_of(offset: int, data: bytes, before: tuple, seq: int, content: Any = None) -> tuple:
    """Returns the pieces of a program. before: the pieces of its block; seq: the number of the
    record; content: a function that turns a series' message into its content."""
    found: list[Piece] = []
    at = 0
    while True:
        while at < len(data) and data[at] == 0xFF:
            at += 1
        if at == len(data):
            return tuple(found)
        if data[at : at + 2] == b"OB":
            piece = _header(offset + at, data[at : at + 32])
        elif data.startswith(MARK, at):
            piece = Piece(offset + at, data[at : at + 32], MARKER)
        else:
            header = [one for one in (*before, *found) if one.sort == HEADER][-1]
            piece = _record(offset, data, at, header, seq)
            if content and piece.kind & 0xF == _SERIES:
                piece = piece._replace(payload=content(piece.payload, seq))
        found.append(piece)
        at += len(piece.data)


def _u32(data: bytes, at: int) -> int:
    """The low 30 bits, as the firmware reads them."""
    return int.from_bytes(data[at : at + 4], "little") & 0x3FFFFFFF


def _u16(data: bytes, at: int) -> int:
    return data[at] | data[at + 1] << 8


def _header(at: int, data: bytes) -> Piece:
    return Piece(
        at, data, COPY if at else HEADER, _u32(data, 4), data[8:16],
        _u32(data, 16), _u32(data, 20), _u16(data, 24),
    )  # fmt: skip


def _record(offset: int, data: bytes, at: int, header: Piece, seq: int) -> Piece:
    end = at + 12 + data[at + 1] + _u16(data, at + 2)
    payload = data[at + 12 + data[at + 1] : end]
    return Piece(
        offset + at, data[at : end + 4], RECORD, header.sector, b"", seq,
        _u32(data, at + 4), _u16(data, at + 8), _u32(data, at), payload, _u16(data, at + 10),
    )  # fmt: skip


class TaggedChip(Chip):
    """A chip that knows the pieces that were programmed into its blocks since the last erase.

    number: of the next record. sample: makes a piece of the program of a sample, if the next
    program is one.
    """

    align = 4
    content: Any = None
    sample: Any = None

    def __init__(self, blocks: int, unit_bytes: int = 1, block_bytes: int = 128) -> None:
        Chip.__init__(self, blocks, unit_bytes, block_bytes)
        self.pieces: list[tuple[Piece, ...]] = [()] * blocks
        self.number = 0

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
            if self.sample:
                self.pieces[block] = (*before, self.sample(offset, data, before))
            else:
                found = pieces_of(offset, data, before, self.number, self.content)
                self.pieces[block] = before + found

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
        transient = ("_topic", "_payload")  # set only inside a call
        self.names = [
            name for name, kind in FIELDS.items()
            if kind != "fixed" and name not in transient and hasattr(outbox, name)
        ]  # fmt: skip
        self._plain = [name for name in self.names if FIELDS[name] == "plain"]
        self.relative: dict[int, int] = {}  # the key's replacement for each number

    def snapshot(self) -> tuple:
        return tuple(
            bytes(value) if type(value) is bytearray else value
            for value in (getattr(self.outbox, name) for name in self.names)
        )

    def restore(self, state: tuple) -> None:
        fields = vars(self.outbox)
        for name, value in zip(self.names, state, strict=True):
            if type(fields.get(name)) is bytearray:
                fields[name][:] = value
            else:
                fields[name] = value

    def numbers(self) -> list[int]:
        """The numbers of messages in the fields."""
        o = self.outbox
        found = [o.next_seq, o.oldest_seq, o._first_seq, o._saved_oldest]
        found += [o.loaded_seq, o._cursor_seq, o._cursor_end]
        return [number for number in found if number >= 0]

    def key(self, sector: int, turn: int) -> tuple:
        o, rel = self.outbox, self.relative
        blocks = o.blocks

        def place(block: int) -> int:
            return -1 if block < 0 else (block - turn) % blocks

        found: list[Any] = [getattr(o, name) for name in self._plain]
        found += [
            rel[o.next_seq], rel[o.oldest_seq], rel[o._first_seq], rel[o._saved_oldest],
            (o._sector_no - sector) & 0x3FFFFFFF, place(o._head), place(o._tail), place(o._ready),
        ]  # fmt: skip
        if o.loaded_seq >= 0:
            found += [rel[o.loaded_seq], o.flags, o.topic_at, o.topic_length, o.payload_length]
        else:
            found.append(None)
        if o._cursor_seq >= 0:
            found += [rel[o._cursor_seq], place(o._cursor_block), o._cursor_offset]
            found.append(rel[o._cursor_end] if o._cursor_end >= 0 else None)
        else:
            found.append(None)
        if "_shown_end" in self.names:
            found.append(o._shown_end < 0x3FFFFFFF)
            found += [
                place(o._failed_block),
                sorted(map(place, o._out)),
                sorted(map(place, o.lent)),
            ]
        return tuple(found)


class Folding(NamedTuple):
    """What the key may forget in a scope: see PROOF.md, "States"."""

    turn: bool = True  # which block is the first of the ring
    blank: bool = True  # whether a block without a header is blank
    acks: bool = True  # acknowledgements in records that are not the last
    torn: bool = True  # what is torn at the end of a sector that is not the newest
    numbers: bool = True  # absolute numbers


_BLANK, _DAMAGED, _NEARLY, _INTACT = range(4)


def _state(face: bytes, piece: Piece) -> int:
    """Returns whether the bytes of a piece are there: whole, all but one bit, otherwise, or not at
    all."""
    data = face[piece.at : piece.at + len(piece.data)]
    if data == piece.data:
        return _INTACT
    if not data.strip(b"\xff"):
        return _BLANK
    wrong = int.from_bytes(data, "little") ^ int.from_bytes(piece.data, "little")
    if piece.sort == RECORD:  # the two unused bits of its CRC
        wrong &= (1 << 8 * len(data) - 2) - 1
    return _NEARLY if wrong & (wrong - 1) == 0 else _DAMAGED


def _strays(face: bytes, pieces: tuple) -> tuple:
    """Returns where bytes outside all pieces are not erased: the first place and the last."""
    left = bytearray(face)
    for piece in pieces:
        left[piece.at : piece.at + len(piece.data)] = b"\xff" * len(piece.data)
    if not left.strip(b"\xff"):
        return ()
    return len(left) - len(left.lstrip(b"\xff")), len(left.rstrip(b"\xff"))


def _is_blank(data: bytes) -> bool:
    return not data.strip(b"\xff")


def _form(face: bytes, buffer_bytes: int) -> tuple:
    """Returns which parts of a block are erased: those that mount() checks, and those that a torn
    erase leaves."""
    size = len(face)
    ends = sorted({32, size // 2, min(buffer_bytes, size), size - 32, size})
    return tuple([_is_blank(face[start:end]) for start, end in zip([0, *ends], ends, strict=False)])


class Look(NamedTuple):
    """A block: its header, if any face has one; all pieces, each with its state in each face; for
    each face, which parts are erased, and where bytes outside the pieces are not."""

    header: Piece | None
    found: list
    form: tuple
    strays: tuple


def _end_of(look: Look, end: int | None) -> int:
    """Returns the number after the last message of a sector. end: where the next one starts."""
    assert look.header
    messages = [piece for piece, _ in look.found if piece.sort == RECORD and piece.kind & 1]
    last = max([one.first + 1 for one in messages], default=look.header.first)
    return last if end is None else min(last, end)


class Sectors:
    """The sectors whose headers are there, in the order of their numbers. Numbers may be skipped:
    so which one comes next says the order, and not the next number."""

    def __init__(self, headers: list, blocks: int) -> None:
        self._starts = {header.sector: header.first for header in headers}
        self._order = sorted(self._starts, reverse=True)
        self.newest = self._order[0] if headers else 0
        self._blocks = blocks

    def rank(self, header: Piece) -> int:
        """Returns how many are newer."""
        return self._order.index(header.sector)

    def end(self, header: Piece) -> int | None:
        """Returns the first number of the next one; None: there is none."""
        rank = self.rank(header)
        return self._starts[self._order[rank - 1]] if rank else None

    def short_age(self, header: Piece) -> int:
        """Returns how much older it is than the newest. Longer gaps are shortened to one more than
        there are blocks: mount() only asks how many of the blocks between may be missing."""
        numbers = self._order[: self.rank(header) + 1]
        gaps = [one - other for one, other in pairwise(numbers)]
        return sum(min(gap, self._blocks + 1) for gap in gaps)


_GAP = 300  # 254 numbers are skipped at once, 16 acknowledged out of order


class Keys:
    """Canonical forms of the states of one scope."""

    def __init__(self, chip: TaggedChip, ram: Ram, folding: Folding) -> None:
        self.chip, self.ram, self.folding = chip, ram, folding

    def on(self, promise: Any) -> bytes:
        """The key of a running outbox."""
        # A sector whose header was not stored is erased and opened again.
        outbox = self.ram.outbox
        self._look_at(-1 if outbox._has_header else outbox._sector_no)
        self._number(promise, self.ram.numbers())
        promised = self._promise(promise)
        sector, turn, flash = self._flash()
        there = self.chip.pieces[outbox._head] if outbox._has_header else ()
        ram = self.ram.key(sector, turn), self._boots(there)[-1:]
        return _digest((promised, flash, ram, self._view()))

    def off(self, promise: Any) -> bytes:
        """Returns the key without power."""
        self._look_at(-1)
        self._number(promise, ())
        promised = self._promise(promise)
        return _digest((promised, self._flash()[2]))

    def _look_at(self, opens_again: int) -> None:
        """Find the sectors, and the least number that a mount may take for the oldest message."""
        self._looks = [self._look(block) for block in range(self.chip.blocks)]
        headers = [look.header for look in self._looks if look.header]
        self._sectors = Sectors(headers, self.chip.blocks)
        newest = self._sectors.newest
        self._live = max(opens_again == newest, self._most_live(newest))
        self._oldest = min(self._acknowledged(), default=0)

    def _number(self, promise: Any, more: Sequence[int]) -> None:
        """Set the number to which others are relative: the one after the newest in flash. The
        promise may be far behind, if numbers were skipped: it matters as far as the oldest in
        flash."""
        # What a mount may read. A released message cannot come back when no mount can reach a
        # record of it.
        legible = [
            (piece, bad)
            for look, bad in zip(self._looks, self.chip.bad, strict=True)
            for piece, states in look.found
            if look.header and max(states) >= _NEARLY and piece.sort != MARKER
        ]
        numbered = [piece for piece, bad in legible if bad is None]
        numbers = [one.first + (one.sort == RECORD and one.kind & 1) for one in numbered]
        pieces = [piece for pieces in self.chip.pieces for piece in pieces]
        readable = [one for one, _ in legible if one.first >= self._oldest]
        self.there = {(one.first, one.payload[:1]) for one in readable}
        self.base = self.least = 0
        if self.folding.numbers:
            self.base = max(numbers, default=promise.next_seq)
            self.least = min([*[one.first for one in numbered], self.base])
        found = {self.base, self.least, promise.next_seq, promise.top_seq, *more, *numbers}
        found.update(promise.held, promise.unsaved, promise.maybe)
        for piece in pieces:
            found.update((piece.first, piece.oldest))
        self._close_gaps(sorted(found))

    def _close_gaps(self, numbers: list[int]) -> None:
        """Shorten gaps of skipped numbers that are longer than the code ever compares."""
        self.ram.relative = relative = {}
        place = numbers.index(self.base)
        for step, end in ((-1, -1), (1, len(numbers))):
            now = 0 if self.folding.numbers else self.base
            relative[self.base] = now
            for at in range(place + step, end, step):
                gap = numbers[at] - numbers[at - step]
                now += max(-_GAP, min(_GAP, gap)) if self.folding.numbers else gap
                relative[numbers[at]] = now

    def _boots(self, pieces: Sequence[Piece]) -> list[bool]:
        """Returns for each record, and for the next one, whether the one before has its boot: then
        that one is whole."""
        boots = [piece.boot for piece in pieces if piece.sort == RECORD]
        boots.append(self.ram.outbox.boot)
        return [one == boots[at - 1] for at, one in enumerate(boots) if at] or [False]

    def _view(self) -> int:
        return 0 if self.chip.is_settled() else self.chip.view

    def _promise(self, promise: Any) -> tuple:
        rel = self.ram.relative
        self._attempts: dict[int, list[int]] = {}
        return (
            [(rel[seq], self._tag(seq, promise.held[seq])) for seq in sorted(promise.held)],
            [
                (rel[seq], self._tag(seq, promise.unsaved[seq]))
                for seq in sorted(promise.unsaved)
                if (seq, promise.unsaved[seq][:1]) in self.there
            ],
            [
                (rel[seq], *[self._tag(seq, data) for data in promise.maybe[seq]])
                for seq in sorted(promise.maybe)
            ],
            rel[max(promise.next_seq, self.least)], rel[max(promise.top_seq, self.least)],
            promise.note, promise.maybe_notes, promise.renewing,
            promise.extra,
        )  # fmt: skip

    def _tag(self, seq: int, data: bytes) -> tuple:
        """A payload: which of the attempts under this number that the state still distinguishes,
        and its form. The outbox does not look into payloads, so the attempts are
        interchangeable."""
        attempts = self._attempts.setdefault(seq, [])
        if data[0] not in attempts:
            attempts.append(data[0])
        if data[1:2] == b"\xf5":  # a series; the second byte of others is a number of 7 bits
            return attempts.index(data[0]), data[1:]
        return attempts.index(data[0]), len(data), data[-1] in (0, 0xFF) and data[-1]

    def _flash(self) -> tuple:
        blocks, newest = self._looks, self._sectors.newest
        head = next(
            (at for at, one in enumerate(blocks) if one.header and one.header.sector == newest), 0
        )
        turn = head if self.folding.turn else 0
        count = self.chip.blocks
        order = [(turn + i) % count for i in range(count)]
        sector = newest if self.folding.numbers else 0
        return sector, turn, tuple(self._block(b, blocks[b]) for b in order)

    def _acknowledged(self) -> list[int]:
        """Returns what a mount may take for the oldest message."""
        near = [
            one for one in self._looks
            if one.header and self._sectors.rank(one.header) <= self._live
        ]  # fmt: skip
        found = [
            [one.header.oldest, *[
                piece.oldest for piece, states in one.found
                if piece.sort == RECORD and max(states) == _INTACT
            ]] for one in near
        ]  # fmt: skip
        if self.folding.acks and self.chip.is_settled():
            return [one[-1] for one in found]
        return [oldest for one in found for oldest in one]

    def _most_live(self, newest: int) -> int:
        """Returns how many sectors before the newest a mount may take for the head: one, if the
        newest has no record and no copy of its header, or may read as if it had none. Where cells
        are unstable at times, two always: what is released now would not be after the next cut."""
        if not self.folding.torn or not self.chip.is_settled():
            return 2
        has_record = any(
            max(states) >= (_NEARLY if piece.sort == RECORD else _INTACT)
            for one in self._looks if one.header and one.header.sector == newest
            for piece, states in one.found if piece.sort in (RECORD, COPY)
        )  # fmt: skip
        return 0 if has_record else 1

    def _look(self, block: int) -> Look:
        """Returns what is in a block, in each of its faces."""
        chip = self.chip
        faces = [chip.data[block]]
        if chip.other[block] is not None:
            view, chip.view = chip.view, 2
            faces += [chip.other[block], chip.face(block)]
            chip.view = view
        pieces = chip.pieces[block]
        found = [(piece, tuple([_state(face, piece) for face in faces])) for piece in pieces]
        headers = [
            piece for piece, states in found
            if piece.sort in (HEADER, COPY) and max(states) >= _NEARLY
        ]  # fmt: skip
        form = tuple([_form(face, len(self.ram.outbox.buffer)) for face in faces])
        strays = tuple([_strays(face, pieces) for face in faces])
        return Look(headers[-1] if headers else None, found, form, strays)

    def _block(self, block: int, look: Look) -> tuple:
        sectors = self._sectors
        bad = self.chip.bad[block]
        header = look.header
        if header is None:
            return bad, look.form
        is_past = sectors.rank(header) > self._live
        end = sectors.end(header)
        if is_past and _end_of(look, end) <= self._oldest:
            kept = [(piece.at, states) for piece, states in look.found if piece.sort != RECORD]
            return bad, "released", sectors.short_age(header), header.stream, kept, look.form
        age = sectors.newest - header.sector
        key: list[Any] = [bad, age if self.folding.numbers else header.sector, header.stream]
        acks_from = self._acks_from(is_past, look.found)
        drops_torn = is_past and end is not None and self.folding.torn
        following, pieces = header.first, []
        for index, (piece, states) in enumerate(look.found):
            is_left = drops_torn and following == end and piece.at
            if not (is_left and (piece.sort == RECORD or max(states) < _NEARLY)):
                pieces.append(self._piece(piece, states, index >= acks_from))
            if piece.sort == RECORD and piece.kind & 1 and min(states) == _INTACT:
                following = piece.first + 1
        # A copy may have been programmed before the first record, or after it.
        key += sorted(pieces, key=lambda piece: piece[0])
        # A later torn erase leaves parts of what is folded here, depending on which parts are
        # erased.
        key += [look.form, () if drops_torn else look.strays]
        if not is_past or not self.folding.torn:
            key.append(self._boots([piece for piece, _ in look.found])[:-1])
        return tuple(key)

    def _acks_from(self, is_past: bool, pieces: list) -> int:
        """Returns the first piece whose acknowledgements a mount may read."""
        if not self.folding.acks or not self.chip.is_settled():
            return 0
        if is_past:
            return len(pieces)
        whole = [
            i for i, (piece, states) in enumerate(pieces)
            if states[0] == _INTACT and piece.sort != COPY
        ]  # fmt: skip
        return whole[-1] if whole else 0

    def _piece(self, piece: Piece, states: tuple, has_acks: bool) -> tuple:
        if max(states) < _NEARLY:
            return piece.at, states
        has_acks = has_acks and (piece.sort != RECORD or _INTACT in states)
        rel = self.ram.relative
        acks = (rel[piece.oldest], piece.acked) if has_acks else None
        return (
            piece.at, piece.sort, states, len(piece.data), rel[piece.first], piece.kind, acks,
            self._tag(piece.first, piece.payload) if piece.kind & 1 else piece.payload,
        )  # fmt: skip


def payload(seq: int, attempt: int, size: int, filler: int = -1) -> bytes:
    """Returns the payload of message `seq`; each attempt to store one has its own. filler: all
    further bytes."""
    head = bytes((0x20 + attempt, seq & 0x7F))
    if filler >= 0:
        return head + bytes([filler]) * (size - 2)
    return head + bytes((0x40 + (seq + 3 * attempt + 5 * i) % 61) for i in range(size - 2))


def attempt_of(data: bytes) -> int:
    return data[0] - 0x20


def _digest(key: tuple) -> bytes:
    return blake2b(marshal.dumps(key, 2), digest_size=16).digest()
