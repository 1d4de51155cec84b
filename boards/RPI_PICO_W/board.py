"""Raspberry Pi Pico W (RP2040, CYW43439).

Most of a board is `outpost/wifi_board.py`; here is what the chip has of its own.
Not tried on hardware: register addresses and the temperature's formula are the data sheet's.
"""

import time

import machine
import network  # pyright: ignore[reportMissingImports] - the stubs are those of a board without Wi-Fi
import rp2

from outpost import chip_sensors
from outpost.wifi_board import WifiBoard

ALIGN = 256  # rp2.Flash programs whole pages, whatever lies behind a short buffer
PAGE_BYTES = 256

_WATCHDOG = 0x40058000
_SCRATCH = _WATCHDOG + 0x0C  # scratch register 0: a reset leaves it alone, power off does not; the boot ROM uses 4 to 7
_CLEAR = 0x3000  # bits written there are cleared
_ENABLE = 1 << 30
_MARK = 0x0F555000  # the count is ours, and a small integer


def _starts(count=None):
    if count is not None:
        machine.mem32[_SCRATCH] = _MARK | count
    word = machine.mem32[_SCRATCH]
    return word & 0xFF if word & ~0xFF == _MARK else 0


_board = WifiBoard(machine, network, time, _starts)
begin, started, feed_watchdog, idle = _board.begin, _board.started, _board.feed_watchdog, _board.idle
crashed, give_up, sleep = _board.crashed, _board.give_up, _board.sleep
published, stopping, stopped = _board.published, _board.stopping, _board.stopped
link, set_clock, keep_time = _board.link, _board.set_clock, _board.keep_time
random_bits, random_hex, ticks_ms = _board.random_bits, _board.random_hex, time.ticks_ms


def outbox_device(settings):
    return _board.pinned_blocks(rp2.Flash(), settings["outbox_blocks"])


def release_watchdog():
    """The program was stopped by hand: the port cannot stop a watchdog, the chip can."""
    machine.mem32[_WATCHDOG + _CLEAR] = _ENABLE
    _starts(0)


def sensors(settings):
    core = machine.ADC(machine.ADC.CORE_TEMP)

    def temperature():
        """Tenths of a degree: 27 degrees are 0.706 V, each more takes 1.721 mV (RP2040 data sheet, 4.9.5)."""
        return 270 - ((core.read_u16() >> 4) * 33000 // 4095 - 7060) * 1000 // 1721

    return chip_sensors.choose(settings["sensors"], _board.own_sensors(temperature), machine, _adc)


def _adc(pin):
    converter = machine.ADC(machine.Pin(pin))
    return lambda: converter.read_u16() * 3300 // 65535
