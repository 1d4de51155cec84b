"""ESP32: what is its own; the rest is `boards/support/esp32_board.py`. Not tried on hardware."""

import time

import esp32
import machine
import network

from support.esp32_board import Esp32Board


class Board(Esp32Board):
    """The board contract (`boards/README.md`) on an ESP32."""

    def __init__(self):
        Esp32Board.__init__(self, machine, network, time, esp32, _temperature, -1)


def _temperature():
    """Tenths of a degree Celsius, of the chip, not of the room: the port returns Fahrenheit."""
    return (esp32.raw_temperature() - 32) * 50 // 9
