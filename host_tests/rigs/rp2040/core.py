"""The processor: core.c, compiled once into the cache, and the object that rp2040py's peripherals
use as their core.

Knows the compiler and the layout of core.c's state. Must not know: peripherals, the clock's alarms,
files of the board.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from outpost_tools.machine.interpreters import cache_folder

SOURCE = Path(__file__).with_name("core.c")
INSTRUCTIONS = SOURCE.with_name("thumb.h")  # included by it
OPTIONS = ("-O2", "-shared", "-fPIC", "-std=gnu11")
ATTENTION_INTERRUPTS, ATTENTION_WAITING, ATTENTION_STOP = 1, 2, 4

ReadCallback = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_uint32)
WriteCallback = ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint32)
_ZERO_AFTER_RESET = """
n z c v banked_sp process_stack unprivileged handler_mode ipsr primask pending enabled pending_nmi
pending_pendsv pending_svcall pending_systick vtor shpr2 shpr3 event attention unknown_opcode
spinlocks divider_csr
"""
_WORD, _LONG, _BYTES = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_void_p


class NoCompiler(Exception):
    """This machine cannot compile core.c."""


class State(ctypes.Structure):
    """`core_t` of core.c, field by field."""

    _fields_ = (
        [("r", _WORD * 16)]
        + [(name, _WORD) for name in ("n", "z", "c", "v")]
        + [
            (name, _WORD)
            for name in (
                "banked_sp",
                "process_stack",
                "unprivileged",
                "handler_mode",
                "ipsr",
                "primask",
            )
        ]
        + [("pending", _WORD), ("enabled", _WORD), ("priority", _WORD * 4)]
        + [
            (name, _WORD)
            for name in ("pending_nmi", "pending_pendsv", "pending_svcall", "pending_systick")
        ]
        + [
            (name, _WORD)
            for name in ("vtor", "shpr2", "shpr3", "event", "attention", "unknown_opcode")
        ]
        + [
            (name, _WORD)
            for name in ("dividend", "divisor", "quotient", "remainder", "divider_csr", "spinlocks")
        ]
        + [
            (name, _WORD)
            for name in (
                "time_high_latch",
                "flash_bytes",
                "watched",
                "watched_calls",
                "stops_at_watched",
            )
        ]
        + [(name, _WORD) for name in ("is_page_sent", "page_bytes", "page_unread")]
        + [("page", ctypes.c_uint8 * 512)]
        + [(name, _LONG) for name in ("cycles", "limit", "timer_epoch")]
        + [(name, _BYTES) for name in ("rom", "flash", "ram", "dpram")]
        + [("read_mmio", ReadCallback), ("write_mmio", WriteCallback)]
    )


def _compiler() -> list[str]:
    command = (
        os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    )
    if command:
        return [command]
    if importlib.util.find_spec("ziglang"):
        return [sys.executable, "-m", "ziglang", "cc"]
    raise NoCompiler(
        "no C compiler; on Debian: apt install gcc; "
        "without root: .venv/bin/pip install ziglang (411 MB)"
    )


@functools.cache
def library() -> ctypes.CDLL:
    """Returns core.c as a library, from the cache or compiled now (a second). Raises NoCompiler."""
    name = hashlib.sha256(
        SOURCE.read_bytes() + INSTRUCTIONS.read_bytes() + " ".join(OPTIONS).encode()
    ).hexdigest()[:16]
    built = cache_folder() / "rp2040" / f"core-{name}.so"
    if not built.exists():
        built.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=built.parent) as folder:
            made = Path(folder) / built.name
            done = subprocess.run(
                [*_compiler(), *OPTIONS, "-o", str(made), str(SOURCE)],
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                raise NoCompiler(f"core.c does not compile:\n{done.stderr[-2000:]}")
            made.rename(built)  # whole or absent, even when two processes compile at once
    loaded = ctypes.CDLL(str(built))
    if loaded.core_state_bytes() != ctypes.sizeof(State):
        raise AssertionError("State in core.py and core_t in core.c have different sizes")
    return loaded


def _field(name: str) -> property:
    return property(
        lambda core: getattr(core.state, name),
        lambda core, value: setattr(core.state, name, int(value) & 0xFFFFFFFF),
    )


class Core:
    """The names that rp2040py's RP2040 and its peripherals use; all state is in core.c's struct."""

    ipsr, vtor, shpr2, shpr3 = _field("ipsr"), _field("vtor"), _field("shpr2"), _field("shpr3")
    pending_interrupts, enabled_interrupts = _field("pending"), _field("enabled")
    pending_nmi, pending_pend_sv = _field("pending_nmi"), _field("pending_pendsv")
    pending_svcall, pending_systick = _field("pending_svcall"), _field("pending_systick")

    def __init__(self) -> None:
        self._library = library()
        self.state = State()
        self.interrupt_nmi_mask = 0
        self._address = ctypes.addressof(self.state)
        self._kept: list[object] = []  # views and callbacks to which C points

    def wire(
        self,
        memories: dict[str, bytearray],
        read: Callable[[int], int],
        write: Callable[[int, int, int], None],
    ) -> None:
        """memories: rom, flash (a power of two long), ram, dpram.

        read, write: answer all other addresses.
        """
        for name, memory in memories.items():
            view = (ctypes.c_uint8 * len(memory)).from_buffer(memory)
            self._kept.append(view)
            setattr(self.state, name, ctypes.addressof(view))
        self.state.flash_bytes = len(memories["flash"])
        self.state.read_mmio, self.state.write_mmio = ReadCallback(read), WriteCallback(write)

    def run(self) -> None:
        """Run until `state.limit` cycles, `stop()`, or a wait for an interrupt."""
        self._library.core_run(ctypes.c_void_p(self._address))

    def stop(self) -> None:
        self.state.attention |= ATTENTION_STOP

    @property
    def is_waiting(self) -> bool:
        return bool(self.state.attention & ATTENTION_WAITING)

    # --- the names that rp2040py uses -------------------------------------------------------------

    @property
    def interrupts_updated(self) -> bool:
        return bool(self.state.attention & ATTENTION_INTERRUPTS)

    @interrupts_updated.setter
    def interrupts_updated(self, value: bool) -> None:
        self.state.attention = self.state.attention & ~ATTENTION_INTERRUPTS | (
            ATTENTION_INTERRUPTS if value else 0
        )

    @property
    def interrupt_priorities(self) -> ctypes.Array:
        return self.state.priority

    @property
    def vect_pending(self) -> int:
        """Of the interrupt controller's lines only, because the port reads no more of ICSR."""
        lines = self.state.pending & self.state.enabled
        return 16 + (lines & -lines).bit_length() - 1 if lines else 0

    @property
    def pc(self) -> int:
        return self.state.r[15]

    @pc.setter
    def pc(self, value: int) -> None:
        self.state.r[15] = value

    def set_interrupt(self, irq: int, value: bool) -> None:
        state = self.state
        if value:
            state.pending |= 1 << irq
            state.attention |= ATTENTION_INTERRUPTS
        else:
            state.pending &= ~(1 << irq)

    def reset(self) -> None:
        """Reset as the hardware does: time, memories and wiring stay."""
        state = self.state
        for name in _ZERO_AFTER_RESET.split():
            setattr(state, name, 0)
        state.r[:] = [0] * 16
        state.priority[:] = [0xFFFFFFFF, 0, 0, 0]
        if state.rom:
            vectors = (ctypes.c_uint32 * 2).from_address(state.rom)
            state.r[13], state.r[15] = vectors[0] & ~3, vectors[1] & ~1
