"""ESP32: what it has of its own; the rest is `boards/support/esp32_board.py`. Not tried on hardware."""

import time

import esp32
import machine
import network

from support.esp32_board import Esp32Board

ALIGN, PAGE_BYTES = 4, 256  # outbox_device() sets both to what the flash wants


def _temperature():
    """Tenths of a degree, of the chip, not of the room: the port gives Fahrenheit."""
    return (esp32.raw_temperature() - 32) * 50 // 9


_board = Esp32Board(machine, network, time, esp32, _temperature, -1)
begin, started, feed_watchdog, idle = _board.begin, _board.started, _board.feed_watchdog, _board.idle
crashed, give_up, sleep, sensors = _board.crashed, _board.give_up, _board.sleep, _board.sensors
published, stopping, stopped = _board.published, _board.stopping, _board.stopped
link, set_clock, keep_time, ticks_ms = _board.link, _board.set_clock, _board.keep_time, time.ticks_ms
random_bits, random_hex, release_watchdog = _board.random_bits, _board.random_hex, _board.release_watchdog
IN_FLIGHT_BYTES = _board.IN_FLIGHT_BYTES


def outbox_device(settings):
    global ALIGN, PAGE_BYTES
    device, ALIGN, PAGE_BYTES = _board.outbox(settings)
    return device
