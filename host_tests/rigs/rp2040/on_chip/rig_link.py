# micropython-only: runs on the emulated chip, from /lib
"""The wire to the host's network: frames over UART 1, which `uart_link.py` answers.

A frame: socket, operation, length (2 bytes, little endian), payload. After construction sending and
receiving allocate nothing: a native function keeps its frame on the stack, where bytecode puts a
frame of more than 11 words on the heap.
"""

from time import sleep_ms

import micropython
from machine import UART
from micropython import const

SOCKETS = const(6)
CONNECT, DATAGRAMS, DATA, CLOSE, JOIN, LEAVE = 1, 2, 3, 4, 5, 6  # to the host
OPENED, FAILED, RECEIVED, ENDED, WIFI, FAULT = 11, 12, 13, 14, 15, 16  # from it
_HEAD = const(4)
_MOST = const(256)  # bytes of a frame from the host


class Wire:
    def __init__(self):
        self._uart = UART(1, 921600, txbuf=4096, rxbuf=4096, timeout=5000, timeout_char=5000)
        self._head, self._out = bytearray(_HEAD), bytearray(_HEAD)
        self._has_head = False
        self.chunk = bytearray(_MOST)  # the payload that take() is called for
        self.sockets = [None] * SOCKETS
        self.wifi_status = 0

    @micropython.native
    def send(self, number, operation, data=b"", offset=0, length=-1):
        if length < 0:
            length = len(data)
        out = self._out
        out[0], out[1] = number, operation
        out[2], out[3] = length & 255, length >> 8
        self._uart.write(out)
        if length:
            self._uart.write(data, offset, length)

    @micropython.native
    def pump(self):
        """Take the frames that are there whole; stop at one that its socket has no room for."""
        uart, head = self._uart, self._head
        while True:
            if not self._has_head:
                if uart.any() < _HEAD:
                    return
                uart.readinto(head)
                self._has_head = True
            length = head[2] | head[3] << 8
            owner = self.sockets[head[0]]
            if uart.any() < length or (owner and head[1] == RECEIVED and owner.room() < length):
                return
            if length:
                uart.readinto(self.chunk, length)
            self._has_head = False
            self._take(owner, head[1], length)

    @micropython.native
    def _take(self, owner, operation, length):
        if operation == WIFI:
            self.wifi_status = self.chunk[0] - 128
        elif operation == FAULT:
            _fail(self.chunk[0], self.chunk[1])
        elif owner:
            owner.take(operation, length)


def _fail(kind, number):
    """What the host asks for: 1 an error that nothing expects, 2 a call that never returns."""
    if kind == 1:
        raise RuntimeError("provoked by the test", number)
    while kind == 2:
        sleep_ms(100)


wire = Wire()
