"""The marks of format() at the end of the last block: they tell a region that a cut left half
formatted from a foreign one. Loaded where there is no sector, and unloaded.

Allocates as needed, and keeps nothing.
"""
# pyright: reportUndefinedVariable=false

from micropython import const

from outpost.checksum import is_blank

_BLANK = const(-10)
_FOREIGN = const(-11)
_BLOCK_BYTES = const(4096)
_HEADER = const(32)

# format() programs it before anything else, so that a region is known as half formatted.
MARK = b"outpost: an outbox is made here\n"
_MARKS = const(8)  # places for it


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
