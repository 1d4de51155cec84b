"""The console of a board on a serial port: stops the board's program, runs scripts, writes files,
and restarts the program at the end.

This is the only module that knows mpremote, whose library interface is not stable (hence the exact
pin). Every wait is limited, because mpremote by itself waits indefinitely for a board that is
silent or never stops printing. Faults are raised as ToolError: one line that names the port.
"""

from __future__ import annotations

import contextlib
import io
import os
import stat
import struct
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from outpost_tools.errors import ToolError
from outpost_tools.text.visible import visible

if TYPE_CHECKING:
    from mpremote.transport_serial import SerialTransport

ANSWER_S = 10.0  # a board answers within 0.1 s, or after boot.py if it has just started
_ENTER_TRIES = 4
_ENTER_PAUSE_S = 0.5
_KNOCK_S = 0.5
_OPEN_PAUSES_S = (0.2, 0.5, 1.0, 2.0)
_RESTART_S = 3.0
_DRAIN_BYTES = 4096
_CHUNK_BYTES = 1024  # such a write is at most 4 KB of source, for which every board has room
_EOT = b"\x04"
_PROMPT = b">>> "


def check_port(port: str) -> None:
    """Raise ToolError if the port cannot be used, with the cause: mpremote reports every cause as
    'failed to access'."""
    if os.name != "posix":
        return
    try:
        mode = os.stat(port).st_mode
    except OSError:
        raise ToolError(
            f"{port}: no such port; `outpost devices` names those that are there"
        ) from None
    if not stat.S_ISCHR(mode):
        raise ToolError(
            f"{port}: is not a serial port; `outpost devices` names those that are there"
        )
    if not os.access(port, os.R_OK | os.W_OK):
        raise ToolError(
            f"{port}: not permitted; add yourself to the group that owns it (often dialout)"
        )


def printable(text: bytes) -> str:
    """Make text from a board safe to print: it may contain control characters for the terminal."""
    return visible(text.strip())


@contextlib.contextmanager
def _explained(port: str, answer_s: float) -> Iterator[None]:
    from mpremote.transport import TransportError

    try:
        yield
    except TimeoutError as error:
        waited_s = error.args[0] if error.args else answer_s
        what = f"the board does not answer within {waited_s:g} s; is it a board, with MicroPython?"
        raise ToolError(f"{port}: {what}") from None
    except (TransportError, struct.error) as error:
        text = printable(str(error).encode())
        raise ToolError(
            f"{port}: what answers does not run MicroPython ({text}); reset the board and try again"
        ) from None
    except OSError as error:
        raise ToolError(f"{port}: connection lost ({error}); try again") from None


def _opened(port: str, answer_s: float) -> SerialTransport:
    """Open the port, with several tries: another program, such as ModemManager, may look at each
    board that is plugged in and hold the port for a moment. Raises ToolError."""
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
def connected(port: str, answer_s: float = ANSWER_S) -> Iterator[Console]:
    """Stop the program of the board at the port, and restart it at the end. Raises ToolError."""
    check_port(port)
    with _explained(port, answer_s):
        console = Console(_opened(port, answer_s), answer_s)
        try:
            console.stop_program()
            yield console
        finally:
            console.leave()


class Limited:
    """The serial port as mpremote sees it. Once its time is over, every call raises
    TimeoutError."""

    def __init__(self, port) -> None:
        self.port = port
        self.until = self.allowed_s = 0.0
        self.unread = b""  # bytes that were read too early; read() returns them first

    def allow(self, seconds: float) -> None:
        self.allowed_s = seconds
        self.until = time.monotonic() + seconds

    def _check(self) -> None:
        if time.monotonic() > self.until:
            raise TimeoutError(self.allowed_s)

    def read(self, count: int) -> bytes:
        self._check()
        if self.unread:
            data, self.unread = self.unread[:count], self.unread[count:]
            return data
        return self.port.read(count)

    def write(self, data: bytes) -> int:
        self._check()
        return self.port.write(data)

    def inWaiting(self) -> int:  # noqa: N802 - mpremote calls it so
        self._check()
        return len(self.unread) or self.port.in_waiting


class Console:
    """A board whose program is stopped.

    Times are in seconds. Raises TimeoutError, OSError and mpremote's TransportError.
    """

    def __init__(self, transport, answer_s: float) -> None:
        self._transport, self.answer_s = transport, answer_s
        self._port = transport.serial
        self._port.write_timeout = answer_s
        self._limited = transport.serial = Limited(self._port)

    def stop_program(self) -> None:
        """Send Ctrl-C and a soft reset: boot.py runs, main.py does not.

        If the user interrupts this, it is done once more before the interrupt is passed on: leave()
        can restart the program only from this state, and a board at its prompt does nothing until
        somebody notices.
        """
        from mpremote.transport import TransportError

        try:
            self._enter_raw_repl()
        except KeyboardInterrupt:
            try:
                self._enter_raw_repl()
            except (OSError, TransportError, KeyboardInterrupt):
                self._tell_stopped()
            raise

    def _enter_raw_repl(self) -> None:
        from mpremote.transport import TransportError

        self._knock()
        self._limited.allow(self.answer_s)
        for patience in range(_ENTER_TRIES, 0, -1):
            try:
                with contextlib.redirect_stdout(
                    io.StringIO()
                ):  # mpremote prints what it did not understand
                    self._transport.enter_raw_repl(timeout_overall=self.answer_s)
                return
            except TransportError:  # a board that is just starting swallows the first keys
                if patience == 1:
                    raise
                time.sleep(_ENTER_PAUSE_S)

    def _knock(self) -> None:
        """Send Ctrl-C, which ends a program, and Ctrl-B, which leaves the raw REPL, until the
        prompt appears. Raises TimeoutError.

        A board that is just starting swallows keys, and mpremote would wait for an answer to them
        until its time is over.
        """
        until = time.monotonic() + self.answer_s
        timeout, self._port.timeout = self._port.timeout, _KNOCK_S
        try:
            while not self._is_at_prompt():
                if time.monotonic() > until:
                    raise TimeoutError
        finally:
            self._port.timeout = timeout

    def _is_at_prompt(self) -> bool:
        self._port.write(b"\r\x03\x02")
        until = time.monotonic() + _KNOCK_S
        seen = b""
        while _PROMPT not in seen and time.monotonic() < until:
            seen = seen[-len(_PROMPT) :] + self._port.read(max(1, self._port.in_waiting))
        return _PROMPT in seen

    def run(
        self,
        script: str,
        take: Callable[[bytes], bool] = lambda line: False,
        answer_s: float = 0.0,
    ) -> list[bytes]:
        """Run a script and return the printed lines that `take` did not accept. After a line that
        it accepts, the wait for the next line starts again.

        answer_s: how long to wait for a line; 0: as long as for any answer.
        """
        answer_s = answer_s or self.answer_s
        self._limited.allow(self.answer_s)
        with contextlib.redirect_stdout(io.StringIO()):
            self._transport.exec_raw_no_follow(script)
        self._limited.allow(answer_s)
        others, rest, end = [], b"", b""
        while not end:
            output, end, behind = (rest + self._some()).partition(_EOT)
            *lines, rest = output.split(b"\n")
            for line in lines:
                if take(line.rstrip(b"\r")):
                    self._limited.allow(answer_s)
                else:
                    others.append(line)
        self._end(behind)
        return others

    def write(
        self, path: str, data: bytes, show: Callable[[int], None] = lambda count: None
    ) -> None:
        """Write a file as mpremote's `cp` does, which is not atomic.

        show: called with the number of bytes sent since the last call.
        """
        from mpremote.transport import TransportExecError

        written = 0

        def progress(done: int, _total: int) -> None:
            nonlocal written
            self._limited.allow(self.answer_s)
            show(done - written)
            written = done

        self._limited.allow(self.answer_s)
        try:
            self._transport.fs_writefile(path, data, _CHUNK_BYTES, progress)
        except TransportExecError as error:
            said = error.error_output.strip().splitlines()[-1:] or ["no reason given"]
            raise ToolError(
                f"{self._port.port}: the board cannot write {path}: {printable(said[0].encode())}"
            ) from None
        except OSError as error:
            if error.strerror == path:  # how mpremote reports an error of the board's filesystem
                raise ToolError(
                    f"{self._port.port}: the board cannot write {path}: "
                    f"{os.strerror(error.errno or 0)}"
                ) from None
            raise

    def _some(self) -> bytes:
        return self._limited.read(max(1, min(self._limited.inWaiting(), _DRAIN_BYTES)))

    def _end(self, rest: bytes) -> None:
        """Read what follows the output: a traceback or nothing, EOT, and the prompt for the next
        script. Raises ToolError with the last line of a traceback."""
        while _EOT not in rest:
            rest += self._some()
        complaint, _, self._limited.unread = rest.partition(_EOT)
        if complaint.strip():
            raise ToolError(
                f"{self._port.port}: the board failed: "
                f"{printable(complaint.strip().splitlines()[-1])}"
            )

    def leave(self) -> None:
        """Restart the board's program, if the board still responds, and close the port."""
        try:
            if self._transport.in_raw_repl:
                self._restart()
        finally:
            self._transport.serial = self._port
            # mpremote's own close() fails before this if the port has no control lines
            self._port.close()

    def _restart(self) -> None:
        self._limited.allow(_RESTART_S)
        answer = b""
        try:
            self._port.timeout = self._port.write_timeout = _RESTART_S
            self._limited.write(b"\r\x03\r\x02")  # end a script that still runs; friendly REPL
            self._limited.write(_EOT)  # in the friendly REPL: soft reset
            while b"soft reboot" not in answer:
                answer = answer[-20:] + self._limited.read(1)
        except OSError:
            self._tell_stopped()
        except KeyboardInterrupt:
            self._tell_stopped()
            raise

    def _tell_stopped(self) -> None:
        print(
            f"note: {self._port.port}: the board's program did not start again: reset the board",
            file=sys.stderr,
        )
