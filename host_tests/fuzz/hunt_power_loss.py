#!/usr/bin/env python3
"""The long hunt for a power cut that breaks the outbox's promise: `make power-loss`, with CUTS=n
for another number.

Each program and erase of every load on every geometry (`power_loss.py`) is cut in five ways; one in
four goes on and is cut again at random. Stops at the first violation and prints the command that
repeats it.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import paths

sys.path.extend([*paths.ALL, str(paths.HOST_TESTS / "firmware" / "outpost")])

from tqdm import tqdm

import power_loss

STEPS = 60


def hunt(seed: int) -> tuple[int, int, int] | str:
    try:
        return power_loss.hunt(STEPS, seed)
    except power_loss.Violation as fault:
        return f"{fault}\nrepeat it with: {sys.executable} {sys.argv[0]} --seed {seed} --cuts 1"


def count_mutants(seeds: int = 4, steps: int = 30) -> int:
    """How many of the hunts each mutant of test_outbox_power_loss.py fails; 1 when one is never
    caught, or the real one is.
    """
    import test_outbox_power_loss as mutants
    from nor_flash import NorRuleError
    from outpost.outbox import Outbox

    kinds = (
        Outbox,
        mutants.NoCrc,
        mutants.NoSeal,
        mutants.TrustsBlank,
        mutants.SavesLate,
        mutants.ErasesEarly,
    )
    loads = [load for load in power_loss.LOADS if load.outbox_class is Outbox]
    hunts = [
        (geometry, load, seed)
        for geometry in power_loss.GEOMETRIES[:5]
        for load in loads
        for seed in range(seeds)
    ]
    wrong = False
    for kind in kinds:
        caught = 0
        for place in hunts:
            try:
                power_loss.Hunt(*place, kind).run(steps)
            except (power_loss.Violation, NorRuleError):
                caught += 1
        wrong |= (caught > 0) == (kind is Outbox)
        print(f"{kind.__name__}: caught in {caught} of {len(hunts)} hunts")
    for kind in (Outbox, mutants.NoReadBack, mutants.NoSalt):
        lost = mutants.lost_over_a_dead_block(kind)
        wrong |= (lost > 0) == (kind is Outbox)
        print(f"{kind.__name__}: {lost} messages lost over a worn-out block")
    return int(wrong)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--cuts", type=int, default=100_000, metavar="N", help="first cuts to make, at least"
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=1,
        metavar="K",
        help="the first seed; each further load takes the next",
    )
    parser.add_argument(
        "--mutants",
        action="store_true",
        help="instead: how often each mutant of the tests is caught",
    )
    args = parser.parse_args()
    if args.mutants:
        return count_mutants()
    cuts = second = most = 0
    seed = args.seed
    with ProcessPoolExecutor() as pool, tqdm(total=args.cuts, unit="cut", disable=None) as progress:
        while cuts < args.cuts:
            batch = 8 if args.cuts > 1 else 1
            for result in pool.map(hunt, range(seed, seed + batch)):
                if isinstance(result, str):
                    print(result, file=sys.stderr)
                    return 1
                cuts, second, most = cuts + result[0], second + result[1], max(most, result[2])
                progress.update(result[0])
            seed += batch
    print(
        f"{cuts} cuts, {second} of them followed by a second one: "
        f"0 lost, 0 invented, 0 out of order, at most {most} duplicates"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
