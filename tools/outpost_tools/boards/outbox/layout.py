"""The bytes of the outbox format, versions 1 and 2: `firmware/OUTBOX_FORMAT.md`, read with struct
and zlib; series_room.py reads the samples of a series.

Shares no code with the firmware, so that each checks the other. Knows a single block: no ring, no
queue.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import NamedTuple

from outpost_tools.boards.outbox import series_room

BLOCK_BYTES = 4096
HEADER_BYTES = 32
OVERHEAD_BYTES = 16
VERSION = 2
MAGIC = b"OB"
LENT_MAGIC = b"OS"
MARK = b"outpost: an outbox is made here\n"  # at the end of the last block, by format()
JUMP = 254  # numbers that mount() skips when a sector may have been lost
MESSAGE = 1
STATE = 2
SERIES = series_room.KIND
_MAY_HOLD_SERIES = 0x10  # beside the alignment
NUMBERS = 1 << 30
ALIGNMENTS = (4, 8, 16, 32, 64, 128, 256)

_HEADER = struct.Struct("<2sBBI8sIIHH")
_PREFIX = struct.Struct("<BBHIHH")
_CRC = struct.Struct("<I")
_MASK = NUMBERS - 1
_HAS_GEOMETRY = 1 << 30  # in the field of the sector number


@dataclass(frozen=True, slots=True)
class Header:
    """A sector's first 32 bytes. `salt` is its CRC, part of the preset of its records' CRCs."""

    version: int
    align: int
    sector_no: int
    stream: bytes
    first_seq: int
    oldest: int
    acked: int
    boot: int
    salt: int
    blocks: int = 0  # of the region; 0: the firmware that wrote it did not say
    age: int = 0  # lent blocks of an earlier age are void

    @property
    def records_at(self) -> int:
        return padded(HEADER_BYTES, self.align)


@dataclass(frozen=True, slots=True)
class Record:
    """One record.

    `seq` is its number (for a state record: the one that the next message gets). `size_bytes`
    includes the padding, and for a series its room. For a series, `payload` is the message with all
    its samples, and `series` says where they come from.
    """

    offset: int
    size_bytes: int
    kind: int
    qos: int
    retain: bool
    seq: int
    oldest: int
    acked: int
    boot: int
    topic: bytes
    payload: bytes
    padding: bytes
    series: series_room.Gathered | None = None

    @property
    def is_message(self) -> bool:
        return self.kind in (MESSAGE, SERIES)

    @property
    def next_seq(self) -> int:
        return self.seq + self.is_message


class Prefix(NamedTuple):
    """The 12 bytes before topic and payload, not yet verified by the CRC."""

    kind: int
    topic_length: int
    payload_length: int
    oldest: int
    acked: int
    boot: int


class Walk(NamedTuple):
    """The records of one sector, where they end, and the number after them."""

    records: list[Record]
    end: int
    next_seq: int


def padded(length: int, align: int) -> int:
    return -(-length // align) * align


def crc30(data: bytes, preset: int) -> int:
    return zlib.crc32(data, preset) & _MASK


def is_erased(data: bytes) -> bool:
    return data.count(0xFF) == len(data)


def copy_at(align: int) -> int:
    """Where a sector has the copy of its header, if it has one."""
    return BLOCK_BYTES - max(HEADER_BYTES, align)


def records_end(block: bytes, header: Header) -> int:
    """Where the records of a sector must end: before the copy of its header, if it has one."""
    at = copy_at(header.align)
    copied = read_header(block[at : at + HEADER_BYTES])
    return at if copied is not None and copied.salt == header.salt else BLOCK_BYTES


def is_lent(block: bytes) -> bool:
    """Whether it is a block with set-aside messages, which the ring skips."""
    salt = _CRC.unpack_from(block, _HEADER.size)[0]
    return block.startswith(LENT_MAGIC) and salt == crc30(block[: _HEADER.size], 0)


def read_header(block: bytes) -> Header | None:
    """The header of a sector, also of a newer version (whose other fields then mean nothing); None
    when there is none."""
    magic, version, align_log2, *fields = _HEADER.unpack_from(block)
    salt = _CRC.unpack_from(block, _HEADER.size)[0]
    if magic != MAGIC or salt != crc30(block[: _HEADER.size], 0):
        return None
    if version == VERSION:
        align_log2 &= ~_MAY_HOLD_SERIES
    if version <= VERSION and (version == 0 or align_log2 > 8 or 1 << align_log2 not in ALIGNMENTS):
        return None
    sector_no, stream, first_seq, oldest, acked, boot = fields
    blocks = age = 0
    if sector_no & _HAS_GEOMETRY:  # the last field is then no boot count
        blocks, age, boot = (boot & 0xFFF) + 1, boot >> 15, 0
    align = 1 << align_log2 if align_log2 <= 8 else 0
    sector_no &= _MASK
    return Header(
        version, align, sector_no, stream, first_seq, oldest, acked, boot, salt, blocks, age
    )


def read_prefix(block: bytes, offset: int) -> Prefix | None:
    """The prefix at `offset`, if a record with its lengths fits there."""
    if offset + OVERHEAD_BYTES > BLOCK_BYTES or block[offset] & 0x80:
        return None
    prefix = Prefix(*_PREFIX.unpack_from(block, offset))
    length = OVERHEAD_BYTES + prefix.topic_length + prefix.payload_length
    return prefix if offset + length <= BLOCK_BYTES else None


def stated_bytes(block: bytes, offset: int) -> int:
    """The length of the record at `offset` by its own lengths, valid or not; 0 if impossible."""
    prefix = read_prefix(block, offset)
    return OVERHEAD_BYTES + prefix.topic_length + prefix.payload_length if prefix is not None else 0


def read_record(block: bytes, offset: int, header: Header, seq: int) -> Record | None:
    """The record at `offset`, if it is valid there as number `seq`."""
    prefix = read_prefix(block, offset)
    if prefix is None:
        return None
    topic_at = offset + _PREFIX.size
    payload_at = topic_at + prefix.topic_length
    crc_at = payload_at + prefix.payload_length
    crc = _CRC.unpack_from(block, crc_at)[0]
    if crc != crc30(block[offset:crc_at], header.salt ^ seq):
        return None
    end = padded(crc_at + _CRC.size, header.align)
    kind, payload, padding = prefix.kind, block[payload_at:crc_at], block[crc_at + _CRC.size : end]
    series = None
    if kind & 0x0F == SERIES:
        room_at, end = end, min(end + series_room.room_bytes(payload), BLOCK_BYTES)
        series = series_room.gather(payload, crc, block[room_at:end])
        payload = series.payload
    return Record(
        offset, end - offset, kind & 0x0F, kind >> 4 & 3, bool(kind & 0x40), seq,
        prefix.oldest & _MASK, prefix.acked, prefix.boot, block[topic_at:payload_at], payload,
        padding, series,
    )  # fmt: skip


def walk(block: bytes, header: Header) -> Walk:
    """The records from the first one to the first invalid one."""
    records: list[Record] = []
    offset, seq = header.records_at, header.first_seq
    while (record := read_record(block, offset, header, seq)) is not None:
        records.append(record)
        offset += record.size_bytes
        seq = record.next_seq
    return Walk(records, offset, seq)
