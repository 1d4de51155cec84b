"""The files of `windows` that change: which windows continue, which are recomputed from silver, and
which wait for a later round. Reads files; writes none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset

from outpost_tools.readings.pipeline import (
    delta,
    gold_schemas,
    left,
    packed,
    stored,
    tables,
    windows,
)
from outpost_tools.store.base import Store


class Revision(NamedTuple):
    """Tables of windows to write, the files that they replace, and the keys of those that wait."""

    made: list[pa.Table]
    gone: list[dict]
    later: pa.Table


class _File(NamedTuple):
    """Its rows, which of them change, and which of them are removed."""

    file: dict
    rows: pa.Table
    is_hit: np.ndarray
    is_lost: np.ndarray

    @property
    def hit(self) -> pa.Table:
        return self.rows.filter(pa.array(self.is_hit))

    def without(self, later: pa.Table) -> pa.Table | None:
        """The rows that stay; None if all do. later: keys of windows that stay for now."""
        goes = self.is_lost.copy()
        goes[self.is_hit] = ~windows.is_of(self.hit, later)
        return self.rows.filter(pa.array(~goes)) if goes.any() else None


def files_of(table: delta.Table) -> list[dict]:
    """As delta.files_of(), with the starts of the first and the last window."""
    found = []
    for one in table.files.values():
        first, last = one.times("start")
        found.append(delta.row(table, one) | {"first": first, "last": last})
    return found


@dataclass(frozen=True)
class Reader:
    """again: devices whose windows are all recomputed. most_files: of silver, to open at once."""

    tables_dir: Store
    window_s: float
    again: list[str]
    most_files: int

    def revised(
        self, files: list[dict], rows: pa.Table, anew: pa.Table, waiting: pa.Table
    ) -> Revision:
        """files: all of the buckets. rows: new readings; anew: all readings of the devices `again`;
        both of with_start(). waiting: the keys that earlier rounds have left."""
        keys = pa.concat_tables([rows.select(windows.KEY), waiting])
        changing = self._changing(files, keys)
        there = [gold_schemas.WINDOWS.empty_table(), *(one.hit for one in changing)]
        made, later, rows = self._made(pa.concat_tables(there), rows, waiting)
        made.append(windows.of_rows(pa.concat_tables([rows, anew])))
        kept = [(one.file, one.without(later)) for one in changing]
        replaced = [(file, part) for file, part in kept if part is not None]
        return Revision(
            [*(part for _, part in replaced), pa.concat_tables(made).sort_by("start")],
            [file for file, _ in replaced],
            later,
        )

    def _made(
        self, there: pa.Table, rows: pa.Table, waiting: pa.Table
    ) -> tuple[list[pa.Table], pa.Table, pa.Table]:
        """(windows that are there, as they are now; keys of those that wait; rows of no window that
        is there)."""
        if not there.num_rows:
            return [], left.KEYS.empty_table(), rows
        is_there, has_waited = windows.is_of(rows, there), windows.is_of(there, waiting)
        more = rows.filter(pa.array(is_there & ~windows.is_of(rows, waiting)))
        longer, others, _ = windows.going_on(there.filter(pa.array(~has_waited)), more)
        others = pa.concat_tables([windows.in_order(there, waiting), others])
        made, later = [longer], left.KEYS.empty_table()
        if others.num_rows:
            files = stored.files_of(delta.open_table(self.tables_dir / "readings"))
            taken, mine = stored.read(files, others, self.window_s, self.most_files)
            made.append(windows.of_rows(mine))
            later = others.filter(pa.array(~taken)).select(windows.KEY)
        return made, later, rows.filter(pa.array(~is_there))

    def _changing(self, files: list[dict], keys: pa.Table) -> list[_File]:
        """The files that hold windows with these keys, or of a device that is recomputed."""
        again = pa.array(self.again, pa.string())
        of_bucket, found = dict(packed.split(keys, packed.BUCKETS)), []
        for one in files:
            mine = of_bucket.get(int(one["partition"]), left.KEYS.empty_table())
            if not self._is_near(one, mine):
                continue
            names = [delta.name_of(one)]
            data = tables.whole(self.tables_dir / "windows", names, gold_schemas.WINDOWS)
            if not self._holds(data, mine):
                continue
            rows = data.to_table()
            is_lost = pc.is_in(rows["device"], value_set=again).to_numpy()
            is_hit = windows.is_of(rows, mine) & ~is_lost
            if (is_hit | is_lost).any():
                found.append(_File(one, rows, is_hit, is_lost))
        return found

    def _is_near(self, file: dict, keys: pa.Table) -> bool:
        """By the ends of its windows."""
        if self.again:
            return True
        ends = pc.min_max(keys["start"]).as_py()
        return keys.num_rows > 0 and file["last"] >= ends["min"] and file["first"] <= ends["max"]

    def _holds(self, data: pa.dataset.Dataset, keys: pa.Table) -> bool:
        """Whether a file holds windows with these keys; needs only its keys."""
        if self.again:
            return True
        ends = pc.min_max(keys["start"]).as_py()
        near = (pc.field("start") >= ends["min"]) & (pc.field("start") <= ends["max"])
        return bool(windows.is_of(data.to_table(left.KEYS.names, filter=near), keys).any())
