"""Reports once what we are waiting for, and repeats it ever more rarely: a broker that is away for
a night fills no screen and no log. Knows nothing about who waits."""

from __future__ import annotations

import time
from collections.abc import Callable

_FIRST_AGAIN_S = 60.0
_LAST_AGAIN_S = 3600.0


class Folded:
    """say: receives the lines that remain."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._text = ""
        self._since = self._next = self._again_s = 0.0
        self._count = 0

    def tell(self, text: str) -> None:
        """Prints a new text at once, and the same text again after 1 minute, 2, 4 ... 60."""
        now = time.monotonic()
        if text != self._text:
            self._text, self._since, self._count = text, now, 0
            self._again_s = _FIRST_AGAIN_S
            self._next = now + self._again_s
            self._say(text)
            return
        self._count += 1
        if now >= self._next:
            self._again_s = min(2 * self._again_s, _LAST_AGAIN_S)
            self._next = now + self._again_s
            self._say(f"{text} (for {duration(now - self._since)} now, {self._count} tries)")

    def over(self) -> str:
        """The wait is over: " after 3 min" for the line that reports it; "" if we did not wait."""
        waited_s = time.monotonic() - self._since
        text = f" after {duration(waited_s)}" if self._text else ""
        self._text = ""
        return text


def duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
