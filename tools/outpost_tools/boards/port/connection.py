"""A board whose program is stopped: runs scripts on it through its console, returns the lines that
they print as text, and writes files to it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from outpost_tools.boards.port import console

ANSWER_S = console.ANSWER_S
Show = Callable[[int], None]
Take = Callable[[str], None]


class Board:
    """Raises ToolError if the board refuses, OSError if the connection ends; connected() turns
    OSError into ToolError."""

    def __init__(self, inner: console.Console, port: str) -> None:
        self._inner, self.port, self.answer_s = inner, port, inner.answer_s

    @property
    def console(self) -> console.Console:
        return self._inner

    def run(self, script: str, take: Take = lambda line: None, answer_s: float = 0.0) -> list[str]:
        """Run a script and return the lines that it prints; `take` gets each line as it arrives.
        After each line, the wait for the next one starts again.

        answer_s: how long to wait for a line; 0: as long as for any answer.
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

        A script that needs the heap as the program finds it must run after this: TLS takes 17 KB in
        one piece, and earlier scripts may have fragmented the heap.
        """
        self._inner.stop_program()

    def write(self, path: str, data: bytes, show: Show = lambda count: None) -> None:
        """Write a file; not atomic. show: called with the number of bytes sent since the last
        call."""
        self._inner.write(path, data, show)


@contextlib.contextmanager
def connected(port: str, answer_s: float = ANSWER_S) -> Iterator[Board]:
    """Stop the program of the board at the port, and restart it at the end. Raises ToolError."""
    with console.connected(port, answer_s) as inner:
        yield Board(inner, port)
