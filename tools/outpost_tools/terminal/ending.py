"""The end of a program that runs until a signal asks for it."""

from __future__ import annotations

import signal
import time

_TURN_S = 0.1  # the longest time until wait() notices the end


def exit_on_signals() -> None:
    """For programs whose main loop is a library's: SIGTERM and SIGINT end them with status 0,
    including `finally`. Call it in the main thread.

    uvicorn shuts down in order with its own handlers, and then raises the signal again for earlier
    handlers: by default SIGTERM would then kill the program.
    """

    def end(*_) -> None:
        raise SystemExit(0)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)


def interrupt_on_signals() -> None:
    """SIGTERM and SIGINT raise KeyboardInterrupt, even if a shell has set them to be ignored. Call
    it in the main thread."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)


class Ending:
    """Replaces threading.Event, whose set() must not be called in a signal handler: it takes a
    lock, and deadlocks if the handler interrupts wait(), or the set() of an earlier signal.
    """

    def __init__(self) -> None:
        self._is_set = False

    def on_signals(self) -> None:
        """From now on SIGTERM and SIGINT request the end. Call it in the main thread."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.set())

    def set(self) -> None:
        self._is_set = True

    def is_set(self) -> bool:
        return self._is_set

    def wait(self, seconds: float) -> bool:
        """Waits until the end is requested, or the time is over; returns is_set()."""
        until = time.monotonic() + seconds
        while not self._is_set and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, _TURN_S))
        return self._is_set
