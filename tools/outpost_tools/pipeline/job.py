"""The run: new segments into silver and quarantine batch by batch, then gold. Reading and writing only.

Every step may be repeated after a kill: a batch is fixed by Spark's offset log before it runs, its folder is
overwritten whole, and it starts from the state of the batch before it. Order within a batch: silver, quarantine, and
the ranges last, so that ranges never claim what silver lacks. The checkpoint lies among the tables because batch
numbers belong to it: one goes with the other.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet
from pyspark.sql import DataFrame, SparkSession

from outpost_tools.pipeline import gold, schemas, tables, transforms
from outpost_tools.pipeline.session import SetupError
from outpost_tools.pipeline.source import DEFAULT_BATCH_BYTES, available

CHECKPOINT = "_checkpoint"
Progress = Callable[[str], None]


def run(
    spark: SparkSession,
    log: Path,
    tables_dir: Path,
    *,
    window_s: float = 10.0,
    batch_bytes: int = DEFAULT_BATCH_BYTES,
    progress: Progress = lambda text: None,
) -> int:
    """Take in all segments that are sealed now; the number of batches that ran. Raises SetupError."""
    check_directories(log, tables_dir)
    done = []
    frames = spark.readStream.format("outpost").option("path", str(log)).option("maxBytesPerBatch", batch_bytes).load()

    def take(batch: DataFrame, number: int) -> None:
        write_batch(spark, tables_dir, batch, number)
        done.append(number)
        progress(_batch_line(tables_dir, number))

    query = (
        frames.writeStream.foreachBatch(take)
        .option("checkpointLocation", str(tables_dir / CHECKPOINT))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    write_gold(spark, tables_dir, window_s, again=bool(done), progress=progress)
    return len(done)


def check_directories(log: Path, tables_dir: Path) -> None:
    """Raises SetupError when there is nothing to read, or the tables have lost their checkpoint."""
    if not log.is_dir():
        raise SetupError(f"{log}: no such directory; give the collector's log directory as --log")
    if not available(log):
        raise SetupError(f"{log}: no sealed segment in any <collector>/ below it; has the collector run?")
    known = max((tables.newest_batch(tables_dir, name) or 0 for name in ("readings", "streams")), default=0)
    planned = [int(path.name) for path in (tables_dir / CHECKPOINT / "offsets").glob("[0-9]*")]
    if tables.newest_batch(tables_dir, "readings") is not None and known > max(planned, default=-1):
        raise SetupError(f"{tables_dir}: tables without their {CHECKPOINT}; remove the whole directory and run again")


def write_batch(spark: SparkSession, tables_dir: Path, batch: DataFrame, number: int) -> None:
    """One micro-batch, idempotent in `number`."""
    batch.persist()
    marked = transforms.mark(batch, read_streams(spark, tables_dir, number)).persist()
    try:
        _write(transforms.new_readings(marked), tables_dir, "readings", number, "day")
        _write(transforms.quarantine(batch).coalesce(1), tables_dir, "quarantine", number)
        _write(transforms.new_streams(marked), tables_dir, "streams", number)
    finally:
        marked.unpersist()
        batch.unpersist()
    tables.prune(tables_dir, "streams")


def read_streams(spark: SparkSession, tables_dir: Path, number: int | None) -> DataFrame:
    """The state before batch `number` (None: the newest)."""
    before = tables.newest_batch(tables_dir, "streams", below=number)
    if before is None:
        return spark.createDataFrame([], schemas.spark(schemas.STREAM))
    path = tables.batch_directory(tables_dir, "streams", before)
    return spark.read.schema(schemas.spark(schemas.STREAM)).parquet(str(path))


def read_readings(spark: SparkSession, tables_dir: Path) -> DataFrame:
    base = tables.table_directory(tables_dir, "readings")
    folders = [str(path) for path in tables.counted_directories(tables_dir, "readings")]
    reader = spark.read.schema(schemas.spark(schemas.READING)).option("basePath", str(base))
    return reader.parquet(*folders).select(*schemas.READING.names)


def write_gold(spark: SparkSession, tables_dir: Path, window_s: float, *, again: bool, progress: Progress) -> None:
    """Gold of the newest batch; nothing to do when it stands already for this window length."""
    number = tables.newest_batch(tables_dir, "streams")
    mark = tables_dir / "gold" / f"windows/batch={number}" / f"_window={window_s:g}"
    complete = all(tables.newest_batch(tables_dir, name) == number for name in tables.GOLD_TABLES)
    if complete and mark.exists() and not again:
        progress("no new segments; tables unchanged")
        return
    progress("computing windows, gaps, latency and devices")
    for name, frame in _gold_frames(spark, tables_dir, window_s).items():
        _write(frame.coalesce(1), tables_dir, name, number)
        tables.prune(tables_dir, name)
    mark.touch()


def _gold_frames(spark: SparkSession, tables_dir: Path, window_s: float) -> dict[str, DataFrame]:
    readings, streams = read_readings(spark, tables_dir), read_streams(spark, tables_dir, None)
    gap_rows = gold.gaps(streams)
    return {
        "windows": gold.windows(readings, window_s),
        "gaps": gap_rows,
        "latency": gold.latency(readings),
        "devices": gold.devices(readings, streams, gap_rows),
    }


def _write(frame: DataFrame, tables_dir: Path, name: str, number: int, *partition_by: str) -> None:
    directory = tables.open_batch(tables_dir, name, number)
    frame.write.mode("overwrite").partitionBy(*partition_by).parquet(str(directory))


def _batch_line(tables_dir: Path, number: int) -> str:
    state = pyarrow.parquet.read_table(tables.batch_directory(tables_dir, "streams", number), columns=["copies"])
    received = sum(state["copies"].to_pylist())
    return f"batch {number}: {received} messages received so far, {state.num_rows} streams"
