"""Gold: what a person asks of the readings. Pure DataFrame functions.

Each is recomputed from all of silver at the end of a run. Why not only what a batch touched: readings come late by
days and change any window, and a recomputation has no state that a kill could tear. It costs a read of silver per run.
Readings without a time (clock never set) are in silver and counted in `devices`; windows and latency leave them out.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from outpost_tools.pipeline.ranges import Ranges

_GAPS = "device string, stream string, first bigint, last bigint, count bigint, state string"


def windows(readings: DataFrame, seconds: float) -> DataFrame:
    """Per device, metric and window of `seconds`: count, min, max, mean, last."""
    window = F.window("time", f"{round(seconds * 1000)} milliseconds")
    order = F.struct("time", "stream", "seq", "record")
    grouped = readings.filter(F.col("time").isNotNull()).groupBy("device", "name", "unit", window.alias("window"))
    return grouped.agg(
        F.count("value").alias("count"),
        F.min("value").alias("min"),
        F.max("value").alias("max"),
        F.avg("value").alias("mean"),
        F.max_by("value", order).alias("last"),
    ).select("device", "name", "unit", F.col("window.start").alias("start"), "count", "min", "max", "mean", "last")


def gaps(streams: DataFrame) -> DataFrame:
    """Missing sequence ranges, from the lowest `held` seen on. `closed`: below the highest `held`, will never come."""
    return streams.mapInArrow(_gap_batches, _GAPS)


def _gap_batches(batches):
    for batch in batches:
        rows = [gap for stream in batch.to_pylist() for gap in stream_gaps(stream)]
        names = [column.split()[0] for column in _GAPS.split(", ")]
        columns = zip(*rows, strict=True) if rows else [[] for _ in names]
        types = [pa.string(), pa.string(), pa.int64(), pa.int64(), pa.int64(), pa.string()]
        arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, names=names)


def stream_gaps(stream: dict) -> list[tuple]:
    """The gaps of one row of `streams`; one that straddles `held_max` is cut there in two."""
    found = []
    for first, last in Ranges(stream["ranges"]).missing(stream["held_min"]):
        limit = stream["held_max"]
        parts = [(first, min(last, limit - 1), "closed"), (max(first, limit), last, "open")]
        found += [(stream["device"], stream["stream"], a, b, b - a + 1, state) for a, b, state in parts if a <= b]
    return found


def latency(readings: DataFrame) -> DataFrame:
    """Per device: milliseconds from the reading's time to its first arrival, one figure per message."""
    delay = (F.unix_micros("received") - F.unix_micros("time")) / 1000
    messages = readings.filter((F.col("record") == 0) & F.col("time").isNotNull()).withColumn("delay_ms", delay)
    return messages.groupBy("device").agg(
        F.count("delay_ms").alias("count"),
        *(F.percentile("delay_ms", F.lit(part)).alias(f"p{round(part * 100)}_ms") for part in (0.5, 0.95, 0.99)),
        F.max("delay_ms").alias("max_ms"),
    )


def devices(readings: DataFrame, streams: DataFrame, gap_rows: DataFrame) -> DataFrame:
    """Per device: when seen, boots, messages, copies, what is missing, and the outbox's backlog (seq - held)."""
    order = F.struct("received", "stream", "seq")
    backlog = F.col("seq") - F.col("held")
    health = readings.groupBy("device").agg(
        F.min("received").alias("first_seen"),
        F.max("received").alias("last_seen"),
        F.count_distinct("stream", "boot").alias("boots"),
        F.max_by("boot", order).alias("last_boot"),
        F.count(F.lit(1)).alias("readings"),
        F.count_if(F.col("time").isNull()).alias("readings_without_time"),
        F.max_by(backlog, order).alias("backlog_last"),
        F.max(backlog).alias("backlog_max"),
    )
    return health.join(_copies(streams), "device").join(_missing(gap_rows), "device", "left").fillna(0)


def _copies(streams: DataFrame) -> DataFrame:
    """received: message frames in the log; messages: distinct ones; redelivered: their difference, exact."""
    distinct = F.aggregate(
        F.sequence(F.lit(0), F.size("ranges") - 1, F.lit(1)),
        F.lit(0).cast("bigint"),
        lambda total, i: total + F.when(i % 2 == 1, F.get("ranges", i) + 1).otherwise(-F.get("ranges", i)),
    )
    counts = (
        streams.withColumn("distinct", distinct)
        .groupBy("device")
        .agg(F.count(F.lit(1)).alias("streams"), F.sum("copies").alias("received"), F.sum("distinct").alias("messages"))
    )
    return counts.withColumn("redelivered", F.col("received") - F.col("messages"))


def _missing(gap_rows: DataFrame) -> DataFrame:
    def total(state: str):
        return F.sum(F.when(F.col("state") == state, F.col("count")).otherwise(0)).alias(f"missing_{state}")

    return gap_rows.groupBy("device").agg(total("closed"), total("open"))
