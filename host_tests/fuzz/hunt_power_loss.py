#!/usr/bin/env python3
"""The long hunt for a power cut that breaks the outbox's promise: `make power-loss`, with CUTS=n
for another number of cuts.

Each program and erase of every load on every geometry (`power_loss.py`) is cut in six ways, taken
in turn from those of the cut model (`virtual/chip.py`). One in four continues and is cut again
at random, and half of these a third time. Stops at the first violation and prints the command that
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
import series_loss

STEPS = 24


def hunt(seed: int) -> power_loss.Tally | str:
    try:
        if "--series" in sys.argv:
            return series_loss.hunt(STEPS, seed)
        return power_loss.hunt(STEPS, seed)
    except power_loss.Violation as fault:
        options = " --series" * ("--series" in sys.argv)
        command = f"{sys.executable} {sys.argv[0]} --seed {seed} --cuts 1{options}"
        return f"{fault}\nrepeat it with: {command}"


def count_mutants(seeds: int = 4, steps: int = 30) -> int:
    """Prints how many of the hunts each mutant of test_outbox_power_loss.py fails. Returns 1 if one
    is never caught, or if the real outbox is.
    """
    import test_outbox_power_loss as mutants
    from outpost.outbox import Outbox
    from virtual.chip import ChipRuleError

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
            except (power_loss.Violation, ChipRuleError):
                caught += 1
        wrong |= (caught > 0) == (kind is Outbox)
        print(f"{kind.__name__}: caught in {caught} of {len(hunts)} hunts")
    for kind in (Outbox, mutants.NoReadBack, mutants.NoSalt):
        lost = mutants.lost_over_a_dead_block(kind)
        wrong |= (lost > 0) == (kind is Outbox)
        print(f"{kind.__name__}: {lost} messages lost over a worn-out block")
    return int(wrong)


def arguments() -> argparse.Namespace:
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
    parser.add_argument("--series", action="store_true", help="the loads of series_loss.py")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--progress", action="store_true", help="a line for each few seeds")
    return parser.parse_args()


def main() -> int:
    args = arguments()
    if args.mutants:
        return count_mutants()
    total = power_loss.Tally()
    seed = args.seed
    with (
        ProcessPoolExecutor(args.processes) as pool,
        tqdm(total=args.cuts, unit="cut", disable=None) as progress,
    ):
        while total.cuts < args.cuts:
            batch = 2 * args.processes if args.cuts > 1 else 1
            for result in pool.map(hunt, range(seed, seed + batch)):
                if isinstance(result, str):
                    print(result, file=sys.stderr)
                    return 1
                total.add(result)
                progress.update(result.cuts)
            seed += batch
            if args.progress:
                print(f"{total.cuts} cuts, seeds up to {seed - 1}", flush=True)
    print(report(total))
    return 0


def report(total: power_loss.Tally) -> str:
    rows = [f"{count:9,}  {kind}" for kind, count in sorted(total.kinds.items())]
    return "\n".join(rows) + (
        f"\n{total.cuts:9,}  cuts; {total.second_cuts:,} of them followed by a second one, "
        f"{total.third_cuts:,} by a third; {total.errors:,} errors of the driver, "
        f"{total.bad_blocks:,} blocks that failed:\n"
        f"0 lost, 0 invented, 0 out of order, at most {total.most_duplicates} duplicates"
    )


if __name__ == "__main__":
    sys.exit(main())
