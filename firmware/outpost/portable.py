"""Moves and checks bytes in plain Python: replaces `native.py` and `native_checksum.py` where there
is no native emitter.

The CRC is kept in two 16-bit halves, because an integer of 2^30 or more is allocated on a 32-bit
board. A name is reused where another local would exceed the 11-word frame limit.
"""

_LOW = (
    0x0000, 0x1064, 0x20C8, 0x30AC, 0x4190, 0x51F4, 0x6158, 0x713C,
    0x8320, 0x9344, 0xA3E8, 0xB38C, 0xC2B0, 0xD2D4, 0xE278, 0xF21C,
)  # fmt: skip
_HIGH = (
    0x0000, 0x1DB7, 0x3B6E, 0x26D9, 0x76DC, 0x6B6B, 0x4DB2, 0x5005,
    0xEDB8, 0xF00F, 0xD6D6, 0xCB61, 0x9B64, 0x86D3, 0xA00A, 0xBDBD,
)  # fmt: skip


def crc30(seed, buf, at, end):
    """See `checksum.py`. `seed` becomes the low half of the CRC."""
    high = (seed >> 16) ^ 0xFFFF
    seed = (seed & 0xFFFF) ^ 0xFFFF
    while at < end:
        seed ^= buf[at]
        at += 1
        index = seed & 15
        seed = (seed >> 4 | (high & 15) << 12) ^ _LOW[index]
        high = high >> 4 ^ _HIGH[index]
        index = seed & 15
        seed = (seed >> 4 | (high & 15) << 12) ^ _LOW[index]
        high = high >> 4 ^ _HIGH[index]
    return ((high ^ 0xFFFF) & 0x3FFF) << 16 | (seed ^ 0xFFFF)


def copy(target, at, source, start, length):
    """See `memory.py`."""
    end = at + length
    while at < end:
        target[at] = source[start]
        at += 1
        start += 1
    return end


def fill(buf, count):
    """See `memory.py`."""
    while count:
        count -= 1
        buf[count] = 0xFF


def is_blank(buf, at, end):
    """See `checksum.py`."""
    while at < end and buf[at] == 0xFF:
        at += 1
    return at == end


def put_publish(tx, head, source, start, lengths, properties):
    """See `memory.py`. Counts `lengths` down, first that of the topic."""
    tx[0] = head & 0xFF
    at = (lengths & 0x3FFF) + (4 if head > 0xFF else 2)
    if properties:
        at += properties[0] | properties[1] << 8
        if properties[2]:
            start += lengths >> 14
            lengths &= 0x3FFF
    at += lengths >> 14
    at = _put_length(tx, at)
    tx[at] = lengths >> 22
    tx[at + 1] = lengths >> 14 & 0xFF
    at += 2
    while lengths > 0x3FFF:
        tx[at] = source[start]
        at += 1
        start += 1
        lengths -= 0x4000
    if head > 0xFF:
        tx[at] = head >> 16
        tx[at + 1] = head >> 8 & 0xFF
        at += 2
    if properties:
        at = _put_properties(tx, at, properties)
    while lengths and head > 0xFF:
        tx[at] = source[start]
        at += 1
        start += 1
        lengths -= 1
    return at


def _put_properties(tx, at, properties):
    return copy(tx, at, properties, 3, properties[0] | properties[1] << 8)


def _put_length(tx, length):
    at = 1
    while length > 127:
        tx[at] = length & 127 | 128
        length >>= 7
        at += 1
    tx[at] = length
    return at + 1


def put_prefix(prefix, seed, first, oldest, acked):
    """See `memory.py`."""
    _put_u32(prefix, 0, first)
    _put_u32(prefix, 4, oldest)
    _put_u16(prefix, 8, acked)
    _put_u32(prefix, 12, seed)


def put_record(buf, at, prefix, topic, payload):
    """See `checksum.py`."""
    at = _put_part(12, buf, at, prefix)
    at = _put_part(prefix[1], buf, at, topic)
    at = _put_part(_payload_length(prefix), buf, at, payload)
    _put_crc(buf, at, prefix)


def _put_part(length, buf, at, source):
    return copy(buf, at, source, 0, length)


def _payload_length(prefix):
    return prefix[2] | prefix[3] << 8


def _put_crc(buf, end, prefix):
    crc = end - 12 - prefix[1] - _payload_length(prefix)  # the start first: the frame has 11 words
    crc = crc30(u32(prefix, 12), buf, crc, end)
    _put_u32(buf, end, crc)
    _put_u32(prefix, 12, crc)


def holds_record(buf, prefix, at, topic, payload):
    """See `checksum.py`."""
    at = _pass_part(12, buf, at, prefix)
    at = _pass_part(prefix[1], buf, at, topic)
    at = _pass_part(_payload_length(prefix), buf, at, payload)
    return at >= 0 and u32(buf, at) == u32(prefix, 12) and buf[at + 3] < 0x40


def _pass_part(length, buf, at, source):
    """Returns at + length when buf holds source[:length] there; -1 when not, or if at is -1."""
    start = 0
    while at >= 0 and start < length:
        at = at + 1 if buf[at] == source[start] else -1
        start += 1
    return at


def _put_u16(buf, at, value):
    buf[at] = value & 0xFF
    buf[at + 1] = value >> 8
    return at + 2


def u32(buf, at):
    """See `memory.py`."""
    return buf[at] | buf[at + 1] << 8 | buf[at + 2] << 16 | (buf[at + 3] & 0x3F) << 24


def _put_u32(buf, at, value):
    at = _put_u16(buf, at, value & 0xFFFF)
    return _put_u16(buf, at, value >> 16)


def puback_id(rx, at, end):
    """See `memory.py`."""
    if at + 4 > end or rx[at] != 0x40 or rx[at + 1] != 2:
        return 0
    return rx[at + 2] << 8 | rx[at + 3]


def skip_records(buf, at, end, align, count):
    """See `checksum.py`."""
    found = 0
    while found >> 13 < count and at + 4 <= end:
        size = buf[at + 2] | buf[at + 3] << 8
        size = -(-16 - buf[at + 1] - size & -align)
        if not 0 < buf[at] & 0x8F < 3 or at + size > end:
            break
        found += (buf[at] & 1) << 13 | size
        at += size
    return found
