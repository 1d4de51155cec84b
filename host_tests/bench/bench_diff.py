#!/usr/bin/env python3
"""What has changed since the baseline, with the error of the change: `make bench-diff` runs this.
Or compares two runs.

    bench_diff.py                   build/bench.json beside host_tests/baselines/bench.json
    bench_diff.py A.json B.json     exit status 1 when a figure of B lies outside of A's spread
    bench_diff.py --write           make build/bench.json the baseline; write README's tables

A figure without noise (heap, instructions, writes, flash operations, sizes) has changed when it
differs. A rate over loopback is compared by its ratio to the raw loop of its own run, because
machines differ; it has changed when the median of the second run lies outside the spread that the
first reports (spread.py says how certain that is). Rates without such a limit (collector, segments)
are compared in the same way, which is valid on one machine only. The baseline keeps names and
numbers.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent.parent
LAST = REPOSITORY / "build" / "bench.json"
BASELINE = REPOSITORY / "host_tests" / "baselines" / "bench.json"

import bench_readme  # noqa: E402 - the path must be set first

Figure = list[float]  # one number; or low, median, high
_EXACT = ("qos0_heap", "qos1_heap", "qos0_writes", "qos1_writes", "reconnect_heap", "idle_heap")
_FLASH = ("erases", "programs", "bytes_programmed", "reads", "bytes_read", "heap_net", "heap_gross")
_CUTS = ("cuts", "second_cuts", "duplicates")


def figures(results: dict) -> dict[str, Figure]:
    """Returns the flat table that is compared and kept, from run_bench.py's results; a flat table
    is returned unchanged.
    """
    if results and all(isinstance(value, list) for value in results.values()):
        return results
    found = _cells(results.get("peers", {})) | _ratios(results)
    found |= _counts(results.get("instructions", {}))
    for name, row in results.get("peer_sizes", {}).items():
        found |= {f"{name} {key}": [value] for key, value in row.items()}
    for row in results.get("outbox_vs_littlefs", []):
        found |= {
            f"flash: {row['store']}, unit {row['unit_bytes']}: {name}": [row[name]]
            for name in _FLASH
        }
    return found | {
        f"power cuts: {name}": [results["power_cuts"][name]]
        for name in _CUTS
        if "power_cuts" in results
    }


def _counts(counts: dict[str, int]) -> dict[str, Figure]:
    """A peer's figures, with the least and the most of its repetitions, because peers that allocate
    vary.
    """
    edges = {f"{name}, {word}" for name in counts for word in ("least", "most")}
    found: dict[str, Figure] = {}
    for name, value in counts.items():
        if name not in edges:
            least, most = counts.get(f"{name}, least"), counts.get(f"{name}, most")
            found[f"instructions: {name}"] = (
                [value] if least is None or most is None else [least, value, most]
            )
    return found


def _cells(peers: dict) -> dict[str, Figure]:
    return _exact("", peers.get("cells", {})) | _exact(", ARM", peers.get("arm", {}))


def _exact(mark: str, rows: dict[str, dict]) -> dict[str, Figure]:
    found: dict[str, Figure] = {}
    for name, row in rows.items():
        for key in _EXACT:
            if row.get(key) is not None:
                parts = (
                    dict(zip((" net", " gross"), row[key], strict=True))
                    if isinstance(row[key], list)
                    else {"": row[key]}
                )
                found |= {f"{name}{mark} {key}{place}": [value] for place, value in parts.items()}
    return found


def _ratios(results: dict) -> dict[str, Figure]:
    found: dict[str, Figure] = {}
    for name, row in results.get("peer_rates", {}).items():
        found |= {
            f"{name} {kind} of raw": _three(one["ratio"])
            for kind, one in row.items()
            if name != "raw"
        }
        found |= {
            f"{name} {kind} of raw_polling": _three(one["polling"])
            for kind, one in row.items()
            if "polling" in one
        }
    if "collector" in results:
        found["collector: messages/s on this machine"] = _three(results["collector"]["rate"])
    for count in ("1", "2"):
        if "segments" in results:
            found[f"segments: rows/s on this machine, {count} process(es)"] = _three(
                results["segments"][count]["rate"]
            )
    return found


def _three(one: dict[str, float]) -> Figure:
    return [one["low"], one["median"], one["high"]]


def change(name: str, old: Figure, new: Figure) -> tuple[str, bool]:
    """Returns the line, and whether it is a change and not noise."""
    before, after = old[len(old) // 2], new[len(new) // 2]
    share = (after - before) / before if before else float(after != before)
    error = (max(old[-1] - before, before - old[0]) / before) if before else 0.0
    real = not old[0] <= after <= old[-1]
    return (
        f"{name:<72}{before:>12,.6g}{after:>12,.6g}{share:>+9.1%} ± {error:.1%}"
        f"{'   changed' if real else ''}",
        real,
    )


def show(old: dict[str, Figure], new: dict[str, Figure], heads: tuple[str, str]) -> list[str]:
    """Prints all figures; returns the names of those that have changed."""
    print(f"{'':<72}{heads[0]:>12}{heads[1]:>12}{'change':>9}   error: how far the spread goes")
    changed = []
    for name in [*old, *(name for name in new if name not in old)]:
        if name in old and name in new:
            line, real = change(name, old[name], new[name])
            print(line)
            changed += [name] * real
        else:
            print(f"{name:<72}{'only in the ' + (heads[0] if name in old else heads[1]):>24}")
    return changed


def conclude(old: dict[str, Figure], new: dict[str, Figure], changed: list[str]) -> None:
    both = [name for name in old if name in new]
    for kind, noisy in (("without noise", False), ("with a spread", True)):
        names = [name for name in both if (len(old[name]) > 1) == noisy]
        out = [name for name in changed if (len(old[name]) > 1) == noisy]
        word = "outside of the spread" if noisy else "changed"
        print(
            f"{len(names)} figures {kind}: {len(out)} {word}{': ' if out else ''}{'; '.join(out)}"
        )


def write(new: dict[str, Figure]) -> None:
    BASELINE.write_text(
        "{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in new.items()) + "\n}\n"
    )
    bench_readme.write()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "files",
        nargs="*",
        type=Path,
        metavar="JSON",
        help="two runs (or baselines) to hold beside each other",
    )
    parser.add_argument(
        "--write",
        action="store_true",
        help="take build/bench.json as the new baseline; README's tables with it",
    )
    args = parser.parse_args()
    if len(args.files) not in (0, 2) or (args.files and args.write):
        parser.error("give two files, or none")
    first, second = args.files or (BASELINE, LAST)
    try:
        last = json.loads(second.read_text(encoding="utf-8"))
        new = figures(last)
        if args.write:
            write(new)
        kept = json.loads(first.read_text(encoding="utf-8"))
        old = figures(kept)
    except (OSError, ValueError, KeyError) as error:
        print(f"bench-diff: {error!r}; run `make bench` first", file=sys.stderr)
        return 2
    changed = show(old, new, ("first", "second") if args.files else ("baseline", "last run"))
    conclude(old, new, changed)
    loads = [
        run["environment"]["load before"]
        for run in (kept, last)
        if isinstance(run.get("environment"), dict)
    ]
    print(f"load before: {', '.join(loads)} (ratios are worth little on a busy machine)")
    return int(bool(changed and args.files))


if __name__ == "__main__":
    sys.exit(main())
