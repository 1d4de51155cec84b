"""Makes an empty outbox, and begins a new stream when the numbers are used up. Unloaded after use.

A cut anywhere in it leaves the old outbox, the new one, or a state that mount() recognizes as half
formatted. Allocates as needed, and keeps nothing but the outbox's fields.
"""
# pyright: reportUndefinedVariable=false

from micropython import const

from outpost.checksum import crc30, is_blank
from outpost.flash.mount import forget, mount
from outpost.flash.settle import MARK, find_marks, mark_at, number_span, program, write_copy

_OK = const(0)
_STORAGE = const(-5)
_BLANK = const(-10)
_FOREIGN = const(-11)
_GEOMETRY = const(-13)

_BLOCK_BYTES = const(4096)
_MAGIC = const(0x424F)  # "OB"
_HEADER = const(32)
_SEQ_MASK = const(0x3FFFFFFF)
_DIGITS = const(b"0123456789abcdef")


def make(outbox: "Outbox", stream, force, first_seq):
    """See Outbox.format()."""
    _check(stream, first_seq)
    status = mount(outbox)
    if status == _STORAGE or (status != _BLANK and not force):
        return status if status == _STORAGE else _FOREIGN
    block, sector_no = 0, 0
    try:
        if status in (_OK, _GEOMETRY):
            # The new sector is newer than any other: the old outbox is valid until it is written.
            block = outbox._after(outbox._head)
            sector_no = outbox._sector_no + (outbox.blocks + 2) * number_span(outbox) & _SEQ_MASK
        elif status == _BLANK:
            _mark(outbox)
        else:
            for other in range(outbox.blocks):
                outbox._erase(other)
        forget(outbox)
        outbox.stream = stream
        outbox._sector_no = sector_no
        outbox._first_seq = outbox.oldest_seq = first_seq
        is_made = _write_first(outbox, block)
        # Erase what is left of the old outbox.
        for other in range(outbox.blocks) if is_made and status != _BLANK else ():
            outbox._read(other, 0)
            if other != outbox._head and not is_blank(outbox.buffer, 0, _HEADER):
                outbox._erase(other)
    except OSError:
        return _STORAGE
    return _OK if is_made else _STORAGE


def _check(stream, first_seq):
    """No collector takes another one for a stream, so it would never confirm a message of it."""
    if not 0 <= first_seq <= _SEQ_MASK:
        raise ValueError("outbox: first_seq")
    if len(stream) != 8 or bytes(stream).strip(_DIGITS):
        raise ValueError("outbox: stream")


def _mark(outbox: "Outbox"):
    """Mark that a format is under way: once, or twice before the first block is erased."""
    count, free = find_marks(outbox)
    needed = 1 if outbox._rest_is_blank(0, 0) else 2
    if count < needed:
        program(outbox, outbox.blocks - 1, mark_at(outbox, free), MARK)


def _write_first(outbox: "Outbox", block):
    """Write the first sector's header and its copy into the first block that accepts them."""
    for _ in range(outbox.blocks):
        if (outbox._rest_is_blank(block, 0) and not outbox._sector_no) or outbox._clear(block):
            outbox._head = block
            outbox._put_header()
            program(outbox, block, 0, bytes(outbox.buffer[:_HEADER]))
            outbox._read(block, 0)
            if outbox._is_header(_MAGIC):
                outbox._offset = _HEADER
                return write_copy(outbox)
            outbox.storage_errors += 1
        block = (block + 1) % outbox.blocks
    return False


def start_stream(outbox: "Outbox"):
    """The 2^30 numbers are used up: start a new stream once the old one is empty; until then False.
    Allocates, but only once in 34 years at one message a second."""
    if outbox.oldest_seq != outbox.next_seq:
        return False
    outbox.stream = b"%08x" % crc30(outbox.boot, outbox.stream, 0, 8)
    outbox.next_seq = outbox.oldest_seq = outbox.acked = 0
    outbox._tail = outbox._head  # nothing is held: the old stream's higher numbers do not count
    outbox._cursor_seq = -1
    outbox._offset = _BLOCK_BYTES
    return True
