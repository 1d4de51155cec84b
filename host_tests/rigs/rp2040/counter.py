"""Runs a script on the emulated chip and counts the cycles between its markers.

A write to chip.MARKER_ADDRESS is a marker (on_chip/spans.py): BEGIN, END, and inside them SKIP ...
RESUME, which is not counted. A value with CHARACTER set is a byte that the script printed
(on_chip/console.py). A printed line "span <name>" names the next span. Time in which the flash chip
is busy is counted separately. Must not know: what the spans are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rp2040 import littlefs
from rp2040.chip import Chip
from rp2040.clock import HZ

BEGIN, END, SKIP, RESUME = 1, 2, 3, 4
CHARACTER = 0x1000000
LAST_LINE = "end of the run"
ON_CHIP = Path(__file__).with_name("on_chip")


class NotFinished(Exception):
    """The script stopped before its end; the text is its output."""


@dataclass(slots=True)
class Span:
    """cycles: without skipped code and without flash_cycles. skips: how often code was skipped."""

    name: str
    cycles: int
    flash_cycles: int
    programs: int
    erases: int
    skips: int


class Counter:
    def __init__(self, chip: Chip, echo: Callable[[str], None] | None = None) -> None:
        self.spans: list[Span] = []
        self.lines: list[str] = []
        self._chip, self._echo = chip, echo
        self._line = bytearray()
        self._name = ""
        self._start = self._skip_start = self._skipped = self._skips = 0
        self._before = (0, 0, 0)
        chip.on_marker = self._mark

    def _mark(self, value: int) -> None:
        now = self._chip.clock.cycles
        if value & CHARACTER:
            self._character(value & 0xFF)
        elif value == BEGIN:
            self._start, self._skipped, self._skips = now, 0, 0
            self._before = self._flash()
        elif value == SKIP:
            self._skip_start = now
        elif value == RESUME:
            self._skipped += now - self._skip_start
            self._skips += 1
        elif value == END:
            busy, programs, erases = (
                a - b for a, b in zip(self._flash(), self._before, strict=True)
            )
            cycles = now - self._start - self._skipped - busy
            self.spans.append(Span(self._name, cycles, busy, programs, erases, self._skips))

    def _flash(self) -> tuple[int, int, int]:
        counters = self._chip.flash.counters
        return counters.busy_cycles, counters.programs, counters.erases

    def _character(self, byte: int) -> None:
        if byte != 10:
            self._line.append(byte)
            return
        line = self._line.decode(errors="replace").rstrip("\r")
        self._line.clear()
        if line.startswith("span "):
            self._name = line[5:]
            return
        self.lines.append(line)
        if self._echo:
            self._echo(line)
        if line == LAST_LINE:
            self._chip.stop()


def run(
    firmware: bytes, files: dict[str, bytes], script: bytes, limit_s: float = 120, echo=None
) -> Counter:
    """firmware: the interpreter. files: on the board, besides the script. limit_s: of the chip's
    time."""
    board = {**files, "/boot.py": (ON_CHIP / "console.py").read_bytes(), "/main.py": script}
    board["/spans.py"] = (ON_CHIP / "spans.py").read_bytes()
    chip = Chip(littlefs.with_files(firmware, board))
    counter = Counter(chip, echo)
    chip.run(until=int(limit_s * HZ))
    if LAST_LINE not in counter.lines:
        raise NotFinished(
            "\n".join(
                [*counter.lines, f"... after {chip.clock.cycles / HZ:.1f} s of the chip's time"]
            )
        )
    return counter
