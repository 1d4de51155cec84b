"""What the user sees during the run: a bar on a terminal, otherwise plain lines. All on stderr."""

from __future__ import annotations

import sys
import time

from outpost_tools.text.visible import unguarded

_LINE_EVERY_S = 3.0


class Progress:
    """say() for one-time events; measure() .. step() .. done() for something with a length in
    seconds."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._bar = None
        self._total_s = self._line_at = 0.0

    def say(self, text: str) -> None:
        line = f"[{time.monotonic() - self._began:5.1f} s] {text}"
        if self._bar is not None:
            self._bar.write(line, file=unguarded(sys.stderr))
        else:
            print(line, file=sys.stderr, flush=True)

    def measure(self, title: str, total_s: float) -> None:
        self._total_s, self._line_at = total_s, 0.0
        self.say(title)
        if sys.stderr.isatty():
            from tqdm import tqdm

            form = "{desc} {bar} {n:.0f}/{total:.0f} s {postfix}"
            self._bar = tqdm(
                total=total_s, desc=title.split(":")[0], bar_format=form, file=unguarded(sys.stderr)
            )

    def step(self, elapsed_s: float, text: str) -> None:
        """`elapsed_s` since measure()."""
        if self._bar is not None:
            self._bar.n = min(elapsed_s, self._total_s)
            self._bar.set_postfix_str(text)
        elif elapsed_s >= self._line_at:
            self._line_at = elapsed_s + _LINE_EVERY_S
            self.say(f"{elapsed_s:3.0f}/{self._total_s:.0f} s  {text}")

    def done(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None
