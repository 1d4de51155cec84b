"""The ring in an image: which block is the head, what belongs to it, and which messages are held.

read_image() recovers as much as possible: it skips damaged records, repairs headers with one wrong
bit, and treats missing sectors as gaps. board_view() is what a board's mount() would see: only what
lies in one ring.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from outpost_tools.boards.outbox import layout, salvage
from outpost_tools.boards.outbox.layout import BLOCK_BYTES, NUMBERS, Header, Record, Walk

ACK_BITS = 16
_NO_RECORDS = Walk([], 0, 0)


class Kind(StrEnum):
    """The kind of a block."""

    SECTOR = "sector"
    REPAIRED = "repaired"  # a sector whose header has one wrong bit, or is read from its copy
    ERASED = "erased"
    NEWER = "newer"  # a sector of a later format version
    LENT = "lent"  # holds set-aside messages
    DAMAGED = "damaged"  # begins like a sector, but is not one
    FOREIGN = "foreign"


class State(StrEnum):
    """The state of a message."""

    HELD = "held"
    ACKED = "acked"  # released out of order: an older one is held
    FREED = "freed"
    SUPERSEDED = (
        "superseded"  # given up after a failed program: a later sector uses its number again
    )
    STRAY = "stray"  # of another stream, or of a second copy of a sector


class Status(StrEnum):
    """The kind of a region."""

    OUTBOX = "outbox"
    BLANK = "blank"
    FOREIGN = "foreign"
    NEWER = "newer"


@dataclass(slots=True)
class Block:
    """One block. Only a SECTOR and a REPAIRED one have header and walk; `wrong_byte` is that of a
    repaired header."""

    number: int
    kind: Kind
    header: Header | None = None
    walk: Walk = _NO_RECORDS
    rest_bytes: int = 0  # from where the records end to the last byte that is not erased ...
    torn_bytes: int = 0  # ... of these, the length of the torn record, according to its lengths
    wrong_byte: int = -1
    has_copy: bool = False  # of its header: this one was not torn

    @property
    def is_sector(self) -> bool:
        return self.kind in (Kind.SECTOR, Kind.REPAIRED)

    @property
    def rest_is_erased(self) -> bool:
        return self.rest_bytes == 0


@dataclass(frozen=True, slots=True)
class Message:
    """A message record and its place. (stream, seq) is its number."""

    record: Record
    block: int
    stream: str
    state: State

    @property
    def seq(self) -> int:
        return self.record.seq


@dataclass(slots=True)
class Image:
    """What was found.

    `chain`: the head's stream, oldest sector first; `messages`: in order, stray ones first.
    """

    blocks: list[Block]
    odd_bytes: int
    status: Status
    chain: list[Block] = field(default_factory=list)
    stream: str = ""
    told_oldest: int = (
        0  # as the newest record says; `oldest` may be later, when what was older is gone
    )
    oldest: int = 0
    acked: frozenset[int] = frozenset()
    next_seq: int = 0
    boot: int = 0
    messages: list[Message] = field(default_factory=list)
    left_out: list[int] = field(default_factory=list)  # bad blocks, which the ring skips

    @property
    def lent(self) -> list[int]:
        """Blocks with set-aside messages."""
        return [block.number for block in self.blocks if block.kind is Kind.LENT]

    @property
    def mended(self) -> list[int]:
        """Blocks whose header has a flipped bit, or was read from its copy."""
        return [block.number for block in self.blocks if block.kind is Kind.REPAIRED]

    @property
    def head(self) -> Block:
        return self.chain[-1]

    @property
    def held(self) -> list[Message]:
        return [message for message in self.messages if message.state is State.HELD]

    @property
    def age(self) -> int:
        """Of the ring: lent blocks of an earlier one are void."""
        return self.head.header.age if self.chain else 0

    @property
    def unreadable(self) -> int:
        """Numbers from `oldest` on that are neither released nor readable."""
        readable = {
            m.seq
            for m in self.messages
            if m.state in (State.HELD, State.ACKED) and m.seq >= self.oldest
        }
        return (
            self.next_seq
            - self.oldest
            - len(readable | {seq for seq in self.acked if self.oldest <= seq < self.next_seq})
        )


def read_image(data: bytes) -> Image:
    """Accepts any bytes. An incomplete last block is read as if the missing bytes were erased."""
    return _assembled(data, deep=True)


def board_view(data: bytes) -> Image:
    """What the firmware would see: nothing at all if one sector is of a newer version."""
    return _assembled(data, deep=False)


def _assembled(data: bytes, *, deep: bool) -> Image:
    blocks = [_block(number, text) for number, text in enumerate(_split(data))]
    sectors = [block for block in blocks if block.is_sector]
    image = Image(blocks, len(data) % BLOCK_BYTES, _status(data, blocks, sectors, deep))
    if image.status is Status.OUTBOX:
        head = _head(sectors, len(blocks))
        ring, image.left_out = _ring(head, blocks)
        _take_state(image, head, _chain(head, sectors) if deep else _held(ring))
        _take_messages(image, sectors if deep else image.chain)
    return image


def _split(data: bytes) -> list[bytes]:
    return [
        data[at : at + BLOCK_BYTES].ljust(BLOCK_BYTES, b"\xff")
        for at in range(0, len(data), BLOCK_BYTES)
    ]


def _block(number: int, text: bytes) -> Block:
    header = layout.read_header(text)
    if header is not None:
        return (
            Block(number, Kind.NEWER)
            if header.version > layout.VERSION
            else _sector(number, Kind.SECTOR, text, header)
        )
    if layout.is_erased(text.replace(layout.MARK, b"\xff" * len(layout.MARK))):
        return Block(number, Kind.ERASED)
    if layout.is_lent(text):
        return Block(number, Kind.LENT)
    repaired = salvage.repair_header(text)
    if repaired is not None:
        block = _sector(number, Kind.REPAIRED, text, repaired[0])
        block.wrong_byte = repaired[1]
        return block
    return Block(number, Kind.DAMAGED if text.startswith(layout.MAGIC) else Kind.FOREIGN)


def _sector(number: int, kind: Kind, text: bytes, header: Header) -> Block:
    found = salvage.walk_on(text, header)
    end = layout.records_end(text, header)
    rest_bytes = len(text[found.end : end].rstrip(b"\xff"))
    return Block(
        number,
        kind,
        header,
        found,
        rest_bytes,
        min(rest_bytes, layout.stated_bytes(text, found.end)),
        has_copy=end < BLOCK_BYTES,
    )


def _status(data: bytes, blocks: list[Block], sectors: list[Block], deep: bool) -> Status:
    newer = any(block.kind is Kind.NEWER for block in blocks)
    if newer and not (deep and sectors):
        return Status.NEWER
    if sectors:
        return Status.OUTBOX
    erased = layout.is_erased(data)
    # A cut inside format() leaves its mark, and the first header torn.
    marked = data.endswith(layout.MARK) and all(block.kind is Kind.ERASED for block in blocks[1:])
    return Status.BLANK if erased or marked else Status.FOREIGN


def _newest(sectors: list[Block]) -> Block:
    """The one with the highest number, counted modulo 2^30. Of two with that number, which earlier
    firmware could write, the one that the ring reached later."""
    found = sectors[0]
    for block in sectors[1:]:
        if 0 < age(found, block) < NUMBERS // 2:
            found = block
    return found


def _head(sectors: list[Block], count: int) -> Block:
    """The newest, unless its first program was torn and another sector of its stream is there."""
    head = _newest(sectors)
    lower = [block for block in sectors if age(block, head)]
    if lower:
        before = _newest(lower)
        same = [block for block in sectors if not age(block, head)]
        head = max(same, key=lambda block: (block.number - before.number) % count)
    others = [block for block in sectors if block is not head]
    is_torn = not head.walk.records and not head.has_copy
    if is_torn and any(b.header.stream == head.header.stream for b in others):
        sectors.remove(head)
        head.kind, head.header = Kind.DAMAGED, None
        return _head(sectors, count)
    return head


def age(block: Block, head: Block) -> int:
    """How many sectors were opened since then: 0 for the head."""
    return (head.header.sector_no - block.header.sector_no) % NUMBERS


def _chain(head: Block, sectors: list[Block]) -> list[Block]:
    """Every sector of the head's stream, wherever it is, oldest first; if two have the same number,
    the first one."""
    by_age = {
        age(block, head): block
        for block in reversed(sectors)
        if block.header.stream == head.header.stream
    }
    by_age[0] = head
    return [by_age[key] for key in sorted(by_age, reverse=True)]


def _ring(head: Block, blocks: list[Block]) -> tuple[list[Block], list[int]]:
    """(the sectors from the head back, newest first; the blocks that were left out), as mount()
    finds them: going back, no sector is older than one that is further from the head."""
    back = [blocks[(head.number - distance) % len(blocks)] for distance in range(1, len(blocks))]
    older = [block for block in back if _is_older(block, head)]
    ring, left_out, passed = [head], [], []
    for block in back:
        if block.kind is Kind.LENT:
            continue
        if block not in older:
            passed.append(block)
            continue
        older.remove(block)
        own, last = age(block, head), age(ring[-1], head)
        if own <= last or any(age(other, head) < own for other in older):
            left_out.append(block.number)
        else:
            left_out += _left_out(passed, len(passed) - (own - last - 1))
            ring.append(block)
            passed = []
    return ring, left_out


def _is_older(block: Block, head: Block) -> bool:
    """True for a sector that holds older messages of the head's stream."""
    if not block.is_sector or block.header.stream != head.header.stream:
        return False
    return age(block, head) < NUMBERS // 2 and block.header.first_seq < head.header.first_seq


def _left_out(passed: list[Block], count: int) -> list[int]:
    """Up to `count` of the blocks between two sectors: first those with another header."""
    out = [block.number for block in passed if block.is_sector]
    out += [b.number for b in passed if not b.is_sector and b.kind is not Kind.ERASED]
    return out[: max(0, count)]


def _held(ring: list[Block]) -> list[Block]:
    """Oldest first, back to the sector that holds the oldest message."""
    chain, oldest = [], _told(ring[0])[0]
    for block in ring:
        chain.insert(0, block)
        if block.header.first_seq <= oldest:
            break
    return chain


def _told(head: Block) -> tuple[int, int, int]:
    """(oldest, acked, boot) of the newest record; of the header when no record follows it."""
    newest = head.walk.records[-1] if head.walk.records else head.header
    return newest.oldest, newest.acked, newest.boot


def _take_state(image: Image, head: Block, chain: list[Block]) -> None:
    oldest, acked, image.boot = _told(head)
    image.chain, image.stream = chain, head.header.stream.decode("ascii", "backslashreplace")
    image.next_seq = head.walk.next_seq
    image.told_oldest = oldest
    image.acked = frozenset(oldest + 1 + bit for bit in range(ACK_BITS) if acked >> bit & 1)
    image.oldest = max(oldest, chain[0].header.first_seq)
    while image.oldest in image.acked:
        image.oldest += 1


def _take_messages(image: Image, sectors: list[Block]) -> None:
    in_chain = {block.number for block in image.chain}
    others = [block for block in sectors if block.number not in in_chain]
    for block in others:
        image.messages += [
            _message(block, record, State.STRAY) for record in _message_records(block)
        ]
    # A number at which a later sector begins was given up by the earlier one.
    found, limit = [], image.next_seq
    for block in reversed(image.chain):
        found.append(
            [
                _message(block, record, _state(image, record.seq, limit))
                for record in _message_records(block)
            ]
        )
        limit = min(limit, block.header.first_seq)
    image.messages += [message for group in reversed(found) for message in group]


def _message_records(block: Block) -> list[Record]:
    return [record for record in block.walk.records if record.is_message]


def _message(block: Block, record: Record, state: State) -> Message:
    return Message(
        record, block.number, block.header.stream.decode("ascii", "backslashreplace"), state
    )


def _state(image: Image, seq: int, limit: int) -> State:
    if seq >= limit:
        return State.SUPERSEDED
    if seq < image.oldest:
        return State.FREED
    return State.ACKED if seq in image.acked else State.HELD
