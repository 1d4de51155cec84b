"""Emulated time: the processor's cycle counter, and the alarms that peripherals set on it.

One cycle is 8 ns (125 MHz). Keeps the processor's limit at the next alarm, so that no alarm is late
by more than an instruction. The interface (`nanos`, `create_alarm`, `schedule`, `cancel`) is that
of rp2040py's SimulationClock. Must not know: peripherals.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable

from rp2040 import core

HZ = 125_000_000
CYCLES_PER_US = 125
CYCLES_PER_MS = 125_000
NS_PER_CYCLE = 8
NEVER = (1 << 63) - 1


class Alarm:
    def __init__(self, clock: Clock, callback: Callable[[], None]) -> None:
        self._clock = clock
        self.callback = callback
        self.entry: tuple[int, int, Alarm] | None = None

    def schedule(self, delta_nanos: float) -> None:
        self._clock.set(self, delta_nanos)

    def cancel(self) -> None:
        self._clock.clear(self)

    @property
    def scheduled(self) -> bool:
        return self.entry is not None


class Clock:
    def __init__(self, processor: core.Core) -> None:
        self._processor = processor
        self._state = processor.state
        self._alarms: list[tuple[int, int, Alarm]] = []  # (cycle, order, alarm), next first
        self._order = itertools.count()
        self.frequency = float(HZ)

    @property
    def cycles(self) -> int:
        return self._state.cycles

    @property
    def nanos(self) -> float:
        return self._state.cycles * NS_PER_CYCLE

    @property
    def micros(self) -> float:
        return self._state.cycles * NS_PER_CYCLE / 1000

    def create_alarm(self, callback: Callable[[], None]) -> Alarm:
        return Alarm(self, callback)

    def set(self, alarm: Alarm, delta_nanos: float) -> None:
        self.clear(alarm)
        due = self._state.cycles + max(0, -int(-delta_nanos // NS_PER_CYCLE))
        alarm.entry = (due, next(self._order), alarm)
        bisect.insort(self._alarms, alarm.entry, key=lambda entry: entry[:2])
        self._state.limit = min(self._state.limit, due)

    def clear(self, alarm: Alarm) -> None:
        if alarm.entry is not None:
            self._alarms.remove(alarm.entry)
            alarm.entry = None

    @property
    def next_alarm(self) -> int:
        """The cycle of the next alarm, or NEVER."""
        return self._alarms[0][0] if self._alarms else NEVER

    def fire_due(self) -> None:
        while self._alarms and self._alarms[0][0] <= self._state.cycles:
            alarm = self._alarms.pop(0)[2]
            alarm.entry = None
            alarm.callback()

    def skip_to(self, cycle: int) -> None:
        """Skip time in which the core does nothing: it sleeps, or the flash chip is busy.

        Alarms in between go off on time.
        """
        while self.next_alarm <= cycle:
            self._state.cycles = max(self._state.cycles, self.next_alarm)
            self.fire_due()
        self._state.cycles = max(self._state.cycles, cycle)
