#!/usr/bin/env python3
"""Two million rows to silver on two cores, and then one more file: Outpost's two engines beside
what one writes with PySpark, DuckDB and polars, all in one run.

    python host_tests/bench/silver_ways.py [--rows 2000000] [--ways outpost-local duckdb-delta ...]

delta_ways.py has the ways, and says what those beside Outpost lack; growth_ways.py runs each in a
process of its own. All get the same messages (1 to 5 readings, 1 % of them twice), the last 10,000
of them as one more file, with repeats of what is stored. The content of each table is compared with
the formulas of the load: rows, and a checksum over all values and times.

rows/s is by the clock, without the start of Spark or of the pool; CPU s has all processes, the JVM
and the pool's workers included. Lines: of code, without comments and docstrings; Outpost's are its
pipeline, whose table says which tests hold it.

    --requests   in place of all that: the requests that a round of Outpost's local engine makes on
                 a bucket, for store_costs.py (build/store_requests.json)
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import inspect
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import paths

sys.path.extend(paths.ALL)

import delta_ways
import growth_truth
import pipeline_growth
import pipeline_load

REPOSITORY = paths.REPOSITORY
PIPELINE = REPOSITORY / "tools" / "outpost_tools" / "pipeline"
REQUESTS = REPOSITORY / "build" / "store_requests.json"
_MORE = 10_000  # messages
_DUPLICATES = 0.01
_ROWS_PER_MESSAGE = 3


def load(folder: Path, rows: int) -> growth_truth.Content:
    """Writes folder/log and folder/lines, and folder/more: the last file of each."""
    messages = round(rows / _ROWS_PER_MESSAGE / (1 - _DUPLICATES))
    pipeline_load.write_log(
        folder / "log", messages, duplicates=_DUPLICATES, json_lines=folder / "lines", last=_MORE
    )
    (folder / "more").mkdir()
    for found in ((folder / "log").glob("*/*.seg"), (folder / "lines").glob("*.json")):
        last = max(found)
        last.rename(folder / "more" / last.name)
    return growth_truth.expected(messages, duplicates=_DUPLICATES)


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
    import growth_ways

    shared = {
        "spark-delta": inspect.getsource(growth_ways._readings),
        "duckdb-delta": delta_ways._SQL,
    }
    text = shared.get(way, "")
    return found + (lines_of(text) if way == "spark-delta" else len(text.split("\n")))


def is_available(way: str) -> bool:
    return way != "outpost-local" or find_spec("outpost_tools.pipeline.engines") is not None


def measure(args: argparse.Namespace, folder: Path) -> list[dict]:
    truth = load(folder / "load", args.rows)
    limits = {"limit_s": 900, "memory_limit": 12 << 30}
    results = []
    for way in args.ways:
        result = {"way": way, "rows": truth.rows, "lines": 0, "status": "not available"}
        if is_available(way):
            pipeline_growth.say(way)
            runs = [
                pipeline_growth.measure(way, folder / "load", folder / "run", truth, limits)
                for _ in range(args.rounds)
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


# --- Requests ---


def requests(folder: Path) -> dict:
    """Requests by kind that a round makes on a bucket: a fixed part, and one for each new file of
    the log; from two rounds with 1 and 21 new files, after one that made the tables. where: what
    the last one asked, by folder."""
    import faulty_store
    import object_store
    from outpost_tools.common import children
    from outpost_tools.store import at

    with contextlib.ExitStack() as stack:
        server = stack.enter_context(object_store.ObjectServer(folder / "server"))
        proxy = stack.enter_context(faulty_store.FaultyStore(server.port))
        os.environ.update(proxy.environment)
        url, log = server.bucket(), folder / "log"
        pipeline_load.write_log(log, 23_000, segment_bytes=1, commit_each=1000)
        paths_of = iter(sorted(log.glob("*/*.seg")))
        store = at.at(url) / "log" / "collector-1"
        # In a process of its own: some calls of deltalake let no other thread of theirs run.
        line = [sys.executable, "-m", "outpost_tools.cli", "pipeline", "run", "--engine", "local"]
        line += ["--log", f"{url}/log", "--tables", f"{url}/tables"]
        counts = []
        for files in (1, 1, 21):
            for path in (next(paths_of) for _ in range(files)):
                store.put(path.name, path.read_bytes())
            proxy.forget()
            subprocess.run(line, check=True, env=children.tools_environment())
            counts.append(dict(proxy.counts))
            where = Counter(f"{kind} {_folder(path)}" for kind, path in proxy.seen)
    few, many = counts[1:]
    of_file = {kind: max(many[kind] - few.get(kind, 0), 0) / 20 for kind in many}
    fixed = {kind: few.get(kind, 0) - of_file[kind] for kind in of_file}
    return {"round": fixed, "file": of_file, "counts": counts, "where": where}


def _folder(path: str) -> str:
    """tables/readings/_delta_log of /BUCKET/tables/readings/_delta_log/0.json; one level less of
    what is not Delta's own."""
    parts = path.split("/")[2:]
    return "/".join(parts[:3] if "_delta_log" in parts else parts[:2])


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    ways = list(delta_ways.WAYS)
    parser.add_argument("--rows", type=int, default=2_000_000, help="%(default)s")
    parser.add_argument("--ways", nargs="+", choices=ways, default=ways, help="all")
    parser.add_argument("--rounds", type=int, default=1, help="%(default)s; the median counts")
    parser.add_argument("--json", type=Path, default=REPOSITORY / "build" / "silver_ways.json")
    parser.add_argument("--requests", action="store_true", help="see above")
    return parser.parse_args()


def main() -> int:
    args = arguments()
    with tempfile.TemporaryDirectory(prefix="outpost-silver-") as name:
        folder = Path(name)
        if args.requests:
            found = requests(folder)
            REQUESTS.parent.mkdir(exist_ok=True)
            REQUESTS.write_text(json.dumps(found, indent=1))
            print(json.dumps(found, indent=1))
            return 0
        results = measure(args, folder)
        shutil.rmtree(folder / "load")
    print(f"{results[0]['rows']:,} rows, {os.cpu_count()} cores\n\n{table(results)}")
    args.json.parent.mkdir(exist_ok=True)
    args.json.write_text(json.dumps(results, indent=1), encoding="utf-8")
    return int(any(one["status"] not in ("ok", "not available") for one in results))


if __name__ == "__main__":
    sys.exit(main())
