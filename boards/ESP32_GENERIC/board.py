"""ESP32: its own part; the rest is `boards/support/esp32_board.py`. Not tried on hardware."""

import time

import esp32
import machine
import network

from support.esp32_board import Esp32Board


class Board(Esp32Board):
    """The board contract (`boards/PORTING.md`) on an ESP32."""

    def __init__(self):
        Esp32Board.__init__(self, machine, network, time, esp32, _temperature, -1)


def _temperature():
    """The chip's temperature, not the room's: tenths of a degree. The port returns Fahrenheit."""
    return (esp32.raw_temperature() - 32) * 50 // 9
