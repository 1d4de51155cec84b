"""Cuts the byte stream into control packets. Bytes in, whole packets out; memory is one buffer of a fixed size.

A packet longer than the buffer is skipped in place: its first bytes are kept (topic and packet identifier of a PUBLISH are
among them), the rest is dropped as it comes. Hostile lengths end in an error, never in a growing buffer.
"""

from micropython import const

from outpost.memory import copy

_FIRST = const(-7)  # _shift while the packet's first byte is awaited; then 0 to 21: bits of the length that came in
_TOO_LONG = const(28)
_BODY = const(35)


class Reader:
    """feed() until is_between (two packets), use `first`, `length` and `buffer`, feed on. A packet longer than the buffer is not
    whole in it: length > len(buffer)."""

    buffer: bytearray

    def restart(self):
        """Await the first byte of a packet."""
        self.first = self.length = self.have = 0
        self.is_between = True
        self._shift = _FIRST

    def feed(self, chunk, at, end):
        """Take chunk[at:end] up to the end of one packet; gives where to go on, -1 when the length has more than four bytes.

        Fixed header (2.2.3): type and flags, then 1 to 4 bytes of remaining length, lowest 7 bits first.
        """
        if self.is_between:
            self.restart()
            self.is_between = False
        shift = self._shift
        while at < end and shift < _TOO_LONG:
            if shift < 0:
                self.first = chunk[at]
                shift = 0
            else:
                self.length |= (chunk[at] & 127) << shift
                shift = shift + 7 if chunk[at] > 127 else _BODY
            at += 1
        self._shift = shift
        if shift == _TOO_LONG:
            return -1
        if shift == _BODY:
            end = min(end - at, self.length - self.have)
            self._keep(chunk, at, end)
            self.have += end
            self.is_between = self.have == self.length
            at += end
        return at

    def _keep(self, chunk, at, count):
        count = min(count, len(self.buffer) - self.have)
        if count > 0:
            copy(self.buffer, self.have, chunk, at, count)
