"""The object behind the fixture `bench`: a scenario, and what may be asked of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from outpost_tools.kit import trial, words
from outpost_tools.kit.outcome import World
from outpost_tools.machine import source_tree

SETTINGS = {"device_id": "kitchen", "broker_host": "broker.test", "wifi_ssid": "home"}
Value = float | str | dict | Callable[[int], float]
_BLOCKS = 16
_GOOD_ENDS = ("ended", "time", "done")


class Bench:
    """folder: where programs are, if their names are relative. board: "BENCH", or a kind of board
    whose own board.py then runs (outpost flash --help lists them). values: {name: what the hardware
    reads}: "adc 34", "pin 3"; a number, or a function of the second. settings: of settings.json,
    added to those of a board that has a network and a broker. said: (second, topic, payload) of
    messages from another client; with a fourth, True, retained. files: {name: bytes}. broker:
    options of the server (boards/BENCH/README.md). heap_after_s: MicroPython alone: from then on
    the heap is locked whenever the program itself runs; what allocates raises MemoryError there."""

    def __init__(self, folder: Path, cut: str = "", python: str = "c") -> None:
        self.folder, self.python = folder, python
        self._cut = cut
        self.board = "BENCH"
        self.blocks = 0  # of the flash; 0: as many as the board has
        self.filesystem = "littlefs"
        self.seed = 1
        self.heap_after_s: float | None = None
        self.values: dict[str, Value] = {}
        self.settings: dict[str, Any] = {}
        self.files: dict[str, bytes] = {}
        self.said: list[tuple] = []
        self.broker: dict[str, Any] = {}
        self._outages: list[list] = []

    def outage(self, start_min: float, end_min: float, kind: str = "refuses") -> None:
        """kind: "refuses", "silent", "half_open", "slow", "no_wifi"."""
        self._outages.append([start_min * 60, end_min * 60, kind])

    def run(self, program: str | Path, **time: float) -> World:
        """The program for that time, without a cut. Fails if it ends with an exception or hangs."""
        asked = self._asked(program, time)
        world, case = trial.run(asked)
        if world.why not in _GOOD_ENDS:
            raise AssertionError(f"{case['fault']}: {case['error']} {case['error_line']}")
        return world

    def every_cut(
        self,
        program: str | Path,
        check: trial.Check | None = None,
        ways: tuple[str, ...] = (),
        double: bool = False,
        every: int = 1,
        **time: float,
    ) -> trial.Result:
        """Every power cut of the run; every=7: one in seven. check(world), at the end of the time
        after each cut, raises AssertionError; without it: the board recovers, and nothing is lost,
        invented or out of order. Fails with the earliest cut, the smallest scenario and the line
        that repeats it."""
        asked = replace(self._asked(program, time, check), ways=ways, double=double, every=every)
        result = trial.every_cut(asked)
        if result.failure:
            result = trial.smallest(result)
            file = trial.saved(result.asked, Path.cwd())
            raise AssertionError("\n".join(words.of_failure(result, asked.program, file)))
        return result

    def scenario(self, seconds: float) -> dict:
        settings = {**SETTINGS, **self.settings}
        files = {"settings.json": json.dumps(settings).encode(), **self.files}
        return {
            "board": self.board,
            "blocks": self.blocks or _blocks(self.board),
            "seed": self.seed,
            "settings": settings,
            "files": {name: data.hex() for name, data in files.items()},
            "filesystem": self.filesystem,
            "values": {name: _steps(value, seconds) for name, value in self.values.items()},
            "outages": sorted(self._outages),
            "said": [_said(*one) for one in self.said],
            "broker": self.broker,
            "seconds": seconds,
            "heap_after_s": self.heap_after_s,
        }

    def _asked(self, program, time, check=None) -> trial.Asked:
        path = self.folder / program
        if not path.is_file():
            raise FileNotFoundError(f"{path}: no such program")
        scenario, only = self.scenario(_seconds(**time)), trial.one_cut(self._cut)
        return trial.Asked(path, scenario, self.python, check, only=only)


def _seconds(days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0) -> float:
    found = days * 86_400 + hours * 3600 + minutes * 60 + seconds
    if found <= 0:
        raise TypeError("say how long: days=, hours=, minutes= or seconds=")
    return found


def _blocks(board: str) -> int:
    """An RP2's flash is its whole filesystem, in which the outbox is pinned; another board's is the
    partition of its outbox, which has no size of its own."""
    path = source_tree.repository() / "boards" / board / "board.json"
    facts = json.loads(path.read_text()) if path.is_file() else {}
    return facts["memory"]["blocks"] if facts.get("platform") == "rp2" else _BLOCKS


def _steps(value: Value, seconds: float) -> Any:
    """A function is asked once for each second, and its changes are kept: so both Pythons see the
    same."""
    if not callable(value):
        return value
    found: list[list] = []
    for second in range(int(seconds) + (2 * 3600)):
        read = value(second)
        if not found or read != found[-1][1]:
            found.append([second, read])
    return found


def _said(second: float, topic: bytes, payload: bytes, retain: bool = False) -> list:
    return [second, topic.hex(), payload.hex(), retain]
