"""Sectors and records on NOR flash: the bytes of the outbox format, and the only place that touches the device.

    sector  header 32 B | record | record | ... | erased
    header  "OB" version align_log2 | sector_no:4 | stream:8 | first_seq:4 | oldest:4 | acked:2 | boot:2 | crc:4
    record  kind:1 topic_length:1 payload_length:2 | oldest:4 | acked:2 | boot:2 | topic | payload | crc:4 | 0xFF..align

Little endian. The sequence number of a record is not stored: it is first_seq plus the messages before it, and it salts the
CRC together with the header's CRC, so that a record left over from an earlier use of the block cannot pass.
Knows no queue and no order: `outbox.py` does. The page with every byte: `firmware/OUTBOX_FORMAT.md`.

Allocation: construction only. Every integer stays below 2^30, and every frame within 11 words: the interpreter takes a larger
one from the heap. Hence the many small functions, and what is stored being kept in fields rather than handed down.
"""

from micropython import const

try:
    from outpost.viper import copy, crc30, fill, is_blank
except (ImportError, AttributeError, SyntaxError, ValueError):  # no native emitter, or an .mpy of another architecture
    from outpost.bytecode import copy, crc30, fill, is_blank

BLOCK_BYTES = const(4096)
FORMAT_VERSION = const(1)
MESSAGE = const(1)
STATE = const(2)
HEADER_BYTES = const(32)
OVERHEAD_BYTES = const(16)

_BLOCK_BYTES = const(4096)
_HEADER = const(32)
_HEADER_CRC_AT = const(28)
_PREFIX = const(12)
_OVERHEAD = const(16)
_BLOCK_COUNT = const(4)
_BLOCK_SIZE = const(5)
_ERASE = const(6)


def u16(buf, at):
    return buf[at] | buf[at + 1] << 8


def u32(buf, at):
    """The low 30 bits of a 32-bit field: what this format stores never has more."""
    return buf[at] | buf[at + 1] << 8 | buf[at + 2] << 16 | (buf[at + 3] & 0x3F) << 24


def _put_u16(buf, at, value):
    buf[at] = value & 0xFF
    buf[at + 1] = value >> 8


def _put_u32(buf, at, value):
    _put_u16(buf, at, value & 0xFFFF)
    _put_u16(buf, at + 2, value >> 16)


class Sectors:
    """The flash side of the outbox: read, check, compose and program headers and records of the head sector.

    device: block device of at least 2 blocks of 4,096 bytes. record_bytes: the largest record, that is topic + payload + 16.
    align: start of records, 4 by default, 32 for encrypted flash, equal to page_bytes for flash with ECC ("strict").
    page_bytes: unit of every program and read call; 256 on RP2, whose driver sends whole pages.
    Raises ValueError when these do not fit together.
    """

    def __init__(self, device, record_bytes=512, align=4, page_bytes=256):
        if page_bytes % align or _BLOCK_BYTES % page_bytes or align not in (4, 8, 16, 32, 64, 128, 256):
            raise ValueError("outbox: align and page_bytes must be powers of two, 4 <= align <= page_bytes <= 4096")
        if device.ioctl(_BLOCK_SIZE, 0) != _BLOCK_BYTES or device.ioctl(_BLOCK_COUNT, 0) < 2:
            raise ValueError("outbox: the device must have 2 or more blocks of 4,096 bytes")
        if not 64 <= record_bytes <= _BLOCK_BYTES - max(_HEADER, align):
            raise ValueError("outbox: record_bytes must be 64 or more and fit into one block beside its header")
        self._device = device
        self.blocks = device.ioctl(_BLOCK_COUNT, 0)
        self.record_bytes = record_bytes
        self._align = align
        self._page = page_bytes
        pages = (max(_HEADER, align) + page_bytes + record_bytes - 1) // page_bytes
        self.buffer = bytearray(pages * page_bytes)
        view = memoryview(self.buffer)
        self._views = [view[: n * page_bytes] for n in range(1, pages + 1)]
        self.programs = self.erases = self.sealed_torn = self.storage_errors = self.damaged = 0
        self._reset()

    def _reset(self):
        self.stream = b""
        self.next_seq = self.oldest_seq = self.boot = self.acked = 0
        self._head = self._sector_no = self._first_seq = self._salt = self._record_size = 0
        self._topic = self._payload = b""  # what is being stored
        self._topic_length = self._length = self._seq_found = 0
        self._offset = _BLOCK_BYTES  # next free byte of the head sector; 0: erased, its header not yet programmed
        self._has_header = True  # the head sector's header is on flash

    # Every address is checked here, because rp2.Flash erases and programs whatever it is told to.

    def _read(self, block, offset):
        """Fill the buffer from the page that holds `offset`; gives where `offset` is in the buffer."""
        page = offset // self._page * self._page
        count = min(len(self._views), (_BLOCK_BYTES - page) // self._page)
        self._device.readblocks(block, self._views[count - 1], page)
        return offset - page

    def _program(self, page, length):
        """Program the first `length` bytes of the buffer at `page` of the head sector, filled up to whole pages."""
        count = (length + self._page - 1) // self._page
        if not 0 <= self._head < self.blocks or page + count * self._page > _BLOCK_BYTES:
            raise ValueError("outbox: program outside the region")
        self.programs += 1
        self._device.writeblocks(self._head, self._views[count - 1], page)

    def _erase(self, block):
        if not 0 <= block < self.blocks:
            raise ValueError("outbox: erase outside the region")
        self.erases += 1
        self._device.ioctl(_ERASE, block)

    def _rest_is_blank(self, block, offset):
        while offset < _BLOCK_BYTES:
            at = self._read(block, offset)
            end = min(len(self.buffer), at + _BLOCK_BYTES - offset)
            if not is_blank(self.buffer, at, end):
                return False
            offset += end - at
        return True

    def _padded(self, length):
        return (length + self._align - 1) // self._align * self._align

    # Read

    def _load_header(self, block):
        """True when the block begins with a valid sector header, which is then at the start of the buffer."""
        self._read(block, 0)
        return self._header_valid()

    def _header_valid(self):
        buf = self.buffer
        return buf[0] == 0x4F and buf[1] == 0x42 and self._crc_at(_HEADER_CRC_AT) == crc30(buf, 0, _HEADER_CRC_AT, 0)

    def _crc_at(self, at):
        """The stored CRC; -1 when its two unused bits are set, which no writer of this format does."""
        return u32(self.buffer, at) if self.buffer[at + 3] < 0x40 else -1

    def _take_header(self):
        """Make the header in the buffer the head's."""
        buf = self.buffer
        self.stream = bytes(buf[8:16])
        self._sector_no = u32(buf, 4)
        self._first_seq = self.next_seq = u32(buf, 16)
        self._salt = self._crc_at(_HEADER_CRC_AT)
        self._take_state(20)

    def _take_state(self, at):
        self.oldest_seq = u32(self.buffer, at)
        self.acked = u16(self.buffer, at + 4)
        self.boot = u16(self.buffer, at + 6)

    def _record_valid(self, block, offset, salt):
        """Where the record is in the buffer, its padded size in _record_size; -1 when there is no valid one."""
        if offset + _OVERHEAD > _BLOCK_BYTES:
            return -1
        at = self._read(block, offset)
        end = self._record_end(at, _BLOCK_BYTES - offset)
        return at if end and self._crc_fits(at, end, salt) else -1

    def _record_end(self, at, room):
        """Where the CRC of the record at `at` stands, by its lengths; 0 when they cannot be."""
        length = _PREFIX + self.buffer[at + 1] + u16(self.buffer, at + 2)
        self._record_size = self._padded(length + 4)
        if self.buffer[at] & 0x8C or length + 4 > room or at + length + 4 > len(self.buffer):
            return 0
        return at + length

    def _go_on(self, block, offset, salt, seq):
        """Behind a damaged record: the offset of the next valid one, its number in _seq_found; -1 when there is none.

        By the damaged record's lengths first, then at every place up to where all is erased.
        """
        if self._rest_is_blank(block, offset):
            return -1
        self._seq_found = seq + 1
        following = offset + self._record_size
        if self._record_valid(block, following, salt ^ (seq + 1)) >= 0:
            return following
        while offset + _OVERHEAD <= _BLOCK_BYTES and not self._rest_is_blank(block, offset):
            offset += self._align
            if self._valid_soon(block, offset, salt, seq):
                return offset
        return -1

    def _valid_soon(self, block, offset, salt, seq):
        """A valid record of number seq or the two after it begins here."""
        for number in (seq, seq + 1, seq + 2):
            if self._record_valid(block, offset, salt ^ number) >= 0:
                self._seq_found = number
                return True
        return False

    def _crc_fits(self, at, end, salt):
        return self._crc_at(end) == self._crc(at, end, salt)

    def _crc(self, at, end, salt):
        return crc30(self.buffer, at, end, salt)

    # Write

    def _compose_header(self):
        buf = self.buffer
        copy(buf, 0, b"OB\x01\x00", 0, 4)
        while 1 << buf[3] < self._align:
            buf[3] += 1
        _put_u32(buf, 4, self._sector_no)
        copy(buf, 8, self.stream, 0, 8)
        _put_u32(buf, 16, self._first_seq)
        self._put_state(20)
        self._salt = crc30(buf, 0, _HEADER_CRC_AT, 0)
        _put_u32(buf, _HEADER_CRC_AT, self._salt)

    def _put_state(self, at):
        _put_u32(self.buffer, at, self.oldest_seq)
        _put_u16(self.buffer, at + 4, self.acked)
        _put_u16(self.buffer, at + 6, self.boot)

    def _compose(self, at, kind):
        """Write the record into the buffer; gives its end, CRC included."""
        buf = self.buffer
        buf[at] = kind
        buf[at + 1] = self._topic_length
        _put_u16(buf, at + 2, self._length)
        self._put_state(at + 4)
        end = self._put_bytes(at + _PREFIX, self._topic, self._topic_length)
        end = self._put_bytes(end, self._payload, self._length)
        self._put_crc(at, end)
        return end + 4

    def _put_crc(self, at, end):
        crc = self._crc(at, end, self._salt ^ self.next_seq)
        _put_u32(self.buffer, end, crc)

    def _put_bytes(self, at, data, length):
        return copy(self.buffer, at, data, 0, length)

    def _write_header(self):
        """An empty head sector: its header alone. Used by format()."""
        fill(self.buffer, 0, len(self.buffer))
        self._compose_header()
        self._program(0, _HEADER)

    def _write_record(self, kind):
        """Program _topic and _payload at the head, with the sector's header when that is still to come. True when it reads back
        whole; until then the sector counts as sealed, whatever happens: nothing is ever appended behind a torn record.
        """
        start = self._offset
        at = self._begin(start)
        self._offset = _BLOCK_BYTES
        end = self._compose(at, kind)
        start -= start % self._page
        self._program(start, end)
        return self._read_back(start, at, end)

    def _begin(self, start):
        """An erased page in the buffer, with the header if it is the sector's first; gives the record's place in it."""
        fill(self.buffer, 0, len(self.buffer))
        if start:
            return start % self._page
        self._compose_header()
        return self._padded(_HEADER)

    def _read_back(self, page, at, end):
        self._read(self._head, page)
        if not self._has_header:
            self._has_header = self._header_valid()
        if not self._has_header or not self._crc_fits(at, end - 4, self._salt ^ self.next_seq):
            self.storage_errors += 1
            return False
        self._offset = page + at + self._padded(end - at)
        return True
