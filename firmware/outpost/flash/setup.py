"""Helps to construct an outbox: its table of fields, its buffer, the device behind a wrapper.
Unloaded by mount(); the fields are made in `ring.py` and `outbox.py`.

Allocation: the buffer, and 60 names for a moment.
"""
# pyright: reportUndefinedVariable=false

import builtins

from micropython import const

_BLOCK_BYTES = const(4096)
_HEADER = const(32)
_BLOCK_COUNT = const(4)
_BLOCK_SIZE = const(5)
_MOST_BLOCKS = const(4096)
_FIELDS = const(60)  # one more than 59 places hold


def widen(outbox: "Outbox"):
    """Grow the table of the outbox's fields to 59 places by adding temporary fields. Their names
    are names that the interpreter has anyway.

    MicroPython finds fields by hash, and grows their table only when it is full, by a quarter. The
    46 fields would fill 46 of 47 places, and a name whose own place is taken is searched for
    through most of them. This saves 11,000 cycles per stored QoS 1 message
    (host_tests/rigs/rp2040/cycles.py).
    """
    # startswith, as an interpreter keeps each letter that name[0] returns
    names = [name for name in builtins.__dict__ if not name.startswith("_")][:_FIELDS]
    for name in names:
        setattr(outbox, name, None)
    for name in reversed(list(outbox.__dict__)):  # from the last place: most become free again
        if name in names:
            delattr(outbox, name)


def buffer_bytes(device, record_bytes, align, page_bytes):
    """Returns the length of whole pages that hold the largest record, wherever in a page it begins.

    Raises ValueError for an impossible geometry: see Outbox.
    """
    # A divisor of a power of two is one itself.
    if not 4 <= align <= 256 or page_bytes < 4 or _BLOCK_BYTES % page_bytes or page_bytes % align:
        raise ValueError("outbox: align, page_bytes")
    if device.ioctl(_BLOCK_SIZE, 0) != _BLOCK_BYTES:
        raise ValueError("outbox: device")
    if not 2 <= device.ioctl(_BLOCK_COUNT, 0) <= _MOST_BLOCKS:
        raise ValueError("outbox: device")
    first_at = max(_HEADER, align)
    if not 64 <= record_bytes <= _BLOCK_BYTES - first_at:
        raise ValueError("outbox: record_bytes")
    return -(-(max(first_at, page_bytes - align) + record_bytes) // page_bytes) * page_bytes


def geometry(blocks, record_bytes):
    """Returns what a sector's header tells of it: blocks - 1, and bits 12 to 14: the least power of
    two times 64 that holds the largest record."""
    size = 0
    while 64 << size < record_bytes:
        size += 1
    return blocks - 1 | size << 12


def views(buffer, page_bytes):
    """Returns [a memoryview of the first n pages of the buffer], n from 0."""
    whole = memoryview(buffer)
    return [whole[:end] for end in range(0, len(buffer) + 1, page_bytes)]


def direct(device):
    """Returns (device to read and program, its number for each block): a wrapper's, or `device`."""
    if hasattr(device, "direct"):
        return device.direct()
    return device, range(device.ioctl(_BLOCK_COUNT, 0))
