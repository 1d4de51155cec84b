"""ESP32-C3: its own part; the rest is `boards/support/esp32_board.py`. Not tried on hardware."""

import time

import esp32
import machine
import network

from support.esp32_board import Esp32Board


class Board(Esp32Board):
    """The board contract (`boards/PORTING.md`) on an ESP32-C3."""

    def __init__(self):
        Esp32Board.__init__(self, machine, network, time, esp32, _temperature)


def _temperature():
    """The temperature of the chip, not of the room, in degrees Celsius."""
    # The stubs are for the first ESP32, which has another function for this.
    return int(esp32.mcu_temperature())  # pyright: ignore[reportAttributeAccessIssue]
