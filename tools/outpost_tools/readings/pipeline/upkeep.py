"""Keeps the tables small, with Delta's own operations.

Compaction merges many small files into few; readers and a concurrent run do not notice. Files that
compaction or a run has replaced stay for readers of an older version, and are deleted when they are
older than KEPT_H.
"""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake.exceptions import CommitFailedError

from outpost_tools.errors import ToolError
from outpost_tools.readings.pipeline import changes, delta, delta_log, plan, tables
from outpost_tools.store.at import at
from outpost_tools.store.base import Store

KEPT_H = 24
# Each round replaces files of these tables, and nobody reads the old ones: they stay for an hour.
_SOON = ("streams", "totals", "boots", "latency", "gaps", "devices")
_BY_ROUNDS = ("fingerprints", "totals", "boots")  # which merge their files, and keep them sorted
# A reading that moves, or a window that is recomputed, rewrites a file.
_FILE_BYTES = {"windows": 4 << 20}
_MOST_FILE_BYTES = 32 << 20
_TRIES = 10
# No reading has a day outside (labels.py), and nanoseconds cannot represent every date.
_TIME = pa.timestamp("us", "UTC")
_FIRST_DAY, _LAST_DAY = datetime.date(1970, 1, 1), datetime.date(2200, 1, 1)


def compact(tables_dir: delta.Place, *, kept_h: int = KEPT_H) -> dict[str, tuple[int, int]]:
    """{table: (files before, files after)}. Raises ToolError when a run repeatedly replaced what
    was being compacted."""
    result = {}
    # A driver that finishes an open round reads the tables as they were before it.
    is_open = plan.is_open(delta.Opened(tables_dir))
    for name in tables.ALL:
        place = at(tables_dir) / name
        before = len(delta.files_of(delta.open_table(place)))
        if name not in _BY_ROUNDS:
            _compacted(place)
        hours = min(kept_h, 1) if name in _SOON else kept_h
        if not (is_open and name in tables.SILVER_TABLES):
            # `full`: also files that tasks wrote for a killed batch. Newer files belong to a run.
            how = {"dry_run": False, "enforce_retention_duration": False, "full": True}
            delta_log.of_library(place).vacuum(hours, **how)
        result[name] = (before, len(delta.files_of(delta.open_table(place))))
    return result


def _compacted(place: Store) -> None:
    for left in reversed(range(_TRIES)):
        try:
            size = _FILE_BYTES.get(place.name, _MOST_FILE_BYTES)
            with place.settled(always=delta.NEWEST_CHECKPOINT):
                delta_log.of_library(place).optimize.compact(target_size=size)
            return
        except CommitFailedError as error:
            if not left:
                raise ToolError(f"{place}: a run changes it all the time: {error}") from None


def delete_device(tables_dir: delta.Place, device: str) -> dict[str, int]:
    """{table: rows deleted}: everything that came from the device. Raises ToolError where a round
    is open, or frames are on their way from quarantine to silver.

    The states go first: if the readings did, a round in between could store one whose state is then
    deleted, and a repeat of it would be stored twice. Quarantine is next, and gets a commit in any
    case: a round that has committed nothing yet finds one of the two changed, and starts again."""
    check_nothing_is_under_way(tables_dir)
    return _delete_device(at(tables_dir), device)


def check_nothing_is_under_way(tables_dir: delta.Place) -> None:
    """Its driver was killed between its commits, or is at it now. Raises ToolError."""
    opened = delta.Opened(tables_dir)
    if plan.is_open(opened) or plan.is_replaying(opened):
        raise ToolError(
            f"{tables_dir}: a round was interrupted, or is being committed now, or replayed frames "
            "wait for it; `outpost pipeline run` finishes it, then repeat this"
        )


def _delete_device(tables_dir: Store, device: str) -> dict[str, int]:
    of_device = pc.field("device") == device
    # The collector's --prefix precedes it.
    topics = pc.ends_with(pc.field("topic"), f"/{device}/data")
    others = [name for name in tables.ALL if name not in ("streams", "quarantine", "fingerprints")]
    conditions = {"streams": of_device, "quarantine": topics} | dict.fromkeys(others, of_device)
    # Gold may not yet have processed what silver had of it.
    note = {changes.NOTE: {"again": [device]}}
    found = {}
    for name, where in conditions.items():
        found[name] = deleted(tables_dir, name, where, note)
        if name == "quarantine":
            delta.commit(tables_dir / name, [])
    return found


def delete_before(tables_dir: delta.Place, day: datetime.date) -> dict[str, int]:
    """{table: rows deleted}: readings and windows of the days before, frames that arrived then.
    What is known about devices and boots stays, and so does a window that has a later reading."""
    day = min(max(day, _FIRST_DAY), _LAST_DAY)
    tables.note_deleted_before(tables_dir, day)  # first: a concurrent batch must not miss it
    begin = pa.scalar(datetime.datetime.combine(day, datetime.time(), datetime.UTC), _TIME)
    times = {"readings": "time", "windows": "last_time", "quarantine": "received"}
    return {
        name: deleted(at(tables_dir), name, pc.field(time) < begin) for name, time in times.items()
    }


def deleted(
    tables_dir: Store, name: str, where: pc.Expression, note: dict[str, Any] | None = None
) -> int:
    """How many rows of the table were deleted. Not by the library: it leaves files with texts that
    Arrow cannot compare (rows.py). note: for the table's history. Raises CommitFailedError."""
    opened, said = delta.Opened(tables_dir), {"operation": changes.DELETE, **(note or {})}
    for left in reversed(range(delta.TRIES)):
        table = opened.newest(name)
        made, gone = _without(table, where)
        try:
            if gone:
                delta.commit(table.place, made, gone=gone, of=table, note=said)
            return sum(one["rows"] for one in gone) - sum(map(delta.rows_of, made))
        except CommitFailedError:
            if not left:
                raise
    raise AssertionError("unreachable")


def _without(table: delta.Table, where: pc.Expression) -> tuple[list[dict], list[dict]]:
    """(new files, files that they replace) without these rows."""
    made, gone, place = [], [], table.place
    by = next(iter(table.partition_columns), "")
    schema = pa.schema([one for one in tables.schema(place.name) if one.name != by])
    for one in delta.files_of(table):
        if not tables.read_near(place, [one], schema, where).num_rows:
            continue
        rows = tables.read_files(place, [delta.name_of(one)], schema)
        stays = rows.filter(~where | where.is_null())
        gone.append(one)
        if stays.num_rows:
            made.append(delta.write(place, stays, one["partition"], by))
    return made, gone
