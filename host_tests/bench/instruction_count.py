"""Counts the machine instructions that a program takes between two marks, by single steps (ptrace
on Linux for x86-64; CPython).

Works for programs with the 64-bit or the 32-bit x86 instruction set. A program marks a stretch by
writing to any file descriptor: b"\\x01B" and a name before it, b"\\x01E" after it. The count covers
what the process itself executes: a system call counts as one instruction, and so does each pass of
a repeated string instruction. The two write() calls add a constant: mark an empty stretch to
measure it. The result is deterministic where time is not. About 40,000 instructions/s.
"""

import ctypes
import os
import platform
import signal
from collections.abc import Callable, Iterator

_TRACE_ME, _PEEK_USER, _GET_REGISTERS, _STEP, _TO_SYSTEM_CALL, _SET_OPTIONS = (
    0,
    3,
    12,
    9,
    24,
    0x4200,
)
_SYSTEM_CALL_STOP = signal.SIGTRAP | 0x80
_KILL_WITH_TRACER = 0x100000
_TELL_SYSTEM_CALLS = 1
_RIP = 16 * 8  # of the registers, for PEEK_USER
_CODE_32 = 0x23  # code segment of a 32-bit program
_MARK_BYTES = 64
_NOT_TRACED = 126
_NAMES = (
    "r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax "
    "rip cs eflags rsp ss fs_base gs_base ds es fs gs"
)


class _Registers(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in _NAMES.split()]


class Ended(Exception):
    """The program has ended; the argument is its exit status."""


def why_not() -> str:
    """Returns why this machine cannot count; "" when it can."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return "single steps are counted on Linux for x86-64 only"
    try:
        list(Program(["true"], dict(os.environ)).stretches())
    except Ended as end:
        return f"ptrace is not allowed here (status {end.args[0]})" if end.args[0] else ""
    except OSError as error:
        return f"ptrace is not allowed here ({error})"
    return ""


class Program:
    """One process under trace."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        library = ctypes.CDLL(None, use_errno=True)
        self._ptrace = library.ptrace
        self._ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        self._ptrace.restype = ctypes.c_long
        self._registers = _Registers()
        self._pid = os.fork()
        if self._pid == 0:
            if self._ptrace(_TRACE_ME, 0, None, None) == 0:
                os.execvpe(command[0], command, environment)
            os._exit(_NOT_TRACED)
        self._wait()
        self._ptrace(_SET_OPTIONS, self._pid, None, _TELL_SYSTEM_CALLS | _KILL_WITH_TRACER)

    def stretches(self) -> Iterator[tuple[str, int]]:
        """Yields (name, instructions) of each marked stretch. Raises Ended at the end of the
        program."""
        while True:
            if self._run(_TO_SYSTEM_CALL) == _SYSTEM_CALL_STOP:
                mark = self._mark()
                if mark.startswith(b"\x01B"):
                    place = self._registers.rip
                    self._run(_TO_SYSTEM_CALL)  # the end of that write()
                    yield mark[2:].decode(), self._count_to(place)

    def _count_to(self, place: int) -> int:
        """Step until the instruction at `place`, where write() enters the kernel, writes the second
        mark.
        """
        count = 0
        while True:
            self._run(_STEP)
            count += 1
            if (
                self._ptrace(_PEEK_USER, self._pid, _RIP, None) == place
                and self._mark() == b"\x01E"
            ):
                return count

    def _run(self, how: int, signal_number: int = 0) -> int:
        """Continue. Returns the signal that stopped it; the program's own signals are passed on."""
        self._ptrace(how, self._pid, None, signal_number or None)
        stop = self._wait()
        if stop in (signal.SIGTRAP, _SYSTEM_CALL_STOP):
            return stop
        return self._run(how, stop)

    def _wait(self) -> int:
        _, status = os.waitpid(self._pid, 0)
        if os.WIFEXITED(status) or os.WIFSIGNALED(status):
            raise Ended(os.waitstatus_to_exitcode(status))
        return os.WSTOPSIG(status)

    def _mark(self) -> bytes:
        """Returns what a write() that is being entered will write, if it is as short as a mark."""
        registers = self._registers
        self._ptrace(_GET_REGISTERS, self._pid, None, ctypes.addressof(registers))
        number, text, length = registers.orig_rax, registers.rsi, registers.rdx
        wanted = 1
        if registers.cs == _CODE_32:
            text, wanted = registers.rcx, 4
        if not 2 <= length <= _MARK_BYTES or number not in (wanted, (1 << 64) - 1):
            return b""
        with open(f"/proc/{self._pid}/mem", "rb", 0) as memory:
            memory.seek(text)
            return memory.read(length)


def collected(
    stretches: Iterator[tuple[str, int]], command: list[str], progress: Callable[[str, int], None]
) -> dict[str, int]:
    """Returns {name: instructions} of all stretches, as count() does."""
    found: dict[str, int] = {}
    try:
        for name, instructions in stretches:
            progress(name, instructions)
            found[name] = instructions - (found.get("empty", 0) if name != "empty" else 0)
    except Ended as end:
        if end.args[0]:
            raise ChildProcessError(f"{command[-1]}: exit status {end.args[0]}") from None
    return found


def count(
    command: list[str],
    environment: dict[str, str],
    progress: Callable[[str, int], None] = lambda name, count: None,
) -> dict[str, int]:
    """Returns {name: instructions} of a program's marked stretches; the count of the stretch
    "empty" is subtracted from all others.

    If a name occurs again, the later count replaces the earlier one. Raises ChildProcessError when
    the program fails.
    """
    processors = os.sched_getaffinity(0)
    # both on one processor: waking the other at each step takes longer than the step
    os.sched_setaffinity(0, {min(processors)})
    try:
        return collected(Program(command, environment).stretches(), command, progress)
    finally:
        os.sched_setaffinity(0, processors)
