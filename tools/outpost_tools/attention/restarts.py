"""Which starts of a board were unwanted. A board reports the cause of each start (`reset_cause`). A
restart by a tool (flashing, using its prompt, an update, a command) and the end of a deep sleep are
not faults. If a board never reports a cause, all its starts count, once it has sent enough messages
to have reported one.

Pure. Bounded by MOST.
"""

from __future__ import annotations

from dataclasses import dataclass

CAUSE = "reset_cause"
WINDOW_S = 86_400.0
OFTEN = 5  # in WINDOW_S
MOST = 256  # starts that are kept
_CAUSES = {1: "power", 2: "reset pin", 3: "watchdog or crash"}
_WANTED = (4, 5)  # the end of a deep sleep; software
_TELLS_ONCE_IN = 64  # messages (firmware/station/about.py)


@dataclass(slots=True)
class _Start:
    time_ms: int
    cause: int = 0  # 0: not reported


class Restarts:
    """Call take() for each message, in any order."""

    def __init__(self) -> None:
        self._starts: dict[tuple[str, int], _Start] = {}
        self._first: dict[str, int] = {}  # of each stream: its first start is no restart
        self._tells = False

    def take(self, stream: str, boot: int, time_ms: int, cause: float | None) -> None:
        """cause: the value of the message's reading `reset_cause`; None: it has no such reading."""
        key = stream, boot
        start = self._starts.get(key)
        if start is None:
            self._make_room()
            start = self._starts[key] = _Start(time_ms)
            self._first[stream] = min(self._first.get(stream, boot), boot)
        start.time_ms = min(start.time_ms, time_ms)
        if cause is not None:
            self._tells = True
            start.cause = int(min(max(cause, 0), 255))

    def _make_room(self) -> None:
        """Drops the oldest of the least important starts, because a board in deep sleep starts at
        each wake: those without an unwanted cause go first."""
        if len(self._starts) < MOST:
            return
        known = self._starts.items()
        key = min(known, key=lambda one: (one[1].cause in _CAUSES, one[1].time_ms))[0]
        del self._starts[key]
        if all(stream != key[0] for stream, _ in self._starts):
            del self._first[key[0]]

    def unwanted(self, until_ms: float, messages: int) -> list[int]:
        """The causes (0: not reported) of the unwanted starts since WINDOW_S before `until_ms`."""
        if not self._tells and messages < _TELLS_ONCE_IN:
            return []
        since_ms = until_ms - WINDOW_S * 1000
        return [
            one.cause
            for (stream, boot), one in self._starts.items()
            if one.time_ms > since_ms and boot != self._first[stream] and self._counts(one)
        ]

    def _counts(self, one: _Start) -> bool:
        return one.cause not in _WANTED and (one.cause > 0 or not self._tells)


def words(causes: list[int]) -> str:
    """For example "6 restarts in 24 h: power"."""
    told = sorted({_CAUSES[one] for one in causes if one in _CAUSES})
    return f"{len(causes):,} restarts in 24 h" + (f": {', '.join(told)}" if told else "")


def cause_words(cause: float) -> str:
    """The value of `reset_cause` in words."""
    named = _CAUSES | {4: "end of a deep sleep", 5: "on purpose"}
    return named.get(int(cause), f"{cause:g}")
