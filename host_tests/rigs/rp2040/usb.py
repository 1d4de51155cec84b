"""The host's end of the chip's USB serial port: a console in the test, or a pseudo-terminal.

rp2040py enumerates the device and knows its packets. It answers a poll without data with an empty
packet, 100,000 times a second. Here the answer is held back until there are data, so that an idle
chip sleeps. Must not know: the REPL, mpremote.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tty
from collections.abc import Callable

from rp2040py.usb.cdc import USBCDC

from rp2040.chip import Chip

_PACKET_BYTES = 64


class Console:
    """on_output: called with what the chip prints. send(): sends what is typed."""

    def __init__(self, chip: Chip, on_output: Callable[[bytes], None]) -> None:
        self._usb = chip.mcu.usb_ctrl
        self._cdc = USBCDC(self._usb)
        self._cdc.on_serial_data = lambda data: on_output(bytes(data))
        self._cdc.on_device_connected = self._connected
        self._answer_read = self._usb.on_endpoint_read
        self._usb.on_endpoint_read = self._read_asked
        self._forget_device = self._usb.on_reset
        self._usb.on_reset = self._reset
        self._typed = bytearray()
        self._asked = 0  # bytes that the chip is ready to take; 0: it is not ready
        self.is_connected = False
        self.connections = 0

    def send(self, data: bytes) -> None:
        self._typed += data
        self._give()

    @property
    def unread(self) -> int:
        return len(self._typed)

    def _connected(self) -> None:
        self.is_connected = True
        self.connections += 1

    def _reset(self) -> None:
        """The chip left the bus. What was typed for it is lost, as with a real port."""
        self._forget_device()
        self._typed.clear()
        self._asked = 0
        self.is_connected = False

    def _read_asked(self, endpoint: int, size: int) -> None:
        if endpoint != self._cdc._out_endpoint:
            self._answer_read(endpoint, size)
            return
        self._asked = size
        self._give()

    def _give(self) -> None:
        if not self._asked or not self._typed:
            return
        size = min(self._asked, _PACKET_BYTES, len(self._typed))
        for byte in self._typed[:size]:
            self._cdc.send_serial_byte(byte)
        del self._typed[:size]
        self._asked = 0
        self._answer_read(self._cdc._out_endpoint, size)


class Terminal:
    """A pseudo-terminal that another program opens as the board's port.

    The other end is kept open here too, because its first close would end this one. fileno() for
    select; pump() moves data. Unread output is dropped, as by a real port. on_output: gets all of
    it.
    """

    is_real = True  # its reader waits in real seconds

    def __init__(self, chip: Chip, on_output: Callable[[bytes], None] = lambda data: None) -> None:
        self._on_output = on_output
        self._master, self._slave = os.openpty()
        tty.setraw(self._slave)
        flags = fcntl.fcntl(self._master, fcntl.F_GETFL)
        fcntl.fcntl(self._master, fcntl.F_SETFL, flags | os.O_NONBLOCK)
        self.path = os.ttyname(self._slave)
        self.console = Console(chip, self._print)
        self.dropped = 0

    def fileno(self) -> int:
        return self._master

    def pump(self) -> None:
        while self.console.unread < 4096:  # what the chip does not take waits in the terminal
            try:
                data = os.read(self._master, 4096)
            except BlockingIOError:
                return
            self.console.send(data)

    def _print(self, data: bytes) -> None:
        self._on_output(data)
        while data:
            try:
                data = data[os.write(self._master, data) :]
            except BlockingIOError:
                self.dropped += len(data)
                return

    def close(self) -> None:
        for end in (self._master, self._slave):
            with contextlib.suppress(OSError):
                os.close(end)
