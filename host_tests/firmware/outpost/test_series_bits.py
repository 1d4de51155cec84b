"""The bits of a sample: machine code and plain Python do the same, with any bits. That they are
those of the page, `test_series.py` shows.
"""

import random
import unittest
from array import array

from outpost import portable_series
from outpost.checksum import crc30
from outpost.series_codec import series_bits

KINDS = [series_bits, portable_series]  # of what is machine code where the board can


def state_of(columns):
    return array("i", [0] * (3 * columns + 6))


def below(limit):
    return random.getrandbits(30) % limit


def samples(columns, count):
    """(now, shape) of samples with small and large changes, and missing values."""
    row = [0] * (columns + 1)
    for _ in range(count):
        for i in range(columns + 1):
            limit = 1 << below(29) if below(8) else 1 << 29
            row[i] = below(2 * limit) - limit
        yield row, (below((1 << columns) - 1) + 1) << 5 | columns


class Clock:
    up_day, up_ms = 3, 5000

    def __init__(self, day, ms):
        self.day, self.ms = day, ms


SINCE = array("i", (20_000, 1000, 3, 1000, 1, 86_400_000, 0))  # the start of a record, see Clock


def put_at_once(state, ks, columns, row):
    """(sample, its length) as put_sample() puts it; 0 when it was not taken."""
    since, sample = array("i", SINCE), bytearray(160)
    since[6] = columns
    parts = state, since, ks, sample
    if not series_bits.take(parts, Clock(20_000, 1000 + row[0]), row[1:]):
        return sample, 0
    length = series_bits.put_sample(parts)
    assert not length & 1, "no restart"
    return sample, length >> 1


def take(state, columns, row):
    """The new sample: time, and a value for each column."""
    for i in range(columns + 1):
        state[2 * columns + 4 + i] = row[i]


def checked(buf, bits, seed):
    """Fill the last byte up and add the check, as the page says. Returns the length."""
    end = bits + 7 >> 3
    buf[end - 1] |= (1 << (-bits & 7)) - 1
    check = portable_series.check_of(buf, 0, end, seed)
    buf[end], buf[end + 1] = check & 0xFF, check >> 8
    return end + 2


START = 48  # of the room, in its buffer


def room_of(columns, ks, full, count):
    """A room with so many samples, of which nothing is missing, and some erased bytes."""
    state, room = state_of(columns), bytearray(START)
    state[columns + 2] = 1
    row = [0] * (columns + 1)
    for _ in range(count):
        for i in range(columns + 1):
            row[i] += below(200) - 100
        row[0] += 300  # so that the time's code is no mark
        take(state, columns, row)
        sample = bytearray(160)
        end = series_bits.put_codes(sample, 0, state, ks, full)
        series_bits.remember(state, full, False)
        room += sample[: checked(sample, end, 77 ^ len(room) - START)]
    return room


class Chip:
    """Programs of whole pages of block 4."""

    def __init__(self):
        self.block = bytearray(b"\xff" * 4096)
        self.calls = 0
        self.programmed = 0  # bytes

    def writeblocks(self, block, buf, offset):
        self.programmed += len(buf)
        self._check(block, buf, offset)
        for i in range(len(buf)):
            self.block[offset + i] &= buf[i]

    def readblocks(self, block, buf, offset):
        self._check(block, buf, offset)
        for i in range(len(buf)):
            buf[i] = self.block[offset + i]

    def _check(self, block, buf, offset):
        assert block == 4 and not offset % 256 and not len(buf) % 256
        self.calls += 1


class TestSeriesBits(unittest.TestCase):
    def test_what_is_put_is_passed(self):
        random.seed(1)
        for columns in (1, 2, 7, 16):
            ks = bytes([below(16) for _ in range(columns + 1)])
            state = state_of(columns)
            for row, shape in samples(columns, 150):
                at = 1 + below(20)
                take(state, columns, row)
                buf = bytearray(200)
                near = series_bits.is_near(state, shape)
                if near:
                    end = series_bits.put_codes(buf, at, state, ks, shape)
                    ends = [series_bits.pass_codes(buf, at, e, ks, shape) for e in (end, end - 1)]
                    self.assertEqual(ends, [end, 0])
                buf, other = bytearray(200), bytearray(200)
                end = series_bits.put_wholes(buf, at, state, shape)
                self.assertEqual(portable_series.put_wholes(other, at, state, shape), end)
                self.assertEqual(buf, other)
                for kind in KINDS:
                    ends = [kind.pass_wholes(buf, at, e, shape) for e in (end, end - 1)]
                    self.assertEqual(ends, [end, 0])
                series_bits.remember(state, shape, not near)

    def test_a_sample_put_at_once_is_the_one_that_is_put_step_by_step(self):
        random.seed(9)
        for columns in (1, 3, 16):
            ks = bytes([below(16) for _ in range(columns + 1)])
            state, other = state_of(columns), state_of(columns)
            full = (1 << columns) - 1 << 5 | columns
            for row, _ in samples(columns, 200):
                row = list(row)
                for one in (state, other):
                    take(one, columns, row)
                expected = bytearray(160)
                near = series_bits.is_near(other, full)
                sample, length = put_at_once(state, ks, columns, row)
                if length:
                    self.assertTrue(near)
                    end = series_bits.put_codes(expected, 0, other, ks, full)
                    self.assertEqual(length, checked(expected, end, 0) - 2)
                    self.assertEqual(sample[:length], expected[:length])
                else:
                    self.assertTrue(not near or series_bits.take is portable_series.take)
                    series_bits.remember(state, full, not near)
                    near and series_bits.put_codes(expected, 0, other, ks, full)
                series_bits.remember(other, full, not near)
                for one in (state, other):  # sums: of what was coded
                    one[columns + 3 : 2 * columns + 4] = array("i", [0] * (columns + 1))
                self.assertEqual(state, other)

    def test_a_time_that_jumps_there_and_back_is_no_code(self):
        """The change of the step is twice as large as the step."""
        for is_at_once in (True, False):
            state = state_of(1)
            state[3] = 1
            for time in ((1 << 28) - 1, 0):
                take(state, 1, (time, 5))
                length = is_at_once and put_at_once(state, b"\x0f\x0f", 1, (time, 5))[1]
                near = series_bits.is_near(state, 33) if not length else True
                self.assertEqual(bool(near), time > 0)
                if not length:
                    series_bits.remember(state, 33, not near)

    def test_samples_moved_at_once_are_those_moved_one_by_one(self):
        """Machine code stops at what it does not take; there nothing has been moved."""
        random.seed(11)
        for columns in (1, 3, 16):
            ks = bytes([2 + below(5) for _ in range(columns + 1)])
            full = (1 << columns) - 1 << 5 | columns
            for turn in range(40):
                room = room_of(columns, ks, full, 10)
                if turn % 4:  # a bit of it is wrong
                    room[START + below(len(room) - START)] ^= 1 << below(8)
                mark = ks[0] + 1
                place = array("i", (13, len(room), START, 77, columns, 16 - mark, (1 << ks[0]) + 1))
                moved = bytearray(room)
                end = series_bits.move_samples(moved, START, place, ks)
                at, to, expected = START, 13, bytearray(room)
                while at < end:
                    bits = series_bits.pass_codes(room, at << 3, len(room) << 3, ks, full) - (
                        at << 3
                    )
                    check = at + (bits + 7 >> 3)
                    number = portable_series.check_of(room, at, check, 77 ^ at - START)
                    self.assertEqual(room[check] | room[check + 1] << 8, number)
                    series_bits.move_bits(expected, to, at, bits)
                    at, to = check + 2, to + bits
                self.assertEqual((at, to), (end, place[0]))
                expected[to >> 3] &= 0xFF00 >> (to & 7) & 0xFF
                moved[to >> 3] &= 0xFF00 >> (to & 7) & 0xFF
                self.assertEqual(moved[: (to >> 3) + 1], expected[: (to >> 3) + 1])
                self.assertEqual(moved[end:], room[end:])
                if not turn % 4 and series_bits.move_samples is not portable_series.move_samples:
                    self.assertTrue(end >= len(room) - 3, "all but what is nearest to the end")

    def test_a_code_is_as_the_page_says(self):
        state = state_of(1)
        state[2] = 10  # the time between samples
        buf = bytearray(4)
        state[6], state[7] = 11, -3  # T = 1 + zigzag(1), and zigzag(-3) = 5
        end = series_bits.put_codes(buf, 3, state, b"\0\2", 1 << 5 | 1)
        self.assertEqual("%08d" % int(bin(buf[0])[2:]), "00000100")  # 3 bits, 00100
        self.assertEqual((end, bin(buf[1])[2:5]), (13, "100"))  # 01001
        self.assertEqual(list(state)[4:6], [2, 3])
        buf = bytearray(4)
        self.assertEqual(series_bits.put_wholes(buf, 0, state, 1 << 5 | 1), 5 + 5 + 5 + 3)
        self.assertEqual(bytes(buf[:3]), b"\x2d\x87\x40")

    def test_bits_are_put_and_taken(self):
        random.seed(2)
        for _ in range(300):
            size, at = below(31), below(20)
            value = below(1 << size)
            for kind in KINDS:
                buf = bytearray(16)
                self.assertEqual(kind.put_bits(buf, at, value, size + 12), at + size + 12)
                self.assertEqual(kind.take_bits(buf, at + 12, size), value)
                self.assertEqual(kind.bit_length(value), len(bin(value)) - 2 if value else 0)
                self.assertEqual(bin(int.from_bytes(buf, "big")).count("1"), bin(value).count("1"))

    def test_no_bytes_are_passed_beyond_their_end(self):
        random.seed(5)
        for _ in range(2000):
            buf = bytes([random.getrandbits(8) for _ in range(24)])
            columns = 1 + below(16)
            shape = (below((1 << columns) - 1) + 1) << 5 | columns
            ks = bytes([below(4) * below(4) for _ in range(17)])
            end = below(192)
            self.assertTrue(series_bits.pass_codes(buf, 3, end, ks, shape) <= end)
            whole = [kind.pass_wholes(buf, 3, end, shape) for kind in KINDS]
            self.assertTrue(whole[0] == whole[1] <= end)

    def test_a_number_of_a_restart_has_at_most_30_bits_and_ends_where_the_room_does(self):
        for kind in KINDS:
            for size, at, end, expected in (
                (30, 3, 80, 38),
                (31, 3, 80, 0),
                (0, 70, 75, 75),
                (0, 70, 74, 0),
                (0, 75, 80, 80),
                (0, 76, 80, 0),  # the last bits of the buffer
            ):
                buf = bytes([size]) + bytes(9)
                self.assertEqual(kind.pass_wholes(buf, at, end, 1), expected, (size, at, end))

    def test_bits_are_moved_down_over_themselves(self):
        random.seed(6)
        for _ in range(200):
            start = bytes([random.getrandbits(8) for _ in range(40)])
            at = 1 + below(20)
            to, count = below(8 * at), below(100)
            buf = bytearray(start)
            series_bits.move_bits(buf, to, at, count)
            end = to + count
            moved = [series_bits.take_bits(buf, i, 1) for i in range(end)]
            expected = [series_bits.take_bits(start, i, 1) for i in range(to)]
            expected += [series_bits.take_bits(start, 8 * at + i, 1) for i in range(count)]
            self.assertEqual(moved, expected)
            self.assertEqual(buf[(end >> 3) + 2 :], start[(end >> 3) + 2 :])

    def test_checks_are_the_same_to_both(self):
        random.seed(7)
        for kind in KINDS:
            self.assertEqual(kind.check_of(b"123", 0, 3, 0), 0x520E)
            self.assertEqual(kind.check_of(bytes(40), 1, 33, 5) & 0xFF, 0)
        for _ in range(300):
            buf = bytes([random.getrandbits(8) for _ in range(40)])
            at, seed = below(20), below(1 << 30)
            found = [kind.check_of(buf, at, at + 9, seed) for kind in KINDS]
            self.assertEqual(found[0], found[1])
            crc = crc30(seed, buf, at, at + 9) & 0x7F
            zeros = sum([8 - bin(byte).count("1") for byte in buf[at : at + 9]])
            self.assertEqual(found[0], crc << 8 | zeros)

    def test_what_is_not_put_at_once(self):
        """It is left to the caller, who finds all as it was but the new sample."""
        none = None
        for row, day in (
            ((500, 7, 8), 20_001),
            ((500, 7, 8), 0),
            ((500, none, 8), 20_000),
            ((500, 7, none), 20_000),
            ((500, 1 << 29, 8), 20_000),
            ((500, 7, -(1 << 29) - 1), 20_000),
            ((500, 7, (1 << 40) + 7), 20_000),
            ((500, 7, 1 << 28), 20_000),
        ):
            state = state_of(2)
            state[4] = 1
            if 7 < (row[1] or 0) < 1 << 30:
                state[1] = (1 << 29) - 1  # the difference is small
            was = bytes(state[:8])
            since, sample = array("i", SINCE), bytearray(40)
            since[6] = 2
            parts = state, since, b"\2\2\2", sample
            self.assertFalse(series_bits.take(parts, Clock(day, 1500), row[1:]), row)
            self.assertEqual((bytes(state[:8]), bytes(sample)), (was, bytes(40)))

    def test_a_sample_is_programmed_with_its_check(self):
        random.seed(13)
        for kind in KINDS:
            for at, length in ((100, 5), (250, 4), (250, 5), (500, 30), (767, 9)):
                for is_restart in (0, 1):
                    self.check_program(kind, at, length, is_restart)

    def check_program(self, kind, at, length, is_restart):
        chip, view = Chip(), memoryview(bytearray(1024))
        where = array("i", (at, 800, 60, 12_345, 256, 4, 0))
        tools = where, [view[: 256 * n] for n in range(5)]
        sample = bytearray([below(256) for _ in range(60)])
        check = crc30(12_345 ^ at - 60, sample, 0, length)
        if not is_restart:
            check = portable_series.check_of(sample, 0, length, 12_345 ^ at - 60)
        check = check.to_bytes(4 if is_restart else 2, "little")
        self.assertEqual(kind.program(tools, chip, sample, 2 * length + is_restart), 0)
        expected = b"\xff" * at + sample[:length] + check
        end = len(expected)
        self.assertEqual(bytes(chip.block[:end]), expected)
        self.assertEqual(bytes(chip.block[end:]), b"\xff" * (4096 - end))
        self.assertEqual((chip.calls, where[0], where[6]), (2, end, end - at))
        self.assertEqual(chip.programmed, ((end - 1 >> 8) - (at >> 8) + 1) * 256)  # its pages
        where[1] = end + length + len(check) - 1  # one byte less than it takes
        self.assertEqual(kind.program(tools, chip, sample, 2 * length + is_restart), 1)
        self.assertEqual((chip.calls, where[0]), (2, end))
        where[1] += 1
        chip.block[end] = 0  # it takes no more there
        sample[0] |= 1
        self.assertEqual(kind.program(tools, chip, sample, 2 * length + is_restart), -5)
        self.assertEqual(where[0], end)


if __name__ == "__main__":
    unittest.main()
