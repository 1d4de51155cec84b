"""Bytes moved and checked in plain Python: stands in for `viper.py` where there is no native emitter.

The CRC is kept in two 16-bit halves, because an integer of 2^30 or more takes heap on a 32-bit board.
"""

_LOW = (
    0x0000, 0x1064, 0x20C8, 0x30AC, 0x4190, 0x51F4, 0x6158, 0x713C,
    0x8320, 0x9344, 0xA3E8, 0xB38C, 0xC2B0, 0xD2D4, 0xE278, 0xF21C,
)  # fmt: skip
_HIGH = (
    0x0000, 0x1DB7, 0x3B6E, 0x26D9, 0x76DC, 0x6B6B, 0x4DB2, 0x5005,
    0xEDB8, 0xF00F, 0xD6D6, 0xCB61, 0x9B64, 0x86D3, 0xA00A, 0xBDBD,
)  # fmt: skip


def crc30(buf, at, end, seed):
    """CRC-32 of buf[at:end], register preset by `seed` (0 = standard), cut to its low 30 bits."""
    low = (seed & 0xFFFF) ^ 0xFFFF
    high = (seed >> 16) ^ 0xFFFF
    while at < end:
        low ^= buf[at]
        at += 1
        for _ in (0, 1):
            index = low & 15
            low = (low >> 4 | (high & 15) << 12) ^ _LOW[index]
            high = high >> 4 ^ _HIGH[index]
    return ((high ^ 0xFFFF) & 0x3FFF) << 16 | (low ^ 0xFFFF)


def copy(target, at, source, start, length):
    """target[at:at+length] = source[start:start+length], byte by byte upwards; returns at + length. See `memory.py`."""
    end = at + length
    while at < end:
        target[at] = source[start]
        at += 1
        start += 1
    return end


def fill(buf, count):
    """See `memory.py`."""
    while count:
        count -= 1
        buf[count] = 0xFF


def is_blank(buf, at, end):
    """True when buf[at:end] reads erased (all 0xFF)."""
    while at < end and buf[at] == 0xFF:
        at += 1
    return at == end
