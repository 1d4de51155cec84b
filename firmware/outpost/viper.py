"""Bytes moved and checked by machine code: the same four functions as `bytecode.py`, made by the viper emitter.

Import fails where there is no native emitter (some ESP32-C3 builds, CPython); `outbox` then takes `bytecode`.
Takes no heap: every integer handed in or out stays below 2^30.
"""

from array import array

import micropython

# CRC-32 (IEEE 802.3, reflected 0xEDB88320) by nibbles: 64 bytes of table instead of 1,024.
_TABLE = array(
    "I",
    b"\x00\x00\x00\x00\x64\x10\xb7\x1d\xc8\x20\x6e\x3b\xac\x30\xd9\x26\x90\x41\xdc\x76\xf4\x51\x6b\x6b\x58\x61\xb2\x4d"
    b"\x3c\x71\x05\x50\x20\x83\xb8\xed\x44\x93\x0f\xf0\xe8\xa3\xd6\xd6\x8c\xb3\x61\xcb\xb0\xc2\x64\x9b\xd4\xd2\xd3\x86"
    b"\x78\xe2\x0a\xa0\x1c\xf2\xbd\xbd",
)


@micropython.viper
def crc30(buf: ptr8, at: int, end: int, seed: int) -> int:
    """CRC-32 of buf[at:end], register preset by `seed` (0 = standard), cut to its low 30 bits."""
    table = ptr32(_TABLE)
    crc = uint(seed) ^ uint(0xFFFFFFFF)
    while at < end:
        crc ^= uint(buf[at])
        crc = (crc >> 4) ^ uint(table[int(crc & 15)])
        crc = (crc >> 4) ^ uint(table[int(crc & 15)])
        at += 1
    return int((crc ^ uint(0xFFFFFFFF)) & 0x3FFFFFFF)


@micropython.viper
def copy(target: ptr8, at: int, source: ptr8, start: int, length: int) -> int:
    """target[at:at+length] = source[start:start+length]; returns at + length. Bounds are the caller's duty."""
    end = at + length
    while at < end:
        target[at] = source[start]
        at += 1
        start += 1
    return end


@micropython.viper
def fill(target: ptr8, at: int, end: int):
    """target[at:end] = 0xFF, the erased state of NOR flash."""
    while at < end:
        target[at] = 0xFF
        at += 1


@micropython.viper
def is_blank(buf: ptr8, at: int, end: int) -> bool:
    """True when buf[at:end] reads erased (all 0xFF)."""
    while at < end:
        if buf[at] != 0xFF:
            return False
        at += 1
    return True
