"""Bytes moved by machine code: the same function as in `bytecode.py`, made by the viper emitter.

Import fails where there is no native emitter (some ESP32-C3 builds, CPython); `memory.py` then takes `bytecode`.
Takes no heap: every integer handed in or out stays below 2^30.
"""

import micropython


@micropython.viper
def copy(target: ptr8, at: int, source: ptr8, start: int, length: int) -> int:
    """target[at:at+length] = source[start:start+length], byte by byte upwards; returns at + length. See `memory.py`."""
    end = at + length
    start -= at
    while at < end:
        target[at] = source[start + at]
        at += 1
    return end


@micropython.viper
def fill(buf: ptr8, count: int):
    """See `memory.py`."""
    words = ptr32(buf)
    count >>= 2
    while count:
        count -= 1
        words[count] = -1
