"""The samples of a series as bits, by machine code: the same functions as in `portable_series.py`,
by the viper emitter.

See `series_bits.py`. Only small constants: a frozen function may read others wrongly.
"""

# pyright: reportCallIssue=false, reportIndexIssue=false

import micropython


@micropython.viper
def put_bits(buf: ptr8, at: int, value: int, size: int) -> int:
    """See `series_bits.py`."""
    end = at + size
    if size > 30:
        at = end - 30
    while at < end:
        if value >> (end - at - 1) & 1:
            buf[at >> 3] |= 128 >> (at & 7)
        at += 1
    return at


@micropython.viper
def bit_length(value: int) -> int:
    """See `series_bits.py`."""
    length = 0
    while value:
        value >>= 1
        length += 1
    return length


@micropython.viper
def is_near(state: ptr32, shape: int) -> bool:
    """See `series_bits.py`."""
    large = int(uint(1) << 28)
    i = shape & 31
    now = 2 * i + 4
    mask = shape >> 5 | int(uint(1) << i)  # the time is always there
    while i >= 0:
        value = state[now + i] - state[i]
        if mask & 1 and (value >= large or value <= 0 - large):
            return False
        mask >>= 1
        i -= 1
    return True


@micropython.viper
def put_codes(buf, at: int, state: ptr32, ks: ptr8, shape: int) -> int:
    """See `series_bits.py`."""
    n = shape & 31
    now = 2 * n + 4
    value = state[now] - state[0] - state[n + 1]
    i = 0
    while i <= n:
        value = value << 1 if value >= 0 else -1 - (value << 1)
        state[n + 3 + i] += int(bit_length(value))
        if i == 0 and value:
            value += 1
        value += 1 << ks[i]
        size = 2 * int(bit_length(value)) - 1 - ks[i]
        at = int(put_bits(buf, at, value, size))
        i += 1
        while i <= n and not shape >> (n - i + 5) & 1:
            i += 1
        value = state[now + i] - state[i]
    return at


@micropython.viper
def put_wholes(buf, at: int, state: ptr32, shape: int) -> int:
    """See `series_bits.py`."""
    n = shape & 31
    i = 0
    while i <= n:
        value = state[2 * n + 4 + i]
        value = value << 1 if value >= 0 else -1 - (value << 1)
        size = int(bit_length(value))
        at = int(put_bits(buf, at, size, 5))
        at = int(put_bits(buf, at, value, size))
        i += 1
        while i <= n and not shape >> (n - i + 5) & 1:
            i += 1
    return at


@micropython.viper
def remember(state: ptr32, shape: int, is_restart: int):
    """See `series_bits.py`."""
    i = shape & 31
    now = 2 * i + 4
    state[i + 1] = 0 if is_restart else state[now] - state[0]
    state[i + 2] = 1
    shape >>= 5
    while i:
        if shape & 1:
            state[i] = state[now + i]
        elif is_restart:
            state[i] = 0
        shape >>= 1
        i -= 1
    state[0] = state[now]


@micropython.viper
def take_bits(buf: ptr8, at: int, size: int) -> int:
    """See `series_bits.py`."""
    value = 0
    while size:
        value = value << 1 | buf[at >> 3] >> (7 - (at & 7)) & 1
        at += 1
        size -= 1
    return value


@micropython.viper
def pass_codes(buf: ptr8, at: int, end: int, ks: ptr8, shape: int) -> int:
    """See `series_bits.py`."""
    n = shape & 31
    i = 0
    while i <= n:
        size = ks[i] + 1
        while at < end and not buf[at >> 3] << (at & 7) & 128:
            at += 1
            size += 1
        at += size
        if size > 30 or at > end:
            return 0
        i += 1
        while i <= n and not shape >> (n - i + 5) & 1:
            i += 1
    return at


@micropython.viper
def pass_wholes(buf, at: int, end: int, shape: int) -> int:
    """See `series_bits.py`."""
    n = shape & 31
    i = 0
    while i <= n:
        if at + 5 > end:
            return 0
        size = int(take_bits(buf, at, 5))
        at += 5 + size
        if size > 30 or at > end:
            return 0
        i += 1
        while i <= n and not shape >> (n - i + 5) & 1:
            i += 1
    return at


@micropython.viper
def move_bits(buf: ptr8, to: int, at: int, count: int):
    """See `series_bits.py`."""
    at <<= 3
    while count:
        bit = 128 >> (to & 7)
        if buf[at >> 3] << (at & 7) & 128:
            buf[to >> 3] |= bit
        else:
            buf[to >> 3] &= 255 - bit
        at += 1
        to += 1
        count -= 1


@micropython.viper
def count_zeros(buf: ptr8, at: int, end: int) -> int:
    """See `series_bits.py`."""
    count = 0
    while at < end:
        byte = 255 - buf[at]
        while byte:
            count += byte & 1
            byte >>= 1
        at += 1
    return count & 255
