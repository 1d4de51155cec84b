# micropython-only: runs on the emulated chip
"""Gives the program the heap of a Pico W, and says what is used and free whenever the host asks.

As boot.py, before the program. The radio's stand-in is made here and counted out: after this the
program has HEAP bytes, of which it has what a MicroPython that has just started takes. It has few
names of its own: they share the interpreter's table with the program's, which doubles when it is
full. The host asks with the number 1 in the scratch register ASK, and chooses the settings with
another before the start: that line of the file `settings`; with PIN the blocks are pinned instead
(pin_now.py). Must not know: what runs afterwards.
"""

import gc

gc.collect()
count = gc.mem_alloc()

import micropython  # noqa: E402 - what is imported counts from here on
import ppp_wlan  # noqa: E402
from machine import Timer, mem32  # noqa: E402
from micropython import const  # noqa: E402

_HEAP = const(205_184)
_ASK = const(0x40058028)  # scratch registers of the watchdog, which MicroPython does not use
_CHOICE = const(0x40058024)
_PIN = const(255)
_PERIOD_MS = const(50)
_USED = const("\nthe heap used")


def answer(_):
    if mem32[_ASK] == 1:
        mem32[_ASK] = 0
        gc.collect()
        print(_USED, _HEAP - gc.mem_free())
        micropython.mem_info()


def choose():
    if mem32[_CHOICE] == _PIN:
        import pin_now  # noqa: F401 - does not return
    with open("settings") as source, open("settings.json", "w") as file:
        for _ in range(mem32[_CHOICE]):
            source.readline()
        file.write(source.readline())


choose()
ppp_wlan.BUFFER_BYTES = 2048  # with more, the interpreter has less left than a Pico W
ppp_wlan.WLAN().active(True)
timer = Timer(period=_PERIOD_MS, callback=answer)
gc.collect()
held = bytearray(gc.mem_free() - (_HEAP - count))
gc.collect()
