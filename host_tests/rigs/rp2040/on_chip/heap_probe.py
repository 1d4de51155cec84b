# micropython-only: runs on the emulated chip
"""Gives the program the heap of a Pico W, and says what is used and free whenever the host asks.

As boot.py, before the program. The radio's stand-in is made here and counted out: after this the
program has HEAP bytes, of which STOCK are taken, as on a board whose MicroPython has just started.
The host asks with the number 1 in the scratch register ASK, and chooses a settings file with
another before the start: settings-<number>.json. Must not know: what runs afterwards.
"""

import gc

gc.collect()
_STOCK = gc.mem_alloc()

import micropython  # noqa: E402 - what is imported counts from here on
import ppp_wlan  # noqa: E402
from machine import Timer, mem32  # noqa: E402

HEAP = 205_184
_ASK, _CHOICE = 0x40058028, 0x40058024  # of the watchdog; MicroPython uses neither
_PERIOD_MS = 50


def answer(_timer):
    if mem32[_ASK] == 1:
        mem32[_ASK] = 0
        gc.collect()
        print("\nheap used", HEAP - gc.mem_free())
        micropython.mem_info()


def choose():
    number = mem32[_CHOICE]
    with open("settings-%d.json" % number) as chosen, open("settings.json", "w") as file:
        file.write(chosen.read())


choose()
ppp_wlan.BUFFER_BYTES = 2048  # with more, the interpreter has less left than a Pico W
ppp_wlan.WLAN().active(True)
timer = Timer(period=_PERIOD_MS, callback=answer)
gc.collect()
held = bytearray(gc.mem_free() - (HEAP - _STOCK))
gc.collect()
print("heap stock", _STOCK, "free", gc.mem_free())
