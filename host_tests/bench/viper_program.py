"""Programs NOR flash in machine code: bits can only fall, so 0xFF leaves the old content.
MicroPython only.
"""

import micropython


@micropython.viper
def program(target: ptr32, at: int, source: ptr32, count: int):
    """target[at:at+count] &= source[:count]. Words: at and count are multiples of 4."""
    at >>= 2
    count >>= 2
    while count:
        count -= 1
        target[at + count] = target[at + count] & source[count]
