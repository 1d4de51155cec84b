"""Messages that a board set aside because the server would not take them: the block that the ring
lends to them, read with struct and zlib. A second implementation of the firmware's `shelf.py`.

    header  as a sector's, magic "OS": number:4, stream:8, records that it began with:4, the block
            of the shelf before, plus one:4, age:1
    record  kind:1 topic_length:1 payload_length:2 | seq:4 | CRC of the stream:4 | topic | payload |
            crc:4; padded. kind 1: a message; 2: message seq has left the shelf. Bit 30 of the
            stream's CRC: the mark

A record's CRC is salted with the header's CRC and the record's place: offset / 16; of the records
that a block began with, and in those of earlier firmware, their position. Of two shelves the later
one counts, unless a power cut left it without all records that it was to begin with. One that is
older than the ring says is void.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from outpost_tools.boards.outbox.layout import BLOCK_BYTES, HEADER_BYTES, crc30, is_erased, padded

MAGIC = b"OS"
MESSAGE, RELEASE = 1, 2
_HEADER = struct.Struct("<2sBBI8sIIHH")
_PREFIX = struct.Struct("<BBHII")
_CRC = struct.Struct("<I")
_CRC_BITS, _MARK = 0x3FFFFFFF, 1 << 30
_MOST_ALIGN_LOG2 = 8
_PASSED_OVER = 2  # at most this many records are hidden by damage before the next one


@dataclass(frozen=True, slots=True)
class Aside:
    """A message set aside. stream: "" if it is none of those known here. marked: the broker took it
    and did not pass it on."""

    seq: int
    stream: str
    qos: int
    retain: bool
    topic: bytes
    payload: bytes
    block: int
    offset: int
    marked: bool = False


@dataclass
class Shelf:
    """messages: in the order in which the firmware counts them. damaged: number of places with
    records that cannot be read."""

    blocks: list[int] = field(default_factory=list)
    messages: list[Aside] = field(default_factory=list)
    damaged: int = 0


@dataclass
class _Block:
    number: int
    salt: int
    began_with: int
    replaced: int = -1  # the block of the shelf before
    place: int = 0  # of the next record
    damaged: int = 0
    copies: int = 0
    records: list[tuple[int, bytes, int, int]] = field(default_factory=list)

    @property
    def keys(self) -> set[tuple[int, int]]:
        """Number and CRC of the stream of each message that is on it."""
        found: dict[tuple[int, int], None] = {}
        for _, text, _, _ in self.records:
            kind, _, _, seq, stream = _PREFIX.unpack_from(text)
            if kind & 0x0F == MESSAGE:
                found[seq, stream & _CRC_BITS] = None
            else:
                found.pop((seq, stream & _CRC_BITS), None)
        return set(found)

    def counts_over(self, old: _Block) -> bool:
        """Whether this block, and not the older one, is the shelf: all of its copies are there, and
        it was confirmed, or the other one is being erased."""
        if self.copies != self.began_with:
            return False
        is_behind = bool(self.keys - old.keys)
        if is_behind or self.place > self.began_with:
            return True
        return not self.began_with and self.replaced >= 0


def read_shelf(data: bytes, stream: str = "", least_age: int = 0) -> Shelf:
    """The shelf in a whole region; accepts any bytes. stream, least_age: of the ring."""
    found = Shelf()
    blocks = []
    for number in range(len(data) // BLOCK_BYTES):
        text = data[number * BLOCK_BYTES : (number + 1) * BLOCK_BYTES]
        header = read_header(text)
        if header is not None and header[4] >= least_age:
            found.blocks.append(number)
            blocks.append((header[0], number, _walked(text, header)))
            blocks[-1][2].replaced = _CRC.unpack_from(text, 20)[0] - 1
    blocks.sort(key=lambda one: (one[0], one[2].place))
    while len(blocks) > 1 and not blocks[-1][2].counts_over(blocks[-2][2]):
        blocks.pop()
    if blocks:
        _, _, newest = blocks[-1]
        start = blocks[-1][1] * BLOCK_BYTES
        known = {stream, _text(data[start + 8 : start + 16])} - {""}
        found.damaged = newest.damaged
        found.messages = list(_messages(newest, blocks[-1][1], known))
    return found


def read_header(block: bytes) -> tuple[int, int, int, int, int] | None:
    """(number, align, records that it began with, CRC, age), also if one bit of it is wrong."""
    text = bytearray(block[:HEADER_BYTES])
    found = _plain_header(text)
    for bit in range(HEADER_BYTES * 8 if found is None and text[0:2] != b"\xff\xff" else 0):
        text[bit // 8] ^= 1 << bit % 8
        found = _plain_header(text)
        if found is not None:
            break
        text[bit // 8] ^= 1 << bit % 8
    return found


def _plain_header(text: bytearray) -> tuple[int, int, int, int, int] | None:
    magic, _, align_log2, number, _, began_with, _, age, _ = _HEADER.unpack_from(text)
    salt = _CRC.unpack_from(text, _HEADER.size)[0]
    if magic != MAGIC or salt != crc30(bytes(text[: _HEADER.size]), 0):
        return None
    if not 2 <= align_log2 <= _MOST_ALIGN_LOG2:
        return None
    return number, 1 << align_log2, began_with, salt, age & 0xFF


def _walked(block: bytes, header: tuple[int, int, int, int, int]) -> _Block:
    number, align, began_with, salt, _ = header
    found = _Block(number, salt, began_with)
    offset, reach, is_damaged = padded(HEADER_BYTES, align), 0, False
    while offset < BLOCK_BYTES and not is_erased(block[offset:]):
        record = _record(block, offset, found, reach)
        if record is None:
            found.damaged += not is_damaged
            offset, reach, is_damaged = offset + align, _PASSED_OVER, True
            continue
        place, size = record
        found.copies += place < began_with
        found.records.append((place, block[offset : offset + size], offset, size))
        found.place = place + 1
        offset, reach, is_damaged = offset + padded(size, align), 0, False
    return found


def _record(block: bytes, offset: int, shelf: _Block, reach: int) -> tuple[int, int] | None:
    """(place, size) of the valid record at `offset`."""
    if offset + _PREFIX.size + _CRC.size > BLOCK_BYTES:
        return None
    kind, topic_length, payload_length, *_ = _PREFIX.unpack_from(block, offset)
    end = offset + _PREFIX.size + topic_length + payload_length
    if kind & 0x8F not in (MESSAGE, RELEASE) or end + _CRC.size > BLOCK_BYTES:
        return None
    crc = _CRC.unpack_from(block, end)[0]
    for place in (offset >> 4, *range(shelf.place, shelf.place + reach + 1)):
        if crc == crc30(block[offset:end], shelf.salt ^ place):
            return place, end + _CRC.size - offset
    return None


def _messages(shelf: _Block, number: int, streams: set[str]) -> Iterator[Aside]:
    """The messages that have not left the shelf."""
    names = {crc30(name.encode(), 0): name for name in streams}
    held: dict[tuple[int, int], Aside] = {}
    for _, text, offset, _ in shelf.records:
        kind, topic_length, payload_length, seq, field = _PREFIX.unpack_from(text)
        stream = field & _CRC_BITS
        if kind & 0x0F == RELEASE:
            held.pop((seq, stream), None)
            continue
        payload_at = _PREFIX.size + topic_length
        held[seq, stream] = Aside(
            seq,
            names.get(stream, ""),
            kind >> 4 & 3,
            bool(kind & 0x40),
            text[_PREFIX.size : payload_at],
            text[payload_at : payload_at + payload_length],
            number,
            offset,
            bool(field & _MARK),
        )
    yield from held.values()


def _text(stream: bytes) -> str:
    return stream.decode("ascii", "backslashreplace")
