"""What drivers of sensors on a UART share: the UART itself, and frames sent on request.

A sensor that sends without a request fills the UART's buffer between two readings, and the buffer
then keeps the oldest bytes. Allocation: construction only.
"""

# pyright: reportAttributeAccessIssue=false, reportCallIssue=false
# The unix port has no UART.

import time

from micropython import const

_POLL_MS = const(10)
_open = {}


def uart(options, baud):
    """The UART of a driver's options `uart`, `tx`, `rx`: 8 bits, no parity, one stop bit."""
    key = options["uart"], options["tx"], options["rx"]
    if key not in _open:
        import machine

        tx, rx = machine.Pin(key[1]), machine.Pin(key[2])
        _open[key] = machine.UART(key[0], baudrate=baud, tx=tx, rx=rx)
    return _open[key]


class Asked:
    """frame: the bytes of the last answer, `length` of them, which begin with `head`.

    ask: the command. is_good: function of a frame, its checksum. most_ms: to wait for a good one.
    """

    def __init__(self, line, ask, head, length, is_good, most_ms):
        self._uart, self._ask, self._head, self._is_good = line, ask, head, is_good
        self.frame, self._chunk = bytearray(length), bytearray(length)
        self._most_polls = most_ms // _POLL_MS
        self._at = 0  # bytes of a frame that have arrived

    def fetch(self):
        """Ask, and wait for a good frame. Raises OSError if nothing arrives, ValueError if what
        arrives is no good frame."""
        while self._uart.any():  # old frames, noise
            self._uart.readinto(self._chunk)
        self._at = 0
        self._uart.write(self._ask)
        left, has_bytes = self._most_polls, False
        while left:
            left -= 1
            time.sleep_ms(_POLL_MS)
            count = min(self._uart.any(), len(self._chunk))
            if count:
                has_bytes = True
                self._uart.readinto(self._chunk, count)
                if self._take(count):
                    return
        if not has_bytes:
            raise OSError("nothing arrives from the sensor")
        raise ValueError("no frame with a good checksum arrives")

    def _take(self, count):
        """Whether a good frame is whole now. A bad one is asked for again."""
        index = 0
        while index < count:
            self._add(self._chunk[index])
            index += 1
            if self._at == len(self.frame):
                self._at = 0
                if self._is_good(self.frame):
                    return True
                self._uart.write(self._ask)
        return False

    def _add(self, byte):
        """To the frame. A byte that does not continue the head may be the first of another."""
        head, at = self._head, self._at
        if at < len(head) and byte != head[at]:
            at = 0
            if byte != head[0]:
                self._at = 0
                return
        self.frame[at] = byte
        self._at = at + 1
