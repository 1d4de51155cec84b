"""Reads on after damage. Nothing is guessed: a record counts only where its own CRC proves text,
place and number.

A power cut leaves nothing after a torn record, so on sound flash there is nothing to find here.
Bits that flip later can hide good records after one damaged record, or a whole sector after its
header.
"""

from __future__ import annotations

from collections.abc import Iterator

from outpost_tools.boards.outbox.layout import (
    ALIGNMENTS,
    BLOCK_BYTES,
    HEADER_BYTES,
    MESSAGE,
    OVERHEAD_BYTES,
    SERIES,
    STATE,
    VERSION,
    Header,
    Record,
    Walk,
    copy_at,
    is_erased,
    padded,
    read_header,
    read_prefix,
    read_record,
    walk,
)

_KINDS = (MESSAGE, STATE, SERIES)


def repair_header(block: bytes) -> tuple[Header, int] | None:
    """(header, byte) when the header is valid except for one bit of that byte; byte -1: it was read
    from its copy. The firmware does the same."""
    for bit in range(HEADER_BYTES * 8):
        trial = bytearray(block[:HEADER_BYTES])
        trial[bit // 8] ^= 1 << bit % 8
        header = read_header(bytes(trial))
        if header is not None and header.version <= VERSION:
            return header, bit // 8
    for align in ALIGNMENTS:
        at = copy_at(align)
        header = read_header(block[at : at + HEADER_BYTES])
        if header is not None and header.version <= VERSION and copy_at(header.align) == at:
            return header, -1
    return None


def walk_on(block: bytes, header: Header) -> Walk:
    """As layout.walk(), but continues after invalid records."""
    records, end, seq = walk(block, header)
    while (record := _next_record(block, header, end, seq)) is not None:
        records.append(record)
        end, seq = record.offset + record.size_bytes, record.next_seq
        while (record := read_record(block, end, header, seq)) is not None:
            records.append(record)
            end, seq = end + record.size_bytes, record.next_seq
    return Walk(records, end, seq)


def _next_record(block: bytes, header: Header, damaged_at: int, seq: int) -> Record | None:
    """The first valid record after the one at `damaged_at`, which had the number `seq` (or, if it
    was a state record, had none)."""
    if is_erased(block[damaged_at:]):
        return None
    for offset in range(
        damaged_at + padded(OVERHEAD_BYTES, header.align),
        BLOCK_BYTES - OVERHEAD_BYTES + 1,
        header.align,
    ):
        for number in _numbers(block, header, offset, damaged_at, seq):
            record = read_record(block, offset, header, number)
            if record is not None and is_erased(record.padding):
                return record
    return None


def _numbers(block: bytes, header: Header, offset: int, damaged_at: int, seq: int) -> Iterator[int]:
    """The numbers that a record at `offset` can have: none if its prefix makes no sense.

    The fewer, the better: each number that we try is one more chance in 2^30 to mistake noise for a
    record.
    """
    prefix = read_prefix(block, offset)
    if prefix is None or prefix.kind & 0x30 == 0x30 or prefix.kind & 0x0F not in _KINDS:
        return
    if prefix.kind & 0x0F == STATE and (prefix.kind != STATE or prefix.topic_length):
        return
    most = (offset - damaged_at) // padded(OVERHEAD_BYTES, header.align)
    for number in range(seq, seq + most + 1):
        if header.oldest <= prefix.oldest <= number:
            yield number
