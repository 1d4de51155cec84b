"""Several drivers of the pipeline in one process, of which one at a time goes on, from one of its
commits to the next: each in a thread of its own, which waits before each commit until it is told to
go on, or to die. A death after a commit is one before the next."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

from outpost_tools.readings.pipeline import delta

_LIMIT_S = 120


class Died(BaseException):
    """Not an Exception, as nothing that a driver does may catch it."""


class Driver:
    """`work` runs from the first step() on."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._work, self._dies = work, False
        self._go, self._stands = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.is_over, self.error = False, None
        self.commits = 0

    def step(self, *, dies: bool = False) -> bool:
        """Go on to the next commit, or die before the one at which it stands; False: it is over.
        Raises what it raised."""
        if self.is_over:
            return False
        self._dies = dies
        if self._thread.ident is None:
            if dies:
                self.is_over = True
                return False
            self._thread.start()
        else:
            self._go.release()
        assert self._stands.acquire(timeout=_LIMIT_S), "a driver hangs"
        if self.error is not None:
            raise self.error
        return not self.is_over

    def finish(self) -> None:
        while self.step():
            pass

    def reaches_commit(self) -> None:
        """Called in its thread."""
        self._stands.release()
        self._go.acquire()
        if self._dies:
            raise Died
        self.commits += 1

    def _run(self) -> None:
        _current.driver = self
        try:
            self._work()
        except Died:
            pass
        except BaseException as error:
            self.error = error
        self.is_over = True
        self._stands.release()


_current = threading.local()


@contextlib.contextmanager
def in_steps() -> Iterator[None]:
    """Drivers stop before their commits; others do not."""
    commit = delta.commit

    def stopping(*arguments: object, **named: object) -> delta.Table:
        if driver := getattr(_current, "driver", None):
            driver.reaches_commit()
        return commit(*arguments, **named)

    delta.commit = stopping
    try:
        yield
    finally:
        delta.commit = commit
