"""Refuses what is larger than this outbox, so that it is never taken for torn: records that are
longer than record_bytes, a ring of more blocks than the device has. Loaded by `outbox_mount.py`,
and unloaded with it.

Allocates a block, where the bytes at one place may be such a record; keeps nothing.
"""
# pyright: reportUndefinedVariable=false

from micropython import const

from outpost.checksum import crc30
from outpost.memory import u32

HAS_GEOMETRY = const(0x40)  # see `sectors.py`
_OK = const(0)
_GEOMETRY = const(-13)
_SHORT_DEVICE = const(-16)
_BLOCK_BYTES = const(4096)
_HEADER = const(32)
_PREFIX = const(12)
_OVERHEAD = const(16)


def check_geometry(outbox: "Outbox"):
    """Check what the head's header says, and continue with its alignment if that is greater."""
    buf = outbox.buffer
    align = 1 << (buf[3] & 0xF)
    page = outbox._page
    longest = -(-(max(_HEADER, align, page - align) + outbox.record_bytes) // page) * page
    if align != outbox._align:
        if not outbox._align < align <= page or longest > len(buf):
            return _GEOMETRY
        outbox._align = align
    if buf[7] & HAS_GEOMETRY:
        if (buf[26] | buf[27] << 8) & 0xFFF >= outbox.blocks:
            return _SHORT_DEVICE
        outbox._geometry = outbox._geometry & 0x7FFF | (buf[27] & 0x80) << 8  # see `shelf.py`
    return _OK


def holds_longer(outbox: "Outbox"):
    """True when a record that may be held is longer than `record_bytes`. The head is searched if it
    is damaged, and all where a header allows longer ones."""
    head, block = outbox._head, outbox._tail
    found = (outbox.damaged or outbox.sealed_torn) and _is_longer(outbox, head)
    while outbox._may_be_longer and not found:
        found = block not in outbox._out and _is_longer(outbox, block)
        if block == head:
            break
        block = (block + 1) % outbox.blocks
    outbox._cursor_seq = -1
    return found


def _is_longer(outbox: "Outbox", block):
    """True when a sector has a record that is longer than `record_bytes`, and valid."""
    outbox._enter(block)
    if block == outbox._head:
        outbox._cursor_end = -1
    most = -(-outbox.record_bytes & -outbox._align)
    while outbox._cursor_seq != outbox._cursor_end:
        start, seq = outbox._cursor_offset, outbox._cursor_seq
        at = outbox._next_record()
        if at >= 0 and outbox._cursor_offset - outbox._record_size == start:
            if outbox._record_size > most:
                return True
        elif _is_valid(outbox, block, start, outbox._cursor_salt ^ seq):
            return True
        elif at < 0:
            break
    return False


def _is_valid(outbox: "Outbox", block, start, salt):
    """True when a valid record is there that is longer than record_bytes."""
    data = bytearray(_BLOCK_BYTES)
    outbox._raw.readblocks(outbox._place[block], data, 0)
    if start > _BLOCK_BYTES - _OVERHEAD:
        return False
    end = start + _PREFIX + data[start + 1] + (u32(data, start) >> 16)
    if end + 4 - start <= outbox.record_bytes or end + 4 > _BLOCK_BYTES or data[end + 3] > 0x3F:
        return False
    return 0 < data[start] & 0x8F < 4 and u32(data, end) == crc30(salt, data, start, end)


def allows_longer(outbox: "Outbox"):
    """True when the sector whose header is in the buffer may have records that are longer than
    record_bytes. Headers of earlier firmware do not say."""
    buf = outbox.buffer
    return not buf[7] & HAS_GEOMETRY or 64 << (buf[27] >> 4 & 7) > outbox.record_bytes
