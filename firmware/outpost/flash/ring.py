"""The ring of sectors on NOR flash: the bytes of the outbox format, the only reads and programs,
and which erase block is next, which are free, and which are left out.

    block    |  0   |  1   |  2   |  3   |  4   |  5   |  6   |  7   |
             | free | tail |      | bad  |      | head | free | lent |
    sector_no   ->    17     18            19     20     ->

    sector  header 32 B | record | record | ... | erased | a copy of the header, or erased
    header  "OB" version align_log2 | sector_no:4 | stream:8 | first_seq:4 | oldest:4 | acked:2 |
            geometry:2 | crc:4
    record  kind:1 topic_length:1 payload_length:2 | oldest:4 | acked:2 | boot:2 | topic | payload |
            crc:4 | 0xFF..align

From tail to head the numbers of the sectors rise, by one unless a sector could not be opened: a
number is never written twice. A block that takes no erase or no program is left out, and so is one
that is lent (`shelf.py`): the ring goes on in the next one.

Little endian. The sequence number of a record is not stored: it is first_seq plus the number of
messages before it. It salts the CRC together with the header's CRC, so that a record left over from
an earlier use of the block is not valid. A header survives any one flipped bit, because its CRC
identifies the bit. Every byte: `firmware/OUTBOX_FORMAT.md`.
Must not know which messages are held or released (`outbox.py`).

Allocation: construction; when a block is left out or lent. Every integer stays below 2^30 and every
frame within 11 words, because the interpreter allocates larger ones. Hence several results and
arguments are fields.
"""
# pyright: reportAttributeAccessIssue=false

from struct import pack_into

from micropython import const

from outpost.checksum import crc30, holds_record, is_blank, put_record
from outpost.memory import copy, fill, put_prefix, u32, unload

_FORMAT_VERSION = const(2)
_BLOCK_BYTES = const(4096)
_HEADER = const(32)
_HEADER_CRC_AT = const(28)
_MAGIC = const(0x424F)  # "OB"
_HAS_GEOMETRY = const(0x40)  # above the sector number: the field has the geometry, not a boot count
_MOST_LOST = const(7)  # messages at one place
_PREFIX = const(12)
_OVERHEAD = const(16)  # the prefix, and the CRC
_BLOCK_COUNT = const(4)
_ERASE = const(6)
_SEQ_MASK = const(0x3FFFFFFF)


class Ring:
    """The flash side of the outbox: reads and checks headers and records, and programs those of the
    head sector, to which records are appended.

    Programs and reads go to _raw: the device, or the one that its direct() returns, which has block
    _place[n] for the ring's block n. Erases go to _device, because a pinned device checks before
    the first one that the block still belongs to its file. A record with number _cursor_end or
    higher was given up: its program failed, and the next sector uses the number again.
    """

    # Faults of the newest sector, as mount() found them:
    damaged = 0  # places where a record is invalid, yet a valid one follows
    sealed_torn = 0  # 1: its end is torn, so nothing more is appended
    mended = 0  # headers of which one bit had flipped, or that were read from their copy
    _mended_block = -1  # the block of the last of them
    # The highest byte 3 of a header that this class reads; bits above align_log2 are record kinds.
    _header_bits = 0xF
    # The ring:
    left_out = 0  # bad blocks
    _out = ()  # blocks that are not in the ring: the bad ones, and those that are lent
    lent = ()  # of these, the blocks that mount() found lent: see `shelf.py`
    _is_worn_out = False  # fewer than two blocks work: nothing is stored
    _failed_block = -1  # the block in which a sector could not be opened, once
    # What mount() could not be sure of, bit by bit. 1: a free block may hold a torn sector; 2: the
    # head's header may be torn, and read differently later; 4: because of the block after the head
    # numbers were skipped, so it stays until a sector has the new ones.
    _doubt = 0

    def __init__(  # noqa: PLR0915 - every field is made here
        self, device, record_bytes, align, page_bytes
    ):  # fmt: skip
        """Arguments and errors: see Outbox."""
        from outpost.flash import setup

        setup.widen(self)
        # What each record carries:
        self.stream = b""  # id of the stream: 8 hex digits
        self.next_seq = 0  # number of the next message
        self.oldest_seq = 0  # the first message that is not acknowledged
        self.acked = 0  # bit i: message oldest_seq + 1 + i is acknowledged
        self.boot = 0  # boot count
        # The message in `buffer`; its payload follows its topic.
        self.loaded_seq = -1  # its number; -1: none, and the next four have no meaning
        self.flags = 0  # QoS << 4 | RETAIN << 6
        self.topic_at = 0  # offset in `buffer`
        self.topic_length = self.payload_length = 0  # bytes
        # The head sector:
        self._head = 0  # its block
        self._sector_no = 0
        self._first_seq = 0  # number of its first message
        self._salt = 0  # CRC of its header
        self._offset = _BLOCK_BYTES  # its next free byte; 4,096: nothing more is appended
        self._limit = _BLOCK_BYTES  # where its records end; negative: to be checked first
        self._has_header = True  # False: its header goes out with its first record
        # The cursor, at the next record to read:
        self._cursor_seq = -1  # its number; -1: the cursor has no position
        self._cursor_block = self._cursor_offset = 0
        self._cursor_salt = 0  # CRC of that sector's header
        self._cursor_end = 0  # first number of the sector after it
        self.buffer = bytearray(setup.buffer_bytes(device, record_bytes, align, page_bytes))
        self._views = setup.views(self.buffer, page_bytes)  # [n]: its first n pages
        self._raw, self._place = setup.direct(device)
        self._device = device
        self.blocks = device.ioctl(_BLOCK_COUNT, 0)  # erase blocks of 4,096 bytes
        self.record_bytes = record_bytes  # the largest record: topic + payload + 16
        # A record starts on a multiple of this, in bytes: `align`, or what mount() found.
        self._align = self._least_align = align
        self._geometry = setup.geometry(self.blocks, record_bytes)
        self._page = page_bytes  # programs and reads are multiples of this, in bytes
        # The record that is being written, or was written last:
        self._prefix = bytearray(_OVERHEAD)  # what precedes its topic; its CRC
        self._topic = self._payload = b""
        self._filled = 0  # bytes of `buffer` that the last read filled
        self._record_size = 0  # of the record checked last: bytes, padding included
        self.erases = 0  # since construction
        self.storage_errors = 0  # programs that did not read back, or that the driver refused
        # The ring:
        self._busy = True  # inside a call; and before mount(), so that nothing is stored or erased
        self._tail = 0  # block of the oldest sector with a message that is held
        self._ready = -1  # the block that is erased for the next sector; -1: none

    # Every address is checked here, because rp2.Flash erases and programs whatever it is asked to.

    def _read(self, block, offset):
        """Fill the buffer from the page that holds `offset`, _filled bytes. Returns where `offset`
        is in the buffer."""
        page = offset - offset % self._page
        filled = _BLOCK_BYTES - page
        if filled > len(self.buffer):
            filled = len(self.buffer)
        self._filled = filled
        self.loaded_seq = -1
        self._raw.readblocks(self._place[block], self._views[filled // self._page], page)
        return offset - page

    def _erase(self, block):
        if not 0 <= block < self.blocks:
            raise ValueError("outbox: address")
        self.erases += 1
        self._device.ioctl(_ERASE, block)

    # Read

    def _rest_is_blank(self, block, offset):
        """True when all from `offset` on is erased; in the head, up to the copy of its header."""
        end = abs(self._limit) if block == self._head else _BLOCK_BYTES
        while offset < end:
            at = self._read(block, offset)
            filled = min(self._filled, at + end - offset)
            if not is_blank(self.buffer, at, filled):
                return False
            offset += filled - at
        return True

    def _load_header(self, block, magic=_MAGIC):
        """True when the block has a sector header, valid or with one flipped bit, or a copy of it.
        It is then at the start of the buffer, mended."""
        self._read(block, 0)
        if self._is_header(magic):
            return True
        blank = is_blank(self.buffer, 0, _HEADER)
        if (blank or not self._mend_header(magic)) and not self._load_copy(block, magic):
            if blank:
                fill(self.buffer, _HEADER)
            else:
                self.buffer[0] = 0  # so that it does not look erased
            return False
        if self._mended_block != block:
            self._mended_block = block
            self.mended += 1
        return True

    def _is_header(self, magic):
        """True when the buffer begins with a valid header. The two unused bits of a CRC are 0."""
        buf = self.buffer
        if u32(buf, 0) & 0xFFFF != magic or buf[_HEADER_CRC_AT + 3] > 0x3F:
            return False
        return u32(buf, _HEADER_CRC_AT) == crc30(0, buf, 0, _HEADER_CRC_AT)

    def _mend_header(self, magic):
        """True when flipping one bit back makes a valid header of the start of the buffer. No
        second bit does, because two headers differ in four bits at least."""
        buf = self.buffer
        bit = u32(buf, 0) & 0xFFFF ^ magic
        if bit & (bit - 1):  # two wrong bits in the magic alone
            return False
        bit = 8 * _HEADER
        while bit:
            bit -= 1
            buf[bit >> 3] ^= 1 << (bit & 7)
            if self._is_header(magic):
                return True
            buf[bit >> 3] ^= 1 << (bit & 7)
        return False

    def _load_copy(self, block, magic):
        """True when the block ends with a copy of its header."""
        block = self._read(block, self._copy_at())  # from here on the copy's offset in the buffer
        copy(self.buffer, 0, self.buffer, block, _HEADER)
        return self._is_header(magic)

    def _copy_at(self):
        """Returns the offset in a sector of the copy of its header, if it has one."""
        return _BLOCK_BYTES - max(_HEADER, self._align)

    def _fits(self, at, salt):
        """True when a valid record is at `at` in the buffer; _record_size is then its padded
        size."""
        buf = self.buffer
        end = at + _PREFIX + buf[at + 1] + (buf[at + 2] | buf[at + 3] << 8)
        self._record_size = -(at - end - 4 & -self._align)  # rounded up
        if not 0 < buf[at] & 0x8F < 3 or end + 4 > self._filled or buf[end + 3] > 0x3F:
            return False
        return u32(buf, end) == crc30(salt, buf, at, end)

    def _next_record(self):
        """Read the record at the cursor, or the next one after damage; the cursor moves past it.

        Returns its offset in the buffer; -1: the sector has no further record, and the cursor
        stays. After damage every place that is not erased is searched. Up to 7 messages may be lost
        there: torn in as many boots, whole for a while, and read differently now.
        """
        offset = self._cursor_offset
        last = self._cursor_seq  # the only number valid here: with more, a damaged kind might pass
        while offset < _BLOCK_BYTES and self._cursor_seq != self._cursor_end:
            at = self._read(self._cursor_block, offset)
            seq = self._cursor_seq
            if self.buffer[at] == 0xFF:  # no record begins there
                offset += self._count_erased(at)
                last = seq + _MOST_LOST
                continue
            while seq != self._cursor_end and seq <= last:
                if self._fits(at, self._cursor_salt ^ seq):
                    self._cursor_seq = seq + (self.buffer[at] & 1)
                    self._cursor_offset = offset + self._record_size
                    return at
                seq += 1
            offset += self._align
            last = self._cursor_seq + _MOST_LOST
        return -1

    def _count_erased(self, at):
        """Returns the number of bytes from `at` to where a record may begin."""
        start = at
        if is_blank(self.buffer, at, self._filled):
            at = self._filled
        while at < self._filled and self.buffer[at] == 0xFF:
            at += self._align
        return at - start

    # Write

    def _put_header(self):
        """Write the head sector's header to the start of the buffer."""
        buf = self.buffer
        pack_into("<HBBI8s", buf, 0, _MAGIC, _FORMAT_VERSION, 0, self._sector_no, self.stream)
        buf[7] |= _HAS_GEOMETRY
        while 1 << buf[3] < self._align:
            buf[3] += 1
        pack_into("<IIHH", buf, 16, self._first_seq, self.oldest_seq, self.acked, self._geometry)
        self._salt = crc30(0, buf, 0, _HEADER_CRC_AT)
        pack_into("<I", buf, _HEADER_CRC_AT, self._salt)

    def _write_record(self, first, size):
        """Program _topic and _payload at the head, together with the sector's header when that is
        not on flash yet. first: the record's first four bytes, kind to payload length; size: bytes,
        padding included. True when all of it reads back.

        Until then the sector counts as full, whatever happens: nothing is ever appended after a
        torn record. The bytes read are compared with those of _prefix, _topic and _payload.
        """
        at = self._offset
        if at + size > _BLOCK_BYTES:
            raise ValueError("outbox: address")
        page = at & -self._page if self._has_header else 0  # not 0: the header is on flash
        at -= page
        self.loaded_seq = -1
        self.flags = first & 0x70
        self.topic_at = at + _PREFIX
        self.topic_length = first >> 8 & 0xFF
        self.payload_length = first >> 16
        fill(self.buffer, -(-at - size & -self._page))  # the rest of the pages reads erased
        if not page and not self._has_header:
            self._put_header()
        put_prefix(self._prefix, self._salt ^ self.next_seq, first, self.oldest_seq, self.acked)
        put_record(self.buffer, at, self._prefix, self._topic, self._payload)
        # `first` is reused for the pages, since the frame is at 11 words.
        first = self._views[-(-(at + size) // self._page)]
        self._offset = _BLOCK_BYTES
        self._raw.writeblocks(self._place[self._head], first, page)
        self._raw.readblocks(self._place[self._head], first, page)
        if not page and not self._has_header:  # the block may still have its old header
            if not self._is_header(_MAGIC) or u32(self.buffer, _HEADER_CRC_AT) != self._salt:
                return False
            self._has_header = True
        if holds_record(first, self._prefix, at, self._topic, self._payload):
            self._offset = page + at + size
            return True
        return False

    # --- The next block ---

    def _make_room(self, size):
        """As _has_room(). A policy may drop messages for it."""
        return self._has_room(size)

    def _has_room(self, size):
        """True when the head has room for `size` bytes, in a fresh sector if need be; False when
        the ring is full."""
        if self._limit < 0:
            self._resume()
        return self._offset + size <= self._limit or self._open_sector()

    def _resume(self):
        """Before the first record since mount(): check again that its place is erased."""
        if self._doubt:
            try:
                from outpost.flash import settle

                settle.settle(self)
                unload("outpost.flash.settle")
            except MemoryError:
                self._offset = _BLOCK_BYTES  # a fresh sector does as well
            self._doubt = 0
        elif not self._rest_is_blank(self._head, self._offset):
            self._offset = _BLOCK_BYTES
        self._limit = abs(self._limit)

    def _open_sector(self):
        """Begin a sector in the next free block that can be erased. False: there is none."""
        block = self._next_free()
        if block < 0:
            return False
        self._ready = -1
        if self._failed_block >= 0 and self._failed_block != block:
            self._failed_block = -1
        self._follow_head()
        # The ring has passed the cursor, which would go on here, past the sectors that are held.
        if self._cursor_block == block or self._cursor_block in self._out:
            self._cursor_seq = -1
        if self.oldest_seq == self.next_seq:
            self._tail = block
        self._sector_no = (self._sector_no + 1) & _SEQ_MASK  # also if the last one did not open
        self._head = block
        self._first_seq = self.next_seq
        self._has_header = False  # it is programmed together with the first record
        self._offset = max(_HEADER, self._align)
        self._limit = _BLOCK_BYTES
        return True

    def _next_free(self):
        """The block for the next sector, erased; -1: the ring is full."""
        while True:
            if self._is_worn_out:
                raise OSError
            block = self._head
            if self._has_header or block in self._out:
                block = self._after(block)
                if block == self._head or not self._may_open(block):
                    return -1
            # else reuse this block, because the sector before must stay
            if self._ready == block or self._clear(block):
                return block

    def _after(self, block):
        """The next block of the ring."""
        while True:
            block = (block + 1) % self.blocks
            if block not in self._out:
                return block

    def _may_open(self, block):
        """True when a sector may begin in `block`, the one after the head: it is free, and so is
        another one. That is spared for the shelf: in a full ring, too, a message that the server
        does not take can be set aside. A ring of fewer than four blocks spares none."""
        is_small = self.blocks - len(self._out) < 4
        return self._is_free(block) and (is_small or self._is_free(self._after(block)))

    def _is_free(self, block):
        """True when no message is held in `block`, one after the head. Moves the tail up to the
        oldest message held."""
        if self._tail == block:
            block = self._after(block)
            if self._first_of(block) > self.oldest_seq:
                return False
            self._tail = block
        return True

    def _first_of(self, block):
        """Returns first_seq of a sector from tail to head, or that of the next sector when the
        flash has lost its header."""
        while block != self._head:
            if block not in self._out and self._load_header(block):
                return u32(self.buffer, 16)
            block = (block + 1) % self.blocks
        return self._first_seq

    def erase_ahead(self) -> bool:
        """Erase the next block now, so that a later append() does not wait 45-400 ms for it. True
        when it erased one."""
        block = self._after(self._head)
        if self._busy or self._ready == block or not self._has_header:
            return False
        if block == self._head or self._is_worn_out or self._doubt & 4:
            return False
        self._busy = True
        try:
            block = self._clear_free(block)
        finally:
            self._busy = False
        return block

    def _clear_free(self, block):
        try:
            if self._doubt:
                self._resume()
                block = self._after(self._head)
            return self._ready == block or (self._is_free(block) and self._clear(block))
        except OSError:
            self.storage_errors += 1
            return False

    # --- Blocks that are left out ---

    def _clear(self, block):
        """Erase a block that holds nothing, and check that it is erased. False: two attempts
        failed, so the block is left out."""
        if self._is_cleared(block) or self._is_cleared(block):
            self._ready = block
            return True
        self._leave_out(block)
        return False

    def _is_cleared(self, block):
        try:
            self._erase(block)
            if self._rest_is_blank(block, 0):
                return True
        except OSError:
            pass
        self.storage_errors += 1
        return False

    def _leave_out(self, block):
        """Stop using a bad block. The ring needs two others."""
        if self.blocks - len(self._out) < 3:
            self._is_worn_out = True
        elif block not in self._out:
            self._out += (block,)
            self.left_out += 1

    def _note_failure(self):
        """Count a failed program. If a sector cannot be opened in a block for the second time, the
        block is left out."""
        self.storage_errors += 1
        if not self._has_header:
            if self._failed_block == self._head:
                self._leave_out(self._head)
            self._failed_block = self._head
