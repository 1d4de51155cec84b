"""The samples of a series that take most of the time, in plain Python: stands in for
`native_series.py` where there is no native emitter.

See `series_bits.py`. Small functions, since a frame may take 11 words.
"""

from outpost.checksum import crc30


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


def put_sample(buf, state, ks, shape, seed):
    """See `series_bits.py`. Here `put_codes()` does it, after this 0."""
    return 0


def holds(buf, at, sample, length):
    """See `series_bits.py`."""
    while length:
        length -= 1
        if buf[at + length] != sample[length]:
            return False
    return True


def move_samples(buf, at, place, ks):
    """See `series_bits.py`. Here the caller moves them one by one."""
    return at
