"""Raspberry Pi Pico 2 W (RP2350, CYW43439): its own part. Not tried on hardware.

The rest is `boards/support/rp2_board.py`.
"""

import time

import machine
import network
import rp2

from support.rp2_board import Rp2Board


class Board(Rp2Board):
    """The board contract (`boards/PORTING.md`) on a Pico 2 W."""

    def __init__(self):
        # The address is that of the watchdog's registers: RP2350 data sheet
        Rp2Board.__init__(self, machine, network, time, rp2, 0x400D8000)
