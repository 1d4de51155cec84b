"""The run: new segments into silver and quarantine batch by batch, then gold. Reading and writing
only.

Every step may be repeated after a kill: a batch is fixed by Spark's offset log before it runs, its
folder is put in place whole, and it starts from the state of the batch before it. Order within a
batch: silver, quarantine, and the ranges last, so that ranges never claim what silver lacks. The
checkpoint lies among the tables because batch numbers belong to it: one goes with the other.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import DataStreamWriter

from outpost_tools.common import labels
from outpost_tools.pipeline import (
    consumed,
    days,
    displaced,
    fingerprints,
    gold,
    packed,
    parts,
    schemas,
    summaries,
    tables,
    transforms,
)
from outpost_tools.pipeline.consumed import CHECKPOINT
from outpost_tools.pipeline.session import SetupError
from outpost_tools.pipeline.source import DEFAULT_BATCH_BYTES, available

_LATE_WORKER = "Python worker failed to connect back"
Progress = Callable[[str], None]


def run(
    spark: SparkSession,
    log: Path,
    tables_dir: Path,
    *,
    window_s: float = 10.0,
    batch_bytes: int = DEFAULT_BATCH_BYTES,
    versions: tuple[int, ...] = labels.VERSIONS,
    progress: Progress = lambda text: None,
) -> int:
    """Take in all segments that are sealed now; the number of batches that ran. `versions`: message
    versions that count as understood, the others go to quarantine. Raises SetupError."""
    check_directories(log, tables_dir)
    consumed.register(log, tables_dir)
    done = []
    options = {"path": log, "replay": tables_dir / tables.REPLAY, "maxBytesPerBatch": batch_bytes}
    options |= {"versions": " ".join(map(str, versions)), "buckets": _buckets(spark)}
    frames = (
        spark.readStream.format("outpost")
        .options(**{name: str(value) for name, value in options.items()})
        .load()
    )

    def take(batch: DataFrame, number: int) -> None:
        write_batch(spark, log, tables_dir, batch, number)
        done.append(number)
        progress(_batch_line(tables_dir, number))

    writer = frames.writeStream.foreachBatch(take).option(
        "checkpointLocation", str(tables_dir / CHECKPOINT)
    )
    _run_to_the_end(writer.trigger(availableNow=True), progress)
    consumed.prune_replay(tables_dir)
    write_gold(spark, tables_dir, window_s, again=bool(done), progress=progress)
    return len(done)


def _run_to_the_end(writer: DataStreamWriter, progress: Progress) -> None:
    """Again when a worker was not up in Spark's ten seconds, which cannot be set: a busy machine is
    no failure."""
    for again in (True, True, False):
        try:
            writer.start().awaitTermination()
            return
        except StreamingQueryException as error:
            if not again or _LATE_WORKER not in str(error):
                raise
            progress("a Python worker took more than 10 s to start; trying again")


def check_directories(log: Path, tables_dir: Path) -> None:
    """Raises SetupError when there is nothing to read, or the tables have lost their checkpoint."""
    if not log.is_dir():
        raise SetupError(f"{log}: no such directory; give the collector's log directory as --log")
    if not available(log):
        raise SetupError(
            f"{log}: no sealed segment in any <collector>/ below it; has the collector run?"
        )
    known = max(
        (tables.newest_batch(tables_dir, name) or 0 for name in ("readings", "streams")), default=0
    )
    planned = [int(path.name) for path in (tables_dir / CHECKPOINT / "offsets").glob("[0-9]*")]
    if tables.newest_batch(tables_dir, "readings") is not None and known > max(planned, default=-1):
        raise SetupError(
            f"{tables_dir}: tables without their {CHECKPOINT}; remove the whole directory and run "
            "again"
        )


def write_batch(
    spark: SparkSession, log: Path, tables_dir: Path, batch: DataFrame, number: int
) -> None:
    """One micro-batch, idempotent in `number`."""
    names = ("readings", "quarantine", "streams")
    folders = {name: parts.begin(tables_dir, name, number) for name in names}
    known = tuple(fingerprints.before(tables_dir, number))
    sources = transforms.Sources(log, tables_dir, number, known)
    before = packed.pack_state(read_streams(tables_dir, number), _buckets(spark))
    said = fingerprints.begin(tables_dir, number)
    tasks = transforms.mark(
        batch, spark.createDataFrame(before), folders | {"fingerprints": said}, sources
    )
    parts.write(folders["streams"], 0, tasks.toArrow())
    fingerprints.finish(tables_dir, number, said)
    for name, folder in folders.items():
        parts.finish(tables_dir, name, number, folder)
    tables.prune(tables_dir, "streams")


def _buckets(spark: SparkSession) -> int:
    return int(spark.conf.get("spark.sql.shuffle.partitions")) * transforms.BUCKETS_PER_PARTITION


def read_streams(tables_dir: Path, number: int) -> pa.Table:
    """The states before batch `number`."""
    before = tables.newest_batch(tables_dir, "streams", below=number)
    if before is None:
        return schemas.STREAM.empty_table()
    folder = tables.batch_directory(tables_dir, "streams", before)
    return tables.read_files(sorted(folder.glob("part-*.parquet")), schemas.STREAM)


def read_readings(
    spark: SparkSession, tables_dir: Path, files: list[Path] | None = None
) -> DataFrame:
    """Silver (or those files of it), with the times that became known later."""
    files = tables.counted_files(tables_dir, "readings") if files is None else files
    schema = schemas.spark(schemas.READING)
    if not files:
        return spark.createDataFrame([], schema)
    # Without looking at folder names: compacted files lie deeper than those of batches.
    rows = spark.read.schema(schema).option("recursiveFileLookup", "true").parquet(*map(str, files))
    if gone := tables.read_displaced(tables_dir):
        lost = spark.createDataFrame(sorted(gone), schemas.spark(pa.schema(schemas.DISPLACED)))
        rows = rows.join(F.broadcast(lost), displaced.ORIGIN, "left_anti").select(rows.columns)
    known = tables.read_clocks(tables_dir)
    return gold.placed(rows, spark.createDataFrame(known)) if known.num_rows else rows


def write_gold(
    spark: SparkSession, tables_dir: Path, window_s: float, *, again: bool, progress: Progress
) -> None:
    """Gold of the newest batch; nothing to do when it exists for this window length."""
    number = tables.newest_batch(tables_dir, "streams")
    complete = all(tables.newest_batch(tables_dir, name) == number for name in tables.GOLD_TABLES)
    if complete and days.is_made_for(tables_dir, number, window_s) and not again:
        progress("no new segments; tables unchanged")
        return
    plan = days.plan(tables_dir, number, window_s)
    progress(f"computing {plan.summary}, then gaps, latency, devices and boots")
    readings = read_readings(spark, tables_dir, plan.files)
    readings = readings.filter(plan.condition) if plan.condition is not None else readings
    pieces = {
        "days": gold.days(readings),
        "windows": gold.windows(readings, window_s).withColumn("day", F.to_date("start")),
    }
    with ThreadPoolExecutor(
        len(pieces)
    ) as pool:  # the one is planned and compiled, which takes one core, while the other runs
        list(
            pool.map(
                lambda name: _write_pieces(pieces[name], tables_dir, name, number, plan), pieces
            )
        )
    summaries.write(tables_dir, number)
    days.finish(tables_dir, number, window_s)
    for name in (*tables.GOLD_PIECES, *tables.GOLD_TABLES):
        tables.prune(tables_dir, name)


def _write_pieces(
    frame: DataFrame, tables_dir: Path, name: str, number: int, plan: days.Plan
) -> None:
    """Recomputed days beside the others' files of the snapshot before; complete only with both."""
    directory = tables.open_batch(tables_dir, name, number)
    writer = (
        frame.coalesce(1)
        .write.mode("overwrite")
        .option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
    )
    writer.partitionBy("day").parquet(str(directory))
    days.carry_over(tables_dir, name, number, plan)


def _batch_line(tables_dir: Path, number: int) -> str:
    state = tables.read_table(tables_dir, "streams", ["copies"])
    received = sum(state["copies"].to_pylist())
    return f"batch {number}: {received} messages received so far, {state.num_rows} streams"
