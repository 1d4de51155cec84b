"""ticks_ms() and sleep_ms() of MicroPython, under CPython too."""

import sys
import time

if sys.implementation.name == "micropython":
    ticks_ms, sleep_ms = time.ticks_ms, time.sleep_ms
else:

    def _cpython_ticks_ms():
        now_s = time.monotonic()  # pyright: ignore[reportAttributeAccessIssue] - CPython only
        return int(now_s * 1000) & 0x3FFFFFFF

    def _cpython_sleep_ms(ms):
        time.sleep(ms / 1000)

    ticks_ms, sleep_ms = _cpython_ticks_ms, _cpython_sleep_ms
