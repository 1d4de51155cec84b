"""How fast segments become Arrow: the pipeline's reader beside its exact reader (message by
message), in turns.

    python host_tests/bench/pipeline_rates.py [--messages 1000000] [--rounds 3] [--spark]

Through Spark, the CPU of each kind of process and thread shows what limits the rate; start-up is
included, so a short sample is slow.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import paths

sys.path.extend(paths.ALL)

import pipeline_load
import process_tree
from outpost_tools.readings.pipeline import decode, job
from outpost_tools.readings.pipeline import exact as exact_reader

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

PLAIN, PACKED = "a row of Spark a reading", "packed, as the job reads"


def fast(path: str) -> int:
    return sum(
        batch.num_rows
        for batch in decode.segment_batches(Path(path).read_bytes(), "collector-1", 0)
    )


def exact(path: str) -> int:
    rows = exact_reader.segment_rows(Path(path).read_bytes(), "collector-1", 0)
    return sum(batch.num_rows for batch in exact_reader.arrow_batches(rows))


def rate(reader, paths: list[str], processes: int) -> tuple[float, float]:
    """Returns (rows/s by the clock, rows per second of CPU time)."""
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        pool.map(reader, paths[:processes])  # imports and first allocations are not measured
        cpu, begin = _children_cpu_s(pool), time.perf_counter()
        rows = sum(pool.imap_unordered(reader, paths, chunksize=1))
        seconds, cpu = time.perf_counter() - begin, _children_cpu_s(pool) - cpu
    return rows / seconds, rows / cpu


def _children_cpu_s(pool) -> float:
    return max(
        sum(process_tree.own_cpu_s(psutil.Process(process.pid)) for process in pool._pool), 0.01
    )


def through_spark(
    log: Path, rows: int, rounds: int = 1, forms: tuple[str, ...] = (PLAIN, PACKED)
) -> float:
    """Prints the rates of the reader alone, into Spark's sink that keeps nothing: the forms in
    turn, with a cold first turn.

    Returns rows/s of the form that the job reads, the best of the warm turns.
    """
    rates = []
    with spark_of() as spark:
        for number in range(1 + rounds):
            for form in forms:
                seconds, spent = to_noop(spark, log, 4 if form == PACKED else 0)
                print(
                    f"Spark local[2] to noop, {form}{'' if number else ', cold'}: "
                    f"{_split(rows, seconds, spent)}",
                    flush=True,
                )
                rates += [rows / seconds] if form == PACKED and number else []
    return max(rates)


@contextlib.contextmanager
def spark_of() -> Iterator[SparkSession]:
    from outpost_tools.readings.pipeline import session

    with tempfile.TemporaryDirectory() as name:
        spark = session.start("local[2]", Path(name) / "spark.log")
        yield spark
        spark.stop()


def to_noop(spark: SparkSession, log: Path, buckets: int) -> tuple[float, dict[str, float]]:
    """Returns (seconds, CPU seconds by process_tree's roles) for all segments through the reader.
    buckets 0: a row of Spark a reading."""
    from outpost_tools.readings.pipeline import logs, packed, plan, schemas

    found = logs.Log.at(log)
    ends = {name: one[-1].number for name, one in found.all_sealed().items()}
    every = [one for several in found.all_sealed().values() for one in several]
    items = [(one,) for one in job._bundles(plan.Plan({}, ends, -1, 0, every))]

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for item in (item for batch in batches for item in batch.column(0).to_pylist()):
            for collector, number in json.loads(item):
                data = found.read(collector, number)
                rows = decode.segment_batches(data, collector, number)
                yield from packed.pack(rows, buckets) if buckets else rows

    before, begin = process_tree.roles(os.getpid()), time.perf_counter()
    tasks = min(len(items), spark.sparkContext.defaultParallelism)
    frames = spark.sparkContext.parallelize(items, tasks).toDF("item string")
    schema = packed.PACKED if buckets else schemas.FRAME
    rows = frames.mapInArrow(read, schemas.spark(schema))
    rows.write.format("noop").mode("overwrite").save()
    seconds, after = time.perf_counter() - begin, process_tree.roles(os.getpid())
    return seconds, {role: after[role] - before.get(role, 0.0) for role in after}


def _split(rows: int, seconds: float, spent: dict[str, float]) -> str:
    parts = ", ".join(
        f"{role} {cpu_s:.1f} s" for role, cpu_s in sorted(spent.items(), key=lambda item: -item[1])
    )
    return (
        f"{rows / seconds:,.0f} rows/s ({rows / sum(spent.values()):,.0f} per CPU second: {parts})"
    )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--messages", type=int, default=1_000_000, help="%(default)s, three readings each"
    )
    parser.add_argument(
        "--rounds",
        type=int,
        default=3,
        help="%(default)s; the best of them counts, for both readers",
    )
    parser.add_argument(
        "--spark", action="store_true", help="also through Spark (adds half a minute)"
    )
    return parser.parse_args()


def main() -> None:
    args = arguments()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder)
        rows = pipeline_load.write_log(log, args.messages, segment_bytes=4 << 20)
        paths = [str(path) for path in sorted(log.glob("*/*.seg"))]
        size = sum(os.path.getsize(path) for path in paths)
        print(
            f"{args.messages} messages, {rows} rows, {size / args.messages:.0f} bytes a frame; "
            f"load {os.getloadavg()[0]:.1f}"
        )
        for processes in (1, 2):
            pairs = [
                (rate(fast, paths, processes), rate(exact, paths, processes))
                for _ in range(args.rounds)
            ]
            best, best_exact = (max(pair[index] for pair in pairs) for index in (0, 1))
            print(
                f"{processes} processes: fast {best[0]:,.0f} rows/s "
                f"({best[1]:,.0f} per CPU second), message by message ",
                end="",
            )
            print(
                f"{best_exact[0]:,.0f} ({best_exact[1]:,.0f}); ratio {best[1] / best_exact[1]:.1f}"
            )
        if args.spark:
            through_spark(log, rows, args.rounds)


if __name__ == "__main__":
    main()
