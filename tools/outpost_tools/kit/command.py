"""`outpost test`: from the command line to a verdict."""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from pathlib import Path
from typing import Any

from outpost_tools.errors import ToolError
from outpost_tools.kit import trial, words
from outpost_tools.kit.bench import Bench
from outpost_tools.kit.virtual_package import module

_OUTAGE = [10.0, 12.0, "refuses"]
_OUTAGE_FORM = re.compile(r"([\d.]+)-([\d.]+)(?::(\w+))?\Z")
_PROGRESS_EACH_S = 2.0


def run(args: argparse.Namespace) -> int:
    """0, or 1 if something is wrong. Raises ToolError."""
    scenario = _scenario(args)
    for python in ("c", "m") if args.python == "both" else (args.python,):
        if status := _tried(args, scenario, python):
            return status
    return 0


def _tried(args: argparse.Namespace, scenario: dict, python: str) -> int:
    only = trial.one_cut(args.cut)
    asked = trial.Asked(args.program, scenario, python, only=only, double=args.double)
    began = time.monotonic()
    if args.no_cuts:
        world, case = trial.run(asked)
        result = trial.Result(world, failure=case if case["fault"] else None, asked=asked)
    else:
        result = trial.every_cut(asked, _Progress())
    took_s = time.monotonic() - began
    lines = words.of_run(result, args.program.name)
    if result.cuts:
        lines.append(f"{'took':<11}{took_s:.1f} s, {result.cuts / took_s:.0f} cuts a second")
    print(*lines, sep="\n")
    if not result.failure:
        return 0
    if not args.no_cuts:
        print("looking for the smallest run that shows it", file=sys.stderr)
        result = trial.smallest(result)
    file = trial.saved(result.asked, Path.cwd())
    print("\nfailed: ", "\n".join(words.of_failure(result, args.program, file)), sep="")
    return 1


class _Progress:
    """A line on stderr, now and then."""

    def __init__(self) -> None:
        self._next = time.monotonic() + _PROGRESS_EACH_S

    def __call__(self, cuts: int, effects: int) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _PROGRESS_EACH_S
            print(f"{cuts:,} power cuts, in {effects:,} effects", file=sys.stderr)


def _scenario(args: argparse.Namespace) -> dict:
    if args.scenario:
        return _json(args.scenario)
    bench = Bench(Path())
    bench.board, bench.filesystem = _board(args.board), args.filesystem
    bench.settings = _json(args.settings) if args.settings else {}
    bench.heap_after_s = args.heap_after
    if args.heap_after is not None and args.python == "c":
        raise ToolError("--heap-after: CPython has no such heap; use it with --python m")
    bench.values = dict(_value(one) for one in args.value)
    given = [_outage(one) for one in args.outage] or [_OUTAGE]
    for start, end, kind in given:
        if end > start:
            bench.outage(start, end, kind)
    return bench.scenario(args.hours * 3600)


def _board(name: str) -> str:
    known = module("ports").KINDS
    if name not in known:
        raise ToolError(f"--board {name}: one of {', '.join(known)}")
    return name


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ToolError(f"{path}: not JSON: {error}") from None
    if not isinstance(found, dict):
        raise ToolError(f"{path}: must be a JSON object")
    return found


def _value(text: str) -> tuple[str, float]:
    name, _, number = text.partition("=")
    try:
        return name.strip(), float(number) if "." in number else int(number)
    except ValueError:
        raise ToolError(f"--value {text}: say NAME=NUMBER, as in 'adc 34=30000'") from None


def _outage(text: str) -> list:
    found = _OUTAGE_FORM.match(text)
    kinds = module("outages").KINDS
    if not found or (found[3] or kinds[0]) not in kinds:
        raise ToolError(
            f"--outage {text}: say MINUTE-MINUTE, or MINUTE-MINUTE:KIND with {', '.join(kinds)}"
        )
    return [float(found[1]), float(found[2]), found[3] or kinds[0]]
