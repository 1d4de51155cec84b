#!/usr/bin/env python3
"""Two million rows to silver on two cores, and then one more file: Outpost's two engines beside
what one writes with PySpark, DuckDB and polars, all in one run.

    python host_tests/bench/silver_ways.py [--rows 2000000] [--ways outpost-local duckdb-delta ...]
        [--write]

delta_ways.py has the ways, says what those beside Outpost lack, and runs each in a process of its
own. All get the same messages (1 to 5 readings, 1 % of them twice), the last 10,000
of them as one more file, with repeats of what is stored. The content of each table is compared with
the formulas of the load: rows, and a checksum over all values and times.

rows/s is by the clock, without the start of Spark or of the pool; CPU s has all processes, the JVM
and the pool's workers included. Lines: of code, without comments and docstrings; Outpost's are its
pipeline, whose table says which tests hold it. --write puts the table into README.md.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import paths

sys.path.extend(paths.ALL)

import delta_ways
import marked_table
import pipeline_load
import process_tree
import silver_truth

REPOSITORY = paths.REPOSITORY
PAGE = Path(__file__).with_name("README.md")
PIPELINE = REPOSITORY / "tools" / "outpost_tools" / "readings" / "pipeline"
_MORE = 10_000  # messages
_DUPLICATES = 0.01
_ROWS_PER_MESSAGE = 3


def say(text: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


def load(folder: Path, rows: int) -> silver_truth.Content:
    """Writes folder/log and folder/lines, and folder/more: the last file of each."""
    messages = round(rows / _ROWS_PER_MESSAGE / (1 - _DUPLICATES))
    last = min(_MORE, messages // 2)
    pipeline_load.write_log(
        folder / "log", messages, duplicates=_DUPLICATES, json_lines=folder / "lines", last=last
    )
    (folder / "more").mkdir()
    for found in ((folder / "log").glob("*/*.seg"), (folder / "lines").glob("*.json")):
        last = max(found)
        last.rename(folder / "more" / last.name)
    return silver_truth.expected(messages, duplicates=_DUPLICATES)


def lines_of(source: str) -> int:
    """Lines with code: not empty, no comment, no docstring."""
    tree = ast.parse(source)
    texts = {
        number
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    kept = enumerate(source.splitlines(), 1)
    return sum(
        bool(text.strip()) and not text.strip().startswith("#") and number not in texts
        for number, text in kept
    )


def lines(way: str) -> int:
    if way.startswith("outpost"):
        return sum(lines_of(path.read_text("utf-8")) for path in PIPELINE.rglob("*.py"))
    found = lines_of(inspect.getsource(delta_ways.WAYS[way]))
    shared = {
        "spark-delta": inspect.getsource(delta_ways._readings),
        "duckdb-delta": delta_ways._SQL,
    }
    text = shared.get(way, "")
    return found + (lines_of(text) if way == "spark-delta" else len(text.split("\n")))


def is_available(way: str) -> bool:
    return (
        way != "outpost-local" or find_spec("outpost_tools.readings.pipeline.engines") is not None
    )


def run(way: str, source: Path, target: Path, truth: silver_truth.Content, limits: dict) -> dict:
    """Do one run. Returns its line of the table."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    line = [sys.executable, str(delta_ways.__file__), way, str(source), str(target)]
    outcome = process_tree.run(line, target / "stderr.log", **limits)
    result = {
        "way": way,
        "rows": truth.rows,
        "status": outcome.status,
        "load_average": round(os.getloadavg()[0], 1),
    }
    result |= {"wall_s": outcome.wall_s, "cpu_s": outcome.cpu_s, "peak_bytes": outcome.peak_bytes}
    if outcome.status == "ok":
        result |= json.loads(outcome.output.splitlines()[-1])
        result["status"] = verdict(delta_ways.result_files(way, target), truth)
    else:
        say((target / "stderr.log").read_text(errors="replace")[-600:])
    shutil.rmtree(target)
    return result


def verdict(files: list[Path], truth: silver_truth.Content) -> str:
    found = silver_truth.found(files)
    if found == truth:
        return "ok"
    if found.rows != truth.rows:
        return f"wrong: {found.rows:,} rows, not {truth.rows:,}"
    return "wrong: right number of rows, wrong content"


def measure(args: argparse.Namespace, folder: Path) -> list[dict]:
    truth = load(folder / "load", args.rows)
    limits = {"limit_s": 900, "memory_limit": 12 << 30}
    results = []
    for way in args.ways:
        result = {"way": way, "rows": truth.rows, "lines": 0, "status": "not available"}
        if is_available(way):
            say(way)
            runs = [
                run(way, folder / "load", folder / "run", truth, limits) for _ in range(args.rounds)
            ]
            result = _median(runs) | {"lines": lines(way)}
        results.append(result)
    return results


def _median(runs: list[dict]) -> dict:
    """The run with the median time; a run that failed, if there is one."""
    failed = [run for run in runs if run["status"] != "ok"]
    if failed:
        return failed[0]
    middle = statistics.median_low(run["silver_s"] for run in runs)
    return next(run for run in runs if run["silver_s"] == middle)


def table(results: list[dict]) -> str:
    found = [
        "| way | lines | rows/s | CPU s | rows per CPU s | one more file, s | CPU s | |",
        "|---|---:|---:|---:|---:|---:|---:|---|",
    ]
    for one in results:
        cells = ["-"] * 5
        if one["status"] == "ok":
            rate, cpu_s = one["rows"] / one["silver_s"], one["silver_cpu_s"]
            cells = [f"{rate:,.0f}", f"{cpu_s:.1f}", f"{one['rows'] / cpu_s:,.0f}"]
            cells += [f"{one['more_s']:.1f}", f"{one['more_cpu_s']:.1f}"]
        found.append(f"| {one['way']} | {one['lines']:,} | {' | '.join(cells)} | {one['status']} |")
    return "\n".join(found)


def peaks(results: list[dict]) -> str:
    found = {one["way"]: one["peak_bytes"] >> 20 for one in results if "peak_bytes" in one}
    return ", ".join(f"{way} {mib:,}" for way, mib in found.items())


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    ways = list(delta_ways.WAYS)
    parser.add_argument("--rows", type=int, default=2_000_000, help="%(default)s")
    parser.add_argument("--ways", nargs="+", choices=ways, default=ways, help="all")
    parser.add_argument("--rounds", type=int, default=1, help="%(default)s; the median counts")
    parser.add_argument("--write", action="store_true", help="the table into README.md")
    parser.add_argument("--json", type=Path, default=REPOSITORY / "build" / "silver_ways.json")
    return parser.parse_args()


def main() -> int:
    args = arguments()
    with tempfile.TemporaryDirectory(prefix="outpost-silver-") as name:
        folder = Path(name)
        results = measure(args, folder)
        shutil.rmtree(folder / "load")
    print(f"{results[0]['rows']:,} rows, {os.cpu_count()} cores\n\n{table(results)}")
    print(f"\nMiB at the peak, all processes: {peaks(results)}")
    if args.write:
        marked_table.write(PAGE, "silver", table(results))
    args.json.parent.mkdir(exist_ok=True)
    args.json.write_text(json.dumps(results, indent=1), encoding="utf-8")
    return int(any(one["status"] not in ("ok", "not available") for one in results))


if __name__ == "__main__":
    sys.exit(main())
