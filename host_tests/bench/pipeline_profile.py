"""Where the CPU for a row goes between a segment and Spark's sink that keeps nothing.

    python host_tests/bench/pipeline_profile.py [--messages 500000] [--rounds 3]

Each step of the reader is measured separately, on the same segments in one process. Then Spark runs
the same code in its workers, and what it takes in addition is its own. The fixed cost of a query
(starting workers, planning, compiling) is measured with one message and subtracted. Prints
microseconds of CPU per row, the median of the rounds after two warm-up rounds, and the rate that
two cores could reach if nothing else ran. Last, once, what it takes when each reading is a row of
Spark, in place of thousands packed in one.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import paths

sys.path.extend(paths.ALL)

import pipeline_load
import pipeline_rates
from outpost_tools.log import segments
from outpost_tools.readings.pipeline import decode, packed

_BUCKETS, _CORES = 4, 2


def frames_of(data: bytes) -> Iterator[tuple[int, list[int]]]:
    runs = segments.Contents(data).runs(
        most=decode._FRAMES_PER_BATCH, most_bytes=decode._BYTES_PER_BATCH
    )
    yield from runs


def read(path: Path) -> None:
    path.read_bytes()


def cut(path: Path) -> None:
    for _ in frames_of(path.read_bytes()):
        pass


def parsed(path: Path) -> None:
    data = path.read_bytes()
    reader = decode._Reader(data, "collector-1", 0, (1,), None)
    for begin, ends in frames_of(data):
        with decode._without_collector():
            reader._chunk(reader._frames(begin, ends))


def decoded(path: Path) -> None:
    for _ in decode.segment_batches(path.read_bytes(), "collector-1", 0):
        pass


def whole(path: Path) -> None:
    for _ in packed.pack(decode.segment_batches(path.read_bytes(), "collector-1", 0), _BUCKETS):
        pass


# Each step does what the previous one does, and one thing more.
STEPS: dict[str, Callable[[Path], None]] = {
    "read the file": read,
    "cut it into frames, check their CRC": cut,
    "parse the JSON into records (msgspec)": parsed,
    "check the records, make Arrow columns": decoded,
    "split by bucket, pack as Arrow IPC": whole,
}


def steps_us(files: list[Path], rows: int, rounds: int) -> dict[str, float]:
    """Returns, by step, what it takes in addition to the previous one."""
    sums = {}
    for name, step in STEPS.items():
        found = []
        for number in range(1 + rounds):
            begin = time.process_time()
            for path in files:
                step(path)
            found += [time.process_time() - begin] if number else []
        sums[name] = statistics.median(found) * 1e6 / rows
    before = [0.0, *sums.values()]
    return {name: us - last for (name, us), last in zip(sums.items(), before, strict=False)}


def spark_us(
    log: Path, small: Path, rows: int, rounds: int
) -> tuple[float, dict[str, float], dict[str, float], dict[str, float]]:
    """Returns (rows/s by the clock; microseconds per row by role; CPU seconds of a query of one
    message; microseconds by role of a row of Spark for each reading, with the query)."""
    many, few, rates = [], [], []
    with pipeline_rates.spark_of() as spark:
        for number in range(2 + rounds):
            found = [pipeline_rates.to_noop(spark, one, _BUCKETS) for one in (small, log)]
            if number > 1:
                few.append(found[0][1])
                many.append(found[1][1])
                rates.append(rows / found[1][0])
        plain = pipeline_rates.to_noop(spark, log, 0)[1]
    fixed, whole = (
        {role: statistics.median(one[role] for one in spent) for role in spent[0]}
        for spent in (few, many)
    )
    roles = {role: (whole[role] - fixed[role]) * 1e6 / rows for role in whole}
    single = {role: cpu_s * 1e6 / rows for role, cpu_s in plain.items()}
    return statistics.median(rates), roles, fixed, single


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--messages", type=int, default=500_000, help="%(default)s, three readings each"
    )
    parser.add_argument("--rounds", type=int, default=3, help="%(default)s")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        log, small = Path(folder, "log"), Path(folder, "small")
        rows = pipeline_load.write_log(log, args.messages, segment_bytes=4 << 20)
        pipeline_load.write_log(small, 1)
        steps = steps_us(sorted(log.glob("*/*.seg")), rows, args.rounds)
        rate, roles, fixed, single = spark_us(log, small, rows, args.rounds)
    ours = sum(steps.values())
    beside = {"in Spark's workers, beside that": roles.pop("Python workers") - ours, **roles}
    total = ours + sum(beside.values())
    print(f"{rows:,} rows; load {os.getloadavg()[0]:.1f}; CPU of a row in µs, and part")
    for name, us in (steps | beside).items():
        print(f"{us:8.3f}  {us / total:5.1%}  {name}")
    print(f"{total:8.3f}  all: {_CORES * 1e6 / total:,.0f} rows/s on {_CORES} idle cores")
    print(f"{ours:8.3f}  the reader alone: {_CORES * 1e6 / ours:,.0f} rows/s on {_CORES} cores")
    parts = ", ".join(f"{role} {cpu_s:.2f}" for role, cpu_s in fixed.items())
    print(f"a query of one message: {sum(fixed.values()):.1f} CPU s ({parts})")
    print(f"by the clock, with that: {rate:,.0f} rows/s")
    parts = ", ".join(f"{role} {us:.2f}" for role, us in single.items())
    print(f"a row of Spark for each reading: {sum(single.values()):.2f} µs ({parts})")


if __name__ == "__main__":
    main()
