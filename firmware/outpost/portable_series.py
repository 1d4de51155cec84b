"""The samples of a series as bits, in plain Python: stands in for `native_series.py` where there is
no native emitter.

See `series_bits.py`. Small functions, since a frame may take 11 words.
"""


def put_bits(buf, at, value, size):
    """See `series_bits.py`."""
    while size:
        size -= 1
        if value >> size & 1:
            buf[at >> 3] |= 128 >> (at & 7)
        at += 1
    return at


def bit_length(value):
    """See `series_bits.py`."""
    length = 0
    while value:
        value >>= 1
        length += 1
    return length


# While columns are gone through, the present one's index is in `shape` too: 0 is the time.
_ONE = 1 << 21


def _is_there(shape):
    return shape < _ONE or shape >> (shape & 31) - (shape >> 21) + 5 & 1


def _is_over(shape):
    return shape >> 21 > shape & 31


def is_near(state, shape):
    """See `series_bits.py`."""
    while not _is_over(shape):
        if _is_there(shape) and not -0x10000000 < _change(state, shape) < 0x10000000:
            return False
        shape += _ONE
    return True


def _now(state, shape):
    return state[2 * (shape & 31) + 4 + (shape >> 21)]


def _change(state, shape):
    return _now(state, shape) - state[shape >> 21]


def put_codes(buf, at, state, ks, shape):
    """See `series_bits.py`."""
    while not _is_over(shape):
        if _is_there(shape):
            at = _put_code(buf, at, state, ks, shape)
        shape += _ONE
    return at


def _put_code(buf, at, state, ks, shape):
    ks = ks[shape >> 21]  # k
    value = _change(state, shape)
    if shape < _ONE:
        value -= state[(shape & 31) + 1]
    value = value << 1 if value >= 0 else -1 - (value << 1)
    state[(shape & 31) + 3 + (shape >> 21)] += bit_length(value)
    if shape < _ONE and value:
        value += 1
    value += 1 << ks
    ks = 2 * bit_length(value) - 1 - ks  # bits
    return put_bits(buf, at, value, ks)


def put_wholes(buf, at, state, shape):
    """See `series_bits.py`."""
    while not _is_over(shape):
        if _is_there(shape):
            at = _put_whole(buf, at, _now(state, shape))
        shape += _ONE
    return at


def _put_whole(buf, at, value):
    value = value << 1 if value >= 0 else -1 - (value << 1)
    at = put_bits(buf, at, bit_length(value), 5)
    return put_bits(buf, at, value, bit_length(value))


def remember(state, shape, is_restart):
    """See `series_bits.py`."""
    n = shape & 31
    state[n + 1] = 0 if is_restart else _change(state, shape)
    state[n + 2] = 1
    while not _is_over(shape):
        if _is_there(shape):
            state[shape >> 21] = _now(state, shape)
        elif is_restart:
            state[shape >> 21] = 0
        shape += _ONE


def take_bits(buf, at, size):
    """See `series_bits.py`."""
    value = 0
    while size:
        value = value << 1 | buf[at >> 3] >> 7 - (at & 7) & 1
        at += 1
        size -= 1
    return value


def pass_codes(buf, at, end, ks, shape):
    """See `series_bits.py`."""
    while at and not _is_over(shape):
        if _is_there(shape):
            at = _pass_code(buf, at, end, ks, shape)
        shape += _ONE
    return at


def _pass_code(buf, at, end, ks, shape):
    size = ks[shape >> 21] + 1
    while at < end and not take_bits(buf, at, 1):
        at += 1
        size += 1
    return at + size if size < 31 and at + size <= end else 0


def pass_wholes(buf, at, end, shape):
    """See `series_bits.py`."""
    while at and not _is_over(shape):
        if _is_there(shape):
            at = _pass_whole(buf, at, end)
        shape += _ONE
    return at


def _pass_whole(buf, at, end):
    size = take_bits(buf, at, 5) if at + 5 <= end else 31
    at += size + 5
    return at if size < 31 and at <= end else 0


def move_bits(buf, to, at, count):
    """See `series_bits.py`."""
    at <<= 3
    while count:
        if take_bits(buf, at, 1):
            buf[to >> 3] |= 128 >> (to & 7)
        else:
            buf[to >> 3] &= 255 - (128 >> (to & 7))
        at += 1
        to += 1
        count -= 1


def count_zeros(buf, at, end):
    """See `series_bits.py`."""
    count = 0
    while at < end:
        byte = 255 - buf[at]
        while byte:
            count += byte & 1
            byte >>= 1
        at += 1
    return count & 255
