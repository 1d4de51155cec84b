"""The most time-consuming functions of a series' samples, in plain Python: replaces
`native_series.py` where there is no native emitter.

See `series_bits.py`. The functions are small, because a frame has at most 11 words.
"""

from micropython import const

from outpost.checksum import crc30
from outpost.memory import copy, fill

_STORAGE = const(-5)
# Of `where`, as in series_bits.py.
_AT = const(0)
_END = const(1)
_START = const(2)
_CRC = const(3)
_OF_PAGE = const(4)  # bytes of a page
_BLOCK = const(5)
_LAST = const(6)


def check_of(buf, at, end, seed):
    """See `series_bits.py`."""
    seed = (crc30(seed, buf, at, end) & 0x7F) << 8
    while at < end:
        byte = 255 - buf[at]
        at += 1
        while byte:
            seed = seed & 0x7F00 | seed + 1 & 0xFF
            byte &= byte - 1
    return seed


def take(parts, clock, values):
    """See `series_bits.py`. False: the caller must handle every sample."""
    return False


def put_sample(parts):
    """See `series_bits.py`. Never called, because take() takes nothing."""
    return 0


def program(tools, raw, sample, length):
    """See `series_bits.py`."""
    where = tools[0]
    length = _put_check(where, sample, length >> 1, length & 1)
    if where[_AT] + length > where[_END]:
        return 1
    tools = _laid(where, tools[1], sample, length)  # from here on, the pages
    raw.writeblocks(where[_BLOCK], tools, _page_of(where))
    raw.readblocks(where[_BLOCK], tools, _page_of(where))
    if not _holds(tools, where[_AT] % where[_OF_PAGE], sample, length):
        return _STORAGE
    where[_AT] += length
    where[_LAST] = length
    return 0


def _put_check(where, sample, length, is_restart):
    """Append the check. Returns the length with it."""
    check = where[_CRC] ^ where[_AT] - where[_START]  # first its seed
    if is_restart:
        check = crc30(check, sample, 0, length)
    else:
        check = check_of(sample, 0, length, check)
    is_restart = length + 2 + 2 * is_restart  # from here on, the end
    while length < is_restart:
        sample[length] = check & 0xFF
        check >>= 8
        length += 1
    return length


def _page_of(where):
    return where[_AT] & -where[_OF_PAGE]


def _laid(where, views, sample, length):
    """Returns the pages with the sample; the rest of them reads erased."""
    at = where[_AT] % where[_OF_PAGE]
    views = views[(at + length + where[_OF_PAGE] - 1) // where[_OF_PAGE]]
    fill(views, len(views))
    copy(views, at, sample, 0, length)
    return views


def _holds(buf, at, sample, length):
    """True when sample[:length] is at buf[at]."""
    while length:
        length -= 1
        if buf[at + length] != sample[length]:
            return False
    return True


def move_samples(buf, at, place, ks):
    """See `series_bits.py`. Here the caller moves them one by one."""
    return at


def put_bits(buf, at, value, size):
    """See `series_bits.py`."""
    while size:
        count = min(8 - (at & 7), size)  # how many go into this byte
        size -= count
        at += count
        count = (value >> size & (1 << count) - 1) << (-at & 7)  # those bits, in their place
        buf[at - 1 >> 3] |= count
    return at


def take_bits(buf, at, size):
    """See `series_bits.py`."""
    value = 0
    while size:
        value = value << 1 | buf[at >> 3] >> 7 - (at & 7) & 1
        at += 1
        size -= 1
    return value


def bit_length(value):
    """See `series_bits.py`."""
    length = 0
    while value:
        value >>= 1
        length += 1
    return length


def _is_there(shape, i):
    return not i or shape >> (shape & 31) - i + 5 & 1


def put_wholes(buf, at, state, shape):
    """See `series_bits.py`."""
    i = 0
    while i <= shape & 31:
        if _is_there(shape, i):
            at = _put_whole(buf, at, state[(shape & 31) * 2 + 4 + i])
        i += 1
    return at


def _put_whole(buf, at, value):
    value = value << 1 if value >= 0 else -1 - (value << 1)
    size = bit_length(value)
    return put_bits(buf, put_bits(buf, at, size, 5), value, size)


def pass_wholes(buf, at, end, shape):
    """See `series_bits.py`."""
    i = 0
    while at and i <= shape & 31:
        if _is_there(shape, i):
            at = _pass_whole(buf, at, end)
        i += 1
    return at


def _pass_whole(buf, at, end):
    size = take_bits(buf, at, 5) if at + 5 <= end else 31
    at += size + 5
    return at if size < 31 and at <= end else 0
