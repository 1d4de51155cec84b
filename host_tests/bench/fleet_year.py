#!/usr/bin/env python3
"""10,000 boards that sleep, for a year: computed from what is measured on smaller fleets.

    python host_tests/bench/fleet_year.py [--boards 100 200 400] [--wakes 500 1000 2500]
        [--rounds 12] [--write]

Each board wakes every 15 minutes and sends one message, in a boot of its own, so a year is 35,040
wakes. For each size, tables are filled and compacted as a timer would do. Rounds of the pipeline
follow, each with one message of each board: of these, means. The first round is made once more, in
a bucket of a real S3 server, and its requests are counted.

What is measured is fitted by least squares with coefficients that are not negative: a sum of a
constant, and of terms for each board, for each day and for each message that was ever sent
(TERMS). What a round costs has no term for each message of the history: rounds merge files of
similar size, so a row is written again as often as the size has doubled, and the term is that, for
each board. `off` is the largest distance of a measurement from its fit. `check` is how far the fit
without the largest fleet and history is from what was measured there. --write puts the table into
host_tests/bench/README.md.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import paths

sys.path.extend(paths.ALL)

import numpy as np
import psutil

import marked_table
import pipeline_rounds
import round_requests
import serial_engine
from outpost_tools.machine import children
from outpost_tools.readings.pipeline import delta, job, tables, upkeep
from outpost_tools.store import at

PAGE = Path(__file__).with_name("README.md")
SLEEP_S, WARM = 900, 2
DAY_WAKES, YEAR_WAKES, FLEET = 96, 365 * 96, 10_000
CONSTANT, BOARDS, DAYS, MESSAGES, MERGES = range(5)
Point = dict[str, float]
# Which terms a figure has. A round touches all buckets of devices from some hundred boards on.
TERMS = {
    "CPU s a round": (CONSTANT, BOARDS, DAYS, MERGES),
    "bytes written a round": (CONSTANT, BOARDS, DAYS, MERGES),
    "files": (CONSTANT, DAYS, MESSAGES),
    "LIST a round": (CONSTANT, DAYS),
    "PUT a round": (CONSTANT, DAYS),
    "GET a round": (CONSTANT, DAYS),
} | {f"bytes of `{name}`": (CONSTANT, BOARDS, DAYS, MESSAGES) for name in tables.ALL}


# --- Measured, in a process of its own ---


def measure(folder: Path, boards: int, wakes: int, rounds: int) -> Point:
    log, place = folder / "log", folder / "tables"
    fleet = pipeline_rounds.Sleepers(log, is_woken=True, boards=boards, sleep_s=SLEEP_S)
    fleet.wake(wakes)
    job.run(serial_engine.Serial(), log, place, is_all=True)
    upkeep.compact(place, kept_h=0)
    found: Point = {"boards": boards, "wakes": wakes} | sizes(place)
    fleet.wake(1)
    found |= requests(folder)
    for number in range(WARM + rounds):
        if number == WARM:
            begin = spent()
        job.run(serial_engine.Serial(), log, place)
        fleet.wake(1)
    cpu_s, written = ((now - then) / rounds for now, then in zip(spent(), begin, strict=True))
    return found | {"CPU s a round": cpu_s, "bytes written a round": written}


def spent() -> tuple[float, float]:
    """CPU seconds, and bytes passed to the kernel."""
    return time.process_time(), psutil.Process().io_counters().write_chars


def sizes(place: Path) -> Point:
    opened, found = delta.Opened(place), {"files": 0}
    for name in tables.ALL:
        files = delta.files_of(opened[name])
        found["files"] += len(files)
        found[f"bytes of `{name}`"] = sum(one["size"] for one in files)
    return found


def requests(folder: Path) -> Point:
    """Of a round that starts with these tables, inside `--continuous`."""
    import faulty_store
    import object_store

    with (
        object_store.ObjectServer(folder / "server") as server,
        faulty_store.FaultyStore(server.port) as proxy,
    ):
        os.environ.update(proxy.environment)
        url = server.bucket()
        copied(folder / "tables", at.at(url) / "tables")
        newest = max((folder / "log").rglob("*.seg"))
        before = newest.with_name(newest.name.replace(newest.stem[-12:], _before(newest)))
        copied(before.parent, at.at(url) / "log" / before.parent.name, [before])
        line = ["pipeline", "run", "--engine", "local", "--continuous"]
        line += ["--log", f"{url}/log", "--tables", f"{url}/tables"]
        with round_requests.Continuous(line, proxy) as process:
            copied(newest.parent, at.at(url) / "log" / newest.parent.name, [newest])
            counts = round_requests.by_kind(process.round())
    return {f"{kind} a round": counts[kind] for kind in ("LIST", "PUT", "GET")}


def _before(segment: Path) -> str:
    return f"{int(segment.stem[-12:]) - 1:012d}"


def copied(source: Path, target: object, files: list[Path] | None = None) -> None:
    for path in files or sorted(source.rglob("*")):
        if path.is_file() and path.name != "spark.log":
            target.put(path.relative_to(source).as_posix(), path.read_bytes())


# --- Computed ---


def terms(boards: float, wakes: float) -> np.ndarray:
    doublings = np.log2(wakes)
    return np.array([1.0, boards, wakes / DAY_WAKES, boards * wakes, boards * doublings])


def fitted(points: list[Point], name: str) -> np.ndarray:
    """The coefficients of all terms: by least squares of relative errors, not negative."""
    left = list(TERMS[name])
    values = np.array([one[name] for one in points])
    rows = np.array([terms(one["boards"], one["wakes"]) for one in points])
    weights = 1 / np.maximum(values, 1e-9)
    while True:
        found = np.linalg.lstsq(rows[:, left] * weights[:, None], np.ones(len(points)))[0]
        if (found >= 0).all():
            break
        del left[int(found.argmin())]
    every = np.zeros(MERGES + 1)
    every[left] = found
    return every


def value(coefficients: np.ndarray, boards: float, wakes: float) -> float:
    return float(coefficients @ terms(boards, wakes))


def worst(points: list[Point], name: str) -> float:
    """The largest distance of a measurement from the fit, as a share of it."""
    found = fitted(points, name)
    return max(abs(value(found, p["boards"], p["wakes"]) / max(p[name], 1e-9) - 1) for p in points)


def check(points: list[Point], name: str) -> float:
    """How far off the largest measurement is predicted, from those with fewer boards and wakes."""
    largest = max(points, key=lambda one: (one["boards"], one["wakes"]))
    others = [
        one for one in points
        if one["boards"] < largest["boards"] and one["wakes"] < largest["wakes"]
    ]  # fmt: skip
    found = value(fitted(others, name), largest["boards"], largest["wakes"])
    return found / max(largest[name], 1e-9) - 1


def table(points: list[Point]) -> str:
    largest = max(points, key=lambda one: (one["boards"], one["wakes"]))
    boards, wakes = int(largest["boards"]), int(largest["wakes"])
    head = f"{boards} boards, {wakes:,} wakes: measured"
    lines = [
        f"| | {head} | {FLEET:,} boards, {YEAR_WAKES:,} wakes: computed | off | check |",
        "|---|---:|---:|---:|---:|",
    ]
    rows = []
    for name in (one for one in TERMS if largest[one]):
        found = value(fitted(points, name), FLEET, YEAR_WAKES)
        rows.append((name, largest[name], found, worst(points, name), check(points, name)))
        if name == "bytes written a round":
            more = ("bytes written a message", largest[name] / boards, found / FLEET)
            rows.append((*more, *rows[-1][3:]))
    whole = [sum(one[at] for one in rows if one[0].startswith("bytes of")) for at in (1, 2)]
    for name, now, then, off, far in rows:
        lines.append(f"| {name} | {_said(now)} | {_said(then)} | {off:.0%} | {far:+.0%} |")
    lines.append(f"| bytes of all tables | {_said(whole[0])} | {_said(whole[1])} | | |")
    return "\n".join(lines)


def _said(number: float) -> str:
    if number >= 1e6:
        return f"{number / 1e6:,.0f} MB" if number < 1e9 else f"{number / 1e9:,.1f} GB"
    return (
        f"{number:,.1f}"
        if number < 100 and abs(number - round(number)) > 1e-6
        else f"{number:,.0f}"
    )


def main() -> int:
    if sys.argv[1:2] == ["--measure"]:
        print(json.dumps(measure(Path(sys.argv[2]), *map(int, sys.argv[3:]))))
        return 0
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--boards", type=int, nargs="+", default=[100, 200, 400])
    parser.add_argument("--wakes", type=int, nargs="+", default=[500, 1000, 2500])
    parser.add_argument("--rounds", type=int, default=12, help="measured ones (%(default)s)")
    parser.add_argument("--write", action="store_true", help="the table into README.md")
    args = parser.parse_args()
    points = []
    for boards, wakes in itertools.product(args.boards, args.wakes):
        with tempfile.TemporaryDirectory(prefix="outpost-year-") as name:
            line = [sys.executable, __file__, "--measure", name, str(boards), str(wakes)]
            done = subprocess.run(
                [*line, str(args.rounds)], check=True, stdout=subprocess.PIPE, text=True,
                env=children.tools_environment(),
            )  # fmt: skip
        points.append(json.loads(done.stdout.splitlines()[-1]))
        print(points[-1], flush=True)
    print(table(points))
    if args.write:
        marked_table.write(PAGE, "year", table(points))
    return 0


if __name__ == "__main__":
    sys.exit(main())
