"""A board that sleeps: firmware/main.py on the UNIX board, a process a wake, with power cuts
between and in the wakes.
"""

from __future__ import annotations

import json
import random
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from outpost_tools.machine import source_tree
from outpost_tools.trying.simulate.board import ASLEEP_STATUS, POWER_CUT_STATUS
from outpost_tools.trying.simulate.orders import CUT_MODES

# a wake has its own limit, `wake_limit_ms`; this one is for a machine that stands still
_WAKE_S = 120


@dataclass(frozen=True, slots=True)
class Wake:
    """How a wake ended (exit status), and what it says that it did: counters.json; {} where the
    power went.
    """

    status: int
    counters: dict
    process_ms: float
    said: str = ""  # at the prompt

    @property
    def was_cut(self) -> bool:
        return self.status == POWER_CUT_STATUS

    @property
    def did_connect(self) -> bool:
        return bool(self.counters["connects"])


class Sleeper:
    """settings: of the device, beside those that make it sleep."""

    def __init__(self, folder: Path, command: list[str], seed: int, **settings: object) -> None:
        folder.mkdir()
        self.folder = folder
        self.wakes: list[Wake] = []
        self._rng = random.Random(seed)
        root = source_tree.repository()
        self._command, self._env = (
            [*command, str(root / "firmware" / "main.py")],
            source_tree.firmware_environment(root),
        )
        always = {
            "device_id": "sleeper",
            "broker_host": "127.0.0.1",
            "deep_sleep": True,
            "sensors": ["load", "memory"],
        }
        self._settings = always
        self.set(**settings)

    def set(self, **settings: object) -> None:
        """From the next wake on."""
        self._settings |= settings
        (self.folder / "settings.json").write_text(json.dumps(self._settings))

    def wake(self, cut_at: int = 0) -> Wake:
        """One wake; the power goes in flash operation cut_at of it, if it comes to that one."""
        counters = self.folder / "counters.json"
        counters.unlink(missing_ok=True)
        orders = {
            "cut_at_operation": cut_at,
            "cut_mode": self._rng.choice(CUT_MODES),
            "seed": self._rng.randrange(1, 1 << 30),
        }
        orders |= {"sleeps": False, "stop_file": "stop"}
        (self.folder / "simulation.json").write_text(json.dumps(orders))
        start = time.monotonic()
        done = subprocess.run(
            self._command,
            cwd=self.folder,
            env=self._env,
            check=False,
            capture_output=True,
            text=True,
            timeout=_WAKE_S,
        )
        process_ms = (time.monotonic() - start) * 1000
        assert done.returncode in (0, ASLEEP_STATUS, POWER_CUT_STATUS), done.stderr
        was_cut = done.returncode == POWER_CUT_STATUS
        did = {} if was_cut else json.loads(counters.read_text())
        one = Wake(done.returncode, did, process_ms, done.stdout)
        self.wakes.append(one)
        return one

    def wake_with_luck(self, cuts: float) -> Wake:
        """In `cuts` of the wakes the power goes in one of the first flash operations."""
        return self.wake(self._rng.choice((1, 1, 1, 2)) if self._rng.random() < cuts else 0)


def cost_of(wakes: list[Wake]) -> str:
    """What these wakes took each, on average."""
    if not wakes:
        return "none"
    keys = ("programs", "erases", "bytes_programmed", "reads", "awake_ms")
    mean = [sum(wake.counters[key] for wake in wakes) / len(wakes) for key in keys]
    text = (
        "{:.3f} programs, {:.4f} erases, {:.0f} bytes programmed, {:.1f} reads, {:.1f} ms".format(
            *mean
        )
    )
    middle = sorted(wake.counters["awake_ms"] for wake in wakes)[len(wakes) // 2]
    return f"{len(wakes)}, each: {text} awake (median {middle} ms)"
