"""take() and put_sample() of series_bits.py in plain Python. A board has them in machine code; this
lets CPython's tests take the same path.
"""

from outpost.series_codec.series_bits import is_near, put_codes, remember

_LIMIT = 1 << 29


def take(parts, clock, values):
    state, since = parts[:2]
    n = since[6]
    if not clock.day or clock.day != since[0] or clock.up_day != since[2]:
        return False
    if clock.up_ms - since[3] >= since[5]:
        return False
    if not all([value is not None and -_LIMIT <= value < _LIMIT for value in values]):
        return False
    state[2 * n + 4] = (clock.ms - since[1]) // since[4]
    for i in range(n):
        state[2 * n + 5 + i] = values[i]
    return is_near(state, _full(n))


def put_sample(parts):
    state, since, ks, sample = parts
    for i in range(len(sample)):
        sample[i] = 0
    bits = put_codes(sample, 0, state, ks, _full(since[6]))
    remember(state, _full(since[6]), False)
    sample[bits - 1 >> 3] |= (1 << (-bits & 7)) - 1
    return bits + 7 >> 3 << 1


def _full(n):
    return (1 << n) - 1 << 5 | n
