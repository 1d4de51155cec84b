"""BENCH: a board in the virtual world of this folder, for programs under test.

It is an ESP32 with a partition for its outbox, whose Wi-Fi is joined and whose clock is right
whenever the world lets it: so a program is under test here, and not a board. A real board's
board.py runs in the same world.
"""

import time

import esp32
import machine
import network

from support.esp32_board import Esp32Board
from virtual import ports, sockets

_DAY_S = 86_400


class Board(Esp32Board):
    """The board contract (`boards/PORTING.md`)."""

    def __init__(self):
        Esp32Board.__init__(self, machine, network, time, esp32, _temperature)
        self._port = ports.current()

    def _open_link(self, settings):
        """The settings' Wi-Fi and addresses are ignored: there is one network, and one server."""
        if settings.get("tls"):
            raise ValueError("settings: key 'tls': this board has no TLS; leave it out")
        self.link = sockets.Link(self._port)

    def _signal(self):
        return self._port.network.WLAN(0).status("rssi")

    def set_clock(self, clock, now_ms):
        Esp32Board.set_clock(self, clock, now_ms)
        self.keep_time(clock, now_ms)

    def keep_time(self, clock, now_ms):
        """Once a network is there, the time is."""
        self._clock = clock
        if not self._has_kept_time and self._port.radio.is_joined():
            now_s = self._port.world.unix_s()
            clock.set(now_s // _DAY_S, now_s % _DAY_S * 1000, now_ms)
            self._has_kept_time = self._set_rtc(now_s // _DAY_S, now_s % _DAY_S * 1000)


def _temperature():
    """Degrees Celsius."""
    return (esp32.raw_temperature() - 32) * 5 // 9
