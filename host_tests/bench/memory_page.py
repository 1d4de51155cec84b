#!/usr/bin/env python3
"""Writes boards/MEMORY.md: what fits which board, from the model of the tools and the figures of
program_heap.py.

    .venv/bin/python host_tests/bench/memory_page.py

Run it after `program_heap.py --write`. A test compares the page with what this would write.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import paths

sys.path.extend(paths.ALL)

import program_heap
from outpost_tools.device import kinds, memory_fit
from station.settings import check

PAGE = paths.BOARDS / "MEMORY.md"
_KINDS = ("RPI_PICO_W", "RPI_PICO2_W", "ESP32_GENERIC", "ESP32_GENERIC_C3", "ESP32_GENERIC_S3")
_KEYS = {
    "broker": '`mode = "broker"`',
    "level 5": "the same, `level = 5`",
    "commands": "the same, `commands = true`",
    "commands, update": "the same, `commands`, `update_key`",
    "series": "the same, `series = true`",
    "collector, state": '`mode = "collector"`, `say_state`',
    "collector, state, update": "the same, `commands`, `update_key`",
    "collector, state, series": "collector mode, `say_state`, `series = true`",
    "deep sleep": "broker mode, `deep_sleep = true`",
    "everything": "collector, state, commands, update, series, level 5, CBOR",
}
_HEAD = """\
# What fits which board

`provision`, `setup`, `flash` and `outpost send --board KIND --settings FILE ... set` add up what
the settings take (`tools/outpost_tools/device/memory_fit.py`), and say what to leave out **before**
anything is written. The sum of a Pico W is held to measurements: its emulated chip with its heap
of 205,184 bytes runs main.py, connected, after a collection (`make program-heap`). The other
boards are **computed**, not measured: there the tools only warn. This page is written by
`host_tests/bench/memory_page.py`.

Bytes of heap in use. A free piece of 17 KB is needed for each connection over TLS.

| settings | plain: measured | sum | TLS: measured | sum |
|---|---|---|---|---|
"""
_BOARDS = """
With at most so much in use the program works: the rest is needed in pieces.

| board | heap | plain: most in use | TLS: most in use | blocks of its filesystem |
|---|---|---|---|---|
"""
_FIT = """
Whether it fits, plain and with TLS:

"""
_FLASH = """
## Flash

A block has 4,096 bytes. The program's files take at most {program} blocks with their folders,
`commands` {commands} more, `update_key` {update}, `series` {series}, `level` 5 {level_5}, a driver
of a sensor at most {driver}, each certificate one, and {spare} stay spare. The rest may be the
outbox: `outbox_blocks` is at most {most} on a Pico W without any of these, and 64 by default.

## When memory runs out all the same

A board that has no memory for a connection says so once at its prompt and in `crash.txt`
(`outpost monitor --look`), and counts it in the reading `no_memory`, which it sends when it can.
A program that ends for lack of memory leaves the reason in `crash.txt`; the board restarts, and
reports `no_memory` = 1.
"""


def settings_of(name: str) -> dict[str, Any]:
    """Complete ones, of a configuration of program_heap.py."""
    more = program_heap.CONFIGURATIONS[name]
    return check(program_heap.COMMON | more | {"device_id": "b1"})


def text() -> str:
    measured = program_heap.read_baseline()
    lines = []
    for name, words in _KEYS.items():
        cells = []
        for one in (name, f"{name}, TLS"):
            row = measured.get(one)
            has_figure = row is not None and row.is_connected
            cells.append(f"{row.used:,}" if row and has_figure else "does not connect")
            cells.append(f"{memory_fit.heap_of(settings_of(one)):,}")
        lines.append(f"| {words} | {' | '.join(cells)} |")
    boards = [kinds.load(paths.REPOSITORY, name) for name in _KINDS]
    rooms = []
    for kind in boards:
        memory = memory_fit.memory_of(kind)
        assert memory
        plain, secure = memory.heap - memory_fit.FREE, memory.heap - memory_fit.FREE_WITH_TLS
        how = " (computed)" if memory.is_computed else ""
        rooms.append(
            f"| `{kind.name}`{how} | {memory.heap:,} | {plain:,} | {secure:,} | {memory.blocks:,} |"
        )
    fit = ["| settings | " + " | ".join(f"`{kind.name}`" for kind in boards) + " |"]
    fit.append("|---|" + "---|" * len(boards))
    for name, words in _KEYS.items():
        cells = [f"{_fits(name, kind)}, {_fits(f'{name}, TLS', kind)}" for kind in boards]
        fit.append(f"| {words} | {' | '.join(cells)} |")
    pico = memory_fit.memory_of(boards[0])
    assert pico
    flash = _FLASH.format(
        program=memory_fit.PROGRAM_BLOCKS,
        commands=memory_fit.COMMANDS_BLOCKS,
        update=memory_fit.UPDATE_BLOCKS,
        series=memory_fit.SERIES_BLOCKS,
        level_5=memory_fit.LEVEL_5_BLOCKS,
        driver=memory_fit.DRIVER_BLOCKS,
        spare=memory_fit.SPARE_BLOCKS,
        most=pico.blocks - memory_fit.PROGRAM_BLOCKS - memory_fit.SPARE_BLOCKS,
    )
    tables = (_HEAD, *_ended(lines), _BOARDS, *_ended(rooms), _FIT, *_ended(fit), flash)
    return "".join(tables)


def _ended(lines: list[str]) -> list[str]:
    return [f"{line}\n" for line in lines]


def _fits(name: str, kind: kinds.Kind) -> str:
    return "yes" if memory_fit.fits(settings_of(name), kind) else "**no**"


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
