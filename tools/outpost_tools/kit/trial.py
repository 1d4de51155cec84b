"""A trial of a program: the run itself and each power cut of it; and of a case that fails, the
smallest scenario that still shows it.

The earliest effect is reported, at the first way of cutting that fails. Then outages are left out,
and the time is halved, as long as some cut still fails: cut numbers shift with the scenario, so
what repeats a case is the scenario and the number together.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from outpost_tools.errors import ToolError
from outpost_tools.kit.on_cpython import OnCpython
from outpost_tools.kit.on_micropython import OnMicropython
from outpost_tools.kit.outcome import World

PYTHONS = ("c", "m", "m64")
_LEAST_S = 60
Check = Callable[[World], None]
Told = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Asked:
    """program: its file. scenario: as virtual/world.py's DEFAULTS. check: raises AssertionError;
    None: nothing lost, invented or out of order, and the board recovers. only: one cut, as
    one_cut() reads it. every: 7: one cut in seven."""

    program: Path
    scenario: dict
    python: str = "c"
    check: Check | None = None
    ways: tuple[str, ...] = ()
    only: tuple[int, str] | None = None
    double: bool = False
    every: int = 1

    def changed(self, **scenario: Any) -> Asked:
        return replace(self, scenario={**self.scenario, **scenario})


@dataclass(slots=True)
class Result:
    """first: the run without cuts. kinds: {kind of effect: cuts}. failure: the case, if any."""

    first: World
    cuts: int = 0
    kinds: Counter = field(default_factory=Counter)
    most_duplicates: int = 0
    failure: dict | None = None
    asked: Asked | None = None


def one_cut(text: str) -> tuple[int, str] | None:
    """(number of the effect, way) of NUMBER/WAY; None of "". Raises ToolError."""
    if not text:
        return None
    number, _, way = text.partition("/")
    if not number.isdigit():
        raise ToolError(f"cut {text}: say NUMBER/WAY, as a failure prints it")
    return int(number), way.replace("_", " ")


def run(asked: Asked) -> tuple[World, dict]:
    """The run alone: its world, and its case (virtual/hunt.py). Raises ToolError."""
    (case,) = _engine(asked).cases({"none": True, "reports": True})
    return World(case["report"]), case


def every_cut(asked: Asked, told: Told | None = None) -> Result:
    """Stops at the first failure. told(cuts so far, effects). Raises ToolError."""
    first, alone = run(asked)
    result = Result(first, asked=asked)
    if not _is_good(asked, alone):
        result.failure = alone
        return result
    for case in _engine(asked).cases(_plan(asked)):
        if not case["number"]:  # once more the run itself, which MicroPython tells last
            continue
        result.cuts += 1
        result.kinds[case["kind"]] += 1
        result.most_duplicates = max(result.most_duplicates, case["duplicates"])
        if told:
            told(result.cuts, result.first.effects)
        if not _is_good(asked, case):
            result.failure = case
            break
    return result


def smallest(result: Result) -> Result:
    """Of a failure: the smallest scenario that shows one. The same if it is of one cut alone."""
    asked = result.asked
    if asked.only:
        return result
    for outage in list(asked.scenario["outages"]):
        fewer = [one for one in result.asked.scenario["outages"] if one != outage]
        result = _tried(result, outages=fewer)
    while result.asked.scenario["seconds"] >= 2 * _LEAST_S:
        shorter = _tried(result, seconds=result.asked.scenario["seconds"] / 2)
        if shorter is result:
            break
        result = shorter
    return result


def _tried(result: Result, **scenario: Any) -> Result:
    smaller = every_cut(result.asked.changed(**scenario))
    return smaller if smaller.failure else result


def _engine(asked: Asked) -> OnCpython | OnMicropython:
    if asked.python == "c":
        return OnCpython(asked.program, asked.scenario)
    return OnMicropython(asked.program, asked.scenario, "amd64" if asked.python == "m64" else "")


def _plan(asked: Asked) -> dict:
    plan: dict = {"double": asked.double, "only": asked.only, "every": asked.every}
    if asked.ways:
        plan["ways"] = asked.ways
    if asked.check:
        plan.update(to_the_end=True, reports=True)
    return plan


def _is_good(asked: Asked, case: dict) -> bool:
    """Puts what is wrong into the case."""
    if asked.check and case["why"] in ("ended", "time", "done"):
        case["fault"] = ""
        try:
            asked.check(World(case["report"]))
        except AssertionError as error:
            case["fault"] = str(error).strip() or "the check failed"
    return not case["fault"]


def saved(asked: Asked, folder: Path) -> Path:
    """The scenario in a file that `outpost test --scenario` takes."""
    path = folder / "outpost-test.json"
    path.write_text(json.dumps(asked.scenario, indent=1) + "\n", encoding="utf-8")
    return path
