"""A board whose program is stopped: run a script on it, write a file to it. The adapter over mpremote is `outbox/live.py`'s.

At the end the board's program is started anew. Every wait is limited. Faults come as ToolError: one line, with the port.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from outpost_tools.errors import ToolError
from outpost_tools.outbox import live

if TYPE_CHECKING:
    from mpremote.transport_serial import SerialTransport

ANSWER_S = live.ANSWER_S
_KNOCK_S = 0.5
_OPEN_PAUSES_S = (0.2, 0.5, 1.0, 2.0)
_PROMPT = b">>> "
_CHUNK_BYTES = 1024  # a write of that size is 4 KB of source at most, which every board has room for
Show = Callable[[int], None]


def _silent(_bytes: int) -> None:
    pass


class Board:
    """Times in seconds. Raises ToolError for what the board refuses, OSError where the connection ends: see connected()."""

    def __init__(self, inner: live._Board, port: str, answer_s: float) -> None:
        self._inner, self.port, self._answer_s = inner, port, answer_s

    def run(self, script: str, take: Callable[[str], None] = lambda line: None) -> list[str]:
        """The lines that the script prints; `take` sees each as it comes. Each gives the board time for the next."""
        lines: list[str] = []

        def keep(line: bytes) -> bool:
            lines.append(live._printable(line))
            take(lines[-1])
            return True

        self._inner.run(script, keep)
        return lines

    def write(self, path: str, data: bytes, show: Show = _silent) -> None:
        """As mpremote's `cp` does: not atomic. show: called with the bytes that went over since the last call."""
        from mpremote.transport import TransportExecError

        limited = self._inner._limited
        written = 0

        def progress(done: int, _total: int) -> None:
            nonlocal written
            limited.allow(self._answer_s)
            show(done - written)
            written = done

        limited.allow(self._answer_s)
        try:
            self._inner._transport.fs_writefile(path, data, _CHUNK_BYTES, progress)
        except TransportExecError as error:
            said = error.error_output.strip().splitlines()[-1:] or ["no reason given"]
            raise ToolError(f"{self.port}: the board cannot write {path}: {live._printable(said[0].encode())}") from None
        except OSError as error:
            if error.strerror == path:  # so mpremote tells what the board's filesystem said
                raise ToolError(f"{self.port}: the board cannot write {path}: {os.strerror(error.errno or 0)}") from None
            raise


def check_port(port: str) -> None:
    """Raises ToolError for what is no serial port."""
    with contextlib.suppress(OSError):
        if os.name == "posix" and not stat.S_ISCHR(os.stat(port).st_mode):
            raise ToolError(f"{port}: is not a serial port; `outpost devices` names those that are there")
    live._check_port(port)


class _Patient(live._Board):
    """Knocks first: a board that is just starting swallows keys, and mpremote would wait for their answer until the end."""

    def stop_program(self) -> None:
        until = time.monotonic() + self._answer_s
        timeout, self._port.timeout = self._port.timeout, _KNOCK_S
        while not self._knock():
            if time.monotonic() > until:
                raise TimeoutError
        self._port.timeout = timeout
        super().stop_program()

    def close(self) -> None:
        """mpremote's own does not get as far where the port has no control lines and says so in another way than it expects."""
        self._port.close()

    def _knock(self) -> bool:
        """Ctrl-C ends a program, Ctrl-B the raw REPL; the prompt answers."""
        self._port.write(b"\r\x03\x02")
        until = time.monotonic() + _KNOCK_S
        seen = b""
        while _PROMPT not in seen and time.monotonic() < until:
            seen = seen[-len(_PROMPT) :] + self._port.read(max(1, self._port.in_waiting))
        return _PROMPT in seen


def _opened(port: str, answer_s: float) -> SerialTransport:
    """Not refused at once: ModemManager, say, has a look at each board that is plugged in."""
    from mpremote.transport import TransportError
    from mpremote.transport_serial import SerialTransport

    for pause_s in (*_OPEN_PAUSES_S, None):
        try:
            return SerialTransport(port, timeout=answer_s)
        except TransportError:
            if pause_s:
                time.sleep(pause_s)
    raise ToolError(f"{port}: in use by another program; close it (a terminal, mpremote, an IDE)")


@contextlib.contextmanager
def _stopped(port: str, answer_s: float) -> Iterator[live._Board]:
    board = _Patient(_opened(port, answer_s), answer_s)
    try:
        board.stop_program()
        yield board
    finally:
        try:
            board.leave()
        finally:
            board.close()


@contextlib.contextmanager
def connected(port: str, answer_s: float = ANSWER_S) -> Iterator[Board]:
    """The board behind the port, its program stopped; started anew at the end. Raises ToolError."""
    check_port(port)
    with live._explained(port, answer_s), _stopped(port, answer_s) as inner:
        yield Board(inner, port, answer_s)
