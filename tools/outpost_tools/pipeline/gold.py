"""Gold: answers to what people ask about the readings. A round costs what its new data costs.

What silver has got since the last time gold was made follows from its log: files of new readings,
and files in which readings have moved. Spark brings the new readings of a bucket of devices
together, as it does for silver (packed.py), and an Arrow function recomputes the bucket's tables
where they change:

- A new window is computed from the new readings. An existing one is recomputed from all its
  readings, which are read from silver by device and time.
- `totals` is added to (totals.py). The small tables of the bucket follow from it and from the state
  of its streams (summaries.py).
- A device whose readings changed in another way than getting their first time (a clock that
  replaced another, a displaced message) is recomputed from all its readings. That is rare.

Each table is replaced in one commit that records how far silver and state were read. They are
written in the order of ORDER. So after a kill `totals`, which must count each reading once, shows
what is missing, and the others can be recomputed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError
from pyspark.sql import SparkSession

from outpost_tools.pipeline import (
    changes,
    clocks,
    delta,
    gold_schemas,
    packed,
    schemas,
    summaries,
    tables,
    totals,
    windows,
)

ORDER = ("windows", "totals", "boots", "latency", "gaps", "devices")
_NEEDED = list(dict.fromkeys([*windows.NEEDED, *totals.NEEDED]))
_READ = pa.schema([schemas.READING.field(name) for name in _NEEDED])
_RESULT = pa.schema([*delta.FILES, ("gone", pa.bool_())])
_HOUR_US = 3_600_000_000
Progress = Callable[[str], None]


def write(spark: SparkSession, tables_dir: Path, window_s: float, *, progress: Progress) -> None:
    """Compute gold from silver and state as they are now, for this length of window."""
    for left in reversed(range(delta.TRIES)):
        try:
            _write(spark, tables_dir, window_s, progress)
            return
        except CommitFailedError:  # a compaction committed meanwhile
            if not left:
                raise


def _write(spark: SparkSession, tables_dir: Path, window_s: float, progress: Progress) -> None:
    names = tuple(f"{window_s:g} s of {name}" for name in ("readings", "streams"))
    now = tuple(tables.version(tables_dir, name) for name in ("readings", "streams"))
    since = delta.committed(tables_dir / "totals", names[0])
    since_state = delta.committed(tables_dir / ORDER[-1], names[1])
    if (since, since_state) == now:
        progress("no new segments; tables unchanged")
        return
    progress("computing windows, gaps, latency, devices and boots")
    steps = changes.of_silver(tables_dir / "readings", since)
    states = delta.changed(tables_dir / "streams", since_state)
    for step in steps:
        is_last = step is steps[-1]
        reached = [delta.Batch(names[0], step.version)] if step.version >= 0 else []
        reached += [delta.Batch(names[1], now[1])] if is_last else []
        visited = _visited(step, states if is_last else set())
        made = _made(spark, tables_dir, Maker(tables_dir, window_s, step), visited)
        # A rebuild in several steps commits no table before all of them are done.
        is_apart = steps[0].is_whole and len(steps) > 1
        for name, table in made.before.items():
            if is_apart or not _has(tables_dir / name, reached):
                new, gone = made.of(name)
                delta.commit(tables_dir / name, new, *reached, gone=gone, of=table)


def _has(place: Path, reached: list[delta.Batch]) -> bool:
    """Whether a killed run has already written this step to that table."""
    return all(delta.committed(place, one.query) >= one.number for one in reached)


def _visited(step: changes.Step, states: set[str | None] | None) -> set[int]:
    """The buckets to look at in addition to those of new readings."""
    if states is None or step.is_whole:
        return set(range(packed.BUCKETS))
    moved = [name for _, boots in step.placed for name in boots["device"].to_pylist()]
    moved += step.again
    return {int(one) for one in states if one} | {packed.bucket(name) for name in moved}


class _Made(NamedTuple):
    """Rows of _RESULT, and the table versions that they are based on."""

    files: list[dict]
    before: dict[str, DeltaTable]

    def of(self, name: str) -> tuple[list[dict], list[dict]]:
        """(new files of that table, those that they replace)."""
        mine = [one for one in self.files if one["table"] == name]
        return [one for one in mine if not one["gone"]], [one for one in mine if one["gone"]]


def _made(spark: SparkSession, tables_dir: Path, maker: Maker, visited: set[int]) -> _Made:
    """Compute the step's buckets in tasks."""
    before = {name: delta.open_table(tables_dir / name) for name in ORDER}
    maker.visited = visited
    maker.groups = packed.groups(int(spark.conf.get("spark.sql.shuffle.partitions")))
    maker.know({**before, "streams": delta.open_table(tables_dir / "streams")})
    items = [(str(path), -1) for path in maker.step.fresh]
    items += [("", group) for group in {one % maker.groups for one in visited}]
    if not items:
        return _Made([], before)
    # A task costs a worker 0.1 CPU s, whatever it reads.
    tasks = min(len(items), spark.sparkContext.defaultParallelism)
    paths = spark.sparkContext.parallelize(items, tasks)
    rows = paths.toDF("path string, bucket int")
    rows = rows.mapInArrow(maker.packed, schemas.spark(packed.PACKED))
    found = rows.groupBy("bucket").applyInArrow(
        lambda key, part: maker.revised(key[0].as_py(), part), schemas.spark(_RESULT)
    )
    return _Made(found.toArrow().to_pylist(), before)


@dataclass
class Maker:
    """Computes the tables of several buckets at once, a group: a call costs the same as for one.
    `files`: those that each table has for each bucket; visited: buckets to look at in any case."""

    tables_dir: Path
    window_s: float
    step: changes.Step
    files: dict[tuple[str, int], list[dict]] = field(default_factory=dict)
    visited: set[int] = field(default_factory=set)
    groups: int = 1

    def packed(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The readings of these files by group; an empty table for groups to look at anyway."""
        for batch in batches:
            for one in batch.to_pylist():
                rows = tables.read_files([Path(one["path"])] if one["path"] else [], _READ)
                parts = packed.split(rows, self.groups) if one["path"] else [(one["bucket"], rows)]
                yield packed.of_parts((number, False, part) for number, part in parts)

    def know(self, versions: dict[str, DeltaTable]) -> None:
        for name, table in versions.items():
            for one in delta.files_of(table, ends_of="start" if name == "windows" else ""):
                self.files.setdefault((name, int(one["partition"])), []).append(one)

    def revised(self, group: int, packed_rows: pa.Table) -> pa.Table:
        rows = packed.unpack_rows(packed_rows)
        buckets = {one for one in self.visited if one % self.groups == group}
        buckets |= {number for number, _ in packed.split(rows, packed.BUCKETS)}
        fresh, placed = self._but_again(rows), self._but_again(self._placed(buckets))
        again = [name for name in self.step.again if packed.bucket(name) in buckets]
        anew = self._silver(again) if again else _READ.empty_table()
        found = self._windows(buckets, pa.concat_tables([fresh, placed]), anew)
        found += self._small(buckets, fresh, placed, anew)
        return pa.Table.from_pylist(found, schema=_RESULT)

    def _of(self, name: str, buckets: set[int]) -> list[dict]:
        return [one for bucket in sorted(buckets) for one in self.files.get((name, bucket), [])]

    def _but_again(self, rows: pa.Table) -> pa.Table:
        names = pa.array(self.step.again, pa.string())
        return rows.filter(pc.invert(pc.is_in(rows["device"], value_set=names)))

    def _placed(self, buckets: set[int]) -> pa.Table:
        """Readings of silver that have got their first time."""
        found = [_READ.empty_table()]
        for paths, boots in self.step.placed:
            names = {one for one in boots["device"].to_pylist() if packed.bucket(one) in buckets}
            if names:
                rows = tables.read_files(paths, _READ).filter(pc.field("placed"))
                mine = boots.filter(pc.field("device").isin(sorted(names)))
                found.append(rows.filter(clocks.is_of(rows, mine)))
        return pa.concat_tables(found)

    def _silver(
        self, devices: list[str], first_us: int | None = None, last_us: int = 0
    ) -> pa.Table:
        """All readings of these devices, or those from the first time to before the last."""
        ends = (delta.text(min(devices)), delta.text(max(devices)))
        near, mine = f"device BETWEEN {ends[0]} AND {ends[1]}", pc.field("device").isin(devices)
        if first_us is not None:
            first, last = (pa.scalar(one, _READ.field("time").type) for one in (first_us, last_us))
            days = [one.as_py().date().isoformat() for one in (first, last)]
            near += f" AND day BETWEEN '{days[0]}' AND '{days[1]}'"
            near += f" AND time >= {delta.time_text(first.as_py())}"
            near += f" AND time < {delta.time_text(last.as_py())}"
            mine &= (pc.field("time") >= first) & (pc.field("time") < last)
        silver = delta.open_table(self.tables_dir / "readings")
        data = silver.to_pyarrow_dataset(file_pruning_predicate=near)
        return data.to_table(columns=_NEEDED, filter=mine).cast(_READ)

    # --- windows ---

    def _windows(self, buckets: set[int], rows: pa.Table, anew: pa.Table) -> list[dict]:
        rows, anew = (windows.with_start(part, self.window_s) for part in (rows, anew))
        kept, there, gone = self._windows_there(buckets, rows)
        found = []
        if there.num_rows:
            is_there = windows.is_of(rows, there)
            longer, others, _ = windows.going_on(there, rows.filter(pa.array(is_there)))
            rows = rows.filter(pa.array(~is_there))
            found = [longer, windows.of_rows(pa.concat_tables([anew, *self._stored(others)]))]
        else:
            rows = pa.concat_tables([rows, anew])
        made = pa.concat_tables([*found, windows.of_rows(rows)]).sort_by("start")
        return [*self._written("windows", [*kept, made]), *_gone(gone)]

    def _windows_there(
        self, buckets: set[int], rows: pa.Table
    ) -> tuple[list[pa.Table], pa.Table, list[dict]]:
        """(what stays of the files that hold windows of these rows, those windows, the files)."""
        files = self._of("windows", buckets)
        there, kept, gone = [gold_schemas.WINDOWS.empty_table()], [], []
        if self.step.is_whole:
            return kept, there[0], files
        again = pa.array(self.step.again, pa.string())
        for one in files:
            if not self._may_hold(one, rows):
                continue
            found = self._read("windows", [one], gold_schemas.WINDOWS)
            lost = pc.is_in(found["device"], value_set=again).to_numpy()
            hit = windows.is_of(found, rows)
            if (hit | lost).any():
                kept.append(found.filter(pa.array(~(hit | lost))))
                there.append(found.filter(pa.array(hit & ~lost)))
                gone.append(one)
        return kept, pa.concat_tables(there), gone

    def _may_hold(self, file: dict, rows: pa.Table) -> bool:
        """Whether the file can hold windows of these rows; reads only its keys to find out."""
        if self.step.again:
            return True
        ends = pc.min_max(rows["start"]).as_py()
        if not rows.num_rows or file["last"] < ends["min"] or file["first"] > ends["max"]:
            return False
        near = (pc.field("start") >= ends["min"]) & (pc.field("start") <= ends["max"])
        path = delta.path_in(self.tables_dir / "windows", file)
        found = pa.parquet.read_table(path, columns=windows.KEY, filters=near, partitioning=None)
        return bool(windows.is_of(found, rows).any())

    def _stored(self, there: pa.Table) -> Iterator[pa.Table]:
        """All readings of these windows, hour by hour."""
        starts = there["start"].cast(pa.int64()).to_numpy()
        hours = np.unique(starts // _HOUR_US)
        for run in np.split(hours, np.flatnonzero(np.diff(hours) > 1) + 1) if len(hours) else []:
            mine = there.filter(pa.array(np.isin(starts // _HOUR_US, run)))
            ends = [end.as_py() for end in pc.min_max(mine["start"].cast(pa.int64())).values()]
            devices = sorted(set(mine["device"].to_pylist()))
            found = self._silver(devices, ends[0], ends[1] + windows.width_us(self.window_s))
            found = windows.with_start(found, self.window_s)
            yield found.filter(pa.array(windows.is_of(found, mine)))

    # --- totals and what follows from them ---

    def _small(
        self, buckets: set[int], fresh: pa.Table, placed: pa.Table, anew: pa.Table
    ) -> list[dict]:
        files = [] if self.step.is_whole else self._of("totals", buckets)
        old = now = self._read("totals", files, gold_schemas.TOTALS)
        more = [totals.of_rows(rows) for rows in (fresh, anew) if rows.num_rows]
        more += [totals.of_placed(placed)] if placed.num_rows else []
        if more or self.step.again:
            now = totals.added([self._but_again(old), *more])
        found = (
            [] if now is old and not self.step.is_whole else self._replaced("totals", buckets, now)
        )
        streams = self._read("streams", self._of("streams", buckets), schemas.STREAM)
        for name, rows in summaries.made(now, streams).items():
            found += self._replaced(name, buckets, rows)
        return found

    def _read(self, name: str, files: list[dict], schema: pa.Schema) -> pa.Table:
        return tables.read_files(
            [delta.path_in(self.tables_dir / name, one) for one in files], schema
        )

    def _replaced(self, name: str, buckets: set[int], rows: pa.Table) -> list[dict]:
        """Replaces everything that the table has for the buckets."""
        return [*self._written(name, [rows]), *_gone(self._of(name, buckets))]

    def _written(self, name: str, parts: list[pa.Table]) -> list[dict]:
        place = self.tables_dir / name
        files = [
            delta.write(place, rows, str(bucket), "bucket")
            for part in parts
            for bucket, rows in packed.split(part, packed.BUCKETS)
        ]
        return [one | {"gone": False} for one in files]


def _gone(files: list[dict]) -> list[dict]:
    return [{key: one.get(key) for key in delta.FILES.names} | {"gone": True} for one in files]
