#!/usr/bin/env python3
"""Runs all measurements, prints tables, writes build/bench.json: `make bench` runs this.

    .venv/bin/python host_tests/bench/run_bench.py [SECTION ...]      all, or those named

A section prints its table and returns what belongs under its name in the file; sections not run
keep their content in the file. A section that fails, or cannot be measured here, is named at the
end, and the exit status is 1. Sections of SECTIONS are measured once, because they have no noise.
Those of RATES are measured in blocks (spread.py), which are distributed evenly over the whole run,
between the others. `goals`: the table of goals, from everything in the file. `environment`: the
machine and time of the last run.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import resource
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import paths

sys.path.extend(paths.ALL)

from tqdm import tqdm

import chip_cycles
import goals
import instructions
import peers
import series_bytes
import short_forms
import size_report
import spread
from outpost_tools.errors import ToolError
from outpost_tools.machine import interpreters

OUTPUT = paths.REPOSITORY / "build" / "bench.json"
_COLUMNS = {  # field: (heading, format)
    "store": ("store", "<34"),
    "erases": ("erases", ">8.4f"),
    "programs": ("programs", ">9.2f"),
    "bytes_programmed": ("B programmed", ">13.0f"),
    "worst_block": ("worst block", ">12"),
    "reads": ("reads", ">8.1f"),
    "bytes_read": ("B read", ">8.0f"),
    "heap_net": ("heap net B", ">11.0f"),
    "heap_gross": ("gross B", ">9.0f"),
}


def outbox_vs_littlefs() -> list[dict]:
    """The outbox beside a user's own stores on littlefs, with the same chip, on 32-bit
    MicroPython."""
    rows = size_report.rows_of("littlefs_bench")
    print(
        "\nA message of 24 + 64 bytes, acknowledged 8 later; program unit 256 (rp2); "
        "per message, 32-bit:"
    )
    print("".join(f"{heading:{form.split('.')[0]}}" for heading, form in _COLUMNS.values()))
    for row in rows:
        print("".join(f"{row[name]:{form}}" for name, (_, form) in _COLUMNS.items()))
    print("\nworst block: erases of the most erased block over all 780 messages.")
    return rows


@dataclass(frozen=True)
class Rates:
    """block: measures one block; finish: returns and prints the section from all blocks."""

    block: Callable[[], Any]
    finish: Callable[[list], Any]
    blocks: int


SECTIONS: dict[str, Callable[[], Any]] = {
    "peers": peers.peers,
    "peer_sizes": peers.peer_sizes,
    "outbox_vs_littlefs": outbox_vs_littlefs,
    "series": series_bytes.section,
    "instructions": instructions.instructions,
    "chip": chip_cycles.cycles,
    "chip_series": chip_cycles.series,
    "chip_start": chip_cycles.start,
    "chip_wake": chip_cycles.wake,
    "power_cuts": short_forms.power_cuts,
    "spark": short_forms.spark,
}
RATES = {
    "peer_rates": Rates(peers.rates_block, peers.rates, spread.BLOCKS),
    "collector": Rates(short_forms.collector_block, short_forms.collector, 5),
    "segments": Rates(short_forms.segments_block, short_forms.segments, 7),
}


def plan(names: list[str], rates: dict[str, Rates]) -> list[str]:
    """Returns the order of work: a name of SECTIONS once, one of RATES once per block, each
    distributed evenly over the whole run.
    """
    plain = [name for name in names if name in SECTIONS]
    places = [((at + 0.5) / len(plain), name) for at, name in enumerate(plain)]
    for name in (name for name in names if name in rates):
        places += [((at + 0.5) / rates[name].blocks, name) for at in range(rates[name].blocks)]
    return [name for _, name in sorted(places, key=lambda place: place[0])]


class Stopwatch:
    """Seconds per section, by the clock and of CPU, with child processes."""

    def __init__(self) -> None:
        self.spent: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])

    def run(self, name: str, work: Callable[[], Any]) -> Any:
        clock, cpu = time.monotonic(), self._cpu_s()
        try:
            return work()
        finally:
            spent = self.spent[name]
            spent[0], spent[1] = spent[0] + time.monotonic() - clock, spent[1] + self._cpu_s() - cpu

    @staticmethod
    def _cpu_s() -> float:
        usages = (
            resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        )
        return sum(usage.ru_utime + usage.ru_stime for usage in usages)

    def show(self) -> None:
        print(f"\n{'seconds':<22}{'clock':>8}{'CPU':>8}")
        total = [sum(column) for column in zip(*self.spent.values(), strict=True)]
        for name, (clock, cpu) in [*self.spent.items(), ("in all", total)]:
            print(f"{name:<22}{clock:>8.1f}{cpu:>8.1f}")


def measure(names: list[str], watch: Stopwatch, most_blocks: int = spread.BLOCKS) -> dict[str, Any]:
    """Returns {section: its result}; `failed`: {section: why it has none}."""
    results: dict[str, Any] = {"failed": {}}
    rates = {name: replace(one, blocks=min(one.blocks, most_blocks)) for name, one in RATES.items()}
    blocks: dict[str, list] = defaultdict(list)
    for name in tqdm(plan(names, rates), desc="bench", unit=" steps", disable=None):
        if name in results["failed"]:
            continue
        try:
            if name in SECTIONS:
                results[name] = watch.run(name, SECTIONS[name])
                continue
            blocks[name].append(watch.run(name, rates[name].block))
            if len(blocks[name]) == rates[name].blocks:
                results[name] = rates[name].finish(blocks[name])
        # whatever failed, the other sections are still useful
        except Exception as error:
            results["failed"][name] = reason = (
                str(error) if isinstance(error, ToolError) else repr(error)
            )
            print(f"bench: {name}: {reason}", file=sys.stderr)
    return results


def merged(kept: dict[str, Any], results: dict[str, Any]) -> dict[str, Any]:
    """Returns the file's content after a run. A failed section keeps nothing, because its row would
    show an old figure.
    """
    return {name: value for name, value in kept.items() if name not in results["failed"]} | results


def environment() -> dict[str, str | int]:
    """Returns the machine of this run. The load shows whether it was busy with something else."""
    found = {arch: interpreters.find_micropython(arch) for arch in ("i386", "armhf")}
    load = f"{os.getloadavg()[0]:.1f}"
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "cpus": os.cpu_count() or 0,
        "load before": load,
        "machine": platform.machine(),
        "Python": platform.python_version(),
    } | {
        arch: interpreters.describe(command) if command else "not here"
        for arch, command in found.items()
    }


def main(words: list[str] | None = None) -> int:
    everything = [*SECTIONS, *RATES]
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "sections",
        nargs="*",
        choices=[[], *everything],
        metavar="SECTION",
        help=", ".join(everything),
    )
    parser.add_argument("--out", type=Path, default=OUTPUT, help="build/bench.json")
    help_ = (
        "at most that many (odd) blocks a rate, for a short try: %(default)s; "
        "with fewer the spread says less"
    )
    parser.add_argument("--blocks", type=int, default=spread.BLOCKS, help=help_)
    parser.add_argument("--short", action="store_true", help="fewer messages, to see that it runs")
    args = parser.parse_args(words)
    if args.short:
        short_forms.shorten()
        SECTIONS["instructions"] = lambda: instructions.instructions(sets=())
    watch = Stopwatch()
    try:
        results = {"environment": environment()} | measure(
            args.sections or everything, watch, args.blocks
        )
        kept = json.loads(args.out.read_text()) if args.out.exists() else {}
    except (ToolError, ValueError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    results = merged(kept, results)
    results["goals"] = goals.table(results)
    args.out.parent.mkdir(exist_ok=True)
    args.out.write_text(json.dumps(results, indent=1) + "\n")
    watch.show()
    goals.show(results["goals"])
    print(f"written to {args.out}", flush=True)
    for name, reason in results["failed"].items():
        print(f"bench: section {name} failed: {reason}", file=sys.stderr)
    return int(bool(results["failed"]))


if __name__ == "__main__":
    sys.exit(main())
