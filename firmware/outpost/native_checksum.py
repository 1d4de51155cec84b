"""Checks bytes by machine code: the same functions as in `portable.py`, compiled by the viper
emitter.

See `native.py` and `checksum.py`. Uses small constants only: a frozen function may misread larger
ones.
"""

# pyright: reportCallIssue=false

from array import array

import micropython

# CRC-32 by nibbles, three times as fast as bit by bit. An array, because words must be aligned.
TABLE = array(
    "I",
    b"\x00\x00\x00\x00\x64\x10\xb7\x1d\xc8\x20\x6e\x3b\xac\x30\xd9\x26"
    b"\x90\x41\xdc\x76\xf4\x51\x6b\x6b\x58\x61\xb2\x4d\x3c\x71\x05\x50"
    b"\x20\x83\xb8\xed\x44\x93\x0f\xf0\xe8\xa3\xd6\xd6\x8c\xb3\x61\xcb"
    b"\xb0\xc2\x64\x9b\xd4\xd2\xd3\x86\x78\xe2\x0a\xa0\x1c\xf2\xbd\xbd",
)


@micropython.viper
def crc30(seed: int, buf: ptr8, at: int, end: int) -> int:
    """See `checksum.py`. The first two names are in registers, so they become CRC and pointer."""
    table = ptr32(TABLE)
    mask = int(uint(1) << 30) - 1
    seed = seed ^ mask | int(uint(3) << 30)  # its complement in 32 bits
    buf = ptr8(int(buf) + at)
    end -= at
    while end:
        seed ^= buf[0]
        seed = int(uint(seed) >> 4) ^ table[seed & 15]
        seed = int(uint(seed) >> 4) ^ table[seed & 15]
        buf = ptr8(int(buf) + 1)
        end -= 1
    return (seed ^ mask) & mask


@micropython.viper
def put_record(buf: ptr8, at: int, prefix: ptr8, topic: ptr8, payload: ptr8):
    """See `checksum.py`. The first two names are in registers, so they become pointer and CRC."""
    table = ptr32(TABLE)
    buf = ptr8(int(buf) + at)
    mask = int(uint(1) << 30) - 1
    at = ptr32(prefix)[3] ^ mask | int(uint(3) << 30)  # the seed's complement in 32 bits
    source = prefix
    length = 12
    part = 0
    while part < 3:
        while length:
            buf[0] = source[0]
            at ^= buf[0]
            at = int(uint(at) >> 4) ^ table[at & 15]
            at = int(uint(at) >> 4) ^ table[at & 15]
            buf = ptr8(int(buf) + 1)
            source = ptr8(int(source) + 1)
            length -= 1
        if part:
            source = payload
            length = prefix[2] | prefix[3] << 8
        else:
            source = topic
            length = prefix[1]
        part += 1
    at = (at ^ mask) & mask
    ptr32(prefix)[3] = at
    buf[0] = at
    buf[1] = at >> 8
    buf[2] = at >> 16
    buf[3] = at >> 24


@micropython.viper
def holds_record(buf: ptr8, source: ptr8, at: int, topic: ptr8, payload: ptr8) -> bool:
    """See `checksum.py`."""
    prefix = source
    buf = ptr8(int(buf) + at)
    length = 12
    part = 0
    while part < 4:
        while length > 3:  # four per pass, as in copy()
            if buf[0] ^ source[0] or buf[1] ^ source[1] or buf[2] ^ source[2] or buf[3] ^ source[3]:
                return False
            buf = ptr8(int(buf) + 4)
            source = ptr8(int(source) + 4)
            length -= 4
        while length:
            if buf[0] ^ source[0]:
                return False
            buf = ptr8(int(buf) + 1)
            source = ptr8(int(source) + 1)
            length -= 1
        part += 1
        if part == 1:
            source = topic
            length = prefix[1]
        elif part == 2:
            source = payload
            length = prefix[2] | prefix[3] << 8
        else:
            source = ptr8(int(prefix) + 12)
            length = 4
    return True


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
