"""The faults of an image, each with its name, and what is not a fault but worth a note: traces of
power cuts."""

from __future__ import annotations

from typing import NamedTuple, TextIO

from outpost_tools.boards.outbox.image import Block, Image, Kind, Status, age, board_view
from outpost_tools.boards.outbox.layout import (
    BLOCK_BYTES,
    JUMP,
    MESSAGE,
    NUMBERS,
    OVERHEAD_BYTES,
    SERIES,
    STATE,
    Record,
    is_erased,
)

_HEADERLESS = {
    Kind.NEWER: (
        "newer version: a sector of a later format; read it with the `outpost` of that firmware"
    ),
    Kind.DAMAGED: (
        "bad header: begins like a sector, but its CRC does not match; its messages cannot be read"
    ),
    Kind.FOREIGN: (
        "foreign block: neither erased nor a sector; is this the outbox's region, from its first "
        "block on?"
    ),
}
_STATUS = {
    Status.BLANK: "blank: all erased; there is no outbox here, or not yet",
    Status.FOREIGN: (
        "foreign: there is no sector of an outbox here; does the image begin at the region's "
        "first block?"
    ),
    Status.NEWER: "newer version: there is no sector of version 1 or 2 here",
}
# A line for each of these blocks would only repeat the line for the region.
_UNREMARKABLE = {
    Status.OUTBOX: {Kind.ERASED, Kind.LENT},
    Status.NEWER: {Kind.ERASED, Kind.LENT},
    Status.BLANK: {Kind.ERASED, Kind.FOREIGN, Kind.DAMAGED},
    Status.FOREIGN: {Kind.ERASED, Kind.FOREIGN, Kind.LENT},
}


class Findings(NamedTuple):
    """Lines for people. Without faults the image is sound."""

    faults: list[str]
    notes: list[str]

    def fault(self, block: Block, text: str) -> None:
        self.faults.append(f"block {block.number}: {text}")

    def note(self, block: Block, text: str) -> None:
        self.notes.append(f"block {block.number}: {text}")


def write(findings: Findings, stream: TextIO) -> None:
    for line in findings.faults:
        print(f"fault: {line}", file=stream)
    for line in findings.notes:
        print(f"note: {line}", file=stream)


def examine(data: bytes, image: Image, align: int | None = None) -> Findings:
    """align: the alignment in the board's settings. If the image has another one, that is a fault,
    as it is for the board's mount()."""
    found = Findings([], [])
    _size(image, found)
    if image.status is not Status.OUTBOX:
        found.faults.append(_STATUS[image.status])
    for block in image.blocks:
        if block.number in image.left_out:
            found.fault(block, "left out: erasing or programming the block failed; it is not used")
        elif block.is_sector:
            _sector(image, block, align, found)
        elif block.kind not in _UNREMARKABLE[image.status]:
            _no_sector(image, block, found)
    if image.status is Status.OUTBOX:
        _ring(image, found)
        _board(data, image, found)
    return found


def _size(image: Image, found: Findings) -> None:
    if image.odd_bytes:
        text = f"the last block has {image.odd_bytes} bytes; read as if the rest were erased"
        found.faults.append(f"truncated image: its size is not a multiple of {BLOCK_BYTES}: {text}")
    if len(image.blocks) < 2:
        found.faults.append(
            f"truncated image: {len(image.blocks)} blocks of {BLOCK_BYTES} bytes; an outbox has 2 "
            "or more"
        )


def _no_sector(image: Image, block: Block, found: Findings) -> None:
    if _is_next(image, block) and block.kind is not Kind.NEWER:
        found.note(
            block,
            "not erased: it is the next to be used, and a power cut in its erase or first program "
            "leaves it like this",
        )
    else:
        found.fault(block, _HEADERLESS[block.kind])


def _sector(image: Image, block: Block, align: int | None, found: Findings) -> None:
    header = block.header
    if block.kind is Kind.REPAIRED:
        wrong = "it is read from its copy"
        if block.wrong_byte >= 0:
            wrong = f"one bit of byte {block.wrong_byte} is wrong"
        found.fault(block, f"bad header: {wrong}; read as sector {header.sector_no}")
    if align is not None and header.align != align:
        found.fault(
            block, f"other alignment: {header.align}; a board set to {align} refuses it (GEOMETRY)"
        )
    if header.stream != image.head.header.stream:
        _other_stream(block, found)
    elif block not in image.chain:
        found.fault(block, f"out of place: a second sector {header.sector_no}")
    elif _is_misplaced(image, block):
        found.fault(
            block,
            f"out of place: sector {header.sector_no} belongs elsewhere; blocks are missing or "
            "were moved",
        )
    _records(block, found)


def _is_misplaced(image: Image, block: Block) -> bool:
    """Whether its number is too high for its place, also if the blocks that are left out or lent in
    between are taken into account. It may be lower: a sector that does not open uses up a
    number."""
    distance = (image.head.number - block.number) % len(image.blocks)
    skipped = set(image.left_out) | set(image.lent)
    between = {(block.number + step) % len(image.blocks) for step in range(1, distance)}
    return age(block, image.head) < distance - len(between & skipped)


def _other_stream(block: Block, found: Findings) -> None:
    name = block.header.stream.decode("ascii", "backslashreplace")
    if block.walk.next_seq == NUMBERS - 1:
        found.note(block, f"of stream {name}, which ended when its numbers were used up")
    else:
        found.fault(block, f"other stream: {name}")


def _records(block: Block, found: Findings) -> None:
    end = block.header.records_at
    for record in block.walk.records:
        if record.offset != end:
            found.fault(
                block, f"bad record at 0x{end:04x}: skipped, continuing at 0x{record.offset:04x}"
            )
        end = record.offset + record.size_bytes
        for text in _oddities(block, record):
            found.fault(block, f"bad record at 0x{record.offset:04x}: {text}")
        if record.series is not None:
            _samples(block, record, found)


def _samples(block: Block, record: Record, found: Findings) -> None:
    """The samples of a series. A power cut leaves a torn sample, but no others after it."""
    series, where = record.series, f"series {record.seq} at 0x{record.offset:04x}"
    if not series.samples:
        found.fault(block, f"{where}: its header is invalid; no sample of it can be read")
    elif series.lost:
        found.fault(
            block,
            f"{where}: bad sample {series.samples + 1}; {series.lost} after it cannot be read "
            "either, because they contain only differences",
        )
    elif series.bad_bytes:
        found.note(
            block,
            f"{where}: {series.bad_bytes} bytes after sample {series.samples} are not a sample: "
            "one torn by a power cut, which was never promised; or the last one is damaged",
        )


def _oddities(block: Block, record: Record) -> list[str]:
    """What is odd about a record with a valid CRC."""
    odd = [] if is_erased(record.padding) else ["its padding is not erased"]
    if record.kind not in (MESSAGE, STATE, SERIES):
        odd.append(f"unknown kind {record.kind}")
    if record.qos == 3:
        odd.append("QoS 3")
    if not block.header.oldest <= record.oldest <= record.seq:
        odd.append(f"its oldest, {record.oldest}, is impossible")
    return odd


def _ring(image: Image, found: Findings) -> None:
    """Faults that only neighbouring sectors show."""
    for block, later in zip(image.chain, [*image.chain[1:], None], strict=True):
        _sector_end(image, block, later, found)
    first = image.chain[0].header.first_seq
    if first > image.told_oldest:
        why = "released and erased before a record said so, or lost with a block named above"
        found.notes.append(f"messages {image.told_oldest} to {first - 1} are gone: {why}")


def _sector_end(image: Image, block: Block, later: Block | None, found: Findings) -> None:
    """A power cut leaves a torn record, unless the next sector starts at a higher number."""
    end, seq = block.walk.end, block.walk.next_seq
    first = later.header.first_seq if later is not None else seq
    if first > seq and (first <= image.oldest or _is_half_erased(image, block, first - seq)):
        found.note(
            block,
            f"messages {seq} to {first - 1} are gone: released, and the power was cut while the "
            "block was being erased",
        )
    elif first - seq == JUMP:
        found.note(
            block, f"numbers {seq} to {first - 1} were skipped, after a power cut in an erase"
        )
    elif first > seq:
        found.fault(
            block,
            f"bad record at 0x{end:04x}: messages {max(seq, image.oldest)} to {first - 1} are "
            "unreadable",
        )
    elif not block.rest_is_erased:
        found.note(
            block,
            f"sealed: a torn record at 0x{end:04x}, as a power cut leaves it; "
            "it was never promised",
        )
    if first < seq:
        found.note(
            block,
            f"{seq - first} messages given up after a failed program, and stored again in the next "
            "sector",
        )


def _is_half_erased(image: Image, block: Block, missing: int) -> bool:
    """It is the next block to be used, and after the torn record there is not enough space left for
    the other records that were there."""
    if not _is_next(image, block):
        return False
    left = block.rest_bytes - block.torn_bytes
    return block.rest_is_erased or left < (missing - 1) * OVERHEAD_BYTES


def _is_next(image: Image, block: Block) -> bool:
    return bool(image.chain) and block.number == (image.head.number + 1) % len(image.blocks)


def _board(data: bytes, image: Image, found: Findings) -> None:
    board = board_view(data)
    hidden = len(image.held) - len(board.held)
    if board.status is Status.NEWER:
        found.notes.append(
            "a board refuses this region as it is (NEWER), and changes nothing in it"
        )
    elif hidden > 0:
        found.notes.append(
            f"a board no longer sees {hidden} of these messages, and will overwrite them: export "
            "them before it runs"
        )
