"""How fast segments become Arrow, by the pipeline's reader alone and in Spark's workers: parts of
pipeline_profile.py, series_million.py and run_bench.py.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

import process_tree
from outpost_tools.readings.pipeline import decode, job

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


def fast(path: str) -> int:
    return sum(
        batch.num_rows
        for batch in decode.segment_batches(Path(path).read_bytes(), "collector-1", 0)
    )


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
