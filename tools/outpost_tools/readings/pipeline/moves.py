"""Rows of silver that move: what a batch changes in the rows that earlier batches wrote.

A clock that became known gives readings their time, and with it the folder of their day; one with a
lower number than the known clock gives them another time, or removes it (clocks.py). A message that
was displaced by one received earlier is deleted (displaced.py). Both happen in the commit that
brings the batch's new readings: the files that hold such rows are replaced by files in which all
rows are right, so every reader sees a correct table.

Few files hold such rows: by the files' statistics, those with readings without their own time.
Tasks rewrite them, a task many small ones together, so that a board whose readings lie in many
files leaves few.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from outpost_tools.readings.pipeline import changes, clocks, delta, displaced, schemas, tables
from outpost_tools.readings.pipeline.engines import Engine
from outpost_tools.store.base import Store

# What a task of a batch returns to the driver: its files, those that they replace (gone), and under
# these names what moves.
_CLOCKS, _DISPLACED, _FREED = ".clocks", ".displaced", ".freed"
RESULT = pa.schema([*delta.FILES, ("gone", pa.bool_()), ("rows", pa.binary())])
_TASK_ROWS, _TASK_FILES = 200_000, 500  # at most, unless one file has more
_LOST = pa.schema([schemas.READING.field(name) for name in ("device", *displaced.ORIGIN)])


@dataclass(frozen=True)
class Moves:
    """The clocks that change the times of readings in silver, the messages that leave it, and the
    origins of those that leave quarantine."""

    clocks: pa.Table
    displaced: pa.Table
    freed: pa.Table = field(default_factory=schemas.ORIGINS.empty_table)

    def __bool__(self) -> bool:
        return bool(self.clocks.num_rows or self.displaced.num_rows)

    def may_be_in(self, file: delta.File) -> bool:
        """Whether a file of silver can hold such rows."""
        is_open = file.nulls("time") != 0 or file.nulls("placed") != file.rows
        if is_open and _can_hold(file, self.clocks, "device", "boot"):
            return True
        return _can_hold(file, self.displaced, "device", "segment", "offset")

    def note(self, made: list[dict]) -> dict[str, Any]:
        """What gold must know about these moves (changes.py)."""
        first = self.clocks.filter(self.clocks["is_first"]).select(clocks.BOOT)
        others = self.clocks.filter(pc.invert(self.clocks["is_first"]))["device"]
        again = {*others.to_pylist(), *self.displaced["device"].to_pylist()}
        said = {"rewritten": [one["path"] for one in made], "again": sorted(again)}
        return {changes.NOTE: said | {"placed": [list(row.values()) for row in first.to_pylist()]}}

    def made(self, rows: pa.Table) -> pa.Table:
        """`rows` of silver as they are after the batch."""
        if self.displaced.num_rows:
            rows = displaced.without(rows, self.displaced)
        return clocks.place(rows, self.clocks)


def _can_hold(file: delta.File, rows: pa.Table, *names: str) -> bool:
    """By the ends of these columns."""
    if not rows.num_rows:
        return False
    ends = {name: pc.min_max(rows[name]).as_py() for name in names}
    return all(file.overlaps(name, end["min"], end["max"]) for name, end in ends.items())


def result(
    written: list[dict],
    known: Iterable[pa.Table],
    lost: Iterable[pa.Table],
    freed: Iterable[pa.Table] = (),
) -> pa.Table:
    """Rows of RESULT."""
    rows: list[dict] = [*written]
    more = ((_CLOCKS, clocks.CHANGED, known), (_DISPLACED, _LOST, lost))
    more += ((_FREED, schemas.ORIGINS, freed),)
    for name, schema, parts in more:
        found = pa.concat_tables([schema.empty_table(), *(p.select(schema.names) for p in parts)])
        if found.num_rows:
            rows.append({"table": name, "rows": _bytes(found)})
    return pa.Table.from_pylist(rows, schema=RESULT)


def of_result(found: list[dict]) -> tuple[list[dict], Moves]:
    """(the files, what moves) of rows of RESULT."""
    schemas_of = {_CLOCKS: clocks.CHANGED, _DISPLACED: _LOST, _FREED: schemas.ORIGINS}
    parts = {name: [schema.empty_table()] for name, schema in schemas_of.items()}
    for one in found:
        if one["table"] in parts:
            parts[one["table"]].append(pa.ipc.open_stream(one["rows"]).read_all())
    files = [one for one in found if one["table"] not in parts]
    return files, Moves(*(pa.concat_tables(parts[name]) for name in schemas_of))


def _bytes(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return sink.getvalue().to_pybytes()


def gone(file: dict) -> dict:
    """A row of RESULT: a file that is replaced."""
    return {name: file.get(name) for name in delta.FILES.names} | {"gone": True}


def rewritten(
    engine: Engine, tables_dir: Store, silver: delta.Table, moves: Moves
) -> tuple[list[dict], list[dict]]:
    """(new files, files that they replace) for that version of silver; none if nothing moves."""
    files = delta.files_of(silver, moves.may_be_in)
    if not files:
        return [], []
    done = engine.map(partial(_rewritten, tables_dir, moves), list(_parts(files)))
    made, gone = zip(*done, strict=True)
    return [one for new in made for one in new], [one for old in gone for one in old]


def _parts(files: list[dict]) -> Iterator[list[dict]]:
    """The files for each task."""
    part, rows = [], 0
    for one in files:
        if part and (rows + one["rows"] > _TASK_ROWS or len(part) == _TASK_FILES):
            yield part
            part, rows = [], 0
        part.append(one)
        rows += one["rows"]
    yield part


def _rewritten(tables_dir: Store, moves: Moves, files: list[dict]) -> tuple[list[dict], list[dict]]:
    """(new files, those that they replace); a file stays when all its rows do."""
    changed, gone = [], []
    for one in files:
        rows = tables.read_files(tables_dir / "readings", [delta.name_of(one)], schemas.READING)
        after = moves.made(rows)
        if not after.equals(rows):
            changed.append(after)
            gone.append(one)
    return (tables.write_readings(tables_dir, pa.concat_tables(changed)) if gone else []), gone
