"""Where the tables lie and how to read them without Spark.

Every table is folders `batch=N` of Parquet files; a folder counts only when Spark's `_SUCCESS` is in it. Two kinds:
a *log* table is all its complete batches together, a *snapshot* table is its newest complete batch alone.

    silver/batch=N/day=YYYY-MM-DD/  readings      quarantine/batch=N/   log
    ranges/batch=N/                 streams       gold/<name>/batch=N/  snapshot

Local directories only (object storage: see the design of issue "Collector and Spark pipeline").
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset

from outpost_tools.pipeline import schemas

SUCCESS = "_SUCCESS"
LOG_TABLES = {"readings": "silver", "quarantine": "quarantine"}
GOLD_TABLES = ("windows", "gaps", "latency", "devices")
SNAPSHOT_TABLES = {"streams": "ranges"} | {name: f"gold/{name}" for name in GOLD_TABLES}
# A reader that listed a snapshot's files may still be reading when the next two are written.
SNAPSHOTS_KEPT = 3
_DAY = pa.schema([("day", pa.date32())])
_READINGS = pa.schema([*schemas.READING, *_DAY])


def table_directory(tables: Path, name: str) -> Path:
    """Raises ValueError for a table that does not exist."""
    folder = (LOG_TABLES | SNAPSHOT_TABLES).get(name)
    if folder is None:
        raise ValueError(f"no table {name!r}; there are {', '.join(sorted(LOG_TABLES | SNAPSHOT_TABLES))}")
    return tables / folder


def batch_directory(tables: Path, name: str, batch: int) -> Path:
    return table_directory(tables, name) / f"batch={batch}"


def complete_batches(tables: Path, name: str) -> list[int]:
    """The numbers of the batches that were written whole, ascending."""
    found = table_directory(tables, name).glob(f"batch=*/{SUCCESS}")
    return sorted(int(path.parent.name.split("=")[1]) for path in found)


def newest_batch(tables: Path, name: str, *, below: int | None = None) -> int | None:
    """The highest complete batch (below `below`); None when there is none."""
    numbers = [n for n in complete_batches(tables, name) if below is None or n < below]
    return numbers[-1] if numbers else None


def counted_directories(tables: Path, name: str) -> list[Path]:
    """The batch folders that make up the table now."""
    numbers = complete_batches(tables, name)
    if name in SNAPSHOT_TABLES:
        numbers = numbers[-1:]
    return [batch_directory(tables, name, number) for number in numbers]


def read_table(tables: Path | str, name: str, columns: list[str] | None = None) -> pa.Table:
    """The table's rows, in no promised order. Raises FileNotFoundError when it was never written."""
    tables = Path(tables)
    directories = counted_directories(tables, name)
    if not directories:
        raise FileNotFoundError(f"{tables}: no table {name!r} yet; run `outpost pipeline run` first")
    files = [str(path) for directory in directories for path in sorted(directory.rglob("part-*.parquet"))]
    if name != "readings":
        return pyarrow.dataset.dataset(files, format="parquet").to_table(columns=columns)
    if not files:  # nothing but quarantine so far: Spark writes no file for no day
        return _READINGS.empty_table().select(columns or _READINGS.names)
    by_day = pyarrow.dataset.partitioning(_DAY, flavor="hive")
    source = pyarrow.dataset.dataset(files, schema=_READINGS, format="parquet", partitioning=by_day)
    return source.to_table(columns=columns)


def open_batch(tables: Path, name: str, batch: int) -> Path:
    """The folder to write; what stood in it no longer counts, also when a kill leaves it half overwritten."""
    directory = batch_directory(tables, name, batch)
    (directory / SUCCESS).unlink(missing_ok=True)
    return directory


def prune(tables: Path, name: str) -> None:
    """Remove the old snapshots of a snapshot table."""
    for number in complete_batches(tables, name)[:-SNAPSHOTS_KEPT]:
        directory = open_batch(tables, name, number)
        shutil.rmtree(directory)
