"""Keeps the tables small, with Delta's own operations.

Compaction merges many small files into few; readers and a concurrent run do not notice. Files that
compaction or a run has replaced stay for readers of an older version, and are deleted when they are
older than KEPT_H.
"""

from __future__ import annotations

import datetime
from typing import Any

from deltalake import CommitProperties
from deltalake.exceptions import CommitFailedError

from outpost_tools.common.errors import ToolError
from outpost_tools.pipeline import changes, delta, delta_log, plan, tables
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
    of_device = f"device = {delta.text(device)}"
    # The collector's --prefix precedes it.
    topics = f"ends_with(topic, {delta.text(f'/{device}/data')})"
    others = [name for name in tables.ALL if name not in ("streams", "quarantine", "fingerprints")]
    conditions = {"streams": of_device, "quarantine": topics} | dict.fromkeys(others, of_device)
    # Gold may not yet have processed what silver had of it.
    note = {changes.NOTE: {"again": [device]}}
    found = {}
    for name, where in conditions.items():
        found[name] = deleted(tables_dir / name, where, note)
        if name == "quarantine":
            delta.commit(tables_dir / name, [])
    return found


def delete_before(tables_dir: delta.Place, day: datetime.date) -> dict[str, int]:
    """{table: rows deleted}: readings and windows of the days before, frames that arrived then.
    What is known about devices and boots stays, and so does a window that has a later reading."""
    day = min(max(day, _FIRST_DAY), _LAST_DAY)
    tables.note_deleted_before(tables_dir, day)  # first: a concurrent batch must not miss it
    # As text: the library cannot compare the result of TIMESTAMP (nanoseconds) with a column.
    begin = delta.time_text(datetime.datetime.combine(day, datetime.time()))
    conditions = {
        "readings": f"day < DATE '{day.isoformat()}' OR (day IS NULL AND time < {begin})",
        "windows": f"last_time < {begin}",
        "quarantine": f"received < {begin}",
    }
    return {name: deleted(at(tables_dir) / name, where) for name, where in conditions.items()}


def deleted(place: Store, where: str, note: dict[str, Any] | None = None) -> int:
    table = delta_log.of_library(place)
    with place.settled(always=delta.NEWEST_CHECKPOINT):
        found = table.delete(where, commit_properties=CommitProperties(custom_metadata=note))
    return found["num_deleted_rows"] or 0
