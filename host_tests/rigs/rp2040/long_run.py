#!/usr/bin/env python3
"""The long form of the emulated RP2040: `make rp2`, with CUTS=n for another number of power cuts.

    .venv/bin/python host_tests/rigs/rp2040/long_run.py                 all of it
    .venv/bin/python host_tests/rigs/rp2040/long_run.py --only cuts --cuts 20 --seed 7

`outpost flash` and mpremote over the board's USB port; power cuts at flash operations of the
running main.py; cycles. Status 1 at the first fault. A chain of cuts is repeatable by its seed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import paths

sys.path.extend(paths.ALL)

from outpost_tools.errors import ToolError
from rp2040 import core, cuts, cycles, flashing, installed
from rp2040.mqtt_peer import Violation

CUTS = 300
CUTS_A_CHAIN = 15  # a chain is one board's life; at its end all held messages are delivered
INTERVAL_MS = 150
BLOCKS = 16
WORKERS = 2
_MOST_TURNS_A_CUT = 6


def say(text: str) -> None:
    print(f"rp2: {text}", flush=True)


def chain(seed: int, wanted: int, board: installed.Installed) -> cuts.Score:
    """Run in a separate process. Raises Violation, with the command that repeats it."""
    life = cuts.Chain(board.started, board.files, board.fresh, seed)
    try:
        for _ in range(_MOST_TURNS_A_CUT * wanted):
            if life.score.cuts >= wanted:
                break
            life.turn()
        life.finish()
    except Violation as fault:
        script = Path(__file__).relative_to(paths.REPOSITORY)
        command = f"{script} --only cuts --cuts {wanted} --seed {seed}"
        raise Violation(
            f"{fault}\nafter {life.score.cuts} cuts; repeat it with: .venv/bin/python {command}"
        ) from None
    return life.score


def run_cuts(wanted: int, seed: int) -> list[str]:
    board = installed.install(INTERVAL_MS, BLOCKS)
    say(
        f"first start to the first message: {board.first_start_s:.1f} s of the chip's time, "
        f"{BLOCKS} blocks pinned"
    )
    total, began = cuts.Score(), time.monotonic()
    sizes = [CUTS_A_CHAIN] * (wanted // CUTS_A_CHAIN) + (
        [wanted % CUTS_A_CHAIN] if wanted % CUTS_A_CHAIN else []
    )
    with ProcessPoolExecutor(WORKERS) as pool:
        jobs = [pool.submit(chain, seed + number, size, board) for number, size in enumerate(sizes)]
        try:
            for job in as_completed(jobs):
                total.add(job.result())
                say(
                    f"{total.cuts} of {wanted} cuts, {total.starts} starts, "
                    f"{total.promised} messages promised, {total.arrived} arrived, "
                    f"{total.repeated} repeated, {time.monotonic() - began:.0f} s"
                )
        except Violation as fault:
            pool.shutdown(cancel_futures=True)
            return [str(fault)]
    for place, count in sorted(total.by_place.items()):
        say(f"  {count:4} {place}")
    say(f"{total.cuts} cuts: 0 lost, 0 invented, 0 out of order, files whole, up again each time")
    return []


def run_flash() -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        return flashing.check(Path(folder), say)


def run_cycles() -> list[str]:
    return [] if cycles.report(cycles.parse([])) == 0 else ["cycles: the script on the chip failed"]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=("flash", "cuts", "cycles"))
    parser.add_argument("--cuts", type=int, default=CUTS)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    core.library()
    parts = {
        "flash": run_flash,
        "cuts": lambda: run_cuts(options.cuts, options.seed),
        "cycles": run_cycles,
    }
    faults = []
    for name, part in parts.items():
        if options.only in (None, name):
            faults += part()
    for fault in faults:
        print(f"rp2: {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (ToolError, core.NoCompiler) as error:
        sys.exit(f"rp2: {error}")
