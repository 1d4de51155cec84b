"""The message as a SenML pack in CBOR (RFC 8428 section 6, RFC 8949): the content of telemetry.py
in two thirds of the bytes. Loaded only when `encoding` is "cbor".

SenML's labels are integers. Outpost's labels are text, as in JSON. A value with a decimal exponent
is a decimal fraction (tag 4), and so is a time, in milliseconds: floats would allocate. The length
of an array or map is filled in at the end. A pack holds at most 23 records; further readings go
into the next message.
"""

import json

from micropython import const

from station.telemetry import Pack

_BASE_TIME = const(b"\x22")  # -3
_MILLISECONDS = const(b"\xc4\x82\x22\x1b")  # [-3, eight bytes]
_LABELS = {"n": b"\x00", "u": b"\x01", "v": b"\x02"}
_MOST_RECORDS = const(23)
_RECORD_BYTES = const(20)  # at most, of a record besides name and unit
_FIRST_MEMBERS = const(6)  # bn, ver, sid, seq, held, boot


def put_integer(buf, at, value):
    """Put value, which is within 30 bits. Returns the offset after it."""
    kind = 0x00
    if value < 0:
        kind = 0x20
        value = -1 - value
    if value < 24:
        buf[at] = kind | value
        return at + 1
    size = 1 if value < 256 else 2 if value < 65536 else 4
    buf[at] = kind | 23 + (size + 2) // 2  # 24, 25, 26
    kind = size
    while size:
        buf[at + size] = value & 255
        value >>= 8
        size -= 1
    return at + 1 + kind


def put_decimal(buf, at, value, exponent):
    """Put value * 10 ** exponent."""
    if exponent:
        buf[at] = 0xC4
        buf[at + 1] = 0x82
        at = put_integer(buf, at + 2, exponent)
    return put_integer(buf, at, value)


def put_milliseconds(buf, at, day, ms):
    """Put day * 86,400,000 + ms in eight bytes, byte by byte, because the sum exceeds 2^30."""
    end = at + 8
    place = end - 1
    while place >= at:
        buf[place] = ms & 255
        ms >>= 8
        # 86,400,000 is 0x05265C00: its bytes from the second on are multiplied by the day
        index = end - place
        if index < 4:
            ms += day * (0x5C if index == 1 else 0x26 if index == 2 else 0x05)
        place -= 1
    return end


def text_of(data):
    """Returns a text string of up to 255 bytes. Allocates."""
    size = len(data)
    return (bytes((0x60 | size,)) if size < 24 else bytes((0x78, size))) + data


class CborPack(Pack):
    """See Pack."""

    def __init__(self, device, size_bytes=440):
        Pack.__init__(self, device, size_bytes)
        # array, map, base name, ver 1, and sid, whose eight characters follow
        self._first = b"\x80\xa0\x21" + text_of(device + b"/") + b"\x63ver\x01\x63sid\x68"
        self._members = 0  # of the first record
        self._records = 0

    def begin(self, outbox, clock):
        buf = self.buffer
        at = self._text(0, self._first)
        at = self._text(at, outbox.stream)
        at = put_integer(buf, self._text(at, b"\x63seq"), outbox.next_seq)
        at = put_integer(buf, self._text(at, b"\x64held"), outbox.oldest_seq)
        at = put_integer(buf, self._text(at, b"\x64boot"), outbox.boot)
        self._members = _FIRST_MEMBERS
        self._records = 1
        self._open = True
        self.length = self._times(at, clock)

    def _times(self, at, clock):
        self._with_uptime = self._with_uptime or not clock.is_set
        if clock.is_set:
            at = self._text(self._text(at, _BASE_TIME), _MILLISECONDS)
            at = put_milliseconds(self.buffer, at, clock.day, clock.ms)
            self._members += 1
        if self._with_uptime:
            at = self._text(self._text(at, b"\x62up"), _MILLISECONDS)
            at = put_milliseconds(self.buffer, at, clock.up_day, clock.up_ms)
            self._members += 1
        return at

    def add(self, name, unit, value, exponent=0):
        at = self.length
        if at + len(name) + len(unit) + _RECORD_BYTES > len(self.buffer):
            return False
        if self._open:
            self._members += 3 if unit else 2
        elif self._records == _MOST_RECORDS:
            return False
        else:
            self._records += 1
            self.buffer[at] = 0xA3 if unit else 0xA2
            at += 1
        at = self._string(at, 0, name)
        if unit:
            at = self._string(at, 1, unit)
        self.buffer[at] = 2
        self.length = put_decimal(self.buffer, at + 1, value, exponent)
        self._open = False
        return True

    def _string(self, at, label, data):
        buf, size = self.buffer, len(data)
        buf[at] = label
        at += 1
        if size > 23:
            buf[at] = 0x78
            at += 1
            buf[at] = size
        else:
            buf[at] = 0x60 | size
        return self._text(at + 1, data)

    def put_record(self, members):
        for label, value in json.loads("{" + members[1:] + "}").items():
            at = self._text(self.length, _LABELS.get(label) or text_of(label.encode()))
            if isinstance(value, int):
                self.length = put_integer(self.buffer, at, value)
            else:
                self.length = self._text(at, text_of(value.encode()))
            self._members += 1
        self._open = False

    def end(self):
        if self._open:
            return 0
        self.buffer[0] = 0x80 | self._records
        self.buffer[1] = 0xA0 | self._members
        return self.length
