#!/usr/bin/env python3
"""Random histories of ring, shelf and note (`store_histories.py`): `hunt_store.py --count 10000`.

Prints what was run, and each violation with its seed.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import paths

sys.path.extend(paths.ALL)

import store_histories
from outbox_invariants import Violation

KINDS = {"bad": (False, True), "weak": (True, False), "both": (True, True)}
_AT_ONCE = 100


def hunt(order: tuple[str, int]) -> tuple[int, list[str]]:
    """(cuts, violations) of some seeds."""
    kind, first = order
    weak, bad = KINDS[kind]
    cuts, faults = 0, []
    for seed in range(first, first + _AT_ONCE):
        try:
            cuts += store_histories.run(seed, weak, bad)
        except Violation as fault:
            faults.append(f"{kind} seed {seed}: {fault}")
    return cuts, faults


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=2000, help="histories of each kind")
    parser.add_argument("--kind", choices=KINDS, action="append", help="only these")
    parser.add_argument("--seed", type=int, default=0, help="the first")
    parser.add_argument("--processes", type=int, default=2)
    args = parser.parse_args()
    status = 0
    with ProcessPoolExecutor(args.processes) as pool:
        for kind in args.kind or KINDS:
            seeds = range(args.seed, args.seed + args.count, _AT_ONCE)
            found = list(pool.map(hunt, [(kind, seed) for seed in seeds]))
            faults = [fault for _, some in found for fault in some]
            cuts = sum(count for count, _ in found)
            print(f"{kind}: {len(seeds) * _AT_ONCE:,} histories, {cuts:,} cuts, {len(faults)} bad")
            print("".join(f"  {fault}\n" for fault in faults[:10]), end="")
            status |= bool(faults)
    return status


if __name__ == "__main__":
    sys.exit(main())
