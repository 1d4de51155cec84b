# micropython-only: runs on the emulated chip
"""Pins the outbox's blocks, as a first start does, and stops: the outbox is not made yet, so boards
with different settings can begin with this flash."""

import os
import time

import machine
import rp2
from micropython import const

from support.pinning import create_first

_ASK = const(0x40058028)  # as in heap_probe.py; boot.py has no console
_PINNED = const(2)

create_first(rp2.Flash(), "/outbox", 64, os.urandom(8), machine.unique_id())
machine.mem32[_ASK] = _PINNED
while True:
    time.sleep(1)
