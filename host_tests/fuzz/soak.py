#!/usr/bin/env python3
"""Simulated years of a board at full speed, in both modes side by side, on 32-bit MicroPython:
`make soak` runs this.

    .venv/bin/python host_tests/fuzz/soak.py [--years 8] [--interval 10] [--seed 1]

soak_world.py defines what must hold. The first violation ends the run with the command that repeats
it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import paths

sys.path.extend(paths.ALL)

from tqdm import tqdm

from outpost_tools.machine import interpreters

MODES = ("broker", "collector")
_PATHS = (*paths.PRODUCT, *paths.HELPERS)


class Fault(Exception):
    """What did not hold, and how to reproduce it."""


def soak(
    command: list[str], days: int, interval_s: int, seed: int, mode: str, progress: tqdm
) -> dict:
    """Returns the last report of a run. Raises Fault."""
    found_in = paths.joined(*_PATHS, ".frozen")
    words = [str(paths.FUZZ / "soak_world.py"), str(days), str(interval_s), str(seed), mode]
    report: dict = {}
    with subprocess.Popen(
        [*command, *words],
        env=os.environ | {"MICROPYPATH": found_in},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        for line in process.stdout or []:
            before, report = report.get("days", 0), json.loads(line)
            progress.update(report["days"] - before)
        said = process.stderr.read() if process.stderr else ""
    if process.returncode:
        raise Fault(
            f"{mode}: {said.strip().splitlines()[-1]}\n"
            f"  again: MICROPYPATH={found_in} {' '.join([*command, *words])}"
        )
    return report


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--years",
        type=float,
        default=8,
        help="simulated, of each mode (default: %(default)s, an hour)",
    )
    parser.add_argument(
        "--interval",
        type=int,
        default=10,
        help="seconds from one message to the next (default: %(default)s)",
    )
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    command = interpreters.find_micropython("i386")
    if command is None or args.years <= 0 or args.interval < 1:
        print(
            "soak: no MicroPython for i386 (run `make setup`), or --years or --interval below 1",
            file=sys.stderr,
        )
        return 2
    days = max(1, round(args.years * 365))
    with tqdm(total=days * len(MODES), unit=" days") as progress, ThreadPoolExecutor() as pool:
        runs = [
            pool.submit(soak, command, days, args.interval, args.seed, mode, progress)
            for mode in MODES
        ]
        try:
            reports = [run.result() for run in runs]
        except Fault as fault:
            print(f"\nsoak: {fault}", file=sys.stderr)
            return 1
    print(f"{'':<28}" + "".join(f"{mode:>16}" for mode in MODES))
    for key in sorted(reports[0]):
        print(f"{key:<28}" + "".join(f"{_text(report[key]):>16}" for report in reports))
    return 0


def _text(value: float | list[int]) -> str:
    if isinstance(value, list):
        return " to ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else f"{value:.5f}"


if __name__ == "__main__":
    sys.exit(main())
