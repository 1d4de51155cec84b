"""A block of the shelf (`shelf.py`): its bytes, found and written. Loaded and unloaded with it.

    header  as a sector's, with magic "OS": shelf number:4, stream:8, records that it began with:4,
            block of the shelf before, and one:4, age:2 (see `_void()` in `shelf.py`)
    record  kind:1 topic_length:1 payload_length:2 | seq:4 | CRC of the stream:4 | topic | payload |
            crc:4 | 0xFF..align
    kind    1 and the flags: a message; 2: message seq of that stream has left the shelf
    mark    bit 6 of byte 11: what put() was given. Readers that do not know it take 30 bits there

The CRC is salted with the header's CRC and the record's place, so records left over from an earlier
use of the block are not valid. The place is offset / 16, so whatever is read of the records before
it, a record is found; those with which the block began are numbered, and earlier firmware numbered
all until one was torn. The newest message is confirmed by a record after it, a release of nothing,
which is programmed when it has read back. A block that replaces another begins with copies of its
messages, and is confirmed likewise; only then the other one is erased.

Must not know which messages are in the ring. Allocation: the index, copies of programmed records.
"""
# pyright: reportAttributeAccessIssue=false

from struct import pack_into

from micropython import const

from outpost.checksum import crc30
from outpost.memory import fill, u32

RELEASE = const(2)
_BLOCK_BYTES = const(4096)
_HEADER = const(32)
_HEADER_CRC_AT = const(28)
_PREFIX = const(12)
_OVERHEAD = const(16)
_MESSAGE = const(1)
_VERSION = const(2)
_LENT_MAGIC = const(0x534F)  # "OS"
_NOTHING = const(0x3FFFFFFF)  # no message has this number
_MOST_TORN = const(2)  # places in a row that a reader passes over


def padded(size, align):
    return -(-size & -align)


def size_of(first):
    """Returns the bytes of a record whose first four bytes are `first`."""
    return _OVERHEAD + (first >> 8 & 0xFF) + (first >> 16)


def record_of(first, seq, stream, text):
    """Returns a record, without its CRC."""
    record = bytearray(_OVERHEAD + len(text))
    pack_into("<III", record, 0, first, seq, stream)
    record[_PREFIX : _PREFIX + len(text)] = text
    return record


def scan(outbox, block):
    """Returns what a block holds; None: it is no shelf. Raises OSError."""
    if not outbox._load_header(block, _LENT_MAGIC):
        return None
    buf = outbox.buffer
    one = Block(block, u32(buf, 4), u32(buf, _HEADER_CRC_AT), 1 << (buf[3] & 0xF))
    one.began_with, one.replaced, one.age = u32(buf, 16), u32(buf, 20) - 1, buf[24]
    end = offset = max(_HEADER, one.align)
    last = damaged = 0  # the last place in order that may be valid here
    while offset < _BLOCK_BYTES:
        at = outbox._read(block, offset)
        place, first = one.find_place(outbox, at, offset, last), u32(buf, at)
        if place >= 0:
            if offset != end and offset != damaged:
                one.torn = offset
            offset += one.take(buf, at, offset, place)
            one.records = last = place + 1
            end = offset
        elif outbox._rest_is_blank(block, offset):
            break
        else:  # damage: look for the next record
            if offset == end and first & _MESSAGE and first >> 8:  # a message that has flipped?
                damaged = offset + padded(size_of(first), one.align)
            offset += one.align
            last = one.records + _MOST_TORN
    one.offset = end
    if offset != end:
        one.torn = offset
        one.pass_over(outbox)
    return one


class Block:
    """What a block holds."""

    def __init__(self, block, number, salt, align):
        self.block, self.number, self.salt, self.align = block, number, salt, align
        self.held = []  # (number, CRC of the stream, offset, size, place) of each message
        self.offset = _BLOCK_BYTES  # the next free byte; 4,096: nothing more is appended
        self.records = 0  # places that are used up
        self.newest = -1  # the place of the last record that is valid
        self.loose = []  # places of messages that no record confirms
        self.torn = 0  # where something torn ends
        self.began_with = self.copies = 0  # records that it was to begin with, and of these there
        self.replaced = -1  # the block of the previous shelf
        self.age = 0

    def find_place(self, outbox, at, offset, last):
        """Returns the place with which the record at `at` in the buffer is valid; -1: with none."""
        for place in [offset >> 4] + list(range(self.records, last + 1)):
            if outbox._fits(at, self.salt ^ place):
                return place
        return -1

    def take(self, buf, at, offset, place):
        """Take the record at `at` in the buffer. Returns its size, padded."""
        key = u32(buf, at + 4), u32(buf, at + 8)
        size = size_of(u32(buf, at))
        keys = [held[:2] for held in self.held]
        index = keys.index(key) if key in keys else len(keys)
        one = []
        if buf[at] & _MESSAGE:
            one.append(key + (offset, size, place))
            if place >= self.began_with:
                self.loose.append(place)
        elif key[0] == _NOTHING and self.newest in self.loose:
            self.loose.remove(self.newest)
        self.held = self.held[:index] + one + self.held[index + 1 :]
        self.copies += place < self.began_with
        self.newest = place
        return padded(size, self.align)

    def pass_over(self, outbox):
        """Something torn follows the last record: continue after the place of the largest one, if
        all is erased there."""
        self.offset += padded(outbox.record_bytes, self.align)
        if self.offset >= _BLOCK_BYTES or not outbox._rest_is_blank(self.block, self.offset):
            self.offset = _BLOCK_BYTES

    def is_bare(self):
        """True when it holds no more than a confirmation, and never did."""
        first = max(_HEADER, self.align) + padded(_OVERHEAD, self.align)
        return not self.records or (not self.held and self.offset == first)

    def counts_over(self, old):
        """True when this block, and not the older one, is the shelf."""
        if self.copies != self.began_with:
            return False
        keys = [held[:2] for held in old.held]
        is_behind = any([held[:2] not in keys for held in self.held])
        if is_behind or self.records > self.began_with:
            return True
        return not self.began_with and self.replaced >= 0

    def read(self, outbox, held):
        """Returns the offset in the buffer of a message's record; -1: it is damaged."""
        at = outbox._read(self.block, held[2])
        return at if outbox._fits(at, self.salt ^ held[4]) else -1

    def append(self, outbox, record, place=-1):
        """Append a record. True when it reads back; else it has used up its place."""
        offset, torn, end = self.offset, self.torn, len(record) - 4
        if place < 0:
            place = offset >> 4
        pack_into("<I", record, end, crc30(self.salt ^ place, record, 0, end))
        self.offset = self.torn = offset + padded(len(record), self.align)
        self.records = place + 1
        if not self._program(outbox, offset, record):
            return False
        self.torn = torn
        self.take(record, 0, offset, place)
        return True

    def is_sure(self, held):
        """True when no release of that message may be torn, and its own record is not."""
        return held[2] >= self.torn and held[4] not in self.loose

    def begin(self, outbox, held, old):
        """Write the header, and copies of the messages in `held` of the old block. False: it does
        not take them."""
        header = bytearray(_HEADER)
        align_log2 = 2
        while 1 << align_log2 < self.align:
            align_log2 += 1
        self.age = outbox._geometry >> 15
        pack_into("<HBBI8sIIHH", header, 0, _LENT_MAGIC, _VERSION, align_log2, self.number,
                  outbox.stream, len(held), old.block + 1, self.age, outbox.boot)  # fmt: skip
        self.salt = crc30(0, header, 0, _HEADER_CRC_AT)
        pack_into("<I", header, _HEADER_CRC_AT, self.salt)
        self.offset = max(_HEADER, self.align)
        if not self._program(outbox, 0, header):
            return False
        self.began_with = len(held)
        for place, one in enumerate(held):
            at = old.read(outbox, one)
            if at < 0 or not self.append(outbox, outbox.buffer[at : at + one[3]], place):
                return False
        return old.block < 0 or self.confirm(outbox)

    def confirm(self, outbox):
        """Append a release of nothing: the record before it is whole."""
        return self.append(outbox, record_of(RELEASE, _NOTHING, 0, b""))

    def _program(self, outbox, offset, data):
        """Program data. True when it reads back. The rest of its pages stays as it is."""
        page = offset - offset % outbox._page
        at = offset - page
        end = at + len(data)
        view = outbox._views[-(-end // outbox._page)]
        fill(outbox.buffer, len(view))
        outbox.buffer[at:end] = data
        outbox.loaded_seq = -1
        try:
            outbox._raw.writeblocks(outbox._place[self.block], view, page)
            outbox._raw.readblocks(outbox._place[self.block], view, page)
            if outbox.buffer[at:end] == data:
                return True
        except OSError:
            pass
        outbox.storage_errors += 1
        return False
