#!/usr/bin/env python3
"""Runs the sessions' own code to a fixpoint, against a server that may do anything the standard
allows: every action from every state, with a power cut in every flash operation. Checks each
outcome against the invariants of `session_facts.py`. `make prove`; README.md beside this file says
what it shows.

    python host_tests/prove/prove_session.py                   all scopes that close: half an hour
    python host_tests/prove/prove_session.py --short           within a minute
    python host_tests/prove/prove_session.py --scope wrap      those whose name has "wrap"
    python host_tests/prove/prove_session.py --long            scopes that take hours
    python host_tests/prove/prove_session.py --random 100 --seed 7     100 long random histories
    python host_tests/prove/mutants.py sessions --module exactly_once  broken copies of a module

Status 1: an invariant does not hold, and the shortest history that shows this was printed; or a
scope did not close within its limits.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import paths

sys.path.extend(paths.ALL)

from session_explorer import Explorer, Result
from session_firmware import classes
from session_scopes import LONG, SCOPES, SHORT, Scope

HEAD = f"{'states':>10} {'transitions':>12} {'cuts':>10} {'at rest':>8} {'s':>7}  scope"


def line(result: Result) -> str:
    counts = f"{result.states:10,} {result.transitions:12,} {result.cuts:10,} {result.at_rest:8,}"
    end = "" if result.closed or result.violation else f": NOT CLOSED, {result.waiting:,} waiting"
    return f"{counts} {result.seconds:7.0f}  {result.scope.name}{end}"


def story(violation: str, trace: list[tuple]) -> str:
    return "\n".join([f"FAIL {violation}", *(f"     {action}" for action in trace)])


def prove(scopes: tuple[Scope, ...], most_states: int, time_limit_s: float) -> int:
    firmware, failures = classes(), 0
    print(HEAD)
    for scope in scopes:
        result = Explorer(scope, firmware).run(most_states, time_limit_s)
        print(line(result), flush=True)
        if result.violation:
            print(story(result.violation, result.trace))
        failures += not result.closed
    print(f"{len(scopes) - failures} of {len(scopes)} scopes closed")
    return 1 if failures else 0


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--short", action="store_true", help="the scopes of .ci/run")
    parser.add_argument("--long", action="store_true", help="the scopes that take hours")
    parser.add_argument("--scope", default="", help="a part of the names of scopes")
    parser.add_argument("--most-states", type=int, default=5_000_000, metavar="N")
    parser.add_argument("--time-limit", type=float, default=36_000, metavar="S", help="a scope")
    parser.add_argument("--random", type=int, default=0, metavar="N", help="random histories")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    if options.random:
        from session_random import hunt

        return hunt(options.random, options.seed)
    scopes = SHORT if options.short else LONG if options.long else SCOPES
    chosen = tuple(scope for scope in scopes if options.scope in scope.name)
    return prove(chosen, options.most_states, options.time_limit)


if __name__ == "__main__":
    sys.exit(main())
