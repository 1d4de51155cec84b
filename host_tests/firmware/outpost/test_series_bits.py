"""The bits of a sample: machine code and plain Python do the same, with any bits. That they are
those of the page, `test_series.py` shows.
"""

import random
import unittest
from array import array

from outpost import portable_series, series_bits

KINDS = [series_bits, portable_series]


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


class TestSeriesBits(unittest.TestCase):
    def test_both_put_the_same_and_both_find_its_end(self):
        random.seed(1)
        for columns in (1, 2, 7, 16):
            ks = bytes([below(16) for _ in range(columns + 1)])
            states = [state_of(columns) for _ in KINDS]
            for row, shape in samples(columns, 150):
                at = 1 + below(20)
                found = []
                for kind, state in zip(KINDS, states):
                    for i in range(columns + 1):
                        state[2 * columns + 4 + i] = row[i]
                    buf = bytearray(200)
                    near = kind.is_near(state, shape)
                    if near:
                        end = kind.put_codes(buf, at, state, ks, shape)
                        ends = [kind.pass_codes(buf, at, e, ks, shape) for e in (end, end - 1)]
                    else:
                        end = kind.put_wholes(buf, at, state, shape)
                        ends = [kind.pass_wholes(buf, at, e, shape) for e in (end, end - 1)]
                    self.assertEqual(ends, [end, 0])
                    kind.remember(state, shape, not near)
                    found.append((bool(near), end, bytes(buf), list(state)))
                self.assertEqual(found[0], found[1])

    def test_a_code_is_as_the_page_says(self):
        for kind in KINDS:
            state = state_of(1)
            state[2] = 10  # the time between samples
            buf = bytearray(4)
            state[6], state[7] = 11, -3  # T = 1 + zigzag(1), and zigzag(-3) = 5
            end = kind.put_codes(buf, 3, state, b"\0\2", 1 << 5 | 1)
            self.assertEqual("%08d" % int(bin(buf[0])[2:]), "00000100")  # 3 bits, 00100
            self.assertEqual((end, bin(buf[1])[2:5]), (13, "100"))  # 01001
            self.assertEqual(list(state)[4:6], [2, 3])
            buf = bytearray(4)
            self.assertEqual(kind.put_wholes(buf, 0, state, 1 << 5 | 1), 5 + 5 + 5 + 3)
            self.assertEqual(bytes(buf[:3]), b"\x2d\x87\x40")

    def test_bits_are_put_and_taken(self):
        random.seed(2)
        for kind in KINDS:
            for _ in range(300):
                size, at = below(31), below(20)
                value = below(1 << size)
                buf = bytearray(16)
                self.assertEqual(kind.put_bits(buf, at, value, size + 12), at + size + 12)
                self.assertEqual(kind.take_bits(buf, at + 12, size), value)
                self.assertEqual(kind.bit_length(value), len(bin(value)) - 2 if value else 0)

    def test_any_bytes_are_the_same_to_both(self):
        random.seed(5)
        for _ in range(2000):
            buf = bytes([random.getrandbits(8) for _ in range(24)])
            columns = 1 + below(16)
            shape = (below((1 << columns) - 1) + 1) << 5 | columns
            ks = bytes([below(4) * below(4) for _ in range(17)])
            end = below(192)
            found = [
                (kind.pass_codes(buf, 3, end, ks, shape), kind.pass_wholes(buf, 3, end, shape))
                for kind in KINDS
            ]
            self.assertEqual(found[0], found[1])
            self.assertTrue(found[0][0] <= end and found[0][1] <= end)

    def test_bits_are_moved_down_over_themselves(self):
        random.seed(6)
        for _ in range(200):
            start = bytes([random.getrandbits(8) for _ in range(40)])
            at = 1 + below(20)
            to, count = below(8 * at), below(100)
            found = []
            for kind in KINDS:
                buf = bytearray(start)
                kind.move_bits(buf, to, at, count)
                found.append(bytes(buf))
                moved = [kind.take_bits(buf, to + i, 1) for i in range(count)]
                expected = [kind.take_bits(start, 8 * at + i, 1) for i in range(count)]
                self.assertEqual(moved, expected)
                after = [kind.take_bits(buf, i, 1) for i in range(to + count, 320)]
                kept = [kind.take_bits(start, i, 1) for i in range(to + count, 320)]
                self.assertEqual(after, kept)
            self.assertEqual(found[0], found[1])

    def test_zeros_are_counted(self):
        for kind in KINDS:
            self.assertEqual(kind.count_zeros(b"\xff\x00\xfe\x7f", 0, 4), 10)
            self.assertEqual(kind.count_zeros(bytes(40), 1, 33), 0)
            self.assertEqual(kind.count_zeros(b"\x00", 1, 1), 0)


if __name__ == "__main__":
    unittest.main()
