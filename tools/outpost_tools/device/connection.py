"""A board whose program is stopped, by its console: run a script on it, write a file to it; lines of text come back."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from outpost_tools.device import console

ANSWER_S = console.ANSWER_S
Show = Callable[[int], None]


class Board:
    """Raises ToolError for what the board refuses, OSError where the connection ends: see connected()."""

    def __init__(self, inner: console.Console, port: str) -> None:
        self._inner, self.port = inner, port

    def run(self, script: str, take: Callable[[str], None] = lambda line: None) -> list[str]:
        """The lines that the script prints; `take` sees each as it comes. Each gives the board time for the next."""
        lines: list[str] = []

        def keep(line: bytes) -> bool:
            lines.append(console.printable(line))
            take(lines[-1])
            return True

        self._inner.run(script, keep)
        return lines

    def write(self, path: str, data: bytes, show: Show = lambda count: None) -> None:
        """Not atomic. show: called with the bytes that went over since the last call."""
        self._inner.write(path, data, show)


@contextlib.contextmanager
def connected(port: str, answer_s: float = ANSWER_S) -> Iterator[Board]:
    """The board behind the port, its program stopped; started anew at the end. Raises ToolError."""
    with console.connected(port, answer_s) as inner:
        yield Board(inner, port)
