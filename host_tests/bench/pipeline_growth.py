"""Segments to silver beside the usual ways, at growing sizes: time, peak memory, and how each
grows.

    python host_tests/bench/pipeline_growth.py [--rows 1000000 4000000 16000000]
        [--ways outpost json-batch json-stream pandas]

Every way gets the same messages of 1,000 devices (real SenML of 1 to 5 readings, 1 % of the
messages twice) and runs in a separate process; growth_ways.py contains and describes the ways.
Memory is the highest sum of PSS over the way's processes, JVM and Python workers included, sampled
every 0.2 s (process_tree.py); a JVM takes what its heap allows before it collects. The output of a
way is checked with the load's formulas: rows and a checksum. Too much memory, too much time and
wrong rows are outcomes in the table. Results go to build/pipeline_growth.json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]

import psutil  # noqa: E402

import growth_truth  # noqa: E402
import growth_ways  # noqa: E402
import process_tree  # noqa: E402
from pipeline_load import write_log  # noqa: E402

_PROGRAM = REPOSITORY / "host_tests" / "bench" / "growth_ways.py"
_ROWS_PER_MESSAGE = 3
_DUPLICATES = 0.01
_MIB = 1 << 20


def say(text: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


def load(folder: Path, rows: int) -> growth_truth.Content:
    """Write messages with about `rows` distinct readings, as segments and as JSON lines; reuse what
    is already there.
    """
    messages = round(rows / _ROWS_PER_MESSAGE / (1 - _DUPLICATES))
    note = folder / "content.json"
    if not note.exists():
        say(f"writing {messages:,} messages")
        shutil.rmtree(folder, ignore_errors=True)
        write_log(folder / "log", messages, duplicates=_DUPLICATES, json_lines=folder / "lines")
        truth = growth_truth.expected(messages, duplicates=_DUPLICATES)
        note.write_text(json.dumps([truth.rows, truth.checksum]), encoding="utf-8")
    return growth_truth.Content(*json.loads(note.read_text(encoding="utf-8")))


def measure(
    way: str, source: Path, target: Path, truth: growth_truth.Content, limits: dict
) -> dict:
    """Do one run. Returns its line of the table."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    line = [sys.executable, str(_PROGRAM), way, str(source), str(target)]
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
        result["status"] = verdict(growth_ways.result_files(way, target), truth)
    else:
        say((target / "stderr.log").read_text(errors="replace")[-600:])
    shutil.rmtree(target)
    return result


def verdict(files: list[Path], truth: growth_truth.Content) -> str:
    found = growth_truth.found(files)
    if found == truth:
        return "ok"
    if found.rows != truth.rows:
        return f"wrong: {found.rows:,} rows, not {truth.rows:,}"
    return "wrong: right number of rows, wrong content"


def table(results: list[dict]) -> str:
    lines = [
        f"{'rows':>12}  {'way':<12} {'silver s':>9} {'rows/s':>9} {'rows/CPU s':>10} "
        f"{'start s':>8} {'gold s':>8}"
    ]
    lines[0] += f" {'all s':>8} {'CPU s':>8} {'peak MiB':>9}  result"
    for result in results:
        lines.append(
            f"{result['rows']:>12,}  {result['way']:<12} {_rates(result)} {_times(result)}"
            f"  {result['status']}"
        )
    return "\n".join(lines)


def _rates(result: dict) -> str:
    if "silver_s" not in result:
        return f"{'-':>9} {'-':>9} {'-':>10}"
    rates = [result["rows"] / max(result[name], 0.01) for name in ("silver_s", "silver_cpu_s")]
    return f"{result['silver_s']:>9.1f} {rates[0]:>9,.0f} {rates[1]:>10,.0f}"


def _times(result: dict) -> str:
    phases = [
        f"{result[name]:>8.1f}" if name in result else f"{'-':>8}" for name in ("start_s", "gold_s")
    ]
    return (
        f"{' '.join(phases)} {result['wall_s']:>8.1f} {result['cpu_s']:>8.1f} "
        f"{result['peak_bytes'] / _MIB:>9,.0f}"
    )


def growth(results: list[dict]) -> str:
    """Returns how many times the first size's silver time, CPU time and peak memory each size
    takes.
    """
    lines = []
    for way in dict.fromkeys(result["way"] for result in results):
        runs = [result for result in results if result["way"] == way]
        if runs[0]["status"] != "ok":
            continue
        parts = [_compared(run, runs[0]) for run in runs[1:]]
        lines += [f"{way:<12} " + ";  ".join(parts)] if parts else []
    return "\n".join(lines)


def _compared(run: dict, first: dict) -> str:
    head = f"{run['rows'] / first['rows']:.1f} × rows: "
    if run["status"] != "ok":
        return head + run["status"]
    times = [
        f"{run[name] / max(first[name], 0.01):.1f} × {word}"
        for name, word in (("silver_s", "time"), ("silver_cpu_s", "CPU"))
    ]
    return head + ", ".join([*times, f"{run['peak_bytes'] / first['peak_bytes']:.1f} × memory"])


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--rows",
        type=int,
        nargs="+",
        default=[1_000_000, 4_000_000, 16_000_000],
        help="%(default)s",
    )
    parser.add_argument(
        "--ways", nargs="+", choices=growth_ways.WAYS, default=list(growth_ways.WAYS), help="all"
    )
    parser.add_argument(
        "--limit", type=float, default=900, help="seconds a way may take (%(default)s)"
    )
    parser.add_argument(
        "--memory", type=float, help="GiB a way may take (default: 80 %% of what is free)"
    )
    parser.add_argument(
        "--cache",
        type=Path,
        help="folder that keeps the generated messages (default: none is kept)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=REPOSITORY / "build" / "pipeline_growth.json",
        help="%(default)s",
    )
    return parser.parse_args()


def run(args: argparse.Namespace, folder: Path) -> list[dict]:
    memory = (
        int(args.memory * (1 << 30)) if args.memory else psutil.virtual_memory().available * 8 // 10
    )
    limits = {"limit_s": args.limit, "memory_limit": memory}
    results = []
    for rows in args.rows:
        source = (args.cache or folder) / f"{rows}"
        truth = load(source, rows)
        for way in args.ways:
            say(f"{truth.rows:,} rows, {way}")
            results.append(measure(way, source, folder / "run", truth, limits))
            say(
                f"{results[-1]['wall_s']:.0f} s, {results[-1]['peak_bytes'] / _MIB:,.0f} MiB: "
                f"{results[-1]['status']}"
            )
        if not args.cache:
            shutil.rmtree(source)
    return results


def main() -> int:
    args = arguments()
    # SIGTERM raises, so that running programs are ended and the folder is removed
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory(prefix="outpost-growth-") as folder:
        results = run(args, Path(folder))
    print(
        f"{platform.machine()}, {os.cpu_count()} cores; "
        f"1,000 devices, {_DUPLICATES:.0%} of the messages twice\n{table(results)}"
    )
    print(growth(results))
    args.out.parent.mkdir(exist_ok=True)
    args.out.write_text(
        json.dumps({"cores": os.cpu_count(), "results": results}, indent=1), encoding="utf-8"
    )
    return int(any(result["status"].startswith(("wrong", "failed")) for result in results))


if __name__ == "__main__":
    sys.exit(main())
