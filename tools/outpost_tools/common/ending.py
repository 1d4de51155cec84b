"""The end of a program that runs until a signal asks for it."""

from __future__ import annotations

import signal
import time

_TURN_S = 0.1  # in which wait() hears of it


def exit_on_signals() -> None:
    """For programs with a main loop of somebody else's: SIGTERM and SIGINT end them with status 0,
    `finally` included. In the main thread.

    uvicorn ends in order by handlers of its own, and then raises the signal once more for those
    that were there before: by its default action SIGTERM would kill the program.
    """

    def end(*_) -> None:
        raise SystemExit(0)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)


class Ending:
    """In place of a threading.Event, whose set() must not be called in a signal handler: it takes a
    lock, and waits for ever where the handler interrupts wait(), or the set() of a first signal.
    """

    def __init__(self) -> None:
        self._is_set = False

    def on_signals(self) -> None:
        """SIGTERM and SIGINT ask for the end from now on. In the main thread."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.set())

    def set(self) -> None:
        self._is_set = True

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, seconds: float) -> bool:
        """Until it is asked for, or the time is over; is_set()."""
        until = time.monotonic() + seconds
        while not self._is_set and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, _TURN_S))
        return self._is_set
