"""A board whose program is stopped, by its console: run a script on it, write a file to it; lines
of text come back."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from outpost_tools.device import console

ANSWER_S = console.ANSWER_S
Show = Callable[[int], None]
Take = Callable[[str], None]


class Board:
    """Raises ToolError for what the board refuses, OSError where the connection ends: see
    connected()."""

    def __init__(self, inner: console.Console, port: str) -> None:
        self._inner, self.port, self.answer_s = inner, port, inner.answer_s

    @property
    def console(self) -> console.Console:
        return self._inner

    def run(self, script: str, take: Take = lambda line: None, answer_s: float = 0.0) -> list[str]:
        """The lines that the script prints; `take` sees each as it comes. Each allows the board
        time for the next.

        answer_s: how long to wait for a line; 0: as for any answer.
        """
        lines: list[str] = []

        def keep(line: bytes) -> bool:
            lines.append(console.printable(line))
            take(lines[-1])
            return True

        self._inner.run(script, keep, answer_s)
        return lines

    def renew(self) -> None:
        """Soft reset: a fresh interpreter with an empty heap, in which the program does not run.

        What needs the heap as the program finds it comes after one: TLS takes 17 KB in one piece,
        which the scripts of a session may have broken up.
        """
        self._inner.stop_program()

    def write(self, path: str, data: bytes, show: Show = lambda count: None) -> None:
        """Not atomic. show: called with the bytes that went over since the last call."""
        self._inner.write(path, data, show)


@contextlib.contextmanager
def connected(port: str, answer_s: float = ANSWER_S) -> Iterator[Board]:
    """The board at the port, its program stopped, and restarted at the end. Raises ToolError."""
    with console.connected(port, answer_s) as inner:
        yield Board(inner, port)
