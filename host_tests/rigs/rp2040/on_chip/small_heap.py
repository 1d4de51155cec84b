# micropython-only: runs on the emulated chip
"""Leaves as much heap as a Pico W has: what a plain Pico has more, and what the stand-in for the
radio takes, is held from the start on."""

import gc

_PICO_W = 205_184  # MicroPython 1.28's image for the Pico W


def _hold():
    gc.collect()
    before = gc.mem_alloc()
    import ppp_wlan  # noqa: F401 - stays

    gc.collect()
    own = gc.mem_alloc() - before
    return bytearray(max(gc.mem_alloc() + gc.mem_free() - _PICO_W - own, 0))


held = _hold()
