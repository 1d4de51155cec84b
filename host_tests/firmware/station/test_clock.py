import unittest

from station.clock import Clock


class TestClock(unittest.TestCase):
    def test_runs_over_midnight_and_over_a_wrap_of_the_ticks(self):
        ticks = (1 << 30) - 1000
        clock = Clock(ticks)
        clock.set(20_000, 86_399_500, ticks)
        clock.now((ticks + 1500) & 0x3FFFFFFF)
        self.assertEqual((clock.day, clock.ms, clock.up_ms), (20_001, 1000, 1500))

    def test_not_set_counts_uptime_only(self):
        clock = Clock(0)
        for day in range(3):
            clock.now(86_400_000 * day + 5)
        self.assertEqual((clock.is_set, clock.up_day, clock.up_ms), (False, 2, 5))

    def test_set_later_keeps_the_uptime(self):
        clock = Clock(100)
        clock.set(20_000, 0, 700)
        clock.now(1000)
        self.assertEqual((clock.ms, clock.up_ms), (300, 900))


if __name__ == "__main__":
    unittest.main()
