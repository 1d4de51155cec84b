#!/usr/bin/env python3
"""Every single-token mutant of a set of the firmware's modules, and what kills it.

    host_tests/prove/mutants.py outbox               hours: all of them
    host_tests/prove/mutants.py sessions --every 20  a sample
    host_tests/prove/mutants.py outbox --module ring --processes 2
    host_tests/prove/mutants.py outbox --module ring --only ring._clear_free --tests test_ring
    host_tests/prove/mutants.py sessions --module session --by scopes   what these find alone

A mutant is killed when a unit test fails or does not end, when a scope of the proof finds a
violation, or when a call raises an exception. A mutant that survives must be listed in
`equivalent_mutants/` with the reason why it keeps all that is promised; otherwise it is an error
(exit status 1). Results are kept in `build/mutants/` until the module changes: a stopped run
continues where it was, and the next one tries only the survivors. After weakening a test, remove
that folder.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import resource
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import paths

sys.path.extend(paths.ALL)

import client_mutants
import level5_mutants
import outbox_mutants
import session_mutants
from mutant_changes import Mutant, mutants
from mutant_tests import Suite, collected

SETS = {
    "outbox": outbox_mutants,
    "sessions": session_mutants,
    "level5": level5_mutants,
    "client": client_mutants,
}
EQUIVALENT = paths.PROVE / "equivalent_mutants"


def source(module: str) -> str:
    return paths.library_module(module).read_text(encoding="utf-8")


def equivalent() -> dict[str, str]:
    """Returns the name of each mutant -> why it is equivalent. A reason precedes the mutants to
    which it applies."""
    found = {}
    for path in sorted(EQUIVALENT.glob("*.mutants.txt")):
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("# "):
                reason = line[2:]
            elif line.strip():
                found[line.strip()] = reason
    return found


class Kept:
    """Results of earlier runs over the same source of a module."""

    def __init__(self, name: str, module: str) -> None:
        digest = hashlib.sha256(source(module).encode()).hexdigest()[:12]
        self._path = paths.REPOSITORY / "build" / "mutants" / f"{name}-{module}-{digest}.json"
        self._path.parent.mkdir(parents=True, exist_ok=True)
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
    parser.add_argument("--only", default="", help="those with this text in their names")
    parser.add_argument("--tests", action="append", help="only this file of tests; may be repeated")
    parser.add_argument("--by", choices=("tests", "scopes"), help="only these; default: both")
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


def _killers(args: argparse.Namespace) -> dict[Mutant, str]:
    """Returns each mutant -> what kills it. Tries those that no earlier run has killed; of those
    listed as equivalent, only those never tried."""
    killers, missing, listed = {}, [], equivalent()
    name = f"{args.set}-scopes" if args.by == "scopes" else args.set
    kept = {module: Kept(name, module) for module in _modules(args)}
    for module, earlier in kept.items():
        found = list(mutants(module, source(module)))[:: args.every]
        for mutant in [one for one in found if args.only in one.name]:
            killers[mutant] = earlier.results.get(mutant.name, "")
            is_known = mutant.name in listed and mutant.name in earlier.results
            if not killers[mutant] and not is_known:
                missing.append(mutant)

    by_scopes = SETS[args.set].killer

    def work(suite: Suite) -> None:
        of = {"tests": suite.killer, "scopes": by_scopes}
        killer = of.get(args.by, lambda mutant: suite.killer(mutant) or by_scopes(mutant))
        for number, (mutant, by) in enumerate(suite.killers(missing, killer), 1):
            killers[mutant] = by
            kept[mutant.module].add(mutant.name, by)
            print(f"{number:5}/{len(missing)} {by or 'SURVIVED':60.60} {mutant.name}", flush=True)

    if missing and collected(args.tests or SETS[args.set].TESTS, work, args.processes):
        raise SystemExit("the tests cannot be collected")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{used.ru_utime + used.ru_stime:.0f} s of CPU for {len(missing)} mutants")
    return killers


def main() -> int:
    args = _arguments()
    if args.count:
        return _count(args)
    killers, listed = _killers(args), equivalent()
    _print_table(killers, listed)
    unexplained = [mutant for mutant, by in killers.items() if not by and mutant.name not in listed]
    needless = [f"{one.name}: {by}" for one, by in killers.items() if by and one.name in listed]
    for mutant in unexplained:
        print(f"survived: {mutant.name}", *mutant.difference(), sep="\n    ")
    for name in needless:
        print(f"listed as the same program, but killed: {name}")
    return 1 if unexplained or needless else 0


def _print_table(killers: dict[Mutant, str], listed: Mapping[str, str]) -> None:
    print(" mutants  killed    same    open  module")
    counts: Counter[tuple[str, str]] = Counter()
    for mutant, by in killers.items():
        kind = "killed" if by else "same" if mutant.name in listed else "open"
        counts += Counter({(module, kind): 1 for module in (mutant.module, "in all")})
    for module in [*dict.fromkeys(mutant.module for mutant in killers), "in all"]:
        numbers = [counts[module, kind] for kind in ("killed", "same", "open")]
        print(*(f"{number:7,}" for number in (sum(numbers), *numbers)), f" {module}")


if __name__ == "__main__":
    sys.exit(main())
