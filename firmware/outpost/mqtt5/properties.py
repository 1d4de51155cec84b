"""The 27 properties of MQTT 5.0 (2.2.2), in one table. A packet's properties are checked and found
in place.

A property is its number, then its value. All numbers are below 128, so each takes one byte. Must
not know a session. Allocation: none.

    check(buf, at, end, where) -> offset after the properties, whose length is at buf[at]; a
                                  negative reason code when they break a rule
    check_start(buf, at, length, where) -> as check(), for a packet of that length of which buf may
                                  hold the first bytes only. Its properties end with it. Returns
                                  the offset after those that buf holds whole
    find(buf, at, end, number) -> offset of the value of the first such property in buf[at:end],
                                  which check() has passed; -1: there is none
"""

from micropython import const

from outpost.text import is_topic

# where: the packets that may carry a property
IN_CONNECT = const(1)
IN_WILL = const(2)
IN_PUBLISH = const(4)
IN_SUBSCRIBE = const(8)
IN_CONNACK = const(16)
IN_ACK = const(32)  # PUBACK, PUBREC, PUBREL, PUBCOMP, SUBACK, UNSUBACK
IN_DISCONNECT = const(64)  # from the server: 0x11 is the client's alone [MQTT-3.14.2-2]
IN_AUTH = const(128)
# kind: 1 to 7, and two flags
BYTE = const(1)  # all are 0 or 1
U16 = const(2)
U32 = const(3)
VARIABLE = const(4)
TEXT = const(5)
BINARY = const(6)
PAIR = const(7)
POSITIVE = const(8)  # 0 is a protocol error
OFTEN = const(16)  # may occur more than once

# Enhanced authentication is not supported, so CONNECT may have neither of its two properties.
# kind and where of property 0, 1, 2 ... 0x2A; kind 0: there is no such property
TABLE = bytes((
    0, 0, 1, 6, 3, 6, 5, 6, 0, 0, 0, 0, 0, 0, 0, 0,  # 0x00
    5, 6, 6, 6, 0, 0, 28, 12, 0, 0, 0, 0, 0, 0, 0, 0,  # 0x08
    0, 0, 3, 17, 5, 16, 2, 16, 0, 0, 5, 144, 6, 144, 1, 1,  # 0x10
    3, 2, 1, 1, 5, 16, 0, 0, 5, 80, 0, 0, 0, 0, 5, 240,  # 0x18
    0, 0, 10, 17, 2, 17, 10, 4, 1, 16, 1, 16, 23, 255, 11, 17,  # 0x20
    1, 16, 1, 16, 1, 16,  # 0x28
))  # fmt: skip

_MALFORMED = const(-0x81)
_WRONG = const(-0x82)  # protocol error
_LENGTH_BYTES = const(4)  # at most, of a variable byte integer
_CUT = const(0xFFFFFFF)  # beyond the end of any packet


def check(buf, at, end, where):
    """See above. -0x81, malformed packet: unknown, or of another packet ("an Identifier which is
    not valid for its packet type", 2.2.2.2), cut off, or not UTF-8 (1.5.4). -0x82, protocol error:
    sent twice, or a value that it must not have (by property, as in 3.2.2.3.3 and 3.2.2.3.4)."""
    stop = number_end(buf, at, end)
    if stop < 0:
        return stop
    at = stop + number(buf, at)  # from here on the end of the properties
    if at > end:
        return _MALFORMED
    end = check_each(buf, stop, at, where)
    return _MALFORMED if 0 <= end < at else end


def check_start(buf, at, length, where):
    """See above."""
    if length <= len(buf):
        at = check(buf, at, length, where)
        return _MALFORMED if 0 <= at < length else at
    if at + _LENGTH_BYTES > len(buf):
        return at  # not even their length may be whole
    stop = number_end(buf, at, len(buf))
    if stop >= 0 and stop + number(buf, at) != length:
        return _MALFORMED
    return check_each(buf, stop, len(buf), where) if stop >= 0 else stop


def check_each(buf, at, end, where):
    """As check(), from the first property on. Returns the offset after those that are whole: the
    last one may be cut off at `end`."""
    while at < end:
        stop = _kind(buf[at], where)  # now a kind; inlined, the frame would have 12 words
        stop = value_end(buf, at + 1, end, stop)
        if stop < 0:
            return stop
        if stop > end:
            break
        if not TABLE[2 * buf[at]] & OFTEN and find(buf, stop, end, buf[at]) >= 0:
            return _WRONG
        at = stop
    return at


def find(buf, at, end, wanted):
    """See above. Stops at a property that breaks a rule."""
    while 0 <= at < end:
        if buf[at] == wanted:
            return at + 1
        at = value_end(buf, at + 1, end, _kind(buf[at], 255))
    return -1


def _kind(one, where):
    """Returns the kind; 0: unknown, or not in this packet."""
    if one > 0x2A or not TABLE[2 * one + 1] & where:
        return 0
    return TABLE[2 * one]


def value_end(buf, at, end, kind):
    """Offset after the value at buf[at]; beyond `end`: it is cut off; negative: a reason code."""
    if kind & 7 < VARIABLE:
        return _fixed_end(buf, at, end, kind)
    if kind & 7 == VARIABLE:
        end = number_end(buf, at, end)
        return _WRONG if end > 0 and not number(buf, at) else end
    at = _text_end(buf, at, end, kind & 7 != BINARY)
    if kind & 7 == PAIR and at > 0:  # that was the name
        at = _text_end(buf, at, end, True)
    return at


def _fixed_end(buf, at, end, kind):
    if not kind:
        return _MALFORMED
    stop = at + (1 << (kind & 7) - 1)
    if stop > end:
        return _CUT
    if kind & POSITIVE:
        while at < stop and not buf[at]:
            at += 1
        return _WRONG if at == stop else stop
    return _WRONG if kind == BYTE and buf[at] > 1 else stop


def _text_end(buf, at, end, is_text):
    if at + 2 > end:
        return _CUT
    stop = at + 2 + (buf[at] << 8 | buf[at + 1])
    if stop > end:
        return _CUT
    return _MALFORMED if is_text and not _is_text(buf, at + 2, stop) else stop


def _is_text(buf, at, end):
    """UTF-8 without NUL (1.5.4). Checks the pieces between + and #, which no topic may contain."""
    start = at
    while at < end:
        if buf[at] == 0x23 or buf[at] == 0x2B:
            if not is_topic(buf, start, at):
                return False
            start = at + 1
        at += 1
    return is_topic(buf, start, end)


def number_end(buf, at, end):
    """Returns the offset after the variable byte integer at buf[at] (1.5.5); negative when it is
    cut off, has more bytes than it needs, or more than four."""
    stop = at
    while stop < end and stop < at + 4:
        stop += 1
        if buf[stop - 1] < 128:
            return _MALFORMED if stop > at + 1 and not buf[stop - 1] else stop
    return _MALFORMED


def number(buf, at):
    """Returns the variable byte integer at buf[at], which number_end() has passed."""
    value = shift = 0
    while buf[at] > 127:
        value |= (buf[at] & 127) << shift
        shift += 7
        at += 1
    return value | buf[at] << shift


def room(size):
    """Returns the longest remaining length of a packet of `size` bytes."""
    most, header = 127, 2
    while size - header > most:
        most = most << 7 | 127
        header += 1
    return size - header
