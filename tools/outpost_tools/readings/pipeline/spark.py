"""The engine that runs on Spark, on one machine or on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from outpost_tools.readings.pipeline import packed, schemas
from outpost_tools.readings.pipeline.engines import Read, Take


class Spark:
    """A session, as session.py starts it, or any other of the same version."""

    def __init__(self, session: SparkSession) -> None:
        self.session = session

    @property
    def tasks(self) -> int:
        return int(self.session.conf.get("spark.sql.shuffle.partitions"))

    def map(self, function: Callable[[Any], Any], items: list[Any]) -> list[Any]:
        context = self.session.sparkContext
        return context.parallelize(items, max(len(items), 1)).map(function).collect()

    def grouped(self, items: list[str], read: Read, take: Take, schema: pa.Schema) -> list[dict]:
        context = self.session.sparkContext
        # A task costs a worker 0.1 CPU s, whatever it reads.
        tasks = min(len(items), context.defaultParallelism)
        rows = context.parallelize([(one,) for one in items], tasks).toDF("item string")

        def all_read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for item in batch.column(0).to_pylist():
                    yield from read(item)

        def taken(key: tuple[pa.Scalar, ...], part: pa.Table) -> pa.Table:
            return take(key[0].as_py(), part)

        found = rows.mapInArrow(all_read, schemas.spark(packed.PACKED))
        found = found.groupBy("bucket").applyInArrow(taken, schemas.spark(schema))
        return found.toArrow().to_pylist()
