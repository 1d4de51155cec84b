"""The model of wear: how many erases per year, how many years. Pure arithmetic on the sizes of the
format.

A message is one record. Sectors are filled completely and used in a ring, and each block is erased
once before each use. So with r messages per block, a block of n is erased once in n * r messages.
Acknowledgements are stored in the next records at no cost. But where messages are rare (or a board
sleeps between them) they are saved in a separate state record, at most one per message. Not in the
model: retries after a failed program; an erase ahead that a reset made the board forget, at most
one per boot; a note (QoS 2), one state record per block; the policy NewestPerTopic, which writes
messages again.
"""

from __future__ import annotations

from dataclasses import dataclass

from outpost_tools.boards.outbox.image import Image
from outpost_tools.boards.outbox.layout import (
    BLOCK_BYTES,
    HEADER_BYTES,
    NUMBERS,
    OVERHEAD_BYTES,
    padded,
)

SECONDS_A_YEAR = 365.25 * 86_400
ENDURANCE = 100_000  # erases of a block that makers of NOR flash promise
QUIET_S = 600  # after this time without a record, the client saves the acknowledgements
_FILLED_BLOCKS = 200
TABLE_BLOCKS = (16, 64, 256)
# seconds between messages, topic bytes, payload bytes
TABLE_LOADS = (
    (60.0, 20, 200),
    (10.0, 20, 200),
    (1.0, 20, 200),
    (1.0, 24, 64),
)


@dataclass(frozen=True, slots=True)
class Load:
    """A message every interval_s seconds, into `blocks` blocks.

    saves: state records per message, 0 to 1.
    """

    blocks: int
    interval_s: float
    topic_bytes: int
    payload_bytes: int
    align: int = 4
    saves: float = 0.0

    @property
    def record_bytes(self) -> int:
        return padded(self.topic_bytes + self.payload_bytes + OVERHEAD_BYTES, self.align)

    @property
    def room_bytes(self) -> int:
        """Bytes for records in a block."""
        return BLOCK_BYTES - padded(HEADER_BYTES, self.align)

    @property
    def messages_per_block(self) -> float:
        """On average; computed by filling blocks, because a record is not split between two. 0 if
        none fits."""
        if self.record_bytes > self.room_bytes:
            return 0.0
        messages, left, owed = 0, self.room_bytes * _FILLED_BLOCKS, 0.0
        while left >= self.record_bytes:
            left = self._behind(left, self.record_bytes)
            messages, owed = messages + 1, owed + self.saves
            if owed >= 1:
                left, owed = self._behind(left, padded(OVERHEAD_BYTES, self.align)), owed - 1
        return messages / _FILLED_BLOCKS

    def _behind(self, left: int, record_bytes: int) -> int:
        """Bytes left in all blocks after one more record: if it does not fit into a block, the rest
        of the block stays empty."""
        room = left % self.room_bytes or self.room_bytes
        return left - record_bytes if record_bytes <= room else left - room - record_bytes

    @property
    def erases_per_message(self) -> float:
        return 1 / self.messages_per_block

    @property
    def messages_held(self) -> int:
        """How many fit without a connection, at least: all but the last message in the oldest block
        may be released, and a ring of four blocks or more spares one (`flash/ring.py`)."""
        spared = 1 if self.blocks < 4 else 2
        return (self.blocks - spared) * (self.room_bytes // self.record_bytes)

    @property
    def erases_a_year(self) -> float:
        """Erases of each block."""
        return SECONDS_A_YEAR / self.interval_s * self.erases_per_message / self.blocks

    def years(self, endurance: int) -> float:
        return endurance / self.erases_a_year


def saves_of(interval_s: float) -> float:
    """State records per message for a board that stays awake."""
    return 1.0 if interval_s > QUIET_S else 0.0


def erases_so_far(image: Image) -> tuple[int, int]:
    """(fewest, most) erases of a block since the outbox was formatted: one for every sector opened,
    except the first one in format 2, which takes a blank block."""
    opened = [_opened(image, block) for block in range(len(image.blocks))]
    return min(opened), max(opened)


def _opened(image: Image, number: int) -> int:
    """Sector k is in block k modulo the number of blocks."""
    since = (image.head.number - number) % len(image.blocks)
    newest = image.head.header.sector_no - since
    is_first_free = number == 0 and image.head.header.version > 1
    return 0 if newest < 0 else newest // len(image.blocks) + 1 - is_first_free


def span(seconds: float) -> str:
    """A duration for people: 45 min, 5.2 h, 12 days."""
    for limit, unit, name in (
        (5400, 60, "min"),
        (2 * 86_400, 3600, "h"),
        (2 * SECONDS_A_YEAR, 86_400, "days"),
    ):
        if seconds < limit:
            return f"{rounded(seconds / unit)} {name}"
    return f"{rounded(seconds / SECONDS_A_YEAR)} years"


def rounded(value: float) -> str:
    """Three digits, with thousands separators."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def report(load: Load, endurance: int) -> list[str]:
    return [
        f"{rounded(load.messages_per_block)} messages to a block, {load.record_bytes} bytes each, "
        f"{load.blocks} blocks",
        f"{load.erases_per_message:.4f} erases and {1 + load.saves:g} program calls a message",
        f"{rounded(load.erases_a_year)} erases of each block a year",
        f"{rounded(load.years(endurance))} years to {endurance:,} erases of a block",
        f"holds {load.messages_held:,} messages without a connection: "
        f"{span(load.messages_held * load.interval_s)}",
    ]


def table(endurance: int, align: int) -> list[str]:
    """A Markdown table for typical loads."""
    lines = [
        "| a message every | topic + payload | messages a block | blocks | erases of a block a "
        "year "
        f"| years to {endurance:,} erases | held offline |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for interval_s, topic_bytes, payload_bytes in TABLE_LOADS:
        for blocks in TABLE_BLOCKS:
            lines.append(
                _row(
                    Load(
                        blocks, interval_s, topic_bytes, payload_bytes, align, saves_of(interval_s)
                    ),
                    endurance,
                )
            )
    return lines


def _row(load: Load, endurance: int) -> str:
    every = f"{rounded(load.interval_s)} s"
    size = f"{load.topic_bytes} + {load.payload_bytes} B"
    held = span(load.messages_held * load.interval_s)
    wear = (
        rounded(load.messages_per_block),
        str(load.blocks),
        rounded(load.erases_a_year),
        rounded(load.years(endurance)),
        held,
    )
    return "| " + " | ".join((every, size, *wear)) + " |"


def image_report(image: Image, endurance: int) -> list[str]:
    """What an image shows about its past."""
    fewest, most = erases_so_far(image)
    opened = (image.head.header.sector_no + 1) % NUMBERS
    return [
        f"{opened:,} sectors opened since it was formatted, over {len(image.blocks)} blocks, "
        f"{image.boot:,} boots",
        f"erases of a block so far: {fewest:,} to {most:,} (at most one more for each boot, and "
        "for each format)",
        f"{100 * most / endurance:.2g} % of {endurance:,}",
    ]
