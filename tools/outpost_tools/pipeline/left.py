"""The windows that rounds of gold have left for later ones, in the order of their turn (stored.py).

Until its turn comes, such a window stays as it was before the readings that it lacks. It is then
recomputed from all readings that silver has, so it does not matter how many more came meanwhile.

A file `left/N.parquet` lists them. N is an app transaction of the commit of `windows` that left
them, so both count from the same moment.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from outpost_tools.pipeline import delta, gold_schemas, windows

FOLDER = "left"
KEYS = pa.schema([gold_schemas.WINDOWS.field(name) for name in windows.KEY])


class Left(NamedTuple):
    """number: of the list; -1: there was never any."""

    number: int
    keys: pa.Table


def _query(window_s: float) -> str:
    return f"{window_s:g} s of left windows"


def read(opened: delta.Opened, window_s: float) -> Left | None:
    """None: the list is lost, so gold must be rebuilt."""
    number = opened.committed("windows", _query(window_s))
    if number < 0:
        return Left(number, KEYS.empty_table())
    try:
        return Left(number, pq.read_table(_path(opened.tables_dir, number), schema=KEYS))
    except FileNotFoundError:
        return None


def write(opened: delta.Opened, window_s: float, keys: pa.Table) -> delta.Batch:
    """Returns what the commit of `windows` must bring, so that the list counts."""
    query = _query(window_s)
    number = opened.committed("windows", query) + 1
    path = _path(opened.tables_dir, number)
    path.parent.mkdir(exist_ok=True)
    pq.write_table(keys, path)
    delta.sync([path, path.parent, opened.tables_dir])
    return delta.Batch(query, number)


def prune(tables_dir: Path, number: int) -> None:
    """Delete the lists other than that one."""
    for path in (tables_dir / FOLDER).glob("*.parquet"):
        if path != _path(tables_dir, number):
            path.unlink()


def pack(keys: pa.Table) -> bytes:
    """For the way from a task to the driver."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, KEYS) as writer:
        writer.write_table(keys.cast(KEYS))
    return sink.getvalue().to_pybytes()


def unpack(parts: Iterable[bytes]) -> pa.Table:
    found = [pa.ipc.open_stream(part).read_all() for part in parts]
    return pa.concat_tables([KEYS.empty_table(), *found])


def _path(tables_dir: Path, number: int) -> Path:
    return tables_dir / FOLDER / f"{number:020}.parquet"
