"""Parquet files of a batch written by tasks, counted only when the driver says so.

A batch's files grow in a folder of this attempt's own, beside its place and under a name that no
reader looks for; finish() puts the folder in place. A task that Spark repeats writes the same rows
under the same name. A task of a run that was killed finds its folder gone and fails: it can add
nothing to what a later run wrote.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from outpost_tools.pipeline import tables


def begin(tables_dir: Path, name: str, batch: int) -> Path:
    """The folder to write into; what earlier attempts left is removed."""
    place = tables.batch_directory(tables_dir, name, batch)
    place.parent.mkdir(parents=True, exist_ok=True)
    for old in place.parent.glob(".batch=*"):
        shutil.rmtree(old)
    folder = place.with_name(f".{place.name}-{uuid.uuid4().hex}")
    folder.mkdir()
    return folder


def write(folder: Path, number: int, rows: pa.Table) -> None:
    """Part `number`; nothing when there are no rows."""
    if rows.num_rows:
        path = folder / f"part-{number:05d}.zstd.parquet"
        temporary = path.with_name(f".{path.name}-{uuid.uuid4().hex}")
        pyarrow.parquet.write_table(rows, temporary, compression="zstd")
        os.replace(temporary, path)


def write_by_day(folder: Path, number: int, readings: pa.Table) -> None:
    """Part `number` of each day that the readings are of."""
    for day, rows in _days(readings):
        (folder / f"day={day}").mkdir(exist_ok=True)
        write(folder / f"day={day}", number, rows)


def _days(readings: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    days = readings["time"].cast(pa.date32())
    distinct = days.unique().to_pylist()
    for day in distinct:
        rows = (
            readings
            if len(distinct) == 1
            else readings.filter(pc.is_null(days) if day is None else pc.equal(days, day))
        )
        yield (tables.NO_DAY if day is None else day.isoformat()), rows


def finish(tables_dir: Path, name: str, batch: int, folder: Path) -> None:
    """The attempt's files are the batch's from here on."""
    place = tables.open_batch(tables_dir, name, batch)
    if place.exists():
        shutil.rmtree(place)
    folder.rename(place)
    (place / tables.SUCCESS).touch()  # what a kill leaves without it does not count
