"""The outbox of a live board, over its serial port: an image as a flash reader would give it.

The only module that knows mpremote, whose library interface is not stable (hence the exact pin). It stops the board's program,
lets the board send its outbox block by block, each with a CRC, and starts the program anew. Nothing is written to the flash.

Every wait is limited: mpremote alone waits for ever for a board that is silent, or that never stops talking.
"""

from __future__ import annotations

import binascii
import contextlib
import importlib.util
import io
import os
import re
import stat
import struct
import sys
import time
import zlib
from collections.abc import Callable, Iterator

from outpost_tools.errors import ToolError
from outpost_tools.outbox.layout import BLOCK_BYTES

ANSWER_S = 10.0  # a board answers within 0.1 s; one that has just started, after its boot.py
_ENTER_TRIES = 4
_ENTER_PAUSE_S = 0.5
_RESTART_S = 3.0
_DRAIN_BYTES = 4096
_EOT = b"\x04"

# The device is built as firmware/main.py builds it, and only read. A block goes without the erased bytes at its end; its number
# is in the CRC (as the start value), so that a block with a damaged number is not taken for another one.
_SCRIPT = """
from binascii import b2a_base64, crc32

def find():
    global board
    try:
        import board
        from outpost.settings import load
    except ImportError as error:
        return print("outpost:", error)
    try:
        settings = load("settings.json")
    except ValueError as error:
        return print("settings:", error)
    try:
        return board.outbox_device(settings)
    except Exception as error:
        print("device:", type(error).__name__, error)

def send(numbers):
    count, block_bytes = device.ioctl(4, 0), device.ioctl(5, 0)
    print("H %d %d %08x" % (count, block_bytes, crc32(b"%d %d" % (count, block_bytes))))
    buffer = bytearray(block_bytes)
    for number in range(count) if numbers is None else numbers:
        device.readblocks(number, buffer, 0)
        data = bytes(buffer).rstrip(b"\\xff")
        print("B %d %08x " % (number, crc32(buffer, number)), end="")
        for at in range(0, len(data), 384):
            print(str(b2a_base64(data[at:at + 384]), "ascii").strip(), end="")
        print()
        board.feed_watchdog()

device = find()
"""
_HEADER = re.compile(rb"H (\d+) (\d+) ([0-9a-f]{8})")
_BLOCK = re.compile(rb"B (\d{1,9}) ([0-9a-f]{8}) (\S*)")
_REFUSALS = {
    b"outpost": "no Outpost on the board",
    b"settings": "the board's settings are bad",
    b"device": "the board cannot open its outbox",
}


def read_outbox(port: str, answer_s: float = ANSWER_S, show: Callable[[int, int], None] = lambda done, total: None) -> bytes:
    """The bytes of the region. `show` is called with (blocks so far, blocks). Raises ToolError."""
    if importlib.util.find_spec("mpremote") is None:
        raise ToolError("--live needs mpremote: run make setup")
    _check_port(port)
    with _explained(port, answer_s), _connected(port, answer_s) as board:
        output = board.run(_SCRIPT)
        _check_found(port, b"\n".join(output))
        return _collect(port, board, show)


@contextlib.contextmanager
def progress_bar() -> Iterator[Callable[[int, int], None]]:
    """What `show` may be: a bar on stderr when that is a terminal."""
    from tqdm import tqdm

    with tqdm(desc="reading the board", unit="block", disable=None, leave=False, file=sys.stderr) as bar:

        def show(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        yield show


def _check_port(port: str) -> None:
    """mpremote tells all of these as 'failed to access'."""
    if os.name != "posix":
        return
    try:
        mode = os.stat(port).st_mode
    except OSError:
        raise ToolError(f"{port}: no such port; `python -m mpremote connect list` names those that are there") from None
    if not stat.S_ISCHR(mode):
        raise ToolError(f"{port}: is not a serial port; an image file is named without --live")
    if not os.access(port, os.R_OK | os.W_OK):
        raise ToolError(f"{port}: not permitted; add yourself to the group that owns it (often dialout)")


def _check_found(port: str, output: bytes) -> None:
    for line in output.splitlines():
        kind, _, reason = line.partition(b": ")
        if kind in _REFUSALS:
            raise ToolError(f"{port}: {_REFUSALS[kind]}: {_printable(reason)}")


def _printable(text: bytes) -> str:
    """What comes from the board may be anything, and would play with the terminal."""
    return "".join(c if c.isprintable() else "?" for c in text.decode("utf-8", "replace")).strip()


@contextlib.contextmanager
def _explained(port: str, answer_s: float) -> Iterator[None]:
    from mpremote.transport import TransportError

    try:
        yield
    except TimeoutError:
        raise ToolError(f"{port}: the board does not answer within {answer_s:g} s; is it a board, with MicroPython?") from None
    except (TransportError, struct.error) as error:
        text = _printable(str(error).encode())
        raise ToolError(f"{port}: what answers is no MicroPython ({text}); reset the board and try again") from None
    except OSError as error:
        raise ToolError(f"{port}: connection lost ({error}); try again") from None


@contextlib.contextmanager
def _connected(port: str, answer_s: float) -> Iterator[_Board]:
    from mpremote.transport import TransportError
    from mpremote.transport_serial import SerialTransport

    try:
        transport = SerialTransport(port, timeout=answer_s)
    except TransportError:
        raise ToolError(f"{port}: in use by another program; close it (a terminal, mpremote, an IDE)") from None
    board = _Board(transport, answer_s)
    try:
        board.stop_program()
        yield board
    finally:
        board.leave()


class _Limited:
    """The serial port as mpremote sees it, with a time at which every call ends in TimeoutError."""

    def __init__(self, port) -> None:
        self.port = port
        self.until = 0.0
        self.unread = b""  # read too far: the next to be read

    def allow(self, seconds: float) -> None:
        self.until = time.monotonic() + seconds

    def _check(self) -> None:
        if time.monotonic() > self.until:
            raise TimeoutError

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


class _Board:
    """A board whose program is stopped. Times in seconds. Raises TimeoutError, OSError and mpremote's TransportError."""

    def __init__(self, transport, answer_s: float) -> None:
        self._transport, self._answer_s = transport, answer_s
        self._port = transport.serial
        self._port.write_timeout = answer_s
        self._limited = transport.serial = _Limited(self._port)

    def stop_program(self) -> None:
        """Ctrl-C and a soft reset: boot.py runs, main.py does not."""
        from mpremote.transport import TransportError

        self._limited.allow(self._answer_s)
        for patience in range(_ENTER_TRIES, 0, -1):
            try:
                with contextlib.redirect_stdout(io.StringIO()):  # it prints what it did not understand
                    self._transport.enter_raw_repl(timeout_overall=self._answer_s)
                return
            except TransportError:  # a board that is just starting swallows the first keys
                if patience == 1:
                    raise
                time.sleep(_ENTER_PAUSE_S)

    def run(self, script: str, take: Callable[[bytes], bool] = lambda line: False) -> list[bytes]:
        """The lines printed that `take` did not want. A line that it takes gives the board time for the next one."""
        self._limited.allow(self._answer_s)
        with contextlib.redirect_stdout(io.StringIO()):
            self._transport.exec_raw_no_follow(script)
        self._limited.allow(self._answer_s)
        others, rest, end = [], b"", b""
        while not end:
            output, end, behind = (rest + self._some()).partition(_EOT)
            *lines, rest = output.split(b"\n")
            for line in lines:
                if take(line.rstrip(b"\r")):
                    self._limited.allow(self._answer_s)
                else:
                    others.append(line)
        self._end(behind)
        return others

    def _some(self) -> bytes:
        return self._limited.read(max(1, min(self._limited.inWaiting(), _DRAIN_BYTES)))

    def _end(self, rest: bytes) -> None:
        """What follows the output: a traceback or nothing, EOT, and the prompt for the next script."""
        while _EOT not in rest:
            rest += self._some()
        complaint, _, self._limited.unread = rest.partition(_EOT)
        if complaint.strip():
            raise ToolError(f"{self._port.port}: the board failed: {_printable(complaint.strip().splitlines()[-1])}")

    def leave(self) -> None:
        """Start the board's program anew, as far as the board still listens."""
        try:
            if self._transport.in_raw_repl:
                self._restart()
        finally:
            self._transport.serial = self._port
            with contextlib.suppress(OSError):  # gone, or a port without control lines
                self._transport.close()

    def _restart(self) -> None:
        self._limited.allow(_RESTART_S)
        self._port.timeout = self._port.write_timeout = _RESTART_S
        answer = b""
        try:
            self._limited.write(b"\r\x03\r\x02")  # end a script that still runs; friendly REPL
            self._limited.write(_EOT)  # there: soft reset
            while b"soft reboot" not in answer:
                answer = answer[-20:] + self._limited.read(1)
        except OSError:
            print(f"note: {self._port.port}: the board's program did not start again: reset the board", file=sys.stderr)


def _collect(port: str, board: _Board, show: Callable[[int, int], None]) -> bytes:
    blocks: dict[int, bytes] = {}
    count = 0

    def take(line: bytes) -> bool:
        nonlocal count
        header = _count_of(port, line)
        block = None if header else _block_of(line)
        count = header or count
        if block is not None:
            blocks[block[0]] = block[1]
            show(len(blocks), count)
        return bool(header or block)

    board.run("send(None)", take)
    missing = [number for number in range(count) if number not in blocks]
    if missing or not count:
        board.run(f"send({missing if count else None})", take)
        missing = [number for number in range(count) if number not in blocks]
    if missing or not count:
        which = f"block {missing[0]}" if missing else "the first line"
        raise ToolError(f"{port}: {which} arrived damaged twice; use a shorter cable, or try again")
    return b"".join(blocks[number] for number in range(count))


def _count_of(port: str, line: bytes) -> int | None:
    """Blocks of the region, when the line tells it and is whole."""
    found = _HEADER.fullmatch(line)
    if found is None or zlib.crc32(b"%s %s" % found.group(1, 2)) != int(found[3], 16):
        return None
    if int(found[2]) != BLOCK_BYTES:
        raise ToolError(f"{port}: the board's blocks have {int(found[2])} bytes, not {BLOCK_BYTES}: that is no outbox device")
    return int(found[1])


def _block_of(line: bytes) -> tuple[int, bytes] | None:
    """(number, bytes) of a block that arrived whole."""
    found = _BLOCK.fullmatch(line)
    if found is None:
        return None
    try:
        data = binascii.a2b_base64(found[3], strict_mode=True) if found[3] else b""
    except binascii.Error:
        return None
    data = data.ljust(BLOCK_BYTES, b"\xff")
    number = int(found[1])
    return (number, data) if len(data) == BLOCK_BYTES and zlib.crc32(data, number) == int(found[2], 16) else None
