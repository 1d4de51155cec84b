"""Where the tables are, and how to read them without Spark.

Each is a Delta Lake table in a folder of its name; `readings` is what other pipelines call silver.
Any engine that supports Delta can read them. A query for a day reads only the files of that day.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset

from outpost_tools.errors import ToolError
from outpost_tools.readings.pipeline import delta, gold_schemas, promises, schemas
from outpost_tools.readings.pipeline.rows import Rows
from outpost_tools.store.at import at
from outpost_tools.store.base import Store

# In the order of a round's commits, see plan.py.
SILVER_TABLES = ("quarantine", "readings", "fingerprints", "streams")
GOLD_TABLES = ("windows", "gaps", "latency", "devices", "boots")
ALL = (*SILVER_TABLES, *GOLD_TABLES, "totals")
_DELETED = "outpost.deletedBefore"  # a property of `readings`: the first day that was not deleted
_OLD = ("silver", "ranges", "gold")  # folders of the tables that versions before Delta wrote
_DAY = pa.field("day", pa.date32())
_BUCKET = pa.field("bucket", pa.int32())
# Readings are partitioned by day, quarantine not at all, all others by bucket of devices.
_SCHEMAS = {
    "readings": pa.schema([*schemas.READING, _DAY]),
    "quarantine": schemas.QUARANTINE_TABLE,
    "streams": pa.schema([*schemas.STREAM, _BUCKET]),
    "fingerprints": pa.schema([*schemas.FINGERPRINT, _BUCKET]),
    "windows": pa.schema([*gold_schemas.WINDOWS, _BUCKET]),
    "gaps": pa.schema([*gold_schemas.GAPS, _BUCKET]),
    "latency": pa.schema([*gold_schemas.LATENCY, _BUCKET]),
    "devices": pa.schema([*gold_schemas.DEVICES, _BUCKET]),
    "boots": pa.schema([*gold_schemas.BOOTS, _BUCKET]),
    "totals": pa.schema([*gold_schemas.TOTALS, _BUCKET]),
}
# A batch gives each bucket's day with at least so many readings a file, and so many other days.
_FEW_ROWS, _FEW_DAYS = 100, 32
# How long replaced files stay for readers of an older version, and how long the history stays. To
# open a table takes longer with each commit since the last checkpoint; Delta's default is 100.
_SETTINGS = {
    "checkpointInterval": "10",
    "deletedFileRetentionDuration": "interval 1 days",
    "logRetentionDuration": "interval 7 days",
}


def create(tables: delta.Place | delta.Opened) -> None:
    """Create the tables that do not exist yet. Raises ToolError on tables of an older version."""
    opened = delta.Opened.at(tables)
    found = dict(zip(ALL, opened.find_all(ALL), strict=True))
    if None in found.values():
        check_version(opened.tables_dir)
    for name, table in found.items():
        settings = {"schema": _SCHEMAS[name], **_SETTINGS}
        if table is None:
            place = opened.tables_dir / name
            table = delta.create(place, partition_by=_partition(name), **settings)
        opened.note(name, delta.widened(table, **settings))


def check_version(tables: delta.Place) -> None:
    """Raises ToolError."""
    if {*_OLD} & {*at(tables).folders()}:
        raise ToolError(
            f"{tables}: tables of a version before Delta Lake; recreate them from the segments: "
            f"mv {tables} {tables}.old; outpost pipeline run --tables {tables} --log LOG (if "
            f"segments were deleted, keep {tables}.old: only it has their readings)"
        )


def deleted_before(silver: delta.Table) -> int:
    """Microseconds: readings with earlier times were deleted, see upkeep.py. 0: none were."""
    text = silver.configuration.get(_DELETED)
    if text is None:
        return 0
    day = datetime.date.fromisoformat(text)
    return (day - datetime.date(1970, 1, 1)) // datetime.timedelta.resolution


def note_deleted_before(tables: delta.Place, day: datetime.date) -> None:
    """Deleted days stay deleted, whatever is deleted later."""
    silver = delta.open_table(directory(tables, "readings"))
    if deleted_before(silver) < (day - datetime.date(1970, 1, 1)) // datetime.timedelta.resolution:
        delta.set_properties(silver.place, {_DELETED: day.isoformat()})


def directory(tables: delta.Place, name: str) -> Store:
    """Raises ValueError for a table that does not exist."""
    if name not in ALL:
        raise ValueError(f"no table {name!r}; there are {', '.join(sorted(ALL))}")
    return at(tables) / name


def _partition(name: str) -> str | None:
    names = _SCHEMAS[name].names
    return next((one for one in (_DAY.name, _BUCKET.name) if one in names), None)


def schema(name: str) -> pa.Schema:
    return _SCHEMAS[name]


def version(tables: delta.Place, name: str) -> int:
    """The version of the table; 0: nothing was ever written to it."""
    table = delta.Opened(tables).find(name)
    return 0 if table is None else table.version()


def exists(tables: delta.Place, name: str) -> bool:
    return delta.exists(directory(tables, name))


def read_table(
    tables: delta.Place,
    name: str,
    columns: list[str] | None = None,
    *,
    day: datetime.date | None = None,
) -> pa.Table:
    """The table's rows, in no particular order; `day`: only the readings of that day.

    Raises FileNotFoundError when the table was never written, ToolError on an older version's.
    """
    where = rows = None
    if day is not None:
        begin = datetime.datetime.combine(day, datetime.time(), datetime.UTC)
        end = begin + datetime.timedelta(days=1)
        where = within_days(day, day)
        rows = (pc.field("time") >= begin) & (pc.field("time") < end)
    names = columns or [one for one in _SCHEMAS[name].names if one != _BUCKET.name]
    return open_dataset(tables, name, where).to_table(columns=names, filter=rows)


def within_days(first: datetime.date | None, last: datetime.date | None) -> str | None:
    """SQL for the files with readings of these days, both inclusive, also where they have no file
    of the day yet (parked.py). None: no limit."""
    days, times = [], ["day IS NULL"]
    if first is not None:
        days.append(f"day >= '{first.isoformat()}'")
        times.append(f"time >= '{first.isoformat()}T00:00:00Z'")
    if last is not None:
        days.append(f"day <= '{last.isoformat()}'")
        after = last + datetime.timedelta(days=1)
        times.append(f"time < '{after.isoformat()}T00:00:00Z'")
    return f"({' AND '.join(days)}) OR ({' AND '.join(times)})" if days else None


def open_dataset(tables: delta.Place, name: str, where: str | None = None) -> Rows:
    """Reads nothing yet. where: SQL that selects files, not rows.

    Raises as read_table() does.
    """
    if not exists(tables, name):
        check_version(tables)
        raise FileNotFoundError(
            f"{tables}: no table {name!r} yet; run `outpost pipeline run` first"
        )
    return delta.dataset(directory(tables, name), where, _SCHEMAS[name])


def read_files(place: Store, names: Iterable[str], schema: pa.Schema) -> pa.Table:
    """Files of a table. Columns that an older one lacks read as null."""
    found = list(names)
    return whole(place, found, schema).to_table() if found else schema.empty_table()


def read_near(place: Store, files: list[dict], schema: pa.Schema, where: pc.Expression) -> pa.Table:
    """As read_files(), of rows of delta.FILES. Reads the groups of rows that can hold what is
    wanted."""
    if not files:
        return schema.empty_table()
    return dataset(place, [*map(delta.name_of, files)], schema).to_table(filter=where)


def whole(place: Store, names: list[str], schema: pa.Schema) -> Rows:
    """As dataset(). From a bucket, each file is read at once, with one request."""
    if place.is_local:
        return dataset(place, names, schema)
    form = pyarrow.dataset.ParquetFileFormat()
    found = [form.make_fragment(pa.BufferReader(data)) for data in place.get_all(names)]
    return Rows(pyarrow.dataset.FileSystemDataset(found, schema, form))


def dataset(place: Store, names: list[str], schema: pa.Schema) -> Rows:
    """Not as a dataset of folders: the day in the path is not a column here."""
    how = {"format": "parquet", "partitioning": None, "filesystem": place.filesystem}
    return Rows(pyarrow.dataset.dataset(names, schema=schema, **how))


def write_readings(tables: delta.Place, readings: pa.Table) -> list[dict]:
    """Write one file for each day of the readings, and one for the readings of days that have few,
    if there are many such days (parked.py); returns rows of delta.FILES. Called by tasks."""
    place, days = at(tables) / "readings", readings["time"].cast(pa.date32())
    waits = _has_no_day_yet(days)
    if not waits.any():
        return write_by_day(place, readings, days)
    is_filed = pa.array(~waits)
    found = write_by_day(place, readings.filter(is_filed), days.filter(is_filed))
    return [*found, write_without_day(place, readings.filter(pa.array(waits)))]


def _has_no_day_yet(days: pa.ChunkedArray) -> np.ndarray:
    """Which readings are of a day that has few, except for those days that have the most."""
    codes = days.combine_chunks().dictionary_encode().indices
    codes = pc.fill_null(codes, -1).to_numpy(zero_copy_only=False)
    counts = np.bincount(codes + 1)[1:]
    waits = counts < _FEW_ROWS
    waits[np.argsort(-counts, kind="stable")[:_FEW_DAYS]] = False
    return np.append(waits, False)[codes]


def write_without_day(place: Store, rows: pa.Table) -> dict:
    return delta.write(place, promises.written(rows), None, _DAY.name)


def write_by_day(place: Store, rows: pa.Table, days: pa.ChunkedArray) -> list[dict]:
    rows, found = promises.written(rows), []
    for day in days.unique().to_pylist():
        keep = pc.is_null(days) if day is None else pc.fill_null(pc.equal(days, day), False)
        name = None if day is None else day.isoformat()
        found.append(delta.write(place, rows.filter(keep), name, _DAY.name))
    return found
