"""The verdict on a trial in words."""

from __future__ import annotations

import os
from pathlib import Path

from outpost_tools.kit.trial import Result

_PYTHON = {"c": "CPython", "m": "32-bit MicroPython", "m64": "64-bit MicroPython"}
_EFFECTS = {"erase": "an erase of the flash", "program": "a program of the flash",
            "file": "a change of a file", "send": "a packet that goes out",
            "sleep": "deep sleep", "reset": "a reset"}  # fmt: skip


def of_run(result: Result, name: str) -> list[str]:
    """Of the run without cuts, and of the cuts if all are good."""
    world, scenario = result.first, result.asked.scenario
    outages = len(scenario["outages"])
    lines = [
        f"{'program':<11}{name} on {scenario['board']}, {_PYTHON[result.asked.python]}",
        f"{'run':<11}{_time(world.seconds)}, {world.boots} "
        f"{_plural(world.boots, 'start')}, {outages} {_plural(outages, 'outage')}: "
        f"{_ended(world.why)}",
        f"{'messages':<11}{len(world.accepted):,} accepted, {len(world.broker.came):,} came, "
        f"{len(world.lost())} lost, {len(world.duplicates())} twice, "
        f"{len(world.refused)} refused",
        f"{'turn':<11}longest poll() {world.longest_poll_us / 1000:.1f} ms, from one poll() to "
        f"the next {world.longest_turn_us / 1000:.1f} ms, of virtual time",
    ]
    if not world.accepted and not world.samples and not world.broker.came:
        link = "though it connected" if world.broker.connects else "and never connected"
        lines.append(f"{'note':<11}it published nothing, {link}")
    if result.cuts:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(result.kinds.items()))
        good = "" if result.failure else ": nothing lost, invented or out of order"
        lines.append(f"{'power cuts':<11}{result.cuts:,} ({kinds}){good}")
        if result.most_duplicates:
            lines.append(
                f"{'':<11}after one cut, at most {result.most_duplicates} messages came twice"
            )
    return lines


def of_failure(result: Result, program: Path, scenario_file: Path) -> list[str]:
    case, scenario = result.failure, result.asked.scenario
    lines = [case["fault"] or "it failed"]
    if case.get("error"):
        lines.append(f"  exception: {case['error']}" + _at(case["error_line"]))
    if case["number"]:
        what = _EFFECTS.get(case["kind"], case["kind"])
        after = f", after cut {case['after']}" if case.get("after") else ""
        lines.append(
            f"  power cut {case['number']} at {_time(case['ms'] / 1000)}, in {what} "
            f"({case['way']}){_at(case['line'])}{after}"
        )
    else:
        lines.append("  without any power cut")
    outages = ", ".join(f"{a:g} to {b:g} s {kind}" for a, b, kind in scenario["outages"]) or "none"
    lines += [
        f"  smallest run that shows it: {_time(scenario['seconds'])}, outages: {outages}",
        f"  repeat: outpost test {os.path.relpath(program)} --scenario "
        f"{os.path.relpath(scenario_file)}{_cut(case)}{_python(result)}",
    ]
    return lines


def _at(line: str) -> str:
    return f", while at {line}" if line else ""


def _cut(case: dict) -> str:
    if not case["number"]:
        return " --no-cuts"
    if case.get("after"):
        return " --double"
    return f" --cut {case['number']}/{case['way'].replace(' ', '_')}"


def _python(result: Result) -> str:
    return "" if result.asked.python == "c" else f" --python {result.asked.python}"


def _plural(count: int, word: str) -> str:
    return word if count == 1 else word + "s"


def _ended(why: str) -> str:
    return {
        "ended": "the program ended by itself",
        "time": "it still ran at the end of the time",
        "done": "it was well",
        "error": "it ended with an exception",
        "stuck": "it hangs",
        "watchdog": "the watchdog ended it",
    }.get(why, why)


def _time(seconds: float) -> str:
    """In one unit, as people say it."""
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"
