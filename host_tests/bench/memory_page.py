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
from outpost_tools.boards.port import kinds
from outpost_tools.boards.settings import memory_fit
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

<!-- Written by host_tests/bench/memory_page.py -->

`provision`, `setup`, `flash` and `outpost send --board KIND --settings FILE ... set` add up what
the settings take, and say what to leave out **before** anything is written.

Bytes of heap in use, measured on the emulated Pico W: `main.py`, connected, after a collection
(`make program-heap`). The tools' sum is within 5 % of these figures (not for deep sleep with TLS,
measured after the connection). A board's column says what fits by that sum: both plain and TLS,
only plain, or neither (no).

"""
_BOARDS = """
With a sum of at most this the program works; the rest is needed in pieces, 17 KB of it in one for
each connection over TLS. Boards other than the Pico W are **computed**, not measured: there the
tools only warn.

| board | heap | plain: at most | TLS: at most | blocks of its filesystem |
|---|---|---|---|---|
"""
_FLASH = """
## Flash

A block has 4,096 bytes. The program's files take at most {program} blocks with their folders,
`commands` {commands} more, `update_key` {update}, `series` {series}, `level = 5` {level_5},
a sensor's driver at most {driver}, each certificate one, and {spare} stay spare. The rest may be
the outbox: `outbox_blocks` is at most {most} on a Pico W without any of these, and 64 by default.

## When memory runs out all the same

A board that has no memory for a connection says so once at its prompt and in `crash.txt`
(`outpost monitor --look`), and counts it in the reading `no_memory`. If the program ends for lack
of memory, the board restarts and reports `no_memory` = 1; the reason is in `crash.txt`.
"""


def settings_of(name: str) -> dict[str, Any]:
    """Complete ones, of a configuration of program_heap.py."""
    more = program_heap.CONFIGURATIONS[name]
    return check(program_heap.COMMON | more | {"device_id": "b1"})


def text() -> str:
    boards = [kinds.load(paths.REPOSITORY, name) for name in _KINDS]
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
    return "".join((_HEAD, *_fit(boards), _BOARDS, *_rooms(boards), flash))


def _fit(boards: list[kinds.Kind]) -> list[str]:
    """The settings, what they take, and the boards that they fit."""
    measured = program_heap.read_baseline()
    heads = " | ".join(f"`{kind.name}`" for kind in boards)
    lines = [f"| settings | plain | TLS | {heads} |\n", "|---" * (3 + len(boards)) + "|\n"]
    for name, words in _KEYS.items():
        rows = (measured.get(one) for one in (name, f"{name}, TLS"))
        cells = [
            f"{row.used:,}" if row and row.is_connected else "does not connect" for row in rows
        ]
        cells += [_fits(name, kind) for kind in boards]
        lines.append(f"| {words} | {' | '.join(cells)} |\n")
    return lines


def _fits(name: str, kind: kinds.Kind) -> str:
    if not memory_fit.fits(settings_of(name), kind):
        return "no"
    return "both" if memory_fit.fits(settings_of(f"{name}, TLS"), kind) else "plain"


def _rooms(boards: list[kinds.Kind]) -> list[str]:
    lines = []
    for kind in boards:
        memory = memory_fit.memory_of(kind)
        assert memory
        cells = (
            memory.heap,
            memory.heap - memory_fit.FREE,
            memory.heap - memory_fit.FREE_WITH_TLS,
            memory.blocks,
        )
        lines.append(f"| `{kind.name}` | {' | '.join(f'{cell:,}' for cell in cells)} |\n")
    return lines


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
