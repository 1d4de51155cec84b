"""Differences of ticks."""

import unittest

from outpost.ticks import elapsed_ms

TICKS = 0x3FFFFFFF


class TestElapsed(unittest.TestCase):
    def test_ticks_may_wrap(self):
        self.assertEqual(elapsed_ms(10, 0x3FFFFFF6), 20)
        self.assertEqual(elapsed_ms(5, 9), 0)

    def test_up_to_half_of_the_ticks(self):
        for now_ms, since_ms, passed in (
            (7, 7, 0), (0, TICKS, 1), (0x1FFFFFFF, 0, 0x1FFFFFFF), (0x20000000, 0, 0), (6, 7, 0),
        ):  # fmt: skip
            self.assertEqual(elapsed_ms(now_ms, since_ms), passed)
