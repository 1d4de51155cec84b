#!/usr/bin/env python3
"""What a bucket costs in a month: requests and money for fleets of 100 boards to a million.

    python host_tests/bench/store_costs.py [--boards 100 10000 1000000] [--put 0.005] [--measured F]

The collector stores a file each `period` in which messages arrived, or when `--file-bytes` are
full, and its number of requests follows from that alone. A round of the pipeline reads the new
files and commits to its tables; how many requests that takes is measured, not assumed: the file
that `round_requests.py` writes has them (build/store_requests.json). Until it is there,
those columns say "not measured".

Prices are arguments. The defaults are those of S3 Standard, us-east-1, in US dollars: 0.005 for
1,000 PUT, POST or LIST, 0.0004 for 1,000 GET or HEAD, nothing for DELETE, 0.023 for a GB and month
(https://aws.amazon.com/s3/pricing/ fills its prices in by script; those of requests are as printed
by https://c3x.dev/blog/s3-request-fees-explained, that of storage as printed by
https://deepeshsoni.com/archives/256, both seen on 2026-11-27). Traffic within the region costs
nothing; out of it, it does, and is left out.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).resolve().parents[2]
MEASURED = REPOSITORY / "build" / "store_requests.json"
MONTH_S = 30 * 86_400
BOARDS = (100, 10_000, 1_000_000)
EVERY_S = (60, 10)
PERIODS_S = (1, 10)
ROUNDS_S = (30, 300)
COLLECTOR_RATE = 40_000  # messages/s that one collector stores; a larger fleet has several
_WRITES, _READS = ("PUT", "POST", "LIST"), ("GET", "HEAD")


class Prices(NamedTuple):
    """US dollars: for 1,000 requests of a kind, and for a GB and month."""

    put: float = 0.005
    get: float = 0.0004
    gb: float = 0.023

    def of(self, requests: dict[str, float]) -> float:
        writes = sum(requests.get(kind, 0.0) for kind in _WRITES)
        reads = sum(requests.get(kind, 0.0) for kind in _READS)
        return (writes * self.put + reads * self.get) / 1000


class Fleet(NamedTuple):
    boards: int
    every_s: float

    @property
    def rate(self) -> float:
        """Messages a second."""
        return self.boards / self.every_s


def new_files(fleet: Fleet, period_s: float, message_bytes: int, file_bytes: int) -> float:
    """Files of the log in a second, of all collectors: a period without a message stores none
    (arrivals are independent), and one with many stores several."""
    collectors = math.ceil(fleet.rate / COLLECTOR_RATE)
    by_time = collectors * -math.expm1(-fleet.rate / collectors * period_s) / period_s
    return max(by_time, fleet.rate * message_bytes / file_bytes)


def round_requests(measured: dict, files_s: float, round_s: float) -> dict | None:
    """A month's, by kind; None: not measured. A round has a fixed part, and one for each new file
    of the log."""
    if not measured:
        return None
    fixed, of_file = measured["round"], measured["file"]
    return {
        kind: MONTH_S * (fixed.get(kind, 0) / round_s + files_s * of_file.get(kind, 0))
        for kind in {*fixed, *of_file}
    }


def stored_gb(fleet: Fleet, log_bytes: float, table_bytes: float) -> float:
    """What a month adds: the log, and the rows in the tables."""
    return fleet.rate * MONTH_S * (log_bytes + table_bytes) / 1e9


def rows(args: argparse.Namespace, measured: dict) -> list[dict]:
    prices = Prices(args.put, args.get, args.gb)
    return [
        _row(args, measured, prices, Fleet(boards, every_s), period_s, round_s)
        for boards in args.boards
        for every_s in EVERY_S
        for period_s in PERIODS_S
        for round_s in ROUNDS_S
    ]


def _row(
    args: argparse.Namespace, measured: dict, prices: Prices, fleet: Fleet, period_s: float,
    round_s: float,
) -> dict:  # fmt: skip
    files_s = new_files(fleet, period_s, args.message_bytes, args.file_bytes)
    found, puts = round_requests(measured, files_s, round_s), MONTH_S * files_s
    gb = stored_gb(fleet, args.message_bytes, args.table_bytes)
    return {
        "boards": fleet.boards,
        "every_s": fleet.every_s,
        "period_s": period_s,
        "round_s": round_s,
        "collector_puts": puts,
        "collector_usd": prices.of({"PUT": puts}),
        "round_writes": found and sum(found.get(kind, 0.0) for kind in ("PUT", "POST")),
        "round_lists": found and found.get("LIST", 0.0),
        "round_reads": found and sum(found.get(kind, 0.0) for kind in _READS),
        "round_usd": found and prices.of(found),
        "gb_a_month": gb,
        "gb_usd": gb * prices.gb,
    }


def table(lines: list[dict]) -> str:
    titles = {
        "boards": "boards", "every_s": "message each s", "period_s": "file each s",
        "round_s": "round each s", "collector_puts": "collector PUT", "collector_usd": "USD",
        "round_writes": "pipeline PUT", "round_lists": "LIST", "round_reads": "GET, HEAD",
        "round_usd": "USD", "gb_a_month": "GB added", "gb_usd": "USD a month for them",
    }  # fmt: skip
    found = ["| " + " | ".join(titles.values()) + " |", "|" + "---:|" * len(titles)]
    for line in lines:
        found.append("| " + " | ".join(_cell(name, line[name]) for name in titles) + " |")
    return "\n".join(found)


def _cell(name: str, value: float | None) -> str:
    if value is None:
        return "not measured"
    if name.endswith("usd") or (name == "gb_a_month" and value < 100):
        return f"{value:,.2f}"
    return f"{value:,.0f}"


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    default = Prices()
    parser.add_argument("--boards", type=int, nargs="+", default=BOARDS)
    parser.add_argument("--put", type=float, default=default.put, help="%(default)s for 1,000")
    parser.add_argument("--get", type=float, default=default.get, help="%(default)s for 1,000")
    parser.add_argument("--gb", type=float, default=default.gb, help="%(default)s a month")
    parser.add_argument("--message-bytes", type=int, default=260, help="%(default)s, in the log")
    parser.add_argument("--table-bytes", type=int, default=30, help="%(default)s, of a message")
    parser.add_argument("--file-bytes", type=int, default=16 << 20, help="%(default)s, of the log")
    parser.add_argument("--measured", type=Path, default=MEASURED, help="requests of a round")
    parser.add_argument("--json", type=Path, help="write the rows there, too")
    return parser.parse_args(words)


def main() -> None:
    args = arguments()
    measured = json.loads(args.measured.read_text()) if args.measured.exists() else {}
    found = rows(args, measured)
    print(table(found))
    if not measured:
        print(
            f"\n{args.measured.name} is not there: what rounds of the pipeline ask is not measured"
        )
    if args.json:
        args.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
