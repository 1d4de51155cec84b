import unittest

from outpost.backoff import delay_ms


class TestBackoff(unittest.TestCase):
    def test_first_attempt_is_at_once_then_doubles_up_to_a_minute(self):
        self.assertEqual(delay_ms(0, 0xFFFF), 0)
        least = [delay_ms(attempt, 0) for attempt in range(1, 12)]
        most = [delay_ms(attempt, 0xFFFF) for attempt in range(1, 12)]
        self.assertEqual(least[:3], [250, 500, 1000])
        self.assertEqual(most[:3], [499, 999, 1999])
        self.assertTrue(max(most) <= 60_000 and least[-1] == 30_000)

    def test_jitter_stays_between_half_and_whole(self):
        for bits in range(0, 0x10000, 997):
            self.assertTrue(1000 <= delay_ms(3, bits) < 2000)


if __name__ == "__main__":
    unittest.main()
