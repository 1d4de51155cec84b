"""Reports what a run is waiting for, with the time, while it prints nothing else. No Spark."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

EVERY_S = 10.0


class Waiting:
    """with Waiting(say) as waiting: waiting.set("what we wait for"), or a function that says it."""

    def __init__(self, say: Callable[[str], None], what: Callable[[], str] | None = None) -> None:
        self._say, self._ask = say, what
        self._what = ""
        self._ended = threading.Event()
        self._since = self._said_at = time.monotonic()
        self._thread = threading.Thread(target=self._tell, daemon=True)

    def __enter__(self) -> Waiting:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(EVERY_S)  # the function may hang with a broken JVM

    def set(self, what: str) -> None:
        self._what, self._since = what, time.monotonic()

    def say(self, text: str) -> None:
        """Print a line of the run itself."""
        self._said_at = self._since = time.monotonic()
        self._say(text)

    def _tell(self) -> None:
        while not self._ended.wait(EVERY_S / 10):
            now = time.monotonic()
            if now - self._said_at < EVERY_S:
                continue
            self._said_at = now
            if what := self._current():
                self._say(f"waiting for {now - self._since:.0f} s: {what}")

    def _current(self) -> str:
        if self._ask is None:
            return self._what
        try:
            return self._ask()
        except Exception:  # the JVM is gone: the run itself will report it
            return ""
