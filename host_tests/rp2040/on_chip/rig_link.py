# micropython-only: runs on the emulated chip, from /lib
"""The wire to the host's network: frames over UART 1, which `uart_link.py` answers.

A frame: socket, operation, length (2 bytes, little endian), payload. After construction sending and
receiving allocate nothing.
"""

from machine import UART
from micropython import const

SOCKETS = const(6)
CONNECT, DATAGRAMS, DATA, CLOSE, JOIN, LEAVE = 1, 2, 3, 4, 5, 6  # to the host
OPENED, FAILED, RECEIVED, ENDED, WIFI, FAULT = 11, 12, 13, 14, 15, 16  # from it
_HEAD = const(4)
_MOST = const(256)  # bytes of a frame from the host

_uart = UART(1, 921600, txbuf=4096, rxbuf=4096, timeout=5000, timeout_char=5000)
_head = bytearray(_HEAD)
_out = bytearray(_HEAD)
chunk = bytearray(_MOST)
sockets = [None] * SOCKETS
wifi_status = 0
_has_head = False


def send(number, operation, data=b"", offset=0, length=-1):
    if length < 0:
        length = len(data)
    _out[0], _out[1], _out[2], _out[3] = number, operation, length & 255, length >> 8
    _uart.write(_out)
    if length:
        _uart.write(data, offset, length)


def pump():
    """Take the frames that are there whole; stop at one that its socket has no room for."""
    global _has_head
    while True:
        if not _has_head:
            if _uart.any() < _HEAD:
                return
            _uart.readinto(_head)
            _has_head = True
        length = _head[2] | _head[3] << 8
        if _uart.any() < length:
            return
        number = _head[0]
        owner = sockets[number] if number < SOCKETS else None
        if owner and _head[1] == RECEIVED and owner.room() < length:
            return
        if length:
            _uart.readinto(chunk, length)
        _has_head = False
        _take(owner, _head[1], length)


def _take(owner, operation, length):
    global wifi_status
    if operation == WIFI:
        wifi_status = chunk[0] - 128
    elif operation == FAULT:
        raise RuntimeError("provoked by the test")
    elif owner:
        owner.take(operation, length)
