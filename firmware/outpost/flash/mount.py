"""Finds the messages in the flash, once per boot. It only reads: what it finds is a function of the
flash alone, and finding it twice changes nothing. What it cannot be sure of, `settle.py` and
`shelf.py` settle. Unloaded after use; the fields are made in `ring.py` and `outbox.py`.

Allocates as needed, including 12 bytes per block, and keeps nothing but the outbox's fields.
"""
# pyright: reportUndefinedVariable=false

from array import array
from struct import pack_into, unpack_from

from micropython import const

from outpost.checksum import crc30, is_blank
from outpost.flash.ring import Ring
from outpost.flash.settle import allows_longer, check_geometry, holds_longer
from outpost.memory import u32, unload

_OK = const(0)
_STORAGE = const(-5)
_NEWER = const(-12)
_SHORT_RECORDS = const(-15)

_BLOCK_BYTES = const(4096)
_VERSION = const(2)
_MAGIC = const(0x424F)  # "OB"
_LENT_MAGIC = const(0x534F)  # "OS"
_HEADER = const(32)
_CRC_AT = const(28)
_PREFIX = const(12)
_CONFIRMED = const(0x42)  # see `settle.py`
_OVERHEAD = const(16)
_SEQ_MASK = const(0x3FFFFFFF)
_HALF = const(0x20000000)

# What mount() keeps for each block, three integers: its sector_no, or one of the following; the CRC
# of its stream; its first_seq.
_ERASED = const(-1)
_JUNK = const(-2)
_LENT = const(-3)

# How many numbers are skipped when a lost sector may have used them. A block has no room for as
# many messages.
_JUMP = const(254)


def mount(outbox: "Outbox"):
    """See Outbox.mount()."""
    forget(outbox)
    try:
        status = _find(outbox, array("i", [_ERASED] * (3 * outbox.blocks)))
    except OSError:
        outbox.storage_errors += 1
        return _STORAGE
    if status == _OK:
        own = getattr(outbox._device, "own", None)
        if own:  # records go into the head without a previous erase
            own(outbox._head)
        outbox.boot = (outbox.boot + 1) & 0xFFFF
        pack_into("<H", outbox._prefix, 10, outbox.boot)
        outbox._busy = False
        status = _settle(outbox)
    unload("outpost.flash.settle")
    unload("outpost.checksum")  # it only chose functions
    return status


def _settle(outbox: "Outbox"):
    """Make sure of what was found, if it can be shown before something is stored."""
    settle = getattr(outbox, "_settle", None)
    if settle and settle():
        return _STORAGE
    if outbox._shown_end < _SEQ_MASK and not (outbox.settles_later and _takes_more(outbox)):
        outbox._prove()
    _find_shelf(outbox)
    return _OK


def _takes_more(outbox: "Outbox"):
    try:
        may_open = outbox._may_open(outbox._after(outbox._head))
    except OSError:
        may_open = False
    return may_open or outbox._offset + outbox.record_bytes <= abs(outbox._limit)


def _find_shelf(outbox: "Outbox"):
    """Without memory for the shelf, its messages that the ring still has are sent again."""
    outbox.aside = 0
    if outbox._shelf:
        outbox._shelf = None
    try:
        if outbox.lent and outbox.settles_later:
            outbox.shelf().count()
        elif outbox.lent:
            outbox.shelf().settle()
    except (ImportError, MemoryError):
        outbox._shelf = None


def forget(outbox: "Outbox"):
    """Forget what an earlier mount found."""
    outbox._busy = outbox._has_header = True
    outbox._ready = outbox._cursor_seq = outbox.loaded_seq = -1
    outbox._shown_end = _SEQ_MASK
    outbox.stream = b""
    outbox.next_seq = outbox.oldest_seq = outbox.acked = outbox.boot = 0
    outbox._head = outbox._tail = outbox._sector_no = outbox._first_seq = 0
    outbox._limit = _BLOCK_BYTES
    outbox._align = outbox._least_align
    if outbox.refused or outbox.dropped or outbox.unreadable:  # class attributes
        outbox.refused = outbox.dropped = outbox.unreadable = 0
    if outbox._out or outbox._doubt or outbox._is_worn_out:
        outbox._out = outbox.lent = ()
        outbox._doubt = outbox.left_out = 0
        outbox._is_worn_out = False
        outbox._failed_block = -1


def _find(outbox: "Outbox", marks):
    status = _read_headers(outbox, marks)
    while status == _OK:
        head = _newest(outbox, marks)
        if head < 0:
            from outpost.flash.settle import blank_or_foreign

            return blank_or_foreign(outbox)
        if not outbox._load_header(head) or u32(outbox.buffer, 4) != marks[3 * head]:
            marks[3 * head] = _JUNK  # it reads differently each time, so it is torn
            continue
        outbox._head, outbox._sector_no = head, marks[3 * head]
        status = check_geometry(outbox)
        if status:
            return status
        records = _scan_head(outbox)
        end = outbox._cursor_offset
        if records or outbox._limit < _BLOCK_BYTES or not _follows(outbox, marks):
            is_freed = _find_ring(outbox, marks)
            if holds_longer(outbox):
                return _SHORT_RECORDS
            _note_doubts(outbox, marks, records, is_freed and not _had_room(outbox, end))
            break
        marks[3 * head] = _JUNK  # torn in its first program: the sector before is still the head
    return status


def _read_headers(outbox: "Outbox", marks):
    for block in range(outbox.blocks):
        if outbox._load_header(block):
            if outbox.buffer[2] > _VERSION or outbox.buffer[3] > outbox._header_bits:
                return _NEWER
            marks[3 * block] = u32(outbox.buffer, 4)
            marks[3 * block + 1] = crc30(0, outbox.buffer, 8, 16)
            marks[3 * block + 2] = u32(outbox.buffer, 16)
            if not outbox._may_be_longer and allows_longer(outbox):
                outbox._may_be_longer = True
        elif not is_blank(outbox.buffer, 0, _HEADER):
            marks[3 * block] = _LENT if outbox._load_header(block, _LENT_MAGIC) else _JUNK
    return _OK


def _newest(outbox: "Outbox", marks):
    """Returns the block with the newest sector; -1: there is none. Of two blocks with that number,
    which earlier firmware could write, the one that the ring reached later."""
    newest = _highest(outbox, marks, -1)
    before = _highest(outbox, marks, newest)
    for block in range(outbox.blocks):
        if before >= 0 and marks[3 * block] == marks[3 * newest]:
            if (block - before) % outbox.blocks > (newest - before) % outbox.blocks:
                newest = block
    return newest


def _highest(outbox: "Outbox", marks, below):
    """Returns the block with the highest number, or the highest one below that of `below`; -1:
    there is none."""
    found = -1
    for block in range(outbox.blocks):
        if marks[3 * block] < 0 or (below >= 0 and not _age(marks, below, block)):
            continue
        if found < 0 or _age(marks, found, block) >= _HALF:
            found = block
    return found


def _age(marks, newer, block):
    """Returns how much lower the number of `block` is; from _HALF on it is higher."""
    return (marks[3 * newer] - marks[3 * block]) & _SEQ_MASK


def _follows(outbox: "Outbox", marks):
    """True when there is another sector of the head's stream."""
    head = outbox._head
    return any(
        marks[3 * block] >= 0 and marks[3 * block + 1] == marks[3 * head + 1]
        for block in range(outbox.blocks)
        if block != head
    )


def _scan_head(outbox: "Outbox"):
    """Walk the newest sector: its last valid record holds the whole state. Nothing is appended
    after a torn record. Returns the number of records."""
    head = outbox._tail = outbox._cursor_block = outbox._head
    outbox.stream, outbox._first_seq = unpack_from("<8sI", outbox.buffer, 8)
    outbox._salt = outbox._cursor_salt = u32(outbox.buffer, _CRC_AT)
    outbox.oldest_seq, outbox.acked = unpack_from("<IH", outbox.buffer, 20)
    outbox._limit = _BLOCK_BYTES
    if outbox._load_copy(head, _MAGIC) and u32(outbox.buffer, _CRC_AT) == outbox._salt:
        outbox._limit = outbox._copy_at()
    outbox._cursor_seq = outbox._first_seq
    outbox._cursor_end = -1  # not known yet
    outbox._offset = outbox._cursor_offset = max(_HEADER, outbox._align)
    if outbox.damaged or outbox.sealed_torn:
        outbox.damaged = outbox.sealed_torn = 0
    records = _walk(outbox)
    outbox.next_seq = outbox._cursor_seq
    if not outbox._rest_is_blank(head, outbox._offset):
        outbox.sealed_torn = 1
        if _is_flipped(outbox):  # it was whole: its number is used
            outbox.damaged += 1
            outbox.next_seq += 1
            records += 1
        outbox._offset = _BLOCK_BYTES
    return records


def _walk(outbox: "Outbox"):
    """Take the state of each record, and what the records protect. Returns their number."""
    records, boot = 0, b""
    # The first message that no record protects: of two records of one boot, the first is whole.
    # Before such a pair, the last message of the sector before is in doubt as well.
    outbox._shown_end = max(outbox._first_seq - 1, 0)
    at = outbox._next_record()
    while at >= 0:
        records += 1
        kind, last_boot = outbox.buffer[at], boot
        boot = bytes(outbox.buffer[at + 10 : at + 12])
        if kind == _CONFIRMED or boot == last_boot:
            outbox._shown_end = outbox._cursor_seq - (kind & 1)
        outbox.damaged += outbox._offset != outbox._cursor_offset - outbox._record_size
        outbox.oldest_seq, outbox.acked, outbox.boot = unpack_from("<IHH", outbox.buffer, at + 4)
        outbox._offset = outbox._cursor_offset
        at = outbox._next_record()
    return records


def _is_flipped(outbox: "Outbox"):
    """True when a whole message is at _offset in which one bit has flipped since."""
    buf = outbox.buffer
    at = outbox._read(outbox._head, outbox._offset)
    salt = outbox._salt ^ outbox.next_seq
    for bit in range(32):  # kind and lengths: any of them may move the CRC
        buf[at + (bit >> 3)] ^= 1 << (bit & 7)
        if outbox._fits(at, salt):
            return buf[at] & 1 > 0  # a state record uses no number
        buf[at + (bit >> 3)] ^= 1 << (bit & 7)
    end = at + _PREFIX + buf[at + 1] + (buf[at + 2] | buf[at + 3] << 8)
    if not buf[at] & 1 or end + 4 > outbox._filled:
        return False
    wrong = u32(buf, end) ^ crc30(salt, buf, at, end)
    if not wrong & (wrong - 1):  # in the CRC itself: `wrong` has at most one bit
        return True
    # How each bit, from the last one back, changes a CRC: a register shifted that many times.
    low, high = 1, 0
    for _ in range(8 * (end - at)):
        odd = low & 1
        low, high = low >> 1 | (high & 1) << 15, high >> 1
        if odd:
            low, high = low ^ 0x8320, high ^ 0xEDB8
        if (high & 0x3FFF) << 16 | low == wrong:
            return buf[end + 3] < 0x40
    return False


def _find_ring(outbox: "Outbox", marks):
    """Go back from the head to the sector that holds the oldest message, and further to find out
    which blocks the ring left out. True when sectors were erased that the last record still needs:
    until then, the ring may have been full."""
    first = outbox._first_seq
    _mark_order(outbox, marks)
    age, passed = 0, []  # of the sector found last; the blocks passed since
    for distance in range(1, outbox.blocks):
        block = (outbox._head - distance) % outbox.blocks
        its_age = (outbox._sector_no - marks[3 * block]) & _SEQ_MASK
        if marks[3 * block] == _LENT:
            outbox.lent += (block,)
        elif marks[3 * block] < 0 or marks[3 * block + 1] < 0:
            passed.append(block)
        elif not age < its_age <= marks[3 * block + 1]:
            _leave_out(outbox, (block,))  # an older sector is nearer than a newer one
        else:
            _choose_left_out(outbox, marks, passed, len(passed) - (its_age - age - 1))
            age, passed = its_age, []
            if first > outbox.oldest_seq:
                outbox._tail, first = block, marks[3 * block + 2]
    if outbox.lent:
        outbox._out += outbox.lent
    # Older messages were acknowledged, which only RAM knew, and their sectors erased.
    is_freed = first > outbox.oldest_seq
    outbox.discard_through(first - 1)
    outbox._saved_oldest, outbox._saved_acked = outbox.oldest_seq, outbox.acked
    return is_freed


def _mark_order(outbox: "Outbox", marks):
    """Replace the CRC of each stream by the least age of the sectors that are further from the
    head: in the order of the ring, a sector is not older than these. -1: the block holds no message
    of the stream that is older than the head's."""
    stream, head = marks[3 * outbox._head + 1], outbox._head
    youngest = _HALF
    for distance in range(outbox.blocks - 1, 0, -1):
        at = 3 * ((head - distance) % outbox.blocks)
        is_older = marks[at] >= 0 and marks[at + 1] == stream
        is_older = is_older and marks[at + 2] < outbox._first_seq
        marks[at + 1] = youngest if is_older else -1
        if is_older:
            youngest = min(youngest, (outbox._sector_no - marks[at]) & _SEQ_MASK)


def _choose_left_out(outbox: "Outbox", marks, passed, count):
    """At least `count` of the blocks between two sectors were left out: first those that still have
    a header, and none that is erased."""
    out = [block for block in passed if marks[3 * block] >= 0]
    out += [block for block in passed if marks[3 * block] == _JUNK]
    _leave_out(outbox, tuple(out[: max(0, count)]))


def _leave_out(outbox: "Outbox", blocks):
    if blocks:
        outbox._out += blocks
        outbox.left_out += len(blocks)


def _note_doubts(outbox: "Outbox", marks, records, was_full):
    """Note what the first append() must settle, and what load() must not return before that.
    was_full: the ring may have been full when the newest record was written."""
    block = following = outbox._after(outbox._head)
    while block != outbox._head and block != outbox._tail:
        if marks[3 * block] == _JUNK:
            outbox._doubt |= 1
        block = outbox._after(block)
    if outbox._offset + outbox.record_bytes > outbox._limit:
        _pass_over(outbox, marks, following, was_full)
    if records < 2 and outbox._limit == _BLOCK_BYTES:
        outbox._doubt |= 2
    if outbox._shown_end >= outbox.next_seq or outbox.oldest_seq == outbox.next_seq:
        outbox._shown_end = _SEQ_MASK
    outbox._mounted_seq = outbox.next_seq
    outbox._limit = -outbox._limit


def _pass_over(outbox: "Outbox", marks, following, was_full):
    """The head has no room. Pass over the numbers of what another mount may have shown, and this
    one cannot read: a newer sector in the block after the head, or a message at the torn end, if
    the ring is full, or was when there was no room after it to make sure."""
    if marks[3 * following] == _JUNK and not _is_first_record(outbox, following):
        outbox._doubt |= 4
    elif not outbox.sealed_torn or (
        not was_full and following != outbox._tail and Ring._may_open(outbox, following)
    ):
        return
    is_empty = outbox.oldest_seq == outbox.next_seq
    outbox.next_seq = min(outbox.next_seq + _JUMP, _SEQ_MASK)
    outbox._offset = _BLOCK_BYTES
    if is_empty:
        outbox.oldest_seq = outbox.next_seq


def _is_first_record(outbox: "Outbox", block):
    """True when a block that is neither erased nor an old sector holds no more than a torn first
    record, after which there was room to make sure of it. Otherwise it is torn in its erase, or a
    newer sector that was lost."""
    return _had_room(outbox, max(_HEADER, outbox._align)) and outbox._rest_is_blank(
        block, min(_BLOCK_BYTES, len(outbox.buffer))
    )


def _had_room(outbox: "Outbox", at):
    """True when a sector has room to make sure of the largest record at this place."""
    align = outbox._align
    proof = -(-_OVERHEAD - len(outbox.note) & -align) - (-_OVERHEAD & -align)
    return at - (-outbox.record_bytes & -align) + proof <= outbox._copy_at()
