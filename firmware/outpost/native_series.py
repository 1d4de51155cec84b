"""The most time-consuming functions of a series' samples, in machine code: the same functions as in
`portable_series.py`, compiled by the viper emitter.

See `series_bits.py`. Small constants only: a frozen function may misread larger ones.
"""

# pyright: reportCallIssue=false, reportIndexIssue=false

import micropython

from outpost.native import fill
from outpost.native_checksum import TABLE

# Objects, because a viper function can combine objects only with objects.
MISSING = None
LIMIT = 29  # bits of a value, without its sign

ZEROS = b"\4\3\3\2\3\2\2\1\3\2\2\1\2\1\1\0"  # how many bits of a nibble are 0


@micropython.viper
def check_of(buf: ptr8, at: int, end: int, seed: int) -> int:
    """See `series_bits.py`."""
    table = ptr32(TABLE)
    mask = int(uint(1) << 30) - 1
    seed = seed ^ mask | int(uint(3) << 30)  # its complement in 32 bits
    zeros = 0
    while at < end:
        seed ^= buf[at]
        seed = int(uint(seed) >> 4) ^ table[seed & 15]
        seed = int(uint(seed) >> 4) ^ table[seed & 15]
        byte = 255 - buf[at]
        while byte:
            zeros += 1
            byte &= byte - 1
        at += 1
    return ((seed ^ mask) & 127) << 8 | zeros & 255


@micropython.viper
def take(parts, clock, values) -> bool:
    """See `series_bits.py`."""
    state = ptr32(parts[0])
    since = ptr32(parts[1])
    day = int(clock.day)
    if not day or day != since[0] or int(clock.up_day) != since[2]:
        return False
    n = since[6]
    if int(clock.up_ms) - since[3] >= since[5] or not state[n + 2]:
        return False
    limit = LIMIT
    large = int(uint(1) << 28)
    now = ptr32(int(state) + 8 * n + 16)
    now[0] = (int(clock.ms) - since[1]) // since[4]
    value = now[0] - state[0]
    is_near = value < large and value > 0 - large
    value -= state[n + 1]
    i = 0
    while is_near and value < large and value > 0 - large:
        if i == n:
            return True
        one = values[i]
        i += 1
        now[i] = 0
        if one:
            is_near = (int(one >> limit) + 1) >> 1 == 0  # it is 0 or -1
            now[i] = int(one)
        elif one is MISSING:
            return False
        value = now[i] - state[i]
    return False


@micropython.viper
def put_sample(parts) -> int:
    """See `series_bits.py`."""
    state = ptr32(parts[0])
    ks = ptr8(parts[2])
    buf = ptr8(parts[3])
    begin = int(buf)
    n = ptr32(parts[1])[6]
    now = ptr32(int(state) + 8 * n + 16)
    value = now[0] - state[0]  # the step
    state[n + 2] += 1
    i = state[n + 1]
    state[n + 1] = value
    value -= i
    byte = 1  # the bits so far, after a leading 1
    i = 0
    while i <= n:
        state[i] = now[i]
        value = value << 1 ^ value >> 31
        size = 0
        while value >> size:
            size += 1
        state[n + 3 + i] += size
        value += (1 << ks[i]) + int(i == 0 and value > 0)
        while value >> size:
            size += 1
        left = 2 * size - 1 - ks[i]  # how many bits; the first ones are 0
        i += 1
        while left:
            left -= 1
            byte = byte << 1 | (value >> left & 1 if left < size else 0)
            if byte > 255:
                buf[0] = byte
                buf = ptr8(int(buf) + 1)
                byte = 1
        value = now[i] - state[i]
    while 1 < byte < 256:
        byte = byte << 1 | 1
    buf[0] = byte
    return 2 * (int(buf) - begin + (byte >> 8))


@micropython.viper
def program(tools, raw, sample: ptr8, length: int) -> int:
    """See `series_bits.py`."""
    where = ptr32(tools[0])
    end = (length >> 1) + 2 + 2 * (length & 1)
    if where[0] + end > where[1]:
        return 1
    table = ptr32(TABLE)
    zeros = ptr8(ZEROS)
    mask = int(uint(1) << 30) - 1
    crc = where[3] ^ (where[0] - where[2]) ^ mask | int(uint(3) << 30)  # complement in 32 bits
    i = count = 0
    while i < length >> 1:
        count += zeros[sample[i] & 15] + zeros[sample[i] >> 4]
        crc ^= sample[i]
        crc = int(uint(crc) >> 4) ^ table[crc & 15]
        crc = int(uint(crc) >> 4) ^ table[crc & 15]
        i += 1
    crc = (crc ^ mask) & mask
    crc = crc if length & 1 else (crc & 127) << 8 | count & 255
    while i < end:
        sample[i] = crc
        crc >>= 8
        i += 1
    page = where[0] & (0 - where[4])
    at = where[0] - page
    pages = (at + end + where[4] - 1) // where[4]
    view = tools[1][pages]
    fill(view, pages * where[4])
    target = ptr8(int(ptr8(view)) + at)
    while i:
        i -= 1
        target[i] = sample[i]
    raw.writeblocks(where[5], view, page)
    raw.readblocks(where[5], view, page)
    while i < end and target[i] == sample[i]:
        i += 1
    if i == end:
        where[0] += end
        where[6] = end
    return 0 if i == end else -5


@micropython.viper
def move_samples(source: ptr8, at: int, place: ptr32, ks: ptr8) -> int:
    """See `series_bits.py`."""
    table = ptr32(TABLE)
    zeros = ptr8(ZEROS)
    mask = int(uint(1) << 30) - 1
    last = place[1] - 2  # the last place where a check may begin
    while at + 2 <= last and (source[at] << 8 | source[at + 1]) >> place[5] != place[6]:
        bit = at << 3
        i = count = 0
        while i <= place[4]:
            size = ks[i] + 1
            while bit < last << 3 and not source[bit >> 3] << (bit & 7) & 128:
                bit += 1
                size += 1
            bit += size
            if size > 30 or bit > last << 3:
                return at
            i += 1
        end = (bit + 7) >> 3  # its check is here
        crc = place[3] ^ (at - place[2]) ^ mask | int(uint(3) << 30)
        i = at
        while i < end:
            count += zeros[source[i] & 15] + zeros[source[i] >> 4]
            crc ^= source[i]
            crc = int(uint(crc) >> 4) ^ table[crc & 15]
            crc = int(uint(crc) >> 4) ^ table[crc & 15]
            i += 1
        if source[end] != count & 255 or source[end + 1] != (crc ^ mask) & 127:
            break
        i = place[0] >> 3
        size = place[0] & 7
        place[0] += bit - (at << 3)
        while at < end:
            byte = source[at]
            source[i] = source[i] & (255 - (255 >> size)) | byte >> size
            i += 1
            source[i] = byte << (8 - size)
            at += 1
        at += 2
    return at


@micropython.viper
def put_bits(buf: ptr8, at: int, value: int, size: int) -> int:
    """See `series_bits.py`."""
    if size > 30:
        at += size - 30
        size = 30
    while size:
        size -= 1
        buf[at >> 3] |= (value >> size & 1) << (7 - (at & 7))
        at += 1
    return at


@micropython.viper
def take_bits(buf: ptr8, at: int, size: int) -> int:
    """See `series_bits.py`."""
    value = 0
    while size:
        value = value << 1 | (buf[at >> 3] >> (7 - (at & 7)) & 1)
        at += 1
        size -= 1
    return value


@micropython.viper
def bit_length(value: int) -> int:
    """See `series_bits.py`."""
    length = 0
    while value:
        value >>= 1
        length += 1
    return length


@micropython.viper
def put_wholes(buf: ptr8, at: int, fields, shape: int) -> int:
    """See `series_bits.py`."""
    n = shape & 31
    state = ptr32(fields)
    now = ptr32(int(state) + 8 * n + 16)
    i = 0
    while i <= n:
        if not i or shape >> (n - i + 5) & 1:
            value = now[i]
            value = value << 1 if value >= 0 else -1 - (value << 1)
            size = 0
            while value >> size:
                size += 1
            left = size + 5
            while left:
                left -= 1
                bit = size >> (left - size) if left >= size else value >> left
                buf[at >> 3] |= (bit & 1) << (7 - (at & 7))
                at += 1
        i += 1
    return at


@micropython.viper
def pass_wholes(buf: ptr8, at: int, end: int, shape: int) -> int:
    """See `series_bits.py`."""
    n = shape & 31
    i = 0
    while i <= n:
        if not i or shape >> (n - i + 5) & 1:
            if at + 5 > end:
                return 0
            size = 0
            left = 5
            while left:
                left -= 1
                size = size << 1 | (buf[at >> 3] >> (7 - (at & 7)) & 1)
                at += 1
            at += size
            if size > 30 or at > end:
                return 0
        i += 1
    return at
