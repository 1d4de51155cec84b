"""Whether this machine's clock is set. The collector and the republisher use the same evidence.

There are three sources. The kernel knows whether something synchronises its clock (adjtimex(2), or
systemd's note). Boards send the times of readings that they have just taken. The log contains the
latest arrival so far.

- Boards that agree with each other outweigh the kernel: if at least two agree on a time far from
  ours, and they are more than those that agree with ours, our clock is wrong.
- If the kernel says that nothing synchronises the clock, one board near our time is enough to trust
  the clock, and one board that is ahead of it, if none is near it, is enough to call it wrong.
- Unless the kernel says that the clock is synchronised, or a board is near our time, arrivals in
  the log that are far later than our time also show that it is wrong.
- If the kernel says that nothing synchronises the clock, and no board has confirmed it, it is not
  known whether the clock is set. What depends on the clock must then do without it.
- Otherwise the clock is trusted.

A board that sends its backlog sends old times. So a time before ours counts only if its distance
stays the same for SETTLED_S, which that of a backlog does not. Bounded: MOST_BOARDS. Knows no
message format.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

MOST_BOARDS = 1000
SETTLED_S, JITTER_S = 5.0, 2.0
_FORGET_S = 3600.0
_LOOK_S = 1.0
SET_S = 2.0  # a change of the clock by less than this is not treated as setting it
_TIME_ERROR = 5  # adjtimex(2): the clock is not synchronised
_TIMEX_BYTES = 512  # more than its struct has on any machine
_SYSTEMD = Path("/run/systemd/timesync/synchronized")
# Where it exists, this clock continues while the machine sleeps.
_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def steady() -> float:
    """The time of a monotonic clock in seconds."""
    return time.clock_gettime(_STEADY)


def kernel_says() -> bool | None:
    """Whether something synchronises the clock; None if the kernel cannot be asked."""
    if _SYSTEMD.exists():
        return True
    try:
        state = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))
    except (OSError, AttributeError):
        return None
    return None if state < 0 else state != _TIME_ERROR


class _Said(NamedTuple):
    """ahead_s: a board's time minus ours. since, at: the first and the last time at which it was
    about the same, by the steady clock."""

    ahead_s: float
    since: float
    at: float


class MachineClock:
    """Call take() with the times that boards send, and look() regularly. reason: why the clock
    cannot be trusted; None if it can.

    far_s: times that are further apart contradict each other. agree_s: the times of boards that
    agree differ by this at most. newest_s: the latest arrival that the log contains already.
    """

    def __init__(
        self, far_s: float, agree_s: float, *, newest_s: float = 0.0,
        now: Callable[[], float] = time.time,
        steady: Callable[[], float] = steady,
        kernel: Callable[[], bool | None] = kernel_says,
    ) -> None:  # fmt: skip
        self._far_s, self._agree_s, self._newest_s = far_s, agree_s, newest_s
        self._now, self._steady, self._kernel = now, steady, kernel
        self._boards: dict[str, _Said] = {}
        self._ahead_s = now() - steady()
        self._looked_at = float("-inf")
        self.reason: str | None = None
        self.is_wrong = False  # True: the clock is known to be wrong
        self.behind_s = 0.0  # add this to our time; above 0 if boards agree on a later time
        self.set_by_s = 0.0  # since this was last cleared by the caller
        self.look()

    def take(self, board: str, newest_s: float) -> None:
        """Takes the time of the newest reading of a message that has just arrived."""
        at, ahead_s = self._steady(), newest_s - self._now()
        before = self._boards.pop(board, None)
        is_same = before is not None and abs(before.ahead_s - ahead_s) <= JITTER_S
        since = before.since if before is not None and is_same else at
        while len(self._boards) >= MOST_BOARDS:
            del self._boards[next(iter(self._boards))]
        self._boards[board] = _Said(ahead_s, since, at)
        self._judge()

    def look(self) -> None:
        at = self._steady()
        by_s = self._now() - at - self._ahead_s
        if abs(by_s) >= SET_S:
            self._ahead_s += by_s
            self.set_by_s += by_s
            for name, said in self._boards.items():
                self._boards[name] = said._replace(ahead_s=said.ahead_s - by_s)
        elif at - self._looked_at < _LOOK_S:
            return
        self._looked_at, self._is_synchronised = at, self._kernel()
        self._judge()

    def _judge(self) -> None:
        near, far, ahead_s = self._counted()
        is_free = self._is_synchronised is False
        self.is_wrong, self.reason, self.behind_s = True, None, 0.0
        if far > near and far >= (1 if is_free and ahead_s > 0 else 2):
            boards = f"{far} boards agree" if far > 1 else "the kernel does not vouch for it"
            side = "behind the boards'" if ahead_s > 0 else "ahead of the boards'"
            self.reason = f"this machine's clock is {_words(ahead_s)} {side}: {boards}"
            # a time before ours may come from a backlog; a time after ours cannot
            self.behind_s = max(0.0, ahead_s) if far > 1 else 0.0
            return
        behind_s = self._newest_s - self._now()
        if self._is_synchronised is not True and not near and behind_s > self._far_s:
            self.reason = f"this machine's clock is {_words(behind_s)} behind its own log"
            return
        self.is_wrong = False
        if is_free and not near:
            self.reason = (
                "this machine's clock is not known to be right: the kernel says that nothing "
                "synchronises it, and no board has confirmed it"
            )

    def _counted(self) -> tuple[int, int, float]:
        """(number of boards near our time, number of boards in the largest group that agrees on
        another time, by how much that time is later)."""
        forget = self._steady() - _FORGET_S
        said = [one for one in self._boards.values() if one.at > forget]
        near = sum(abs(one.ahead_s) <= self._far_s for one in said)
        far = sorted(
            one.ahead_s for one in said
            if one.ahead_s > self._far_s
            or (one.ahead_s < -self._far_s and one.at - one.since >= SETTLED_S)
        )  # fmt: skip
        most, best, first = 0, 0.0, 0
        for last, ahead_s in enumerate(far):
            while ahead_s - far[first] > self._agree_s:
                first += 1
            if last - first >= most:
                most, best = last - first + 1, far[(first + last) // 2]
        return near, most, best


def _words(seconds: float) -> str:
    seconds = abs(seconds)
    for unit, size in (("days", 86_400), ("hours", 3600)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
