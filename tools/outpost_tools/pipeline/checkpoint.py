"""Spark's checkpoint and power cuts: Spark renames its files into place and does not wait for the
disk, so a cut may leave one empty, and every later start fails on it.

The plan of a batch (offsets/N) must not be lost once a table has the batch, so keep() makes it
durable first. An empty file then belongs to a batch that no table has, or is Spark's note that a
batch is complete. repair() removes it, and the batch is planned again, or the tables show that it
is complete. Files only.
"""

from __future__ import annotations

import os
from pathlib import Path

from outpost_tools.common.errors import ToolError
from outpost_tools.pipeline import consumed, delta, tables


def keep(tables_dir: Path, number: int) -> None:
    """Call before the first commit of a batch. Raises OSError."""
    place = tables_dir / consumed.CHECKPOINT
    offsets = place / "offsets"
    delta.sync([place / "metadata", offsets / str(number), offsets, place, tables_dir])


def repair(tables_dir: Path) -> None:
    """Call before a run, which must be the only one. Raises ToolError where a table has the batch
    (written by a version without keep())."""
    place = tables_dir / consumed.CHECKPOINT
    _remove(_empty(place / "commits"))
    lost = _empty(place / "offsets")
    if (metadata := place / "metadata").exists() and not metadata.stat().st_size:
        lost = [metadata, *lost]
    elif lost:
        query = consumed.query(tables_dir)
        done = max(delta.committed(tables_dir / name, query) for name in tables.SILVER_TABLES)
        lost = [path for path in lost if int(path.name) <= done] or _remove(lost)
    if lost:
        raise ToolError(
            f"{lost[0]} is empty: a power cut, or a bad disk. Move {tables_dir} away and run "
            "again: the tables are recreated from the segments"
        )


def _empty(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.glob("[0-9]*")) if not path.stat().st_size]


def _remove(paths: list[Path]) -> list[Path]:
    """Returns the empty list: nothing is left."""
    for path in paths:
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
        os.unlink(path)
    return []
