#!/usr/bin/env python3
"""The long hunt with pinned blocks: littlefs and an outbox on one chip, with the power cut in any
operation of either.

    .venv/bin/python host_tests/fuzz/hunt_pinned.py [--cuts 10000] [--seed 1] [--arch amd64]

Each seed runs in a separate MicroPython: every geometry under load, and grow(), release(), create()
cut in each operation. See pinned_hunt.py. Prints what was cut; for a violation, the command that
repeats it, and status 1.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import paths

sys.path.extend(paths.ALL)

from tqdm import tqdm

import run_micropython
from outpost_tools.machine import interpreters

# per geometry and seed; the held messages then reach around the ring more than once
CUTS_OF_A_LOAD = 600


def hunt(command: list[str], seed: int) -> tuple[int, int, int] | str:
    """Returns (cuts, second cuts, most duplicates), or the violation."""
    code = f"import pinned_hunt; pinned_hunt.main({CUTS_OF_A_LOAD}, {seed}, 1)"
    done = subprocess.run(
        [*command, "-X", "heapsize=16M", "-c", code],
        env=run_micropython.environment(Path.cwd()), capture_output=True, text=True, check=False,
    )  # fmt: skip
    words = done.stdout.split()
    if done.returncode or words[:1] != ["CUTS"]:
        return (done.stdout + done.stderr).strip()
    return int(words[1]), int(words[2]), int(words[3])


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--cuts", type=int, default=10_000, metavar="N", help="first cuts to make, at least"
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=1,
        metavar="K",
        help="the first seed; each further load takes the next",
    )
    parser.add_argument("--arch", choices=interpreters.ARCHITECTURES, default="amd64")
    return parser.parse_args()


def main() -> int:
    args = arguments()
    command = interpreters.find_micropython(args.arch)
    if command is None:
        print(f"hunt_pinned: no MicroPython for {args.arch}: run `make setup`", file=sys.stderr)
        return 2
    cuts = second = most = 0
    seed, batch = args.seed, (os.cpu_count() or 1) if args.cuts > 1 else 1
    with (
        ThreadPoolExecutor(batch) as pool,
        tqdm(total=args.cuts, unit="cut", disable=None) as progress,
    ):
        while cuts < args.cuts:
            for one, result in enumerate(
                pool.map(lambda seed: hunt(command, seed), range(seed, seed + batch))
            ):
                if isinstance(result, str):
                    repeat = f"{sys.executable} {sys.argv[0]} --arch {args.arch} --cuts 1"
                    print(
                        f"{result}\nrepeat it with: {repeat} --seed {seed + one}", file=sys.stderr
                    )
                    return 1
                cuts, second, most = cuts + result[0], second + result[1], max(most, result[2])
                progress.update(result[0])
            seed += batch
    print(
        f"{cuts} cuts, {second} of them followed by a second one, seeds {args.seed} to {seed - 1}: "
        f"every filesystem mounted, 0 closed files changed, 0 blocks lost to littlefs, "
        f"0 messages lost or invented, "
        f"at most {most} duplicates"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
