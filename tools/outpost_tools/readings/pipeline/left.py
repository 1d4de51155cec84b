"""The windows that rounds of gold have left for later ones, in the order of their turn (stored.py).

Until its turn comes, such a window stays as it was before the readings that it lacks. It is then
recomputed from all readings that silver has, so it does not matter how many more came meanwhile.

A file `left/N.parquet` lists them. N is an app transaction of the commit of `windows` that left
them, so both count from the same moment. A list that another driver, or a killed one, has made
keeps its number.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from outpost_tools.readings.pipeline import delta, gold_schemas, windows
from outpost_tools.store.base import Store

FOLDER = "left"
KEYS = pa.schema([gold_schemas.WINDOWS.field(name) for name in windows.KEY])


class Left(NamedTuple):
    """number: of the list; -1: there was never any."""

    number: int
    keys: pa.Table


def _query(window_s: float) -> str:
    return f"{window_s:g} s of left windows"


def number(opened: delta.Opened, window_s: float) -> int:
    """Of the list that counts; -1: there was never any."""
    return opened.committed("windows", _query(window_s))


def read(opened: delta.Opened, window_s: float) -> Left | None:
    """None: the list is lost, so gold must be rebuilt."""
    found = number(opened, window_s)
    if found < 0:
        return Left(found, KEYS.empty_table())
    try:
        return Left(found, _read(opened.tables_dir / FOLDER, found))
    except FileNotFoundError:
        return None


def write(opened: delta.Opened, window_s: float, keys: pa.Table) -> delta.Batch:
    """Returns what the commit of `windows` must bring, so that the list counts."""
    query = _query(window_s)
    number = opened.committed("windows", query) + 1
    sink = pa.BufferOutputStream()
    pq.write_table(keys, sink)
    data = sink.getvalue().to_pybytes()
    while not (opened.tables_dir / FOLDER).create(_name(number), data):
        number += 1
    return delta.Batch(query, number)


def _read(place: Store, number: int) -> pa.Table:
    """Raises FileNotFoundError."""
    return pq.read_table(pa.BufferReader(place.get(_name(number))), schema=KEYS)


def prune(tables_dir: Store, number: int) -> None:
    """Delete the lists before that one."""
    place = tables_dir / FOLDER
    place.delete(one.name for one in place.entries(before=_name(number)))


def pack(keys: pa.Table) -> bytes:
    """For the way from a task to the driver."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, KEYS) as writer:
        writer.write_table(keys.cast(KEYS))
    return sink.getvalue().to_pybytes()


def unpack(parts: Iterable[bytes]) -> pa.Table:
    found = [pa.ipc.open_stream(part).read_all() for part in parts]
    return pa.concat_tables([KEYS.empty_table(), *found])


def _name(number: int) -> str:
    return f"{number:020}.parquet"
