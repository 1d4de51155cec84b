"""Raspberry Pi Pico 2 W (RP2350, CYW43439): what it has of its own. Not tried on hardware.

The rest is `boards/support/rp2_board.py`.
"""

import time

import machine
import network
import rp2

from support.rp2_board import Rp2Board

ALIGN, PAGE_BYTES = 256, 256  # rp2.Flash programs whole pages, whatever lies behind a short buffer

_WATCHDOG = 0x400D8000  # RP2350 data sheet

_board = Rp2Board(machine, network, time, rp2, _WATCHDOG)
begin, started, feed_watchdog, idle = _board.begin, _board.started, _board.feed_watchdog, _board.idle
crashed, give_up, sleep, sensors = _board.crashed, _board.give_up, _board.sleep, _board.sensors
published, stopping, stopped = _board.published, _board.stopping, _board.stopped
link, set_clock, keep_time, ticks_ms = _board.link, _board.set_clock, _board.keep_time, time.ticks_ms
random_bits, random_hex, release_watchdog = _board.random_bits, _board.random_hex, _board.release_watchdog
outbox_device, IN_FLIGHT_BYTES = _board.outbox_device, _board.IN_FLIGHT_BYTES
