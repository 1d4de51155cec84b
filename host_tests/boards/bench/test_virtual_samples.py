"""What is missing and what is new among samples of a series: boards/BENCH/virtual/samples.py."""

import unittest

from virtual.samples import _compare


def compared(wanted, found):
    """wanted: values, with "?" behind one whose add() was interrupted."""
    stored = [(0, b"", b"", one.rstrip("?"), not one.endswith("?")) for one in wanted.split()]
    missing, new = [], []
    _compare(stored, found.split(), missing, new)
    return [one[3] for one in missing], new


class TestSamples(unittest.TestCase):
    def test_all_there(self):
        self.assertEqual(compared("a b c", "a b c"), ([], []))

    def test_one_missing_at_each_place(self):
        self.assertEqual(compared("a b c", "b c"), (["a"], []))
        self.assertEqual(compared("a b c", "a c"), (["b"], []))
        self.assertEqual(compared("a b c", "a b"), (["c"], []))

    def test_one_of_several_equal_ones_missing(self):
        self.assertEqual(compared("a a a", "a a"), (["a"], []))

    def test_an_interrupted_one_may_be_there_or_not(self):
        self.assertEqual(compared("a b? c", "a b c"), ([], []))
        self.assertEqual(compared("a b? c", "a c"), ([], []))
        self.assertEqual(compared("a? a a a", "a a a"), ([], []))
        self.assertEqual(compared("a? a a a", "a a a a"), ([], []))
        self.assertEqual(compared("a a? a a? a", "a a a a"), ([], []))

    def test_it_hides_no_missing_one(self):
        self.assertEqual(compared("a? a a a", "a a"), (["a"], []))
        self.assertEqual(compared("a b? c", "a b"), (["c"], []))

    def test_one_that_nobody_stored(self):
        self.assertEqual(compared("a b", "a x b"), ([], ["x"]))
        self.assertEqual(compared("a", "a a"), ([], ["a"]))


if __name__ == "__main__":
    unittest.main()
