"""What mount() needs besides finding: it settles what reading cannot show, before anything of it is
visible or anything is appended after it; refuses what is larger than this outbox; and tells a blank
region from a foreign one. Unloaded after use.

    A sector number is never written twice: a failed open uses it up (`ring.py`), and a block that
    may hold a torn sector is erased, or else its numbers are passed over, before the next sector.

    A message is shown when a record after it is known to be whole: one that was stored since
    mount(), or a state record that a confirmation follows, because the confirmation was programmed
    only after the state record had read back. So a start that stores nothing writes these two at
    most once; the next start finds the confirmation and writes nothing.

    What is larger than this outbox is never taken for torn: records that are longer than
    record_bytes, a ring of more blocks than the device has.

    The marks of format() tell a region that a cut left half formatted from a foreign one.

Allocates as needed, and keeps nothing but the outbox's fields.
"""
# pyright: reportUndefinedVariable=false

from micropython import const

from outpost.checksum import crc30, is_blank
from outpost.memory import fill, u32

_HAS_GEOMETRY = const(0x40)  # see `ring.py`
_OK = const(0)
_BLANK = const(-10)
_FOREIGN = const(-11)
_GEOMETRY = const(-13)
_SHORT_DEVICE = const(-16)
_BLOCK_BYTES = const(4096)
_MAGIC = const(0x424F)  # "OB"
_HEADER = const(32)
_CRC_AT = const(28)
_PREFIX = const(12)
_OVERHEAD = const(16)
_STATE = const(2)
_CONFIRMED = const(0x42)  # a state record without a note: the record before it is whole
_SEQ_MASK = const(0x3FFFFFFF)
_HALF = const(0x20000000)
_TRIES = const(3)

# format() programs it before anything else, so that a region is known as half formatted.
MARK = b"outpost: an outbox is made here\n"
_MARKS = const(8)  # places for it, at the end of the last block


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


# --- What is larger than this outbox ---


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
    if buf[7] & _HAS_GEOMETRY:
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
    """True when a valid record is there that is longer than record_bytes. A shorter one may read as
    valid here, too, where _next_record() read it as torn: an unstable cell reads as it likes."""
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
    return not buf[7] & _HAS_GEOMETRY or 64 << (buf[27] >> 4 & 7) > outbox.record_bytes


# --- The marks of format() ---


def mark_at(outbox: "Outbox", place):
    """Returns the offset of this place in the last block."""
    return _BLOCK_BYTES - place * max(_HEADER, outbox._align) - _HEADER


def find_marks(outbox: "Outbox"):
    """Returns (marks, the first free place for one; -1: none, or something else is there)."""
    count, free = 0, -1
    for place in range(_MARKS):
        at = outbox._read(outbox.blocks - 1, mark_at(outbox, place))
        there = bytes(outbox.buffer[at : at + _HEADER])
        if is_blank(there, 0, _HEADER):
            free = place if free < 0 else free
        elif there == MARK:
            count += 1
        elif not _is_torn_mark(there):
            return 0, -1
    return count, free


def _is_torn_mark(there):
    """Nearly all the bits that are 1 in the mark are there, or all but few that are 0."""
    fallen = unfallen = 0
    for i in range(_HEADER):
        wrong = there[i] ^ MARK[i]
        fallen += bin(wrong & MARK[i]).count("1")
        unfallen += bin(wrong & ~MARK[i]).count("1")
    return fallen <= 8 or (unfallen <= 8 and fallen <= 64)


def blank_or_foreign(outbox: "Outbox"):
    """BLANK also for what a cut leaves of format(): a mark, and the first header, torn or not; or
    two marks, and the first block in any state."""
    count, free = find_marks(outbox)
    for block in range(outbox.blocks):
        start, end = 0, _BLOCK_BYTES
        if not block and count:
            start = _HEADER if count == 1 else end
        if block == outbox.blocks - 1 and free > 0:
            end = mark_at(outbox, free - 1)
        outbox._head, outbox._limit = block, end  # _rest_is_blank() looks up to there
        if not outbox._rest_is_blank(block, start):
            return _FOREIGN
    return _BLANK
