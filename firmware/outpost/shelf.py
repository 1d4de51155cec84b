"""Messages that are set aside, in flash: one erase block that the ring of an `Outbox` lends. Loaded
when the first message is set aside, or when mount() found the block; unloaded when the last message
has left.

    header  as a sector's, with magic "OS": shelf number:4, stream:8, records that it began with:4,
            block of the shelf before, and one:4
    record  kind:1 topic_length:1 payload_length:2 | seq:4 | CRC of the stream:4 | topic | payload |
            crc:4 | 0xFF..align
    kind    1 and the flags: a message; 2: message seq of that stream has left the shelf
    mark    bit 6 of byte 11: what put() was given. Readers that do not know it take 30 bits there

Records are appended, and none is programmed twice. The CRC is salted with the header's CRC and the
record's position, so records left over from an earlier use of the block are not valid. put() leaves
room for the release of every message. When that is used up, the messages still held are copied to a
block with the next shelf number, and the old block is erased and returned to the ring. The same
happens when no message is held any more; then the new block, which is empty, is returned too.

Power cut: in put(), the record is whole or absent. In release(), the message is there or gone. In
the copying, both blocks are there: the new one counts if it has as many records as its header says,
because nothing is appended to it before the old one is erased.

Must not know why messages are set aside. Allocation: the index, copies of programmed records."""
# pyright: reportAttributeAccessIssue=false

from struct import pack_into

from micropython import const

from outpost.checksum import crc30
from outpost.memory import fill, u32, unload

_OK = const(0)
_FULL = const(-1)
_BUSY = const(-3)
_STORAGE = const(-5)
_EMPTY = const(-7)
_BLOCK_BYTES = const(4096)
_HEADER = const(32)
_HEADER_CRC_AT = const(28)
_PREFIX = const(12)
_OVERHEAD = const(16)
_MESSAGE = const(1)
_RELEASE = const(2)
_VERSION = const(2)
_MARK_AT = const(11)  # above the 30 bits of the stream's CRC
_MARK = const(0x40)
_LENT_MAGIC = const(0x534F)  # "OS"
_MOST_TRIES = const(3)  # bad blocks before giving up


def lend_block(outbox, least=3):
    """Lend a free block, if `least` are there, until take_back(); mount() knows it. -1: none."""
    block, left = outbox._after(outbox._head), outbox.blocks - len(outbox._out)
    if left < least or not outbox._has_header or not outbox._is_free(block):
        return -1
    outbox._ready = -1
    outbox._out += (block,)
    return block


def take_back(outbox, block):
    """Return a lent block, erased or to be erased, to the ring."""
    outbox._out = tuple([one for one in outbox._out if one != block])
    outbox.lent = tuple([one for one in outbox.lent if one != block])


class _Found:
    """The contents of a block."""

    def __init__(self, block, number, salt):
        self.block, self.number, self.salt = block, number, salt
        self.held = []  # (number, CRC of the stream, offset, size, place in order) of each message
        self.offset = _BLOCK_BYTES  # the next free byte; 4,096: nothing more is appended
        self.records = 0  # in the block
        self.is_whole = False  # it has all records that it began with
        self.replaced = -1  # the block of the previous shelf


class Shelf:
    """outbox: mounted. Finds what the blocks in `outbox.lent` hold. Programs and erases nothing
    before a message is added or released."""

    def __init__(self, outbox):
        self._outbox, self.seq = outbox, -1  # seq: of the message that load() found
        self.mark = 0  # 1: that message was put there with a mark
        found, self._is_unread = [], False
        try:
            found = [self._scan(block) for block in outbox.lent]
        except OSError:
            outbox.storage_errors += 1
            self._is_unread = True  # nothing is done with blocks that may hold messages
        found = sorted([one for one in found if one], key=lambda one: one.number)
        while len(found) > 1 and not found[-1].is_whole:
            found.pop()
        self._now = found[-1] if found else _Found(-1, 0, 0)
        replaced = self._now.replaced
        if replaced in outbox._out and replaced not in outbox.lent:  # a cut tore its erase
            outbox.left_out -= 1
            outbox.lent += (replaced,)
        self._spare = [block for block in outbox.lent if block != self._now.block]  # to give back
        own = getattr(outbox._device, "own", None)
        if own and found:  # records go into it without a previous erase
            own(self._now.block)

    # --- What an outbox does with it ---

    def has(self, seq) -> bool:
        """True when message seq of the stream is there; a session treats it as acknowledged."""
        for held in self._now.held:
            if held[0] == seq and held[1] == self._stream():
                return True
        return False

    def put(self, seq, mark=0) -> int:
        """Copy held message seq to the shelf, durably; it stays in the ring. mark: not 0 for a
        message that the broker took and did not pass on. OK; FULL: no room, or no block that could
        be lent; EMPTY, BUSY, STORAGE."""
        outbox = self._outbox
        if outbox._busy:
            return _BUSY
        if self.has(seq):
            return _OK
        if outbox.load(seq) or outbox.loaded_seq != seq:
            return _EMPTY
        first = outbox.flags | _MESSAGE | outbox.topic_length << 8 | outbox.payload_length << 16
        at, length = outbox.topic_at, outbox.topic_length + outbox.payload_length
        record = self._record(first, seq, self._stream(), outbox.buffer[at : at + length])
        if mark:
            record[_MARK_AT] |= _MARK
        return self._guarded(self._put, record)

    def load(self, index) -> int:
        """As Outbox.load(), message `index` of the shelf, 0 to aside - 1; loaded_seq is -1, and
        seq and mark are the message's."""
        outbox = self._outbox
        if outbox._busy or not 0 <= index < len(self._now.held):
            return _EMPTY
        try:
            at = self._read(self._now, self._now.held[index])
        except OSError:
            return _STORAGE
        if at < 0:
            return _EMPTY
        first = u32(outbox.buffer, at)
        outbox.flags, self.seq = first & 0x70, u32(outbox.buffer, at + 4)
        self.mark = outbox.buffer[at + _MARK_AT] >> 6 & 1
        outbox.topic_at = at + _PREFIX
        outbox.topic_length = first >> 8 & 0xFF
        outbox.payload_length = first >> 16
        return _OK

    def release(self, index) -> int:
        """Remove message `index`, durably. OK; FULL: that takes another block, and none is free;
        EMPTY, BUSY, STORAGE."""
        if self._outbox._busy:
            return _BUSY
        if not 0 <= index < len(self._now.held):
            return _EMPTY
        return self._guarded(self._release, index)

    def _guarded(self, function, argument):
        outbox = self._outbox
        outbox._busy = True
        try:
            status = _STORAGE if self._is_unread else function(argument)
        except OSError:
            outbox.storage_errors += 1
            status = _STORAGE
        finally:
            outbox._busy = False
            self.count()
        return status

    def count(self):
        """Count the messages. An empty shelf is dropped, and this module unloaded."""
        self._outbox.aside = len(self._now.held)
        if not self._now.held:
            self._outbox._shelf = None
            unload("outpost.shelf")

    def _stream(self):
        stream = self._outbox.stream
        return crc30(0, stream, 0, len(stream))

    # --- Find and read ---

    def _scan(self, block):
        """Returns what a block holds; None: it is no shelf. Raises OSError."""
        outbox = self._outbox
        if not outbox._load_header(block, _LENT_MAGIC):
            return None
        one = _Found(block, u32(outbox.buffer, 4), u32(outbox.buffer, _HEADER_CRC_AT))
        began_with = u32(outbox.buffer, 16)
        one.replaced = u32(outbox.buffer, 20) - 1
        end = offset = self._first_offset()
        last, copies = 0, 0  # the last place in order that may be valid here
        while offset < _BLOCK_BYTES:
            at = outbox._read(block, offset)
            place = one.records
            while place <= last and not outbox._fits(at, one.salt ^ place):
                place += 1
            if place <= last:
                self._take(one, at, offset, place)
                copies += place < began_with
                one.records = last = place + 1
                end = offset = offset + outbox._record_size
            elif outbox._rest_is_blank(block, offset):
                break
            else:  # damage: look for the next record
                offset += outbox._align
                last = one.records + 2
        one.is_whole = copies == began_with
        if offset == end:
            one.offset = end
        return one

    def _take(self, one, at, offset, place):
        """Take the record at `at` in the buffer into `one`."""
        buf = self._outbox.buffer
        seq, stream = u32(buf, at + 4), u32(buf, at + 8)
        if buf[at] & _MESSAGE:
            one.held.append((seq, stream, offset, self._outbox._record_size, place))
        else:
            one.held = [held for held in one.held if held[:2] != (seq, stream)]

    def _read(self, one, held):
        """Returns the offset in the buffer of a message's record; -1: it is damaged."""
        at = self._outbox._read(one.block, held[2])
        return at if self._outbox._fits(at, one.salt ^ held[4]) else -1

    # --- Write ---

    def _first_offset(self):
        return max(_HEADER, self._outbox._align)

    def _padded(self, size):
        return -(-size & -self._outbox._align)

    def _record(self, first, seq, stream, text):
        """Returns a record, without its CRC."""
        record = bytearray(_OVERHEAD + len(text))
        pack_into("<III", record, 0, first, seq, stream)
        record[_PREFIX : _PREFIX + len(text)] = text
        return record

    def _put(self, record):
        now = self._now
        releases = (len(now.held) + 1) * self._padded(_OVERHEAD)
        needed = self._padded(len(record)) + releases
        if now.offset + needed > _BLOCK_BYTES or not self._append(now, record):
            status = self._renew(now.held, needed)
            if status:
                return status
            if not self._append(self._now, record):
                return _STORAGE
        return _OK

    def _release(self, index):
        now = self._now
        seq, stream = now.held[index][:2]
        rest = now.held[:index] + now.held[index + 1 :]
        is_done = now.offset + self._padded(_OVERHEAD) <= _BLOCK_BYTES
        is_done = is_done and self._append(now, self._record(_RELEASE, seq, stream, b""))
        if not is_done and rest:
            return self._renew(rest, 0)
        if is_done:
            now.held = rest
        if not rest:
            is_done = self._retire() or is_done
        return _OK if is_done else _STORAGE

    def _retire(self):
        """Give back the block, which holds nothing. A cut erase might leave messages without their
        releases, so an empty shelf follows first, even if only the head is then left in the ring.
        Both blocks are given back. False: no block takes the empty shelf."""
        outbox, old = self._outbox, self._now
        is_worn_out = outbox._is_worn_out
        if old.records:
            block = self._lend(2)
            if block < 0 or not self._follow(old, block, []):
                self._give_back()
                outbox._is_worn_out = is_worn_out
                if old.block not in outbox.lent:  # so that tidy() finds it
                    outbox.lent += (old.block,)
                return False
        self._spare.append(self._now.block)
        self._now = _Found(-1, self._now.number, 0)
        self._give_back()
        if outbox._is_worn_out and outbox.blocks - len(outbox._out) > 2:  # all are back
            outbox._is_worn_out = is_worn_out
            outbox._leave_out(old.block)
        return True

    def tidy(self):
        """Give back the blocks that a power cut left lent, if nothing is on them. A status."""
        return self._guarded(self._tidy, None)

    def _tidy(self, _):
        if self._now.block >= 0 and not self._now.held:
            self._retire()
        self._give_back()
        return _OK

    def _append(self, one, record):
        """Append a record. True when it reads back. Until then nothing more is appended."""
        offset, end = one.offset, len(record) - 4
        pack_into("<I", record, end, crc30(one.salt ^ one.records, record, 0, end))
        one.offset = _BLOCK_BYTES
        if not self._program(one.block, offset, record):
            return False
        size = self._padded(len(record))
        if record[0] & _MESSAGE:
            seq, stream = u32(record, 4), u32(record, 8)
            one.held.append((seq, stream, offset, size, one.records))
        one.offset = offset + size
        one.records += 1
        return True

    def _program(self, block, offset, data):
        """Program data. True when it reads back. The rest of its pages stays as it is."""
        outbox = self._outbox
        page = offset - offset % outbox._page
        at = offset - page
        end = at + len(data)
        view = outbox._views[-(-end // outbox._page)]
        fill(outbox.buffer, len(view))
        outbox.buffer[at:end] = data
        outbox.loaded_seq = -1
        outbox._raw.writeblocks(outbox._place[block], view, page)
        outbox._raw.readblocks(outbox._place[block], view, page)
        if outbox.buffer[at:end] == data:
            return True
        outbox.storage_errors += 1
        return False

    def _renew(self, held, needed):
        """Continue in another block, with those in `held`. OK; FULL: no room or block; STORAGE."""
        whole = [one for one in held if self._read(self._now, one) >= 0]
        self._outbox.unreadable += len(held) - len(whole)  # lost by the flash
        size = needed + self._first_offset()
        for one in whole:
            size += one[3]
        block = -1 if size > _BLOCK_BYTES else self._lend()
        if block < 0:
            return _FULL
        return _OK if self._follow(self._now, block, whole) else _STORAGE

    def _follow(self, old, block, held):
        """Continue the shelf in `block`, with those in `held`. False: the block refuses them."""
        new = _Found(block, max(old.number + 1, self._outbox.next_seq), 0)
        if not self._write_header(new, len(held), old.block) or not self._copy(old, new, held):
            self._spare.append(block)
            return False
        self._now = new
        if old.block >= 0:
            self._spare.append(old.block)
        self._give_back()
        return True

    def _write_header(self, one, count, replaced):
        """count: records that it begins with. replaced: the previous block; -1: none."""
        outbox = self._outbox
        header = bytearray(_HEADER)
        align_log2 = 2
        while 1 << align_log2 < outbox._align:
            align_log2 += 1
        pack_into("<HBBI8sIIHH", header, 0, _LENT_MAGIC, _VERSION, align_log2, one.number,
                  outbox.stream, count, replaced + 1, 0, outbox.boot)  # fmt: skip
        one.salt = crc30(0, header, 0, _HEADER_CRC_AT)
        pack_into("<I", header, _HEADER_CRC_AT, one.salt)
        one.offset = self._first_offset()
        return self._program(one.block, 0, header)

    def _copy(self, old, new, held):
        outbox = self._outbox
        for one in held:
            at = outbox._read(old.block, one[2])
            end = at + _OVERHEAD + outbox.buffer[at + 1] + (u32(outbox.buffer, at) >> 16)
            if not self._append(new, outbox.buffer[at:end]):
                return False
        return True

    # --- Blocks ---

    def _lend(self, least=3):
        """Returns an erased block, which is lent; -1: there is none."""
        outbox = self._outbox
        for _ in range(_MOST_TRIES):
            block = self._spare.pop() if self._spare else lend_block(outbox, least)
            if block < 0:
                break
            if self._clear(block):
                outbox._out += (block,)
                return block
        return -1

    def _clear(self, block):
        """Erase a lent block, which returns to the ring. False: it is bad, and left out."""
        outbox = self._outbox
        ready = outbox._ready
        take_back(outbox, block)
        is_clear = outbox._clear(block)
        outbox._ready = ready
        return is_clear

    def _give_back(self):
        """Erase the spare blocks, which return to the ring, or are left out."""
        while self._spare:
            self._clear(self._spare.pop())
