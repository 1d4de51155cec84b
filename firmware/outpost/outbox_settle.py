"""Settles what mount() cannot know from reading, before anything of it is visible or anything is
appended after it. Unloaded after use.

    A sector number is never written twice: a failed open uses it up (`ring.py`), and a block that
    may hold a torn sector is erased, or else its numbers are passed over, before the next sector.

    A message is shown when a record after it is known to be whole: one that was stored since
    mount(), or a state record that a confirmation follows, because the confirmation was programmed
    only after the state record had read back. So a start that stores nothing writes these two at
    most once; the next start finds the confirmation and writes nothing.

Allocates as needed, and keeps nothing but the outbox's fields.
"""
# pyright: reportUndefinedVariable=false

from micropython import const

from outpost.checksum import is_blank
from outpost.memory import fill, u32

_BLOCK_BYTES = const(4096)
_MAGIC = const(0x424F)  # "OB"
_HEADER = const(32)
_CRC_AT = const(28)
_OVERHEAD = const(16)
_STATE = const(2)
_CONFIRMED = const(0x42)  # a state record without a note: the record before it is whole
_SEQ_MASK = const(0x3FFFFFFF)
_HALF = const(0x20000000)
_TRIES = const(3)


# --- Before the first record ---


def settle(outbox: "Outbox"):
    """See Outbox._resume(): make sure of the head, or append nothing more to it."""
    is_sure = outbox._offset < _BLOCK_BYTES and outbox._rest_is_blank(outbox._head, outbox._offset)
    if is_sure and outbox._doubt & 2:  # before any erase: it may be the only header of the ring
        is_sure = write_copy(outbox)
    if outbox._doubt & 1 and not _clear_torn(outbox):
        is_sure = False
    if not is_sure:
        outbox._offset = _BLOCK_BYTES


def number_span(outbox: "Outbox"):
    """Returns more numbers than one boot uses up in sectors that it fails to open."""
    return 2 * outbox.blocks + 2


def _clear_torn(outbox: "Outbox"):
    """Erase the free blocks that may hold a torn sector, and pass over its number. True: all are
    erased. Otherwise that sector may still be found, and be newer than the head: so the next
    sector's number is higher than those that any boot may have used up in such a block."""
    head_no, first = outbox._sector_no, outbox._after(outbox._head)
    ready, refused, block = outbox._ready, 0, first
    while block not in (outbox._head, outbox._tail):
        following = outbox._after(block)
        if _is_torn(outbox, block, head_no) and not (outbox._doubt & 4 and block == first):
            if not outbox._clear(block):
                refused += 1
            elif block == first:
                ready = block
        block = following
    outbox._ready = ready
    outbox._sector_no = (head_no + (refused + 1) * number_span(outbox)) & _SEQ_MASK
    return not refused


def _is_torn(outbox: "Outbox", block, head_no):
    """True when a free block holds something that is neither erased nor an older sector."""
    if outbox._load_header(block):
        return (u32(outbox.buffer, 4) - head_no) & _SEQ_MASK < _HALF
    return not is_blank(outbox.buffer, 0, _HEADER)


def write_copy(outbox: "Outbox"):
    """Copy the head's header to the end of its sector. True when it reads back."""
    at = outbox._copy_at()
    outbox._read(outbox._head, 0)
    if outbox._offset > at or not outbox._is_header(_MAGIC):
        return False
    if u32(outbox.buffer, _CRC_AT) != outbox._salt:
        return False
    header = bytes(outbox.buffer[:_HEADER])
    program(outbox, outbox._head, at, header)
    if not outbox._load_copy(outbox._head, _MAGIC) or outbox.buffer[:_HEADER] != header:
        outbox.storage_errors += 1
        return False
    outbox._limit = -at
    return True


def program(outbox: "Outbox", block, at, data):
    """Program data at `at`. The bytes before and after it in its pages stay erased."""
    page = at - at % outbox._page
    end = -(-(at + len(data) - page) // outbox._page)  # pages
    fill(outbox.buffer, end * outbox._page)
    outbox.buffer[at - page : at - page + len(data)] = data
    outbox.loaded_seq = -1
    outbox._raw.writeblocks(outbox._place[block], outbox._views[end], page)


# --- Before the newest message is shown ---


def prove(outbox: "Outbox"):
    """See Outbox._prove(). In a full ring the newest message is shown all the same: if it is gone
    later, mount() passes over its number, since the torn end of a full ring may have been seen."""
    outbox._busy = True
    try:
        if outbox.next_seq == outbox._mounted_seq:  # else such a record was stored since
            _write_proof(outbox)
    finally:
        outbox._busy = False
    outbox._shown_end = _SEQ_MASK


def _write_proof(outbox: "Outbox"):
    topic, payload = outbox._topic, outbox._payload
    note, length = outbox.note, outbox.note_length
    outbox._topic = b""
    for _ in range(_TRIES):
        try:
            if not outbox._has_room(proof_bytes(outbox)):
                break
            if _write(outbox, _STATE, note, length) and _write(outbox, _CONFIRMED, b"", 0):
                break
        except OSError:
            pass
        outbox._note_failure()
    outbox._topic, outbox._payload = topic, payload


def proof_bytes(outbox: "Outbox"):
    """Returns the bytes of the two records."""
    return _padded(outbox, outbox.note_length) + _padded(outbox, 0)


def _padded(outbox: "Outbox", length):
    return -(-length - _OVERHEAD & -outbox._align)


def _write(outbox: "Outbox", kind, payload, length):
    outbox._payload = payload
    if not outbox._write_record(kind | length << 16, _padded(outbox, length)):
        return False
    outbox._saved_oldest, outbox._saved_acked = outbox.oldest_seq, outbox.acked
    return True
