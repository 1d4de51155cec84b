"""Where the tables lie and how to read them without Spark.

Every table is folders `batch=N` of Parquet files; a folder counts only when Spark's `_SUCCESS` is
in it. Two kinds: a *log* table is all its complete batches together, a *snapshot* table is its
newest complete batch alone.

    silver/batch=N/day=YYYY-MM-DD/  readings      quarantine/batch=N/   log
    ranges/batch=N/                 streams       gold/<name>/batch=N/  snapshot

A reading lies in the folder of its own day, one without a time in day=__HIVE_DEFAULT_PARTITION__.
Compaction (compact.py) puts the batches 0..n of a log table into few files and then, in one rename,
a manifest `_compacted.json` that names n and those files: from then on they count instead. Local
directories only (README.md says what object storage would need).
"""

from __future__ import annotations

import datetime
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset

from outpost_tools.pipeline import clocks, displaced, schemas

SUCCESS = "_SUCCESS"
MANIFEST = "_compacted.json"
NO_DAY = "__HIVE_DEFAULT_PARTITION__"  # Spark's and Arrow's name for the folder of a null
REPLAY = ".replay"  # below the tables: see quarantine.py
LOG_TABLES = {"readings": "silver", "quarantine": "quarantine"}
GOLD_TABLES = ("windows", "gaps", "latency", "devices", "boots")
GOLD_PIECES = ("days",)  # gold's own, per day: see gold.py
SNAPSHOT_TABLES = {"streams": "ranges"} | {
    name: f"gold/{name}" for name in (*GOLD_TABLES, *GOLD_PIECES)
}
# A reader that listed a snapshot's files may still be reading when the next two are written.
SNAPSHOTS_KEPT = 3
_DAY = pa.field("day", pa.date32())
_READINGS = pa.schema([*schemas.READING, _DAY])
_SCHEMAS = {
    "readings": schemas.READING,
    "streams": schemas.STREAM,
    "quarantine": schemas.QUARANTINE_TABLE,
}


@dataclass(frozen=True)
class Manifest:
    """What compaction left: batches 0..`through` are in `files`, paths below the table's folder."""

    through: int = -1
    files: tuple[str, ...] = ()


def table_directory(tables: Path, name: str) -> Path:
    """Raises ValueError for a table that does not exist."""
    folder = (LOG_TABLES | SNAPSHOT_TABLES).get(name)
    if folder is None:
        raise ValueError(
            f"no table {name!r}; there are {', '.join(sorted(LOG_TABLES | SNAPSHOT_TABLES))}"
        )
    return tables / folder


def batch_directory(tables: Path, name: str, batch: int) -> Path:
    return table_directory(tables, name) / f"batch={batch}"


def complete_batches(tables: Path, name: str) -> list[int]:
    """The numbers of the batches that were written whole and not compacted away, ascending."""
    found = table_directory(tables, name).glob(f"batch=*/{SUCCESS}")
    return sorted(int(path.parent.name.split("=")[1]) for path in found)


def newest_batch(tables: Path, name: str, *, below: int | None = None) -> int | None:
    """The highest complete batch (below `below`); None when there is none."""
    numbers = complete_batches(tables, name)
    through = read_manifest(tables, name).through
    numbers = [
        n for n in (*([through] if through >= 0 else []), *numbers) if below is None or n < below
    ]
    return max(numbers, default=None)


def read_manifest(tables: Path, name: str) -> Manifest:
    try:
        content = json.loads((table_directory(tables, name) / MANIFEST).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Manifest()
    return Manifest(content["through"], tuple(content["files"]))


def write_manifest(tables: Path, name: str, manifest: Manifest) -> None:
    """In one step for readers, and durable."""
    path = table_directory(tables, name) / MANIFEST
    temporary = path.with_suffix(".new")
    with temporary.open("w", encoding="utf-8") as file:
        json.dump({"through": manifest.through, "files": manifest.files}, file)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(path)


def counted_directories(tables: Path, name: str, *, above: int = -1) -> list[Path]:
    """The batch folders that count now, beside what is compacted."""
    numbers = complete_batches(tables, name)
    numbers = (
        numbers[-1:]
        if name in SNAPSHOT_TABLES
        else [number for number in numbers if number > above]
    )
    return [batch_directory(tables, name, number) for number in numbers]


def counted_files(tables: Path, name: str) -> list[Path]:
    """The Parquet files that make up the table now."""
    # before the batches: what it does not name has its folder still
    manifest = read_manifest(tables, name)
    base = table_directory(tables, name)
    directories = counted_directories(tables, name, above=manifest.through)
    parts = [
        path for directory in directories for path in sorted(directory.rglob("part-*.parquet"))
    ]
    return [base / file for file in manifest.files] + parts


def exists(tables: Path, name: str) -> bool:
    return newest_batch(tables, name) is not None


def day_of(path: Path) -> str:
    """The day in a file's path, NO_DAY for readings without a time."""
    return next(
        (part.removeprefix("day=") for part in path.parts[::-1] if part.startswith("day=")), NO_DAY
    )


def read_table(
    tables: Path | str,
    name: str,
    columns: list[str] | None = None,
    *,
    day: datetime.date | None = None,
) -> pa.Table:
    """The table's rows, in no promised order; `day`: of readings, only the folders that can hold
    that day are read.

    Raises FileNotFoundError when the table was never written.
    """
    tables = Path(tables)
    if not exists(tables, name):
        raise FileNotFoundError(
            f"{tables}: no table {name!r} yet; run `outpost pipeline run` first"
        )
    files = counted_files(tables, name)
    if name == "readings":
        return _read_readings(tables, files, columns, day)
    rows = read_files(files, _SCHEMAS.get(name))
    if name == "quarantine":
        rows = _without_replayed(tables, rows)
    return rows.select(columns or rows.column_names)


def read_files(
    files: list[Path], schema: pa.Schema | None, columns: list[str] | None = None
) -> pa.Table:
    """Columns that an older file lacks read as null."""
    if not files:
        return (schema or pa.schema([])).empty_table()
    return pyarrow.dataset.dataset(
        [str(path) for path in files], schema=schema, format="parquet"
    ).to_table(columns=columns)


def _read_readings(
    tables: Path, files: list[Path], columns: list[str] | None, day: datetime.date | None
) -> pa.Table:
    if day is not None:
        files = [path for path in files if day_of(path) in (day.isoformat(), NO_DAY)]
    wanted = columns or _READINGS.names
    known, gone = read_clocks(tables), read_displaced(tables)
    needed = {*wanted, "time", *(clocks.NEEDED if known.num_rows else [])} - {"day"}
    needed |= set(displaced.ORIGIN if gone else [])
    read = [name for name in schemas.READING.names if name in needed]
    rows = displaced.without(read_files(files, schemas.READING, read).select(read), gone)
    if known.num_rows:
        rows = clocks.place(rows, known)
    days = rows["time"].cast(pa.date32())
    if day is not None:
        keep = pc.fill_null(pc.equal(days, pa.scalar(day)), False)
        rows, days = rows.filter(keep), days.filter(keep)
    return rows.append_column(_DAY, days).select(wanted)


def read_clocks(tables: Path) -> pa.Table:
    """Of boots whose clock was set late, what the newest state knows."""
    streams = read_files(counted_files(tables, "streams"), schemas.STREAM)
    return clocks.from_state(streams)


def read_displaced(tables: Path, *, below: int | None = None) -> set[displaced.Origin]:
    """Of messages that silver's files hold and that do not count; below: by the state before that
    batch."""
    batch = newest_batch(tables, "streams", below=below)
    if batch is None:
        return set()
    files = sorted(batch_directory(tables, "streams", batch).glob("part-*.parquet"))
    return displaced.of_state(read_files(files, schemas.STREAM, ["displaced"]))


def files_before(tables: Path, name: str, batch: int) -> list[Path]:
    """The files of a log table without those of `batch` and later: a killed attempt may have left
    them."""
    later = [
        batch_directory(tables, name, number)
        for number in complete_batches(tables, name)
        if number >= batch
    ]
    return [
        path
        for path in counted_files(tables, name)
        if not any(path.is_relative_to(folder) for folder in later)
    ]


def replayed(tables: Path) -> set[tuple[str, int, int]]:
    """(collector, segment, offset) of the frames that were taken out of quarantine."""
    found = set()
    for path in sorted((tables / REPLAY).glob("segment-*.json")):
        found.update(tuple(origin) for origin in json.loads(path.read_text(encoding="utf-8")))
    return found


def _without_replayed(tables: Path, rows: pa.Table) -> pa.Table:
    gone = replayed(tables)
    if not gone:
        return rows
    origins = zip(
        *(rows[name].to_pylist() for name in ("collector", "segment", "offset")), strict=True
    )
    return rows.filter(pa.array([origin not in gone for origin in origins], pa.bool_()))


def open_batch(tables: Path, name: str, batch: int) -> Path:
    """The folder to write; what stood in it no longer counts, also when a kill leaves it half
    overwritten."""
    directory = batch_directory(tables, name, batch)
    (directory / SUCCESS).unlink(missing_ok=True)
    return directory


def prune(tables: Path, name: str) -> None:
    """Remove the old snapshots of a snapshot table."""
    for number in complete_batches(tables, name)[:-SNAPSHOTS_KEPT]:
        directory = open_batch(tables, name, number)
        shutil.rmtree(directory)
