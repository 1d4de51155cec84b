"""Which days of gold are recomputed, and taking the others over from the snapshot before.

A snapshot of `days` and `windows` holds every day; those that no new row touches are hard links to
the files of the snapshot before, so a run reads of silver only the days that its batches wrote to.
A day is touched by a new batch that has rows of it, and by a clock that became known and places
earlier readings in it. Everything is recomputed when there is nothing to build on: no snapshot
before, another window length, a window that does not divide a day, batches that are gone, a clock
that replaced another, or a message that gave its place to another. Files only, no Spark but the
condition on rows.
"""

from __future__ import annotations

import datetime
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet

from outpost_tools.pipeline import clocks, schemas, tables

if TYPE_CHECKING:
    from pyspark.sql import Column

_MARK = "_made.json"
_CLOCKS = "_clocks.parquet"


@dataclass(frozen=True)
class Plan:
    """`days` None: all of them, nothing is taken over; `previous`: the snapshot whose other days
    are taken over."""

    files: list[Path]
    days: frozenset[str] | None = None
    previous: int | None = None

    @property
    def summary(self) -> str:
        return "all days" if self.days is None else f"{len(self.days)} days"

    @property
    def condition(self) -> Column | None:
        """Which of the files' rows belong to the days."""
        if self.days is None:
            return None
        from pyspark.sql import functions as F

        dates = [
            datetime.date.fromisoformat(day) for day in sorted(self.days) if day != tables.NO_DAY
        ]
        return F.col("time").isNull() | F.to_date("time").isin(dates)


def plan(tables_dir: Path, number: int, window_s: float) -> Plan:
    files = tables.counted_files(tables_dir, "readings")
    previous = tables.newest_batch(tables_dir, "days", below=number)
    touched = None if previous is None else _touched(tables_dir, previous, number, window_s, files)
    if touched is None:
        return Plan(files)
    chosen = [path for path in files if tables.day_of(path) in touched | {tables.NO_DAY}]
    return Plan(chosen, frozenset(touched), previous)


def _touched(
    tables_dir: Path, previous: int, number: int, window_s: float, files: list[Path]
) -> set[str] | None:
    if not is_made_for(tables_dir, previous, window_s) or 86_400_000 % round(window_s * 1000):
        return None
    if _mark(tables_dir, previous).get("displaced", 0) != len(tables.read_displaced(tables_dir)):
        return None
    new = range(previous + 1, number + 1)
    if not set(new) <= set(tables.complete_batches(tables_dir, "readings")):
        return None
    parts = [
        path
        for n in new
        for path in tables.batch_directory(tables_dir, "readings", n).glob("day=*")
    ]
    moved = _moved(tables_dir, previous, files)
    return None if moved is None else {tables.NO_DAY, *map(tables.day_of, parts), *moved}


def _moved(tables_dir: Path, previous: int, files: list[Path]) -> set[str] | None:
    """Days that readings went to because a clock became known since `previous`."""
    before = pyarrow.parquet.read_table(
        tables.batch_directory(tables_dir, "days", previous) / _CLOCKS
    )
    old, new = set(map(str, before.to_pylist())), tables.read_clocks(tables_dir).to_pylist()
    fresh = pa.Table.from_pylist([row for row in new if str(row) not in old], schema=clocks.CLOCKS)
    if not fresh.num_rows:
        return set()
    names = clocks.BOOT
    if {tuple(row[n] for n in names) for row in fresh.to_pylist()} & {
        tuple(row[n] for n in names) for row in before.to_pylist()
    }:
        return None
    untimed = [path for path in files if tables.day_of(path) == tables.NO_DAY]
    rows = clocks.place(
        tables.read_files(untimed, schemas.READING, clocks.NEEDED).select(clocks.NEEDED), fresh
    )
    return {
        day
        for day in rows["time"].cast(pa.date32()).cast(pa.string()).unique().to_pylist()
        if day is not None
    }


def is_made_for(tables_dir: Path, number: int, window_s: float) -> bool:
    return _mark(tables_dir, number).get("window_s") == window_s


def _mark(tables_dir: Path, number: int) -> dict:
    try:
        return json.loads(
            (tables.batch_directory(tables_dir, "days", number) / _MARK).read_text(encoding="utf-8")
        )
    except (FileNotFoundError, ValueError):
        return {}


def carry_over(tables_dir: Path, name: str, number: int, plan: Plan) -> None:
    """Link the untouched days of the previous snapshot into the new one, and declare that
    complete."""
    target = tables.batch_directory(tables_dir, name, number)
    target.mkdir(parents=True, exist_ok=True)
    if plan.days is not None:
        for file in tables.batch_directory(tables_dir, name, plan.previous).rglob("part-*.parquet"):
            if tables.day_of(file) not in plan.days:
                place = target / file.parent.name / file.name
                place.parent.mkdir(exist_ok=True)
                os.link(file, place)
    (target / tables.SUCCESS).touch()


def finish(tables_dir: Path, number: int, window_s: float) -> None:
    """Note what the snapshot was made with."""
    directory = tables.batch_directory(tables_dir, "days", number)
    pyarrow.parquet.write_table(tables.read_clocks(tables_dir), directory / _CLOCKS)
    mark = {"window_s": window_s, "displaced": len(tables.read_displaced(tables_dir))}
    (directory / _MARK).write_text(json.dumps(mark), encoding="utf-8")
