"""The message: a SenML pack (RFC 8428, JSON) written into the caller's buffer without allocating.

Firmware and tools share this page.

    [{"bn":"board-1/","bt":1763694000.123,"sid":"3fa9c1d2","seq":1234,"boot":3,
      "held":1200,"ver":1,"n":"load","v":0.42},
     {"n":"memory","u":"KiB","v":123456}]

bn, bt, n, u, v are SenML's. Outpost's labels, in the first record, are sid (stream id), seq (number
in the stream), boot (boot count), held (the oldest seq that the board still holds: what is missing
below it will never come), ver (version of this message) and up (seconds since boot). A pack without
a set clock has up and no bt. (device, sid, seq) is the key of a message. A value is an integer and
a decimal exponent, because a float allocates.
"""

from micropython import const

from outpost.memory import copy

VERSION = const(1)

_NUMBER_BYTES = const(24)


def put_integer(buf, at, value, least=1, places=0):
    """Put the decimal digits of value (within 30 bits): at least `least`, with a point before the
    last `places`. Returns the offset after them."""
    if value < 0:
        buf[at] = 0x2D
        at += 1
        value = -value
    end = at + (places > 0)
    rest = value
    while rest or least > 0:
        rest //= 10
        least -= 1
        end += 1
    place = end
    while place > at:
        place -= 1
        if places and place == end - places - 1:
            buf[place] = 0x2E
        else:
            buf[place] = 0x30 + value % 10
            value //= 10
    return end


def put_decimal(buf, at, value, exponent):
    """Put value * 10 ** exponent as JSON: 42, -2 is 0.42; 42, 3 is 42e3. exponent -9..9."""
    if exponent < 0:
        return put_integer(buf, at, value, 1 - exponent, -exponent)
    at = put_integer(buf, at, value)
    if exponent:
        buf[at] = 0x65
        at = put_integer(buf, at + 1, exponent)
    return at


def put_time(buf, at, day, ms):
    """Put the seconds since day 0, with three decimals.

    The seconds themselves may exceed 2^30, so they are written in two parts.
    """
    hundreds = day * 864 + ms // 100_000
    if hundreds:
        at = put_integer(buf, at, hundreds)
    return put_integer(buf, at, ms % 100_000, 5 if hundreds else 4, 3)


class Pack:
    """Call begin(), add() for each reading, end(). Then buffer[:length] is the payload.

    device: 1..32 of A-Z a-z 0-9 _ . -
    """

    def __init__(self, device, size_bytes=440):
        self.buffer = bytearray(size_bytes)
        self.length = 0
        self._first = b'[{"bn":"' + device + b'/","ver":1,"sid":"'
        self._open = False
        self._with_uptime = False
        if size_bytes < len(self._first) + 160:
            raise ValueError("telemetry: the buffer must have 160 bytes beside the device id")

    def begin(self, outbox, clock):
        """Start the pack that becomes the outbox's next message."""
        buf = self.buffer
        at = self._text(0, self._first)
        at = self._text(at, outbox.stream)
        at = put_integer(buf, self._text(at, b'","seq":'), outbox.next_seq)
        at = put_integer(buf, self._text(at, b',"held":'), outbox.oldest_seq)
        at = put_integer(buf, self._text(at, b',"boot":'), outbox.boot)
        self.length = self._times(at, clock)
        self._open = True

    def _times(self, at, clock):
        """Put bt if the clock is set, and up as well if it was not set at the first message.

        With both, the pipeline can date those messages.
        """
        self._with_uptime = self._with_uptime or not clock.is_set
        if clock.is_set:
            at = put_time(self.buffer, self._text(at, b',"bt":'), clock.day, clock.ms)
        if self._with_uptime:
            at = put_time(self.buffer, self._text(at, b',"up":'), clock.up_day, clock.up_ms)
        return at

    def add(self, name, unit, value, exponent=0):
        """Add one reading. name, unit: bytes of SenML's characters (unit may be empty).

        False: there is no room, and it is left out.
        """
        at = self.length
        if at + len(name) + len(unit) + 2 * _NUMBER_BYTES > len(self.buffer):
            return False
        at = self._text(at, b',"n":"' if self._open else b',{"n":"')
        at = self._text(at, name)
        if unit:
            at = self._text(at, b'","u":"')
            at = self._text(at, unit)
        at = self._text(at, b'","v":')
        at = put_decimal(self.buffer, at, value, exponent)
        self.length = self._text(at, b"}")
        self._open = False
        return True

    def put_record(self, members):
        """Put the rest of the first record, as text of JSON members with a comma before each. The
        caller checks the room. Allocates."""
        self.length = self._text(self.length, members.encode())
        self.buffer[self.length] = 0x7D
        self.length += 1
        self._open = False

    def end(self):
        """Close the pack. Returns its length, 0 when it has no reading."""
        if self._open:
            return 0
        self.length = self._text(self.length, b"]")
        return self.length

    def _text(self, at, data):
        return copy(self.buffer, at, data, 0, len(data))
