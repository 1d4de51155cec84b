"""Time of day without allocating: a day number and its milliseconds.

Seconds since 1970 exceed 2^30, and an integer above that allocates on a 32-bit board.
The clock is set from what the board knows (NTP, RTC). In between, it runs on the board's ticks.
Call now() at least every few days.
"""

from micropython import const

from outpost.ticks import elapsed_ms

_DAY_MS = const(86_400_000)


class Clock:
    """`day` (days since 1970-01-01 UTC; 0 = not set), `ms` of the day.

    up_day, up_ms: the same since boot.
    """

    def __init__(self, now_ms):
        self.day = self.ms = self.up_day = self.up_ms = 0
        self._ticks = now_ms

    @property
    def is_set(self):
        return self.day > 0

    def set(self, day, ms, now_ms):
        """Set the clock to `ms` milliseconds into day number `day`, UTC."""
        self.now(now_ms)
        self.day, self.ms = day, ms

    def now(self, now_ms):
        """Bring the fields up to the ticks."""
        passed = elapsed_ms(now_ms, self._ticks)
        self._ticks = now_ms
        self.up_ms += passed
        while self.up_ms >= _DAY_MS:
            self.up_ms -= _DAY_MS
            self.up_day += 1
        if self.day:
            self.ms += passed
            while self.ms >= _DAY_MS:
                self.ms -= _DAY_MS
                self.day += 1
