"""Differences of ticks: milliseconds that wrap at 2^30, as MicroPython's `time.ticks_ms()` counts.

Below all: imports nothing (32 bytes of heap less than with `const`). Allocation: none.
"""


def elapsed_ms(now_ms, since_ms):
    """Milliseconds from since to now, even across a wrap; 0 if `since` is later (up to 6 days)."""
    passed = (now_ms - since_ms) & 0x3FFFFFFF
    return passed if passed < 0x20000000 else 0
