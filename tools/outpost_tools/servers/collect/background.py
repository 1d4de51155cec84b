"""Work in a thread of its own, which a program's end does not wait for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

T = TypeVar("T")


class Task(Generic[T]):
    def __init__(self, work: Callable[[], T]) -> None:
        self._future: Future[T] = Future()
        self._began_at = time.monotonic()
        self.seconds = 0.0  # that it took
        threading.Thread(target=self._run, args=(work,), daemon=True).start()

    def _run(self, work: Callable[[], T]) -> None:
        try:
            found = work()
        except BaseException as error:
            self._future.set_exception(error)
        else:
            self.seconds = time.monotonic() - self._began_at
            self._future.set_result(found)

    @property
    def is_over(self) -> bool:
        return self._future.done()

    def result(self) -> T:
        """Waits for it. Raises what the work raised."""
        return self._future.result()
