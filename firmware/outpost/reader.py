"""Cuts the byte stream into control packets. Bytes in, whole packets out; memory is one buffer of a fixed size.

A packet longer than the buffer is skipped in place: its first bytes are kept (topic and packet identifier of a PUBLISH are
among them), the rest is dropped as it comes, `oversize` tells. Hostile lengths end in ERROR, never in a growing buffer.
"""

from micropython import const

try:
    from outpost.viper import copy
except (ImportError, AttributeError, SyntaxError, ValueError):
    from outpost.bytecode import copy

NEED_MORE = const(0)
PACKET = const(1)
ERROR = const(-1)

_FIRST = const(0)
_LENGTH = const(1)
_BODY = const(2)
_READY = const(3)


class Reader:
    """feed() until PACKET, use `first`, `buffer[:length]`, `oversize`, then go on feeding from `taken`."""

    def __init__(self, buffer_bytes=256):
        self.buffer = bytearray(buffer_bytes)
        self.restart()

    def restart(self):
        """Forget a half-received packet: for a new connection."""
        self.first = self.length = self.taken = self._have = self._shift = 0
        self.oversize = False
        self._state = _FIRST

    def feed(self, chunk, at, end):
        """Take chunk[at:end] up to the end of one packet. PACKET, NEED_MORE or ERROR; `taken` says where to go on."""
        if self._state == _READY:
            self._state = _FIRST
        while at < end and self._state < _BODY:
            if self._header_byte(chunk[at]) < 0:
                return ERROR
            at += 1
        if self._state == _BODY:
            at = self._take_body(chunk, at, end)
        self.taken = at
        return PACKET if self._state == _READY else NEED_MORE

    def _header_byte(self, byte):
        """Fixed header: type and flags, then 1 to 4 bytes of remaining length (2.2.3)."""
        if self._state == _FIRST:
            self.first = byte
            self.length = self._have = self._shift = 0
            self._state = _LENGTH
            return 0
        self.length |= (byte & 0x7F) << self._shift
        self._shift += 7
        if byte & 0x80:
            return -1 if self._shift == 28 else 0
        self.oversize = self.length > len(self.buffer)
        self._state = _BODY if self.length else _READY
        return 0

    def _take_body(self, chunk, at, end):
        count = min(end - at, self.length - self._have)
        self._keep(chunk, at, count)
        self._have += count
        if self._have == self.length:
            self._state = _READY
        return at + count

    def _keep(self, chunk, at, count):
        count = min(count, len(self.buffer) - self._have)
        if count > 0:
            copy(self.buffer, self._have, chunk, at, count)
