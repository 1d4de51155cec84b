"""ESP32-C3.

Most of a board is `outpost/wifi_board.py`; here is what the chip has of its own.
Not tried on hardware.
"""

import time

import esp32
import machine
import network

from outpost import chip_sensors, partition
from outpost.wifi_board import WifiBoard

ALIGN = 4  # outbox_device() sets both to what the flash wants
PAGE_BYTES = 256

_MARK = b"outpost"
_NEVER_MS = 3_600_000


def _starts(count=None):
    """The count is in the RTC's memory, which a reset leaves alone, power off does not."""
    rtc = machine.RTC()
    if count is not None:
        rtc.memory(_MARK + bytes((count,)))
    kept = rtc.memory()
    return kept[-1] if kept[:-1] == _MARK else 0


def _prepare(wlan):
    wlan.config(reconnects=0)  # else the port tries for ever, and never tells what is wrong


_board = WifiBoard(machine, network, time, _starts, _prepare)
begin, started, feed_watchdog, idle = _board.begin, _board.started, _board.feed_watchdog, _board.idle
crashed, give_up, sleep = _board.crashed, _board.give_up, _board.sleep
published, stopping, stopped = _board.published, _board.stopping, _board.stopped
link, set_clock, keep_time = _board.link, _board.set_clock, _board.keep_time
random_bits, random_hex, ticks_ms = _board.random_bits, _board.random_hex, time.ticks_ms


def outbox_device(settings):
    """The partition `outbox` where there is one; else blocks of the filesystem's."""
    global ALIGN, PAGE_BYTES
    found = partition.find()
    if found:
        device, ALIGN, PAGE_BYTES = found
        return device
    files = esp32.Partition.find(esp32.Partition.TYPE_DATA, label="vfs")
    return _board.pinned_blocks(files[0], settings["outbox_blocks"])


def release_watchdog():
    """The program was stopped by hand: the watchdog cannot be stopped, but it can wait."""
    machine.WDT(timeout=_NEVER_MS)
    _starts(0)


def sensors(settings):
    return chip_sensors.choose(settings["sensors"], _board.own_sensors(_temperature, 0), machine, _adc)


def _temperature():
    """Degrees, of the chip, not of the room."""
    return int(esp32.mcu_temperature())  # pyright: ignore[reportAttributeAccessIssue] - the stubs are those of the first ESP32


def _adc(pin):
    converter = machine.ADC(machine.Pin(pin))
    converter.atten(machine.ADC.ATTN_11DB)  # the whole range of the pin, some 3 V
    return lambda: converter.read_uv() // 1000
