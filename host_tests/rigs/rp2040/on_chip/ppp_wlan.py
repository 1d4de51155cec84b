# micropython-only: runs on the emulated chip
"""`network` with a WLAN whose radio is PPP on UART 0, so that a board with Wi-Fi runs as it is.

Import it before anything imports `network`. lwIP, DNS, sockets and TLS are the port's own; only the
radio is not: any network name and password will do. Must not know: what uses it.
"""

import sys

import network as _port
from machine import UART, Pin
from micropython import const

STA_IF, AP_IF = 0, 1
_BAUD = const(921_600)
BUFFER_BYTES = 4096  # of the line, each way; may be set before the radio is switched on


class WLAN:
    _ppp = None

    def __init__(self, interface=STA_IF):
        pass

    def active(self, on=None):
        if on and not WLAN._ppp:
            line = UART(0, _BAUD, tx=Pin(0), rx=Pin(1), txbuf=BUFFER_BYTES, rxbuf=BUFFER_BYTES)
            WLAN._ppp = _port.PPP(line)
        return WLAN._ppp is not None

    def config(self, *names, **values):
        pass

    def connect(self, ssid, key=None):
        self._ppp.connect()

    def disconnect(self):
        if self._ppp:
            self._ppp.disconnect()

    def deinit(self):
        self.disconnect()
        WLAN._ppp = None

    def isconnected(self):
        return bool(self._ppp) and self._ppp.isconnected()

    def status(self, what=None):
        if what == "rssi":
            return -50
        return 3 if self.isconnected() else 1  # CYW43's numbers: with an address, joining

    def ifconfig(self):
        return self._ppp.ifconfig()


def country(code=None):
    return code


hostname = _port.hostname
sys.modules["network"] = sys.modules[__name__]
