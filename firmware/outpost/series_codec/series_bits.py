"""Reads and writes the samples of a series as bits (`firmware/SERIES_FORMAT.md`). Bounds are the
caller's duty. No function allocates. The functions that nearly every sample needs are machine code
where the board supports it (`native_series.py`). Plain Python does the rest, or all of it.

A sample is the time and the values of n columns, 1 to 16, each within its limits. Places are in
bits. Bits may be put only where there are zeros.

    state array("i"): time, value 1 .. n of the last sample, time between the last two, 0 until
                      there was one, then 1 and one more for each that was coded; for each code the
                      sum of its numbers' lengths in bits; time, value 1 .. n of the new sample (a
                      missing one is any number), 0
    ks    k of the time's code, and of each column's
    shape mask of the values that are there (column 1 highest) << 5 | n

is_near(state, shape): there was a sample, and the differences are small enough for codes.

put_codes(buf, at, state, ks, shape) -> end: the codes of a sample. remember(state, shape,
is_restart): the new one is the last.

pass_codes(buf, at, end, ks, shape) -> where those that begin at bit `at`, which is not 0, end, no
later than `end`; 0: there are none.

move_bits(buf, to, at, count) copies bits from byte `at` on down to bit `to`, and may change the
two bytes after them.

In machine code:

check_of(buf, at, end, seed) -> the check of the sample buf[at:end]: low 7 bits of its CRC << 8 |
how many of its bits are 0, modulo 256.

take(parts, clock, values) -> True: the new sample is in `state`, nothing is missing, and codes
suffice for it. False: the caller must handle it, because the day is not that of the record's start,
the clock is not set, or a difference is too large for a code. parts: `state`, `since`, `ks`, a
buffer. since array("i"): day, ms, up_day and up_ms at which the record begins, step_ms, its longest
age in ms, n.

put_sample(parts) -> twice the bytes of the sample that was taken, which is then the last one.

program(tools, raw, sample, length) -> OK: the sample is on flash with its check, and where[0] after
it; 1: there is no room for it; STORAGE: it did not read back. length: twice its bytes, plus 1 if it
is a restart. tools: `where`, and views of n pages, which are overwritten. where array("i"), of the
record that is open: byte of its block where the next sample goes, where its room ends and begins,
its CRC, bytes of a page, block, bytes of the last sample.

put_bits(buf, at, value, size) -> at + size; value within 30 bits. take_bits(buf, at, size) ->
value. bit_length(value) -> bits. put_wholes(buf, at, state, shape) -> end: the numbers of a
restart. pass_wholes(buf, at, end, shape): as pass_codes().

move_samples(buf, at, place, ks) -> where to continue: moves samples that check, from byte `at` on,
down to bit place[0], and moves place[0] on. It may stop before any sample; it stops at one that has
a mark, or does not check. place array("i"): target, end of the room, its start, seed, columns, bits
of the first two bytes that follow a mark, the mark.
"""

# pyright: reportArgumentType=false

from array import array

from micropython import const

try:
    from outpost import native_series as kind

    # When frozen, it may read a wrong constant: see `checksum.py`. And on 64 bits it reads a
    # negative number as a large one.
    if kind.check_of(b"123", 0, 3, 0) != 0x520E:
        raise ValueError
    if kind.put_wholes(bytearray(9), 0, array("i", (0, 0, 0, 0, 0, 0, 0, -1)), 33) != 11:
        raise ValueError
except (ImportError, AttributeError, SyntaxError, ValueError):
    # No native emitter, or an .mpy of another architecture.
    from outpost import portable_series as kind

check_of, move_samples = kind.check_of, kind.move_samples
take, put_sample, program = kind.take, kind.put_sample, kind.program
put_bits, take_bits, bit_length = kind.put_bits, kind.take_bits, kind.bit_length
put_wholes, pass_wholes = kind.put_wholes, kind.pass_wholes


# A loop over the columns keeps the present index in `shape` too: 0 is the time.
_ONE = const(1 << 21)
_NEAR = const(1 << 28)


def _is_there(shape):
    return shape < _ONE or shape >> (shape & 31) - (shape >> 21) + 5 & 1


def is_near(state, shape):
    if not state[(shape & 31) + 2]:
        return False
    while shape >> 21 <= shape & 31:
        if _is_there(shape) and not -_NEAR < _change(state, shape) < _NEAR:
            return False
        shape += _ONE
    shape &= 31
    return -_NEAR < _change(state, shape) - state[shape + 1] < _NEAR


def _now(state, shape):
    return state[2 * (shape & 31) + 4 + (shape >> 21)]


def _change(state, shape):
    return _now(state, shape) - state[shape >> 21]


def put_codes(buf, at, state, ks, shape):
    while shape >> 21 <= shape & 31:
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


def remember(state, shape, is_restart):
    n = shape & 31
    now = 2 * n + 4
    state[n + 1] = 0 if is_restart else state[now] - state[0]
    if not (is_restart and state[n + 2]):
        state[n + 2] += 1
    state[0] = state[now]
    shape >>= 5
    while n:
        if shape & 1:
            state[n] = state[now + n]
        elif is_restart:
            state[n] = 0
        shape >>= 1
        n -= 1


def pass_codes(buf, at, end, ks, shape):
    while at and shape >> 21 <= shape & 31:
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


def move_bits(buf, to, at, count):
    shift = to & 7
    to >>= 3
    while count > 0:
        buf[to] = buf[to] & ~(255 >> shift) | buf[at] >> shift
        to += 1
        buf[to] = buf[at] << 8 - shift & 255
        at += 1
        count -= 8
