"""The run: new segments into silver and quarantine batch by batch, then gold. Reading and writing
only.

Every step may be repeated after a kill. Spark's offset log fixes a batch before it runs. Its tasks
write files, and then three commits make them count: quarantine, silver, and the state last. A table
that already has the batch skips its commit (delta.py). So a batch is complete when the state has
it. A repeated batch finds the state of the batch before it, and marks the same messages as new.
It reads silver only where messages conflict, or readings move; and silver changes in one commit, so
a repeated batch finds it unchanged, or has nothing left to do there. The checkpoint lies among the
tables because batch numbers belong to it: they must be moved or deleted together.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from outpost_tools.common import labels
from outpost_tools.pipeline import (
    checkpoint,
    consumed,
    delta,
    fingerprints,
    gold,
    moves,
    packed,
    parked,
    quarantine,
    tables,
    transforms,
)
from outpost_tools.pipeline.consumed import CHECKPOINT
from outpost_tools.pipeline.session import SetupError
from outpost_tools.pipeline.source import DEFAULT_BATCH_BYTES, available

Progress = Callable[[str], None]


def run(
    spark: SparkSession,
    log: Path,
    tables_dir: Path,
    *,
    window_s: float = 10.0,
    batch_bytes: int = DEFAULT_BATCH_BYTES,
    versions: tuple[int, ...] = labels.VERSIONS,
    is_all: bool = False,
    progress: Progress = lambda text: None,
) -> int:
    """Process all segments that are sealed now; returns the number of batches that ran. `versions`:
    message versions that count as understood; messages of others go to quarantine. is_all: also do
    what a round leaves for later ones. Raises SetupError, and what Spark raises: retries.py decides
    whether that is transient."""
    check_directories(log, tables_dir)
    _prepare(log, tables_dir)
    done = []
    options = {"path": log, "replay": tables_dir / tables.REPLAY, "maxBytesPerBatch": batch_bytes}
    options |= {"versions": " ".join(map(str, versions)), "buckets": _groups(spark)}
    frames = (
        spark.readStream.format("outpost")
        .options(**{name: str(value) for name, value in options.items()})
        .load()
    )

    def take(batch: DataFrame, number: int) -> None:
        files = write_batch(spark, log, tables_dir, batch, number)
        done.append(number)
        progress(_batch_line(number, files))

    writer = frames.writeStream.foreachBatch(take).option(
        "checkpointLocation", str(tables_dir / CHECKPOINT)
    )
    writer = writer.trigger(availableNow=True)
    writer.start().awaitTermination()
    consumed.prune_replay(tables_dir)
    _refine(spark, tables_dir, window_s, progress, is_all)
    return len(done)


def _refine(
    spark: SparkSession, tables_dir: Path, window_s: float, progress: Progress, is_all: bool
) -> None:
    """What follows the batches: a round's part of it, or all."""
    while _file_some(tables_dir, progress) and is_all:
        pass
    while gold.write(spark, tables_dir, window_s, progress=progress) and is_all:
        pass


def _file_some(tables_dir: Path, progress: Progress) -> int:
    if left := parked.file(tables_dir):
        progress(
            f"{left:,} readings, of days with few, are without a file of their day until a later "
            f"round: a round files those of {parked.MOST_DAYS} days"
        )
    return left


def _prepare(log: Path, tables_dir: Path) -> None:
    tables.create(tables_dir)
    checkpoint.repair(tables_dir)
    quarantine.finish_replay(tables_dir)
    consumed.register(log, tables_dir)
    consumed.note_first(log, tables_dir)


def check_directories(log: Path, tables_dir: Path) -> None:
    """Raises SetupError when there is nothing to read, or the tables lack their checkpoint."""
    if not log.is_dir():
        raise SetupError(f"{log}: no such directory; give the collector's log directory as --log")
    if not available(log):
        raise SetupError(
            f"{log}: no sealed segment in any <collector>/ below it; has the collector run?"
        )
    tables.check_version(tables_dir)
    if tables.version(tables_dir, "streams") > 0 and not any(
        (tables_dir / CHECKPOINT / "offsets").glob("[0-9]*")
    ):
        raise SetupError(
            f"{tables_dir}: tables without their {CHECKPOINT}; remove the whole directory and run "
            "again"
        )


def write_batch(
    spark: SparkSession, log: Path, tables_dir: Path, batch: DataFrame, number: int
) -> list[dict]:
    """One micro-batch, idempotent in `number`. Returns its files as rows of delta.FILES."""
    this = delta.Batch(consumed.query(tables_dir), number)
    if delta.committed(tables_dir / "streams", this.query) >= number:
        return []  # only Spark's own note about it was lost
    known = tuple(fingerprints.before(tables_dir, number))
    streams = delta.open_table(tables_dir / "streams")
    silver, refused = (
        delta.version_before(tables_dir / name, this) for name in ("readings", "quarantine")
    )
    gone = tables.deleted_before(tables_dir)
    states = transforms.Sources(log, tables_dir, _by_bucket(streams), known, silver, refused, gone)
    checkpoint.keep(tables_dir, number)
    said = fingerprints.begin(tables_dir, number)
    files, moved = moves.of_result(transforms.mark(batch, said, states).toArrow())
    fingerprints.finish(tables_dir, number, said)
    _commit(spark, tables_dir, this, files, moved)
    return files


def _by_bucket(streams: DeltaTable) -> dict[int, list[Path]]:
    found: dict[int, list[Path]] = {}
    for one in delta.files_of(streams):
        found.setdefault(int(one["partition"]), []).append(delta.path_of(streams, one))
    return found


def _commit(
    spark: SparkSession, tables_dir: Path, this: delta.Batch, files: list[dict], moved: moves.Moves
) -> None:
    """Commit what the batch's tasks wrote, in each table that does not have the batch yet."""

    def of(name: str) -> list[dict]:
        return [one for one in files if one["table"] == name]

    def changed(table: DeltaTable) -> tuple[list[dict], list[dict]]:
        return moves.rewritten(spark, tables_dir, table, moved) if moved else ([], [])

    def replaced(table: DeltaTable) -> tuple[list[dict], list[dict]]:
        mine = {one["partition"] for one in of("streams")}
        return [], [one for one in delta.files_of(table) if one["partition"] in mine]

    def left(table: DeltaTable) -> tuple[list[dict], list[dict]]:
        return quarantine.without(table, moved.freed) if moved.freed.num_rows else ([], [])

    changes = {"quarantine": left, "readings": changed, "streams": replaced}
    for name in tables.SILVER_TABLES:
        change, place = changes[name], tables_dir / name
        if delta.committed(place, this.query) < this.number:
            delta.rewrite(place, change, of(name), this, moved.note)


def _groups(spark: SparkSession) -> int:
    return packed.groups(int(spark.conf.get("spark.sql.shuffle.partitions")))


def _batch_line(number: int, files: list[dict]) -> str:
    rows = {name: 0 for name in ("readings", "quarantine", "streams")}
    for one in files:
        rows[one["table"]] += json.loads(one["stats"])["numRecords"]
    return (
        f"batch {number}: {rows['readings']} new readings, {rows['quarantine']} frames to "
        f"quarantine, of {rows['streams']} streams"
    )
