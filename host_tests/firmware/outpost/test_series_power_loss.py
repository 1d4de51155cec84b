# cpython-only: slow under MicroPython; test_series.py runs there
"""The promise of a series at every flash operation: short form. The long one:
`host_tests/fuzz/hunt_power_loss.py --series`. Broken copies show that the hunt can fail.
"""

import unittest

import series_loss
from nor_flash import NorRuleError
from outpost import series_outbox
from outpost.outbox import Outbox
from outpost.series_outbox import over


class BelievesAnySample(series_outbox._Gather):
    """Mutant: takes a sample for whole, whatever its check says."""

    def _checked(self, at, bits):
        end = at + ((bits >> 1) + 7 >> 3) + 2 + 2 * (bits & 1)
        return end if bits and end <= self.place[1] else 0


class GathersAll(over(Outbox)):
    def mount(self):
        self._gather = BelievesAnySample()
        return super().mount()


class GoesOn(over(Outbox)):
    """Mutant: appends to the room after a program that did not read back."""

    def extend(self, length):
        owner = self._owner
        super().extend(length)
        if self._owner is None:
            self._owner = owner
            self.next_seq -= 1
            self.where[0] += length
        return 0


class UsesItsNumberAgain(over(Outbox)):
    """Mutant: a closed record's number is the next one's too."""

    def close_series(self):
        self._owner = None


def run(kind, load, seeds):
    caught = 0
    for seed in range(seeds):
        try:
            series_loss.SeriesHunt((4, 4, 256), load, seed, kind).run(30, 60)
        except (series_loss.Violation, NorRuleError, AssertionError, IndexError):
            caught += 1
    return caught


class TestSeriesPowerLoss(unittest.TestCase):
    def test_nothing_is_lost_invented_or_out_of_order(self):
        total = series_loss.hunt(6, 7, geometries=((2, 4, 256), (4, 4, 256)))
        self.assertTrue(total.cuts > 300)

    def test_mutants_are_caught(self):
        plain, errors = series_loss.LOADS[0], series_loss.LOADS[6]
        self.assertEqual(run(over(Outbox), plain, 1) + run(over(Outbox), errors, 1), 0)
        self.assertTrue(run(GathersAll, plain, 2))
        self.assertTrue(run(GoesOn, errors, 2))
        self.assertTrue(run(UsesItsNumberAgain, plain, 1))


if __name__ == "__main__":
    unittest.main()
