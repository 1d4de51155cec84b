"""Shows the user, on stderr, the progress of work on a board: each step as it begins; within a
step, a bar on a terminal and lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from outpost_tools.text.visible import unguarded

_LINE_EVERY_S = 5.0
Show = Callable[[int, int], None]  # (done, total)


class Progress:
    """note() announces a step; bar() shows the progress of a step with a known length."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._last = ""

    def note(self, text: str) -> None:
        """Print the text, but not twice in a row."""
        if text != self._last:
            self._last = text
            self.emit(text, time.monotonic() - self._began)

    def emit(self, text: str, elapsed_s: float) -> None:
        print(f"[{elapsed_s:5.1f} s] {text}", file=sys.stderr, flush=True)

    @contextmanager
    def bar(self, title: str, unit: str) -> Iterator[Show]:
        """Yields a callable that takes how much is done, and how much there is."""
        if not sys.stderr.isatty():
            yield self._lines(title)
            return
        from tqdm import tqdm

        scaled = unit == "B"
        with tqdm(
            desc=title, unit=unit, unit_scale=scaled, leave=False, file=unguarded(sys.stderr)
        ) as drawn:

            def show(done: int, total: int) -> None:
                drawn.total = total
                drawn.update(done - drawn.n)

            yield show

    def _lines(self, title: str) -> Show:
        told_at = time.monotonic()

        def show(done: int, total: int) -> None:
            nonlocal told_at
            if time.monotonic() - told_at >= _LINE_EVERY_S:
                told_at = time.monotonic()
                self.note(f"{title}: {100 * done // max(total, 1)} %")

        return show


class Silent(Progress):
    """Prints no steps: for programs that call the job."""

    def note(self, text: str) -> None:
        """Print nothing: nobody would read it."""
