"""What an outbox needs once a boot: its buffer, mount and format. Unloaded after use
(`memory.unload`); the fields are made in `sectors.py` and `outbox.py`.

Mount reads only. Allocates as needed, and keeps nothing but the outbox's fields.
"""
# pyright: reportUndefinedVariable=false

import builtins
from struct import pack_into, unpack_from

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
_FIELDS = const(48)  # one more than 47 places hold


def widen(outbox: "Outbox"):
    """Grow the table of the outbox's fields to 59 places, by temporary fields, whose names the
    interpreter has anyway.

    MicroPython finds fields by hash, and grows their table only when it is full, by a quarter. The
    46 fields would fill 46 of 47 places, and a name whose own place is taken is searched for
    through most of them. A stored QoS 1 message takes 11,000 cycles less so
    (host_tests/rigs/rp2040/cycles.py).
    """
    names = [name for name in builtins.__dict__ if name[0] != "_"][:_FIELDS]
    for name in names:
        setattr(outbox, name, None)
    for name in reversed(list(outbox.__dict__)):  # from the last place on, most become free again
        if name in names:
            delattr(outbox, name)


def buffer_bytes(device, record_bytes, align, page_bytes):
    """Whole pages for the largest record, from the last place in a page where it may begin.

    Raises ValueError for a geometry that cannot be: see Outbox.
    """
    # A divisor of a power of two is one itself.
    if _BLOCK_BYTES % page_bytes or page_bytes % align or not 4 <= align <= 256:
        raise ValueError("outbox: align, page_bytes")
    if device.ioctl(_BLOCK_SIZE, 0) != _BLOCK_BYTES or device.ioctl(_BLOCK_COUNT, 0) < 2:
        raise ValueError("outbox: device")
    first_at = max(_HEADER, align)
    if not 64 <= record_bytes <= _BLOCK_BYTES - first_at:
        raise ValueError("outbox: record_bytes")
    return -(-(max(first_at, page_bytes - align) + record_bytes) // page_bytes) * page_bytes


def views(buffer, page_bytes):
    """[the first n pages of the buffer], n from 0."""
    whole = memoryview(buffer)
    return [whole[:end] for end in range(0, len(buffer) + 1, page_bytes)]


def direct(device):
    """(device to read and program, its number of each block): a wrapper's own, or the device."""
    if hasattr(device, "direct"):
        return device.direct()
    return device, range(device.ioctl(_BLOCK_COUNT, 0))


def mount(outbox: "Outbox"):
    """See Outbox.mount()."""
    _forget(outbox)
    headers = [-1] * (2 * outbox.blocks)  # first_seq, CRC of sector_no and stream
    status = _find_head(outbox, headers)
    if status == _OK:
        _scan_head(outbox)
        _find_tail(outbox, headers)
        own = getattr(outbox._device, "own", None)
        if own:  # records go into the head without an erase before
            own(outbox._head)
        outbox.boot = (outbox.boot + 1) & 0xFFFF
        pack_into("<H", outbox._prefix, 10, outbox.boot)
        outbox._busy = False
    return status


def _forget(outbox: "Outbox"):
    """What an earlier mount found."""
    outbox._busy = outbox._has_header = True
    outbox._ready = outbox._cursor_seq = outbox.loaded_seq = -1
    outbox.stream = b""
    outbox.next_seq = outbox.oldest_seq = outbox.acked = outbox.boot = 0
    outbox._head = outbox._tail = outbox._sector_no = outbox._first_seq = 0
    outbox.appended = outbox.refused = outbox.dropped = outbox.unreadable = 0


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
            # A cut inside format() leaves the first header torn.
            if not outbox._rest_is_blank(block, 0 if block else _HEADER):
                return _FOREIGN
        return _BLANK
    outbox._load_header(outbox._head)
    return _OK if 1 << outbox.buffer[3] == outbox._align else _GEOMETRY


def _scan_head(outbox: "Outbox"):
    """Walk the newest sector: its last valid record holds the whole state. Nothing is appended
    after a torn one."""
    outbox._sector_no, outbox.stream, outbox._first_seq = unpack_from("<I8sI", outbox.buffer, 4)
    outbox._salt = outbox._cursor_salt = u32(outbox.buffer, 28)
    outbox._cursor_seq = outbox._first_seq
    outbox._cursor_end = -1  # not known yet
    outbox._offset = outbox._cursor_offset = max(_HEADER, outbox._align)
    outbox._record_size = 0
    at = 16  # from here the header's state is as far as a record's is from its start
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
    """Go back from the head, sector by sector, to the one that holds the oldest message."""
    first = outbox._first_seq
    for distance in range(1, outbox.blocks):
        if first <= outbox.oldest_seq:
            break
        block = (outbox._head - distance) % outbox.blocks
        sector_no = (outbox._sector_no - distance) & _SEQ_MASK
        if headers[2 * block + 1] == crc30(sector_no, outbox.stream, 0, 8):
            outbox._tail, first = block, headers[2 * block]
    # What is older was acknowledged, which only RAM knew, and erased.
    outbox.discard_through(first - 1)


def make(outbox: "Outbox", stream, force, first_seq):
    """See Outbox.format()."""
    status = mount(outbox)
    if status != _BLANK and not force:
        return _FOREIGN
    # Each block is erased before its first use: here only what could be taken for an outbox.
    for block in range(1 if status == _BLANK else outbox.blocks):
        outbox._erase(block)
    _forget(outbox)
    outbox.stream = stream
    outbox._first_seq = outbox.oldest_seq = first_seq
    fill(outbox.buffer, outbox._page)
    outbox._put_header()
    outbox._raw.writeblocks(outbox._place[0], outbox._views[-(-_HEADER // outbox._page)], 0)
    return _OK


def start_stream(outbox: "Outbox"):
    """The 2^30 numbers are used up: start a new stream once the old one is empty; until then False.
    Allocates, once in 34 years at one message a second."""
    if outbox.oldest_seq != outbox.next_seq:
        return False
    outbox.stream = b"%08x" % crc30(outbox.boot, outbox.stream, 0, 8)
    outbox.next_seq = outbox.oldest_seq = outbox.acked = 0
    outbox._cursor_seq = -1
    outbox._offset = _BLOCK_BYTES
    return True
