"""Sectors and records on NOR flash: the bytes of the outbox format, and the only place that touches the device.

    sector  header 32 B | record | record | ... | erased
    header  "OB" version align_log2 | sector_no:4 | stream:8 | first_seq:4 | oldest:4 | acked:2 | boot:2 | crc:4
    record  kind:1 topic_length:1 payload_length:2 | oldest:4 | acked:2 | boot:2 | topic | payload | crc:4 | 0xFF..align

Little endian. The sequence number of a record is not stored: it is first_seq plus the messages before it, and it salts the
CRC together with the header's CRC, so that a record left over from an earlier use of the block cannot pass.
Knows no queue and no order: `outbox.py` does. The page with every byte: `firmware/OUTBOX_FORMAT.md`.

Allocation: construction only. Every integer stays below 2^30, and every frame within 11 words: the interpreter takes a larger
one from the heap. Hence what is stored, and where is read, stands in fields rather than being handed down.
"""

from struct import pack_into

from micropython import const

from outpost.checksum import crc30, is_blank
from outpost.memory import copy, fill, put_prefix, put_u32, u32

_FORMAT_VERSION = const(1)
_BLOCK_BYTES = const(4096)
_HEADER_CRC_AT = const(28)
_MAGIC = const(0x424F)  # "OB"
_PREFIX = const(12)
_OVERHEAD = const(16)  # the prefix, and the CRC
_ERASE = const(6)


class Sectors:
    """The flash side of the outbox: read and check headers and records, compose and program those of the head sector.

    Its fields are made in `outbox_setup.py`.
    """

    blocks: int
    record_bytes: int
    next_seq: int
    oldest_seq: int
    boot: int
    acked: int
    _page: int
    _align: int
    _first_at: int
    _head: int
    _sector_no: int
    _first_seq: int
    _cursor_block: int
    _cursor_salt: int
    _cursor_end: int
    _topic_length: int
    _length: int
    stream: bytes
    buffer: bytearray
    _topic: "bytes | bytearray"
    _payload: "bytes | bytearray"
    _device: "Anything"  # erases go through it: a pinned device looks at a block's file before its first
    _raw: "Anything"  # the device, or the one below it that its direct() names; its number of each block of the ring
    _place: "Anything"
    _views: list

    # Every address is checked here, because rp2.Flash erases and programs whatever it is told to.

    def _read(self, block, offset):
        """Fill the buffer from the page that holds `offset`, _filled bytes; gives where `offset` is in the buffer."""
        page = offset - offset % self._page
        filled = _BLOCK_BYTES - page
        if filled > len(self.buffer):
            filled = len(self.buffer)
        self._filled = filled
        self._fresh_seq = -1
        self._raw.readblocks(self._place[block], self._views[filled // self._page], page)
        return offset - page

    def _program(self, page, length):
        """Program the first `length` bytes of the buffer at `page` of the head sector, filled up to whole pages."""
        if not 0 <= self._head < self.blocks or page + length > _BLOCK_BYTES:
            raise ValueError("outbox: address")
        self.programs += 1
        self._raw.writeblocks(self._place[self._head], self._views[-(-length // self._page)], page)

    def _erase(self, block):
        if not 0 <= block < self.blocks:
            raise ValueError("outbox: address")
        self.erases += 1
        self._device.ioctl(_ERASE, block)  # not _raw: pinned blocks check their file before

    # Read

    def _rest_is_blank(self, block, offset):
        while offset < _BLOCK_BYTES:
            at = self._read(block, offset)
            if not is_blank(self.buffer, at, self._filled):
                return False
            offset += self._filled - at
        return True

    def _load_header(self, block):
        """True when the block begins with a valid sector header, which is then at the start of the buffer."""
        self._read(block, 0)
        return self._is_header()

    def _is_header(self):
        """True when a valid header stands at the start of the buffer. The two unused bits of a CRC are 0."""
        buf = self.buffer
        if u32(buf, 0) & 0xFFFF != _MAGIC or buf[_HEADER_CRC_AT + 3] > 0x3F:
            return False
        return u32(buf, _HEADER_CRC_AT) == crc30(0, buf, 0, _HEADER_CRC_AT)

    def _fits(self, at, salt):
        """True when a valid record stands at `at` in the buffer; its padded size is then in _record_size."""
        buf = self.buffer
        end = at + _PREFIX + buf[at + 1] + (buf[at + 2] | buf[at + 3] << 8)
        self._record_size = -(at - end - 4 & -self._align)  # rounded up
        if not 0 < buf[at] & 0x8F < 3 or end + 4 > self._filled or buf[end + 3] > 0x3F:
            return False
        return u32(buf, end) == crc30(salt, buf, at, end)

    def _next_record(self):
        """Read the record at the cursor, or behind damage the next one of the sector; the cursor goes behind it.

        Gives where it is in the buffer; -1: none is left, the cursor stays. Behind damage it is looked for at every place up to
        where all is erased; up to two messages may be lost.
        """
        offset = self._cursor_offset
        last = self._cursor_seq  # at its own place a record has this number: with others a damaged kind could pass
        while offset < _BLOCK_BYTES and self._cursor_seq != self._cursor_end:
            at = self._read(self._cursor_block, offset)
            seq = self._cursor_seq
            while seq != self._cursor_end and seq <= last:
                if self._fits(at, self._cursor_salt ^ seq):
                    self._cursor_seq = seq + (self.buffer[at] & 1)
                    self._cursor_offset = offset + self._record_size
                    return at
                seq += 1
            if self._rest_is_blank(self._cursor_block, offset):
                break
            offset += self._align
            last = self._cursor_seq + 2
        return -1

    # Write

    def _put_header(self):
        """The head sector's header, at the start of the buffer."""
        pack_into("<HBBI8sI", self.buffer, 0, _MAGIC, _FORMAT_VERSION, 0, self._sector_no, self.stream, self._first_seq)
        while 1 << self.buffer[3] < self._align:
            self.buffer[3] += 1
        pack_into("<IHH", self.buffer, 20, self.oldest_seq, self.acked, self.boot)
        self._salt = crc30(0, self.buffer, 0, _HEADER_CRC_AT)
        put_u32(self.buffer, _HEADER_CRC_AT, self._salt)

    def _compose(self, at, kind):
        """Write the record into the buffer, and the header before it when that is still to come; returns its end, CRC included.
        The rest of the pages reads erased.
        """
        buf = self.buffer
        self._fresh_seq = -1
        fill(buf, -(-at - self._topic_length - self._length - _OVERHEAD & -self._page))
        if not self._offset:
            self._put_header()
        kind |= self._topic_length << 8 | self._length << 16
        kind = put_prefix(buf, at, kind, self.oldest_seq, self.acked, self.boot)
        kind = copy(buf, kind, self._topic, 0, self._topic_length)
        kind = copy(buf, kind, self._payload, 0, self._length)
        at = crc30(self._salt ^ self.next_seq, buf, at, kind)  # no further name: the frame is at 11 words
        return put_u32(buf, kind, at)

    def _write_record(self, kind):
        """Program _topic and _payload at the head, with the sector's header when that is still to come. True when it reads back
        whole; until then the sector counts as sealed, whatever happens: nothing is ever appended behind a torn record.
        """
        offset = self._offset
        page = offset - offset % self._page
        offset = (offset or self._first_at) - page
        end = self._compose(offset, kind)
        if page + end > _BLOCK_BYTES:
            raise ValueError("outbox: address")
        self._offset = _BLOCK_BYTES
        view = self._views[-(-end // self._page)]
        kind = self._place[self._head]  # from here on its number on the device: the frame is at 11 words
        self.programs += 1
        self._raw.writeblocks(kind, view, page)
        self._raw.readblocks(kind, view, page)
        if not self._has_header:
            self._has_header = self._is_header()
        if self._has_header and self._reads_back(offset, end):
            self._fresh_at = offset
            self._offset = page - (-end & -self._align)  # rounded up
            return True
        self.storage_errors += 1
        return False

    def _reads_back(self, at, end):
        """True when the CRC that was composed stands at the end of the record in the buffer, and is that of its bytes."""
        end -= 4
        buf = self.buffer
        return u32(buf, end) == crc30(self._salt ^ self.next_seq, buf, at, end) and buf[end + 3] < 0x40
