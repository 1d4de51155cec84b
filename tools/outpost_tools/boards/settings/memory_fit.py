"""Checks whether a board has enough heap and flash for its settings, by adding up parts.

The sum of the parts in use must not exceed the board's heap less what must stay free, and the
blocks of files, outbox and littlefs must not exceed those of its filesystem. The parts were
measured by host_tests/bench/program_heap.py on an emulated Pico W (test_memory_fit.py compares
them).

`memory` in a board's board.json says what the board has. `is_computed` there means that the figures
come from data sheets, so what does not fit is only a warning. Pure, except that it reads that file.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from typing import Any

from outpost_tools.boards.files.plan import SPARE_BLOCKS
from outpost_tools.boards.port.kinds import Kind

# Bytes of heap in use, connected, after a collection
PROGRAM = 94_500  # broker mode, plain, 64 blocks
BLOCK = 24  # for each further block of the outbox
TLS = 29_000
COLLECTOR = 10_200
STATE = 700
SERIES = 24_500
COMMANDS = 17_500
UPDATE = 3_600
LEVEL_5 = 14_000
CBOR = 3_000
DEEP_SLEEP = 2_500
DRIVER = 2_500  # for each kind of sensor with a driver file
SENSOR = 700  # for each sensor besides the chip's own
# What must stay free, because the heap is fragmented: with TLS, a connection takes 17 KB in one
# piece. Boards with less free connected only at a later try, or lacked the memory for a check
FREE = 32_000
FREE_WITH_TLS = 46_000
BLOCKS = 64
# Blocks of flash for files and folders (`needed.py`)
PROGRAM_BLOCKS = 72  # including all parts that take a block or two: collector, TLS, CBOR, sleep
COMMANDS_BLOCKS = 8
UPDATE_BLOCKS = 6
SERIES_BLOCKS = 10
LEVEL_5_BLOCKS = 14
DRIVER_BLOCKS = 2
_MOST_LEFT_OUT = 3
_MOST_WAYS = 3
_OFF = {"level": 4, "encoding": "json", "update_key": "", "commands": False, "series": False}
_NAMES = {"level": "'level' = 5", "encoding": "'encoding' = \"cbor\""}
_SERIES_KEYS = {"series_age_s": 600, "alarms": None}


@dataclass(frozen=True, slots=True)
class Memory:
    """heap: bytes. blocks: those of the filesystem, 4,096 bytes each. is_computed: from data
    sheets, not measured."""

    heap: int
    blocks: int
    is_computed: bool


def memory_of(kind: Kind) -> Memory | None:
    """The memory of this kind; None if its board.json does not say."""
    about = json.loads((kind.folder / "board.json").read_text(encoding="utf-8")).get("memory")
    if not about:
        return None
    return Memory(about["heap"], about["blocks"], about.get("is_computed", False))


def heap_of(full: dict[str, Any]) -> int:
    """Bytes of heap that a board with these complete settings uses."""
    parts = [
        (True, PROGRAM + (full["outbox_blocks"] - BLOCKS) * BLOCK),
        (full["tls"], TLS),
        (full["mode"] == "collector" and not full["deep_sleep"], COLLECTOR),
        (full["say_state"], STATE),
        (full["series"], SERIES),
        (full["commands"], COMMANDS),
        (full["update_key"], UPDATE),
        (full["level"] == 5, LEVEL_5),
        (full["encoding"] == "cbor", CBOR),
        (full["deep_sleep"], DEEP_SLEEP),
    ]
    sensors = full["sensors"] or ()
    drivers = {one["driver"] for one in sensors if isinstance(one, dict)}
    return sum(size for is_on, size in parts if is_on) + (
        DRIVER * len(drivers) + SENSOR * len([one for one in sensors if isinstance(one, dict)])
    )


def room(full: dict[str, Any], heap: int) -> int:
    """Bytes of heap that a program may use and still work."""
    return heap - (FREE_WITH_TLS if full["tls"] else FREE)


def blocks_of(full: dict[str, Any]) -> int:
    """Blocks of the filesystem that a board with these settings needs, including its outbox."""
    drivers = {one["driver"] for one in full["sensors"] or () if isinstance(one, dict)}
    files = PROGRAM_BLOCKS + SPARE_BLOCKS + DRIVER_BLOCKS * len(drivers)
    files += COMMANDS_BLOCKS if full["commands"] else 0
    files += UPDATE_BLOCKS if full["update_key"] else 0
    files += SERIES_BLOCKS if full["series"] else 0
    files += LEVEL_5_BLOCKS if full["level"] == 5 else 0
    files += sum(bool(full[key]) for key in ("ca_file", "client_cert_file", "client_key_file"))
    return files + full["outbox_blocks"]


def faults(full: dict[str, Any], kind: Kind) -> list[tuple[str, str]]:
    """Return (key, "" or what does not fit and what to leave out) for a board whose memory was
    measured; [] for any other."""
    memory = memory_of(kind)
    return [] if memory is None or memory.is_computed else _faults(full, kind, memory)


def fits(full: dict[str, Any], kind: Kind) -> bool:
    """Whether the settings fit the memory, measured or computed; True if the memory is not
    known."""
    memory = memory_of(kind)
    return memory is None or not any(fault for _, fault in _faults(full, kind, memory))


def warnings(full: dict[str, Any], kind: Kind) -> list[str]:
    """The faults for a board whose memory was computed: it may work all the same."""
    memory = memory_of(kind)
    if memory is None or not memory.is_computed:
        return []
    found = _faults(full, kind, memory)
    return [f"key '{key}' {fault} (computed, not measured)" for key, fault in found if fault]


def _faults(full: dict[str, Any], kind: Kind, memory: Memory) -> list[tuple[str, str]]:
    return [_heap_fault(full, memory.heap), _blocks_fault(full, kind, memory.blocks)]


def _blocks_fault(full: dict[str, Any], kind: Kind, blocks: int) -> tuple[str, str]:
    needed = blocks_of(full)
    if not kind.pins or needed <= blocks:
        return "outbox_blocks", ""
    most = full["outbox_blocks"] - (needed - blocks)
    return "outbox_blocks", (
        f"is {full['outbox_blocks']}, and with the program's files that takes {needed} blocks of "
        f"4,096 bytes; this board's filesystem has {blocks}: {most} is the most"
    )


def _heap_fault(full: dict[str, Any], heap: int) -> tuple[str, str]:
    used, most = heap_of(full), room(full, heap)
    if used <= most:
        return "", ""
    text = (
        f"does not fit: these settings take {used:,} bytes of the heap, and this board has room "
        f"for {most:,}; "
    )
    ways = _ways(full, heap)
    if not ways:
        return "outbox_blocks", text + "use a board with more memory, such as the Pico 2 W"
    return ways[0][0], f"{text}leave out {', or '.join(map(_joined, ways[:_MOST_WAYS]))}"


def _ways(full: dict[str, Any], heap: int) -> list[tuple[str, ...]]:
    """The smallest sets of keys without which the settings fit, beginning with the set that frees
    the least. `update_key` goes with `commands`."""
    on = [
        key for key, off in _OFF.items() if full[key] != off and (key != "level" or full[key] == 5)
    ]
    for count in range(1, _MOST_LEFT_OUT + 1):
        found = []
        for keys in itertools.combinations(on, count):
            if "commands" in keys and "update_key" in keys:
                continue
            left = without(full, keys)
            if heap_of(left) <= room(left, heap):
                found.append((heap_of(full) - heap_of(left), keys))
        if found:
            return [keys for _, keys in sorted(found)]
    return []


def without(full: dict[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    """The settings without these keys and without the keys that need them."""
    left = full | {key: _OFF[key] for key in keys}
    if not left["commands"]:
        left["update_key"] = ""
    return left if left["series"] else left | _SERIES_KEYS


def _joined(keys: tuple[str, ...]) -> str:
    return " and ".join(_NAMES.get(key, f"'{key}'") for key in keys)
