#!/usr/bin/env python3
"""All faults combined: any session, options and outbox with a faulty server, at random.

    hunt_mixed.py [--first 0] [--seeds 2000]

mixed_choices.py defines what a seed chooses, mixed_world.py what must hold. Each failing seed is
printed with its choices: `hunt_mixed.py --first SEED --seeds 1` repeats it.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import paths

sys.path.extend(path for path in paths.ALL if path not in sys.path)

from fuzz_facts import Violation
from mixed_world import World

STEPS = (300, 1500)
_TOLD_EVERY = 100


@dataclass
class Account:
    """The results of a hunt."""

    seeds: int = 0
    accepted: int = 0
    connections: int = 0
    deliveries: int = 0
    slowest_ms: int = 0
    failures: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.seeds} seeds, {len(self.failures)} failed: {self.accepted} messages accepted, "
            f"{self.connections} connections, {self.deliveries} deliveries; all was well after "
            f"{self.slowest_ms / 1000:.0f} s at most"
        )

    def play(self, seed: int) -> None:
        world = World(seed)
        try:
            world.run(world.rng.choice(STEPS))
        except (Violation, Exception) as fault:
            told = fault if isinstance(fault, Violation) else traceback.format_exc()
            self.failures.append(f"seed {seed}: {world.choices}: {told}")
        self.seeds += 1
        self.accepted += len(world.accepted)
        self.connections += len(world.server.connects)
        self.deliveries += len(world.server.came)
        self.slowest_ms = max(self.slowest_ms, world.calm_ms)


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--first", type=int, default=0, help="seed (default: %(default)s)")
    parser.add_argument("--seeds", type=int, default=2000, help="how many (default: %(default)s)")
    args = parser.parse_args(words)
    account, start_s = Account(), time.monotonic()
    for seed in range(args.first, args.first + args.seeds):
        known = len(account.failures)
        account.play(seed)
        for failure in account.failures[known:]:
            print(failure, flush=True)
        if account.seeds % _TOLD_EVERY == 0:
            print(f"{account}; {time.monotonic() - start_s:.0f} s", file=sys.stderr)
    print(account)
    return 1 if account.failures else 0


if __name__ == "__main__":
    sys.exit(main())
