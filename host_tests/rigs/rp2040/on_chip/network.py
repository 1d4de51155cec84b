# micropython-only: runs on the emulated chip, from /lib
"""Stands in for the port's `network`, which a plain Pico lacks: a Wi-Fi chip at the end of a UART.

Names and numbers are those of the port with the CYW43 chip: 3 is joined, -2 no access point.
"""

import micropython
from rig_link import JOIN, LEAVE, wire

STA_IF, AP_IF = 0, 1


def country(code=None):
    return code


class _Station:
    def __init__(self):
        self._is_active = False

    def active(self, on=None):
        if on is None:
            return self._is_active
        self._is_active = on

    def connect(self, ssid, key=None):
        wire.send(0, JOIN, ssid.encode())

    def disconnect(self):
        wire.send(0, LEAVE)

    def deinit(self):
        self._is_active = False

    @micropython.native
    def isconnected(self):
        wire.pump()
        return wire.wifi_status == 3

    @micropython.native
    def status(self, what=None):
        if what == "rssi":
            return -61
        wire.pump()
        return wire.wifi_status

    def ifconfig(self):
        return ("10.0.0.2", "255.255.255.0", "10.0.0.1", "10.0.0.1")

    def config(self, *names, **values):
        return None


_station = _Station()


def WLAN(interface=STA_IF):  # noqa: N802 - the port's name for it
    """Always the same object, as in the port."""
    return _station
