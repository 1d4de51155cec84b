#!/usr/bin/env python3
"""Every single-token mutant of the outbox's modules, or of the sessions', and what kills it.

    host_tests/prove/mutants.py outbox               hours: all of them
    host_tests/prove/mutants.py sessions --every 20  a sample
    host_tests/prove/mutants.py outbox --module ring --processes 2

A mutant is killed when a scope of the proof finds a violation, when an exception leaves a call,
when a call does not end, or when a unit test fails. One that survives is listed in
`equivalent_mutants.txt` with the reason why it is the same program for all that is promised, or it
is an error (exit status 1). Results are kept in `build/mutants-<set>.json` for as long as the
module stays as it is, so that a run that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import paths

sys.path.extend(paths.ALL)

import outbox_mutants
import session_mutants
from mutant_changes import Mutant, mutants
from mutant_tests import Checkout

SETS = {"outbox": outbox_mutants, "sessions": session_mutants}
EQUIVALENT = paths.PROVE / "equivalent_mutants.txt"


def source(module: str) -> str:
    return (paths.FIRMWARE / "outpost" / f"{module}.py").read_text(encoding="utf-8")


def equivalent() -> dict[str, str]:
    """Name of the mutant -> why it is the same program. A reason stands above the mutants that it
    is about."""
    found, reason = {}, ""
    for line in EQUIVALENT.read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            reason = line[2:]
        elif line.strip():
            found[line.strip()] = reason
    return found


class Run:
    """One module of one set, in one process."""

    def __init__(self, name: str, module: str, first: int, step: int) -> None:
        self._name, self._module, self._first, self._step = name, module, first, step
        self._kept = Kept(name, module, first, step)

    def __call__(self) -> dict[str, str]:
        chosen = list(mutants(self._module, source(self._module)))[self._first :: self._step]
        with Checkout(SETS[self._name].TESTS) as checkout:
            for mutant in chosen:
                if mutant.name not in self._kept.results:
                    by = SETS[self._name].killer(mutant) or self._by_tests(checkout, mutant)
                    self._kept.add(mutant.name, by)
                    print(f"{by or 'SURVIVED':40.40} {mutant.line:4} {mutant.name}", flush=True)
        return {mutant.name: self._kept.results[mutant.name] for mutant in chosen}

    def _by_tests(self, checkout: Checkout, mutant: Mutant) -> str:
        return checkout.killer(mutant.module, ast.unparse(mutant.tree()))


class Kept:
    """Results of an earlier run over the same source."""

    def __init__(self, name: str, module: str, first: int, step: int) -> None:
        digest = hashlib.sha256(source(module).encode()).hexdigest()[:12]
        folder = paths.REPOSITORY / "build" / "mutants"
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / f"{name}-{module}-{digest}-{first}-{step}.json"
        self.results: dict[str, str] = {}
        if self._path.exists():
            self.results = json.loads(self._path.read_text("utf-8"))

    def add(self, mutant: str, by: str) -> None:
        self.results[mutant] = by
        self._path.write_text(json.dumps(self.results, indent=1), encoding="utf-8")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("set", choices=SETS)
    parser.add_argument("--module", action="append", help="only this one; may be repeated")
    parser.add_argument("--every", type=int, default=1, help="one mutant of so many")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--count", action="store_true", help="only say how many there are")
    return parser.parse_args()


def _modules(args: argparse.Namespace) -> tuple[str, ...]:
    return tuple(args.module or SETS[args.set].MODULES)


def _count(args: argparse.Namespace) -> int:
    counts = {module: len(list(mutants(module, source(module)))) for module in _modules(args)}
    for module, count in counts.items():
        print(f"{count:6} {module}")
    print(f"{sum(counts.values()):6} in all")
    return 0


def _results(args: argparse.Namespace) -> Iterator[dict[str, str]]:
    modules = _modules(args)
    step = args.every * args.processes
    runs = [
        Run(args.set, module, first * args.every, step)
        for module in modules
        for first in range(args.processes)
    ]
    with ProcessPoolExecutor(args.processes) as pool:
        yield from pool.map(_run, runs)


def _run(run: Run) -> dict[str, str]:
    return run()


def main() -> int:
    args = _arguments()
    if args.count:
        return _count(args)
    listed, killers = equivalent(), Counter()
    unexplained, needless = [], []
    for results in _results(args):
        for name, by in results.items():
            killers[by.split(":")[0] if by else "the same program" if name in listed else ""] += 1
            if not by and name not in listed:
                unexplained.append(name)
            if by and name in listed:
                needless.append(f"{name}: {by}")
    return _report(killers, unexplained, needless)


def _report(killers: Counter, unexplained: list[str], needless: list[str]) -> int:
    print(f"{sum(killers.values())} mutants")
    for by, times in killers.most_common():
        print(f"{times:6} {by or 'survived, without a reason'}")
    for name in unexplained:
        print(f"survived: {name}")
    for name in needless:
        print(f"listed as the same program, but killed: {name}")
    return 1 if unexplained or needless else 0


if __name__ == "__main__":
    sys.exit(main())
