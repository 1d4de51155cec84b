"""How fast emulated time may run: as fast as it can, or at a multiple of real time.

An idle chip would skip the milliseconds in which a real server answers. So if there are sources
(objects with fileno() and pump()), a sleep of the chip waits in select(): until the sleep's end in
scaled real time, or until data arrive, which the chip then gets at that very moment. Must not know:
what the sources are.
"""

from __future__ import annotations

import select
import time

from rp2040.chip import Chip
from rp2040.clock import CYCLES_PER_MS, HZ

_BUSY_POLL = 2 * CYCLES_PER_MS  # how often the sources are polled while the core is busy
_MOST_BEHIND_S = 0.05  # lost time beyond that is not caught up


class Pace:
    """speed: seconds of the chip per real second, at most. sources: may be changed at any time."""

    def __init__(self, chip: Chip, sources: list, speed: float = 1.0) -> None:
        self.chip, self.sources, self.speed = chip, sources, speed
        chip.idle = self._idle
        self._begin()

    def _begin(self) -> None:
        self._real_s, self._cycle = time.monotonic(), self.chip.clock.cycles

    def _ahead_s(self, cycle: int) -> float:
        """Returns how long real time needs to reach the chip's time at that cycle."""
        wanted_s = (cycle - self._cycle) / HZ / self.speed
        ahead_s = wanted_s - (time.monotonic() - self._real_s)
        if ahead_s < -_MOST_BEHIND_S:
            self._begin()
        return ahead_s

    def pump(self) -> None:
        for source in self.sources:
            source.pump()

    def _idle(self, limit: int) -> int:
        clock = self.chip.clock
        wait_s = self._ahead_s(limit)
        if wait_s > 0 and self.sources:
            self._wait(wait_s)
            passed = int((time.monotonic() - self._real_s) * HZ * self.speed) + self._cycle
            limit = min(limit, max(passed, clock.cycles + 1))
        clock.skip_to(limit)
        self.pump()
        return clock.cycles

    def _wait(self, wait_s: float) -> None:
        select.select(self.sources, [], [], wait_s)

    def run(self, until: int, is_done=None) -> bool:
        """Run until is_done() (polled every 2 ms of the chip's time) or that cycle. Returns
        is_done()."""
        clock = self.chip.clock
        while clock.cycles < until:
            self.chip.run(until=min(until, clock.cycles + _BUSY_POLL))
            self.pump()
            if is_done and is_done():
                return True
        return bool(is_done and is_done())

    def run_for(self, seconds: float, is_done=None) -> bool:
        """Run for that many seconds of the chip's time."""
        return self.run(self.chip.clock.cycles + int(seconds * HZ), is_done)
