"""When a board's power is cut, by seed. Pure: the same seed yields the same orders."""

from __future__ import annotations

import random

CUT_MODES = ("nothing", "all", "first", "last", "random")
# Storing a message takes 1.02 flash operations (program and erase).
_OPERATIONS_PER_MESSAGE = 1.02
# The share of the run in which a board is on and has booted, so that its messages are predictable.
_USEFUL_SHARE = 0.95
# With n cuts, a run is n + 1 shares long; each cut comes _EARLIEST to _LATEST shares after the
# preceding boot. For up to 4 cuts the sum of the latest times is at most n + 1, so all cuts happen
# in time, and the last one late in the run.
_EARLIEST, _LATEST = 0.6, 1.25
_OFF_S = (0.1, 1.0)


class Orders:
    """For one board: next_boot() for each boot; off_s() for each period without power."""

    def __init__(self, seed: str, *, cuts: int, seconds: float, interval_ms: int) -> None:
        self._rng = random.Random(seed)
        self._cuts_left = cuts
        self._mode = self._rng.randrange(len(CUT_MODES))
        messages = seconds * _USEFUL_SHARE * 1000 / interval_ms
        self._share = messages * _OPERATIONS_PER_MESSAGE / (cuts + 1)

    def next_boot(self) -> dict[str, int | str]:
        """The keys of simulation.json that change from boot to boot.

        Operation 0: no more cuts.
        """
        self._mode = (self._mode + 1) % len(CUT_MODES)
        operation = 0
        if self._cuts_left:
            self._cuts_left -= 1
            operation = max(1, int(self._share * self._rng.uniform(_EARLIEST, _LATEST)))
        return {
            "seed": self._rng.randrange(1, 1 << 30),
            "cut_at_operation": operation,
            "cut_mode": CUT_MODES[self._mode],
        }

    def off_s(self) -> float:
        return self._rng.uniform(*_OFF_S)

    def no_more_cuts(self) -> None:
        self._cuts_left = 0
