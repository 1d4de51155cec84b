"""The samples of a series that take most of the time, by machine code: the same functions as in
`portable_series.py`, by the viper emitter.

See `series_bits.py`. Only small constants: a frozen function may read others wrongly.
"""

# pyright: reportCallIssue=false, reportIndexIssue=false

import micropython

from outpost.native_checksum import TABLE


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
def is_plain(state: ptr32, n: int) -> bool:
    """There was a sample, and the differences are small enough for codes."""
    if not state[n + 2]:
        return False
    large = int(uint(1) << 28)
    value = state[2 * n + 4] - state[0] - state[n + 1]
    i = 0
    while i <= n:
        if value >= large or value <= 0 - large:
            return False
        value = state[2 * n + 4 + i] - state[i]
        i += 1
    return value < large and value > 0 - large


@micropython.viper
def add_check(buf, size: int, byte: int, seed: int) -> int:
    """Fill the last byte up, of which `byte` has some bits after a 1, and add the check."""
    target = ptr8(buf)
    if byte > 1:
        while byte <= 255:
            byte = byte << 1 | 1
        target[size] = byte
        size += 1
    byte = int(check_of(buf, 0, size, seed))
    target[size] = byte
    target[size + 1] = byte >> 8
    return size + 2


@micropython.viper
def put_sample(buf, fields, ks: ptr8, shape: int, seed: int) -> int:
    """See `series_bits.py`."""
    n = shape & 31
    if not is_plain(fields, n):
        return 0
    state = ptr32(fields)
    now = ptr32(int(state) + 8 * n + 16)
    step = now[0] - state[0]
    value = step - state[n + 1]
    state[n + 1] = step
    state[n + 2] += 1
    target = ptr8(buf)
    byte = 1  # what is there of it, after a 1
    is_time = 1
    i = 0
    while i <= n:
        state[i] = now[i]
        value = value << 1 if value >= 0 else -1 - (value << 1)
        size = 0
        while value >> size:
            size += 1
        state[n + 3 + i] += size
        if value:
            value += is_time
        is_time = 0
        value += 1 << ks[i]
        while value >> size:
            size += 1
        i = i + 1 | (2 * size - 1 - ks[i]) << 8  # and the bits that are left
        while i > 255:
            i -= 256  # of which the first ones are 0
            byte = byte << 1 | (value >> (i >> 8) & 1 if i >> 8 < size else 0)
            if byte > 255:
                target[0] = byte
                target = ptr8(int(target) + 1)
                byte = 1
        value = now[i] - state[i]
    return int(add_check(buf, int(target) - int(ptr8(buf)), byte, seed))


@micropython.viper
def holds(buf: ptr8, at: int, sample: ptr8, length: int) -> bool:
    """See `series_bits.py`."""
    while length:
        length -= 1
        if buf[at + length] ^ sample[length]:
            return False
    return True


@micropython.viper
def end_of(source: ptr8, at: int, place: ptr32, ks: ptr8) -> int:
    """Where the sample at byte `at` ends, as a bit; 0: it is none, or has a mark."""
    k = ks[0]
    mark = k + 1 if k else 3
    bits = source[at] << 16 | source[at + 1] << 8 | source[at + 2]
    if bits >> (24 - mark) == (1 << k) + 1:
        return 0
    end = place[1] << 3
    at <<= 3
    i = 0
    while i <= place[4]:
        size = ks[i] + 1
        while at < end and not source[at >> 3] << (at & 7) & 128:
            at += 1
            size += 1
        at += size
        if size > 30 or at > end:
            return 0
        i += 1
    return at


@micropython.viper
def move_samples(buf, at: int, fields, ks) -> int:
    """See `series_bits.py`."""
    source = ptr8(buf)
    place = ptr32(fields)
    while at + 4 <= place[1]:
        bits = int(end_of(buf, at, fields, ks))
        end = (bits + 7) >> 3  # here is its check
        if not bits or end + 2 > place[1]:
            break
        number = int(check_of(buf, at, end, place[3] ^ (at - place[2])))
        if source[end] | source[end + 1] << 8 != number:
            break
        to = place[0] >> 3
        shift = place[0] & 7
        place[0] += bits - (at << 3)
        while at < end:
            bits = source[at]
            source[to] = source[to] & (255 - (255 >> shift)) | bits >> shift
            to += 1
            source[to] = bits << (8 - shift)
            at += 1
        at += 2
    return at
