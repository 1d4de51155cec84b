"""instruction_count.py for ARM: single steps through the debugger port of qemu-arm (GDB's remote
protocol, on a Unix socket).

The marks and the result are the same. qemu (9.0 and newer) stops at system calls on request, so the
marks are found as they are written; in between, each request executes one guest instruction: about
15,000 a second. Deterministic.
"""

import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator

from instruction_count import Ended, collected

_WRITE = 4  # ARM's number of write()
_MARK_BYTES = 64
_START_S = 20.0


def why_not(command: list[str]) -> str:
    """Returns why this interpreter's emulator cannot count; "" when it can."""
    try:
        with Program([*command, "-c", "pass"], dict(os.environ)) as program:
            list(program.stretches())
    except Ended as end:
        return f"the interpreter ends with {end.args[0]}" if end.args[0] else ""
    except (OSError, ValueError) as error:
        return f"qemu's debugger port does not answer ({error})"
    return ""


class Program:
    """One process under qemu, stopped before its first instruction. `command`: runs qemu-arm, which
    obeys QEMU_GDB.
    """

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self._folder = tempfile.TemporaryDirectory()
        place = f"{self._folder.name}/gdb"
        self._process = subprocess.Popen(command, env=environment | {"QEMU_GDB": place})
        try:
            self._socket = self._connect(place)
            self._buffer = b""
            self._ask(b"qSupported:multiprocess-;QCatchSyscalls+")
            if self._ask(b"QCatchSyscalls:1;%x" % _WRITE) != b"OK":
                raise ValueError("it is older than 9.0: it does not stop at system calls")
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Program":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._folder.cleanup()

    def _connect(self, place: str) -> socket.socket:
        until = time.monotonic() + _START_S
        while True:
            link = socket.socket(socket.AF_UNIX)
            try:
                link.connect(place)
                link.settimeout(_START_S * 10)
                return link
            except OSError:
                link.close()
                if time.monotonic() > until or self._process.poll() is not None:
                    raise
                time.sleep(0.02)

    def stretches(self) -> Iterator[tuple[str, int]]:
        """Yields (name, instructions) of each marked stretch. Raises Ended at the end of the
        program."""
        while True:
            mark = self._next_mark()
            if mark.startswith(b"\x01B"):
                self._run(b"c")  # the return of that write()
                yield mark[2:].decode(), self._count_to_end()

    def _next_mark(self) -> bytes:
        while True:
            if b"syscall_entry" in self._run(b"c"):
                return self._mark()

    def _count_to_end(self) -> int:
        count = 0
        while True:
            stop = self._run(b"s")
            count += 1
            if b"syscall_entry" in stop and self._mark() == b"\x01E":
                return count

    def _run(self, how: bytes) -> bytes:
        """Continue, or do one step. Returns the stop reason; the program's own signals are passed
        on.
        """
        stop = self._ask(how)
        while stop[:1] not in b"TS" or stop[1:3] != b"05":
            if stop[:1] in b"WX":
                raise Ended(int(stop[1:3], 16))
            stop = self._ask(how.upper() + stop[1:3])
        return stop

    def _mark(self) -> bytes:
        """Returns what a write() that is being entered will write, if it is as short as a mark."""
        registers = bytes.fromhex(self._ask(b"g")[:24].decode())
        text, length = (int.from_bytes(registers[at : at + 4], "little") for at in (4, 8))
        if not 2 <= length <= _MARK_BYTES:
            return b""
        return bytes.fromhex(self._ask(b"m%x,%x" % (text, length)).decode())

    def _ask(self, packet: bytes) -> bytes:
        """Returns the answer to a packet."""
        self._socket.sendall(b"+$%s#%02x" % (packet, sum(packet) & 255))
        while (end := self._buffer.find(b"#")) < 0 or len(self._buffer) < end + 3:
            data = self._socket.recv(4096)
            if not data:
                raise Ended(self._process.wait(10))
            self._buffer += data
        answer = self._buffer[self._buffer.index(b"$") + 1 : end]
        self._buffer = self._buffer[end + 3 :]
        return answer


def count(
    command: list[str],
    environment: dict[str, str],
    progress: Callable[[str, int], None] = lambda name, count: None,
) -> dict[str, int]:
    """As instruction_count.count(). Raises ChildProcessError when the program fails."""
    with Program(command, environment) as program:
        return collected(program.stretches(), command, progress)
