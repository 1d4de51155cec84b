"""Runs a program on a board as `outpost flash` leaves it: the very files of the payload, in the
world of boards/BENCH, under 32-bit MicroPython.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path

import pytest

from outpost_tools.boards.files import firmware_build, needed, payload
from outpost_tools.boards.port import kinds
from outpost_tools.kit.bench import Bench
from outpost_tools.kit.on_micropython import OnMicropython
from outpost_tools.kit.outcome import World
from outpost_tools.machine.interpreters import find_micropython
from paths import BENCH_BOARD, REPOSITORY

SETTINGS = {"device_id": "kitchen", "outbox_blocks": 4}
_BLOCKS = 64  # of the flash: a filesystem pins its outbox's blocks


@functools.cache
def _world() -> dict[str, bytes]:
    texts = firmware_build.world_sources(BENCH_BOARD)
    return firmware_build.compile_all({f"virtual/{name}": texts[name] for name in texts}, "x86")


def payload_of(
    kind: str, settings: needed.Settings | None = None, programs: tuple[str, ...] = ()
) -> dict[str, bytes]:
    """{path: content} of what `outpost flash` copies."""
    made = payload.build(REPOSITORY, kinds.load(REPOSITORY, kind), "x86", settings, programs)
    return {path.lstrip("/"): data for path, data in made.items()}


class _OnPayload(OnMicropython):
    files: dict[str, bytes]

    def _compile(self, folder: Path) -> None:
        for name, data in (self.files | _world()).items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)


def bench_of(kind: str, **settings: object) -> Bench:
    bench = Bench(REPOSITORY)
    bench.board, bench.blocks = kind, _BLOCKS
    bench.settings = SETTINGS | settings
    return bench


def run(bench: Bench, program: Path, files: dict[str, bytes], seconds: float) -> World:
    """Fails if it does not end by itself or with the time."""
    if find_micropython("i386") is None:
        pytest.skip("missing: MicroPython for i386; run `make setup`")
    engine = _OnPayload(program, bench.scenario(seconds), "i386")
    engine.files = files
    (case,) = engine.cases({"none": True, "reports": True})
    assert case["why"] in ("ended", "time"), json.dumps(case, indent=1)
    return World(case["report"])
