"""Readings whose day has no file of its own yet.

A file costs 2 ms of CPU, however few readings it has. So of a batch's days with few readings, only
some get a file (tables.write_readings()). The readings of all others lie together in one file
without a day: they count and have their times like any others, only their column `day` is null.
Each round files the readings of MOST_DAYS days more, those with the most readings first: a board
whose messages are spread over years waits for itself. They are put together with the day's other
small file, so that a day with few readings keeps one.

Files and Delta's log only, no Spark.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from outpost_tools.readings.pipeline import changes, delta, schemas, tables

MOST_DAYS = 32
_MOST_ROWS = 500_000  # read at once
_SMALL_ROWS = 1_000


def files(silver: delta.Table) -> list[dict]:
    """Those that have such readings."""
    return delta.files_of(silver, lambda one: one.partition is None and one.ends("time")[0])


def file(opened: delta.Opened) -> int:
    """File the readings of some days, in one commit; returns how many readings still wait."""
    if not files(opened["readings"]):
        return 0
    left = 0

    def change(silver: delta.Table) -> tuple[list[dict], list[dict]]:
        nonlocal left
        waiting = files(silver)
        some, later = _some(waiting)
        made, gone, count = _filed(silver, some)
        left = count + sum(one["rows"] for one in later)
        return made, gone

    delta.rewrite(opened, "readings", change, note=_note)
    return left


def _note(made: list[dict]) -> dict[str, Any]:
    """Nothing of this is new to gold."""
    return {changes.NOTE: {"rewritten": [one["path"] for one in made]}}


def _some(waiting: list[dict]) -> tuple[list[dict], list[dict]]:
    """(files that are read at once, the others)."""
    rows, some = 0, []
    for one in waiting:
        if some and rows + one["rows"] > _MOST_ROWS:
            break
        some.append(one)
        rows += one["rows"]
    return some, waiting[len(some) :]


def _filed(silver: delta.Table, waiting: list[dict]) -> tuple[list[dict], list[dict], int]:
    """(new files, those that they replace, how many readings still wait)."""
    place = silver.place
    rows = _read(silver, waiting)
    days = rows["time"].cast(pa.date32())
    chosen = _fullest(days)
    is_chosen = pc.is_in(days, value_set=chosen)
    names = {str(day) for day in chosen.to_pylist()}
    small = [
        one
        for one in delta.files_of(silver)
        if one["partition"] in names and one["rows"] < _SMALL_ROWS
    ]
    filed = pa.concat_tables([_read(silver, small), rows.filter(is_chosen)])
    made = tables.write_by_day(place, filed, filed["time"].cast(pa.date32()))
    rows = rows.filter(pc.invert(is_chosen))
    has_time = pc.is_valid(rows["time"])
    rest = [rows.filter(has_time), rows.filter(pc.invert(has_time))]
    made += [tables.write_without_day(place, part) for part in rest if part.num_rows]
    return made, [*waiting, *small], rest[0].num_rows


def _read(silver: delta.Table, some: list[dict]) -> pa.Table:
    return tables.read_files(silver.place, map(delta.name_of, some), schemas.READING)


def _fullest(days: pa.ChunkedArray) -> pa.Array:
    """The days with the most readings; of equal ones, the first."""
    counts = pc.value_counts(days.drop_null().combine_chunks())
    found = pa.table({"day": counts.field(0), "count": counts.field(1)})
    found = found.sort_by([("count", "descending"), ("day", "ascending")])
    return found["day"].slice(0, MOST_DAYS).combine_chunks()
