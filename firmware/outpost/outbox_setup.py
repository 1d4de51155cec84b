"""What an outbox needs once, or once a boot: its fields, mount, format. Unloaded after use (`memory.unload`).

Mount reads only. Allocation: as much as it takes; all of it but the fields is given back.
"""
# pyright: reportUndefinedVariable=false

from struct import unpack_from

from micropython import const

from outpost.checksum import crc30
from outpost.memory import fill, u32

_OK = const(0)
_BLANK = const(-10)
_FOREIGN = const(-11)
_NEWER = const(-12)
_GEOMETRY = const(-13)

_BLOCK_BYTES = const(4096)
_VERSION = const(1)
_HEADER = const(32)
_BLOCK_COUNT = const(4)
_BLOCK_SIZE = const(5)
_SEQ_MASK = const(0x3FFFFFFF)
_HALF = const(0x20000000)


def prepare(outbox: "Outbox", device, record_bytes, align, page_bytes):
    """Arguments: see Outbox."""
    # What divides a power of two is one.
    if _BLOCK_BYTES % page_bytes or page_bytes % align or not 4 <= align <= 256:
        raise ValueError("outbox: align, page_bytes")
    outbox.blocks = device.ioctl(_BLOCK_COUNT, 0)
    if device.ioctl(_BLOCK_SIZE, 0) != _BLOCK_BYTES or outbox.blocks < 2:
        raise ValueError("outbox: device")
    outbox._first_at = max(_HEADER, align)  # where a sector's first record stands
    if not 64 <= record_bytes <= _BLOCK_BYTES - outbox._first_at:
        raise ValueError("outbox: record_bytes")
    outbox._device = device
    direct = getattr(device, "direct", None)
    outbox._raw, outbox._place = direct() if direct else (device, range(outbox.blocks))
    outbox.record_bytes = record_bytes
    outbox._align = align
    outbox._page = page_bytes
    # The largest record, from the latest place in a page where it may begin.
    pages = (max(outbox._first_at, page_bytes - align) + record_bytes + page_bytes - 1) // page_bytes
    outbox.buffer = bytearray(pages * page_bytes)
    view = memoryview(outbox.buffer)
    outbox._views = [view[: n * page_bytes] for n in range(pages + 1)]
    outbox.programs = outbox.erases = outbox.sealed_torn = outbox.storage_errors = outbox.damaged = 0
    _reset(outbox)


def _reset(outbox: "Outbox"):
    outbox.stream = b""
    outbox.next_seq = outbox.oldest_seq = outbox.boot = outbox.acked = 0
    outbox._head = outbox._sector_no = outbox._first_seq = outbox._salt = 0
    outbox._offset = _BLOCK_BYTES  # next free byte of the head sector; 0: erased, its header not yet programmed
    outbox._has_header = True  # the head sector's header is on flash
    outbox._topic = outbox._payload = b""  # what is being stored
    outbox._topic_length = outbox._length = 0
    outbox._filled = outbox._record_size = 0
    # The cursor: the next record to read. Its number (-1: nowhere), its sector's salt, and the number at which the
    # next sector begins: a record from that on was given up (its program failed), and the number used again.
    outbox._cursor_block = outbox._cursor_offset = outbox._cursor_salt = outbox._cursor_end = 0
    outbox._cursor_seq = -1
    # The record that was appended last, while it stands in the buffer yet, and where.
    outbox._fresh_seq = -1
    outbox._fresh_at = 0
    outbox._busy = True  # until mount() found what is there: nothing is stored or erased before
    outbox._saved_oldest = outbox._saved_acked = outbox._tail = 0
    outbox._ready = -1  # the block that was erased ahead
    outbox.appended = outbox.refused = outbox.dropped = outbox.unreadable = 0
    outbox.loaded_seq = outbox.flags = outbox.topic_at = outbox.topic_length = outbox.payload_length = 0


def mount(outbox: "Outbox"):
    """See Outbox.mount()."""
    _reset(outbox)
    headers = [-1] * (2 * outbox.blocks)  # first_seq, CRC of sector_no and stream
    status = _find_head(outbox, headers)
    if status == _OK:
        _scan_head(outbox)
        _find_tail(outbox, headers)
        own = getattr(outbox._device, "own", None)
        if own:  # records go into the head without an erase before
            own(outbox._head)
        outbox.boot = (outbox.boot + 1) & 0xFFFF
        outbox._busy = False
    return status


def _find_head(outbox: "Outbox", headers):
    newest = -1
    for block in range(outbox.blocks):
        if outbox._load_header(block):
            if outbox.buffer[2] > _VERSION:
                return _NEWER
            sector_no = u32(outbox.buffer, 4)
            headers[2 * block] = u32(outbox.buffer, 16)
            headers[2 * block + 1] = crc30(sector_no, outbox.buffer, 8, 16)
            if newest < 0 or (sector_no - newest) & _SEQ_MASK < _HALF:
                outbox._head = outbox._tail = outbox._cursor_block = block
                newest = sector_no
    if newest < 0:
        for block in range(outbox.blocks):
            if not outbox._rest_is_blank(block, 0 if block else _HEADER):  # a cut inside format() leaves the first header torn
                return _FOREIGN
        return _BLANK
    outbox._load_header(outbox._head)
    return _OK if 1 << outbox.buffer[3] == outbox._align else _GEOMETRY


def _scan_head(outbox: "Outbox"):
    """Walk the newest sector: its last valid record holds the whole state. Behind a torn one nothing is appended."""
    outbox._sector_no, outbox.stream, outbox._first_seq = unpack_from("<I8sI", outbox.buffer, 4)
    outbox._salt = outbox._cursor_salt = u32(outbox.buffer, 28)
    outbox._cursor_seq = outbox._first_seq
    outbox._cursor_end = -1  # not known yet
    outbox._offset = outbox._cursor_offset = outbox._first_at
    at = 16  # the header has its state as far behind this as a record has it behind its start
    while at >= 0:
        outbox.oldest_seq, outbox.acked, outbox.boot = unpack_from("<IHH", outbox.buffer, at + 4)
        outbox.damaged += outbox._offset != outbox._cursor_offset - outbox._record_size
        outbox._offset = outbox._cursor_offset
        at = outbox._next_record()
    outbox.next_seq = outbox._cursor_seq
    outbox._cursor_seq = -1
    outbox._saved_oldest, outbox._saved_acked = outbox.oldest_seq, outbox.acked
    if not outbox._rest_is_blank(outbox._head, outbox._offset):
        outbox.sealed_torn += 1
        outbox._offset = _BLOCK_BYTES


def _find_tail(outbox: "Outbox", headers):
    """Go back over the sectors whose numbers follow to the one that holds the oldest message."""
    first = outbox._first_seq
    for distance in range(1, outbox.blocks):
        if first <= outbox.oldest_seq:
            break
        block = (outbox._head - distance) % outbox.blocks
        if headers[2 * block + 1] == crc30((outbox._sector_no - distance) & _SEQ_MASK, outbox.stream, 0, 8):
            outbox._tail, first = block, headers[2 * block]
    outbox.discard_through(first - 1)  # what is older was acknowledged and erased; the word of it was in RAM only


def make(outbox: "Outbox", stream, force, first_seq):
    """See Outbox.format()."""
    status = mount(outbox)
    if status != _BLANK and not force:
        return _FOREIGN
    # Each block is erased before its first use in any case: here only what could be taken for an outbox.
    for block in range(1 if status == _BLANK else outbox.blocks):
        outbox._erase(block)
    _reset(outbox)
    outbox.stream = stream
    outbox._first_seq = outbox.oldest_seq = first_seq
    outbox._offset = 0
    fill(outbox.buffer, outbox._page)
    outbox._put_header()
    outbox._program(0, _HEADER)
    return _OK
