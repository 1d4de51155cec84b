#!/usr/bin/env python3
"""What changed since the baseline, with the error of the change: what `make bench-diff` runs.

    .venv/bin/python host_tests/bench/bench_diff.py [--write]      --write: take build/bench.json as the new baseline

A figure that has no noise (heap, writes, sizes) has changed when it differs. A rate is compared by its ratio to the raw loop of
its own run, since machines differ; it has changed when the middle halves of the two runs do not meet. The baseline keeps names
and numbers only: host_tests/baselines/bench.json.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent.parent
LAST = REPOSITORY / "build" / "bench.json"
BASELINE = REPOSITORY / "host_tests" / "baselines" / "bench.json"
Figure = list[float]  # one number; or low, median, high
_EXACT = ("qos0_heap", "qos1_heap", "qos0_writes", "qos1_writes", "reconnect_heap")


def figures(results: dict) -> dict[str, Figure]:
    """The flat list that is compared and kept."""
    found: dict[str, Figure] = {}
    peers = results.get("peers", {})
    for name, row in peers.get("cells", {}).items():
        for key in _EXACT:
            if name.startswith("outpost") and row.get(key) is not None:
                parts = dict(zip((" net", " gross"), row[key], strict=True)) if isinstance(row[key], list) else {"": row[key]}
                found |= {f"{name} {key}{place}": [value] for place, value in parts.items()}
    for name, row in peers.get("rates", {}).items():
        if name.startswith("outpost"):
            found |= {f"{name} {qos} of raw": [s["ratio_low"], s["ratio_median"], s["ratio_high"]] for qos, s in row.items()}
    found |= {f"instructions: {name}": [value] for name, value in results.get("instructions", {}).items()}
    for name, row in results.get("peer_sizes", {}).items():
        found |= {f"{name} {key}": [row[key]] for key in ("heap", "mpy") if name.startswith("outpost")}
    return found


def change(name: str, old: Figure, new: Figure) -> tuple[str, bool]:
    """The line, and whether it is a change and not noise."""
    before, after = old[len(old) // 2], new[len(new) // 2]
    share = (after - before) / before if before else float(after != before)
    if len(new) == 3 and len(old) == 3:
        error = max(new[2] - new[0], old[2] - old[0]) / 2 / before if before else 0.0
        real = new[0] > old[2] or new[2] < old[0]
    else:
        error = 0.0
        real = after != before
    return f"{name:<62}{before:>12,.6g}{after:>12,.6g}{share:>+9.1%} ± {error:.1%}{'   changed' if real else ''}", real


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true", help="take build/bench.json as the new baseline")
    args = parser.parse_args()
    try:
        new = figures(json.loads(LAST.read_text(encoding="utf-8")))
        if args.write:
            BASELINE.write_text("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in new.items()) + "\n}\n")
        old = json.loads(BASELINE.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        print(f"bench-diff: {error}; run `make bench` first", file=sys.stderr)
        return 2
    print(f"{'':<62}{'baseline':>12}{'last run':>12}{'change':>9}")
    for name in [*old, *(name for name in new if name not in old)]:
        if name in old and name in new:
            print(change(name, old[name], new[name])[0])
        else:
            print(f"{name:<62}{'only in the ' + ('baseline' if name in old else 'last run'):>24}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
