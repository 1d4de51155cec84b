"""Bytes checked by machine code: the same functions as in `portable.py`, by the viper emitter.

See `native.py` and `checksum.py`.
"""

# pyright: reportCallIssue=false

from array import array

import micropython

# CRC-32 by nibbles, three times as fast as bit by bit. An array, because words must be aligned.
_TABLE = array(
    "I",
    b"\x00\x00\x00\x00\x64\x10\xb7\x1d\xc8\x20\x6e\x3b\xac\x30\xd9\x26\x90\x41\xdc\x76\xf4\x51\x6b\x6b\x58\x61\xb2\x4d"
    b"\x3c\x71\x05\x50\x20\x83\xb8\xed\x44\x93\x0f\xf0\xe8\xa3\xd6\xd6\x8c\xb3\x61\xcb\xb0\xc2\x64\x9b\xd4\xd2\xd3\x86"
    b"\x78\xe2\x0a\xa0\x1c\xf2\xbd\xbd",
)


@micropython.viper
def crc30(seed: int, buf: ptr8, at: int, end: int) -> int:
    """See `checksum.py`. The first three names are in registers, so `seed` becomes the CRC."""
    table = ptr32(_TABLE)
    seed = int(uint(seed ^ 0x3FFFFFFF) | uint(3) << 30)  # its complement in 32 bits; no constant above 2^30
    while at < end:
        seed ^= buf[at]
        seed = int(uint(seed) >> 4) ^ table[seed & 15]
        seed = int(uint(seed) >> 4) ^ table[seed & 15]
        at += 1
    return (seed ^ -1) & 0x3FFFFFFF


@micropython.viper
def is_blank(buf: ptr8, at: int, end: int) -> bool:
    """See `checksum.py`."""
    while at < end and buf[at] == 0xFF:
        at += 1
    return at == end


@micropython.viper
def skip_records(buf: ptr8, at: int, end: int, align: int, count: int) -> int:
    """See `checksum.py`."""
    start = at
    passed = 0
    while passed < count and at + 4 <= end:
        kind = buf[at] & 0x8F
        size = (16 + buf[at + 1] + (buf[at + 2] | buf[at + 3] << 8) + align - 1) & -align
        if kind < 1 or kind > 2 or at + size > end:
            break
        passed += kind & 1
        at += size
    return passed << 13 | (at - start)
