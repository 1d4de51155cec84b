"""The samples of a series as bits (`firmware/SERIES_FORMAT.md`), as fast as the board can: machine
code, or plain Python without a native emitter. Bounds are the caller's duty. No function allocates.

A sample is time and values of n columns, 1 to 16, each within its limits. Places are in bits, and
where bits are put there must be zeros.

    state array("i"): time, value 1 .. n of the last sample, time between the last two,
                      1 once there was one, for each code the sum of its numbers' lengths in bits,
                      time, value 1 .. n of the new sample (a missing one is any number), 0
    ks    k of the time's code, and of each column's
    shape mask of the values that are there (column 1 highest) << 5 | n

put_bits(buf, at, value, size) -> at + size; value within 30 bits. take_bits(buf, at, size) ->
value. bit_length(value) -> bits. is_near(state, shape): the differences are small enough for codes.

put_codes(buf, at, state, ks, shape) -> end: the codes of a sample. put_wholes(buf, at, state,
shape) -> end: the numbers of a restart. remember(state, shape, is_restart): the new one is the
last.

pass_codes(buf, at, end, ks, shape), pass_wholes(buf, at, end, shape) -> where those that begin at
bit `at`, which is not 0, end, no later than `end`; 0: there are none.

move_bits(buf, to, at, count) copies bits from byte `at` on down to bit `to`. count_zeros(buf, at,
end) -> how many bits of buf[at:end], in bytes, are 0, modulo 256.
"""

# pyright: reportArgumentType=false

from array import array

try:
    from outpost.native_series import (
        bit_length,
        count_zeros,
        is_near,
        move_bits,
        pass_codes,
        pass_wholes,
        put_bits,
        put_codes,
        put_wholes,
        remember,
        take_bits,
    )

    if count_zeros(b"\xf0", 0, 1) != 4:  # frozen, it may read another constant: see `checksum.py`
        raise ValueError
    if not is_near(array("i", b"\0\0\0\0\xff\xff\xff\xff" + bytes(28)), 33):
        raise ValueError  # 64 bits: a negative number is read as a large one
except (ImportError, AttributeError, SyntaxError, ValueError):
    # No native emitter, or an .mpy of another architecture.
    from outpost.portable_series import (  # noqa: F401 - handed on
        bit_length,
        count_zeros,
        is_near,
        move_bits,
        pass_codes,
        pass_wholes,
        put_bits,
        put_codes,
        put_wholes,
        remember,
        take_bits,
    )
