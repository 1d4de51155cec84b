"""Many small files into few, while readers read and a run writes.

The batches of a log table that are complete, 0..n, go into files by day, and a manifest that names
them replaces the one before in a single rename (tables.Manifest). A reader has either the old files
or the new, and both stay on disk: what a compaction replaced, it dates (mtime), and the next one
that begins at least `grace_s` later removes it. A kill leaves files that no manifest names; they
are removed like replaced ones. A day that got no new rows keeps its file; one above FULL_BYTES gets
another.

Batches are taken only up to the newest one that Spark has committed: the next may still be
replaced.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from outpost_tools.common.errors import ToolError
from outpost_tools.pipeline import clocks, displaced, schemas, tables

FULL_BYTES = 256 << 20
GRACE_S = 600.0
_SORT = [(name, "ascending") for name in ("device", "stream", "seq", "record")]
_SCHEMAS = {"readings": schemas.READING, "quarantine": schemas.QUARANTINE_TABLE}
_FOLDER = "compacted"


def compact(
    tables_dir: Path, *, committed: int, grace_s: float = GRACE_S
) -> dict[str, tuple[int, int]]:
    """{table: (files before, files after)}. Raises ToolError when another compaction is at work."""
    result = {}
    with _lock(tables_dir):
        for name in tables.LOG_TABLES:
            before = len(tables.counted_files(tables_dir, name))
            _remove_replaced(tables_dir, name, grace_s)
            _compact_table(tables_dir, name, committed)
            result[name] = (before, len(tables.counted_files(tables_dir, name)))
    return result


@contextmanager
def _lock(tables_dir: Path) -> Iterator[None]:
    handle = os.open(tables_dir / ".compact.lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise ToolError(f"{tables_dir}: another compaction is at work; wait for its end") from None
    finally:
        os.close(handle)


def _compact_table(tables_dir: Path, name: str, committed: int) -> None:
    manifest = tables.read_manifest(tables_dir, name)
    batches = [
        n for n in tables.complete_batches(tables_dir, name) if manifest.through < n <= committed
    ]
    if not batches:
        return
    base = tables.table_directory(tables_dir, name)
    fresh = [
        file
        for n in batches
        for file in sorted(tables.batch_directory(tables_dir, name, n).rglob("part-*.parquet"))
    ]
    known = tables.read_clocks(tables_dir)
    kept, merged = _sorted_out(base, manifest, fresh, with_no_day=bool(known.num_rows))
    gone = tables.read_displaced(tables_dir, below=committed + 1) if name == "readings" else set()
    rows_by_day = _moved(merged, name, known, gone)
    made = [_write(base, name, day, batches[-1], rows) for day, rows in sorted(rows_by_day.items())]
    folders = [tables.batch_directory(tables_dir, name, n) for n in batches]
    _date([*folders, *(path for paths in merged.values() for path in paths)])
    tables.write_manifest(
        tables_dir, name, tables.Manifest(batches[-1], tuple(sorted([*kept, *made])))
    )


def _date(replaced: list[Path]) -> None:
    """Before the manifest is written: one that a kill leaves in use is not looked at."""
    now = time.time()
    for path in replaced:
        os.utime(path, (now, now))


def _sorted_out(
    base: Path, manifest: tables.Manifest, fresh: list[Path], *, with_no_day: bool
) -> tuple[list[str], dict[str, list[Path]]]:
    """(compacted files that stay, files to merge by day): those of a day with new rows, unless they
    are full."""
    merged = defaultdict(list)
    for file in fresh:
        merged[tables.day_of(file)].append(file)
    days = {*merged, *([tables.NO_DAY] if with_no_day else [])}
    kept = []
    for file in manifest.files:
        path = base / file
        if tables.day_of(path) in days and path.stat().st_size < FULL_BYTES:
            merged[tables.day_of(path)].append(path)
        else:
            kept.append(file)
    return kept, merged


def _moved(
    merged: dict[str, list[Path]], name: str, known: pa.Table, gone: set[displaced.Origin]
) -> dict[str, pa.Table]:
    """The rows by day, without those that are displaced; readings whose boot's clock is known by
    now leave NO_DAY for their day."""
    rows = {
        day: displaced.without(tables.read_files(files, _SCHEMAS[name]), gone)
        for day, files in merged.items()
    }
    if name != "readings" or tables.NO_DAY not in rows:
        return rows
    placed = clocks.place(rows.pop(tables.NO_DAY), known)
    days = placed["time"].cast(pa.date32()).cast(pa.string()).fill_null(tables.NO_DAY)
    for day in days.unique().to_pylist():
        more = placed.filter(pa.compute.equal(days, day))
        rows[day] = pa.concat_tables([rows[day], more]) if day in rows else more
    return rows


def _write(base: Path, name: str, day: str, through: int, rows: pa.Table) -> str:
    """The path below `base`. Sorted, so that a device's rows lie together."""
    sort = (
        _SORT
        if name == "readings"
        else [(column, "ascending") for column in ("collector", "segment", "offset")]
    )
    folder = base / _FOLDER / f"day={day}"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"part-{through:09d}-{time.time_ns():x}.parquet"
    with path.open("wb") as file:
        pa.parquet.write_table(rows.sort_by(sort), file, compression="zstd")
        file.flush()
        os.fsync(file.fileno())
    return str(path.relative_to(base))


def _remove_replaced(tables_dir: Path, name: str, grace_s: float) -> None:
    """Batch folders and files that no manifest names any more, when that is so since `grace_s`."""
    base = tables.table_directory(tables_dir, name)
    manifest = tables.read_manifest(tables_dir, name)
    latest = time.time() - grace_s
    for number in tables.complete_batches(tables_dir, name):
        folder = tables.batch_directory(tables_dir, name, number)
        if number <= manifest.through and folder.stat().st_mtime <= latest:
            shutil.rmtree(tables.open_batch(tables_dir, name, number))
    for path in (base / _FOLDER).glob("day=*/part-*.parquet"):
        if str(path.relative_to(base)) not in manifest.files and path.stat().st_mtime <= latest:
            path.unlink()
