"""The contents of each message in 8 bytes: a repeat with the same contents is a duplicate, one with
other contents is a conflict (conflicts.py). contents.py computes them.

The table `fingerprints` has those of all messages, by bucket of devices, each of its files sorted.
A task that adds to a bucket merges files that are small beside what it adds into its own, so there
are few, and each fingerprint is written a few times in its life. A lookup reads those groups of
rows whose statistics say that they may hold what is wanted: its cost depends on the number of
repeats. Rejected: a column of silver; a replay of an old outbox would have to find it in the files
of its days.

The table can be recreated from silver and quarantine, and is when it lacks what the others have:
tables of an older version have none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from outpost_tools.readings.pipeline import (
    delta,
    exact,
    foreign_rows,
    packed,
    promises,
    quarantine,
    schemas,
    tables,
)
from outpost_tools.readings.pipeline.contents import TYPE as _TYPE
from outpost_tools.readings.pipeline.contents import keys, of_contents, of_messages, of_rows
from outpost_tools.store.base import Store

TABLE = "fingerprints"
_NONE = np.zeros(0, _TYPE)
_COLUMN = schemas.FINGERPRINT.names[0]
_GROUP_ROWS = 1 << 14  # what a lookup reads: 128 KiB
_LARGER = 4  # a file is merged while it has at most so many times what is added
_MERGED_MOST = 1 << 23  # rows: larger files are not merged


class Known:
    """The fingerprints of earlier batches, in memory and in files of that folder."""

    def __init__(
        self,
        arrays: Iterable[np.ndarray] = (),
        place: Store | None = None,
        files: Iterable[str] = (),
    ) -> None:
        self._arrays = [np.sort(_signed(array)) for array in arrays if len(array)]
        self._place, self._files = place, list(files)

    def contains(self, wanted: np.ndarray) -> np.ndarray:
        """Which of `wanted` are there."""
        found = np.zeros(len(wanted), dtype=bool)
        if len(wanted):
            signed = _signed(wanted)
            for array in (*self._arrays, *self._near(np.sort(signed))):
                at = np.searchsorted(array, signed)
                found |= array[np.minimum(at, len(array) - 1)] == signed
        return found

    def _near(self, wanted: np.ndarray) -> Iterator[np.ndarray]:
        """Of each file, the groups of rows that may hold one of these."""
        for name in self._files:
            with pq.ParquetFile(self._place.arrow(name)) as file:
                groups = [one for one in range(file.num_row_groups) if _may_hold(file, one, wanted)]
                if groups:
                    yield file.read_row_groups(groups, [_COLUMN])[_COLUMN].to_numpy()


def _may_hold(file: pq.ParquetFile, group: int, wanted: np.ndarray) -> bool:
    ends = file.metadata.row_group(group).column(0).statistics
    return bool(np.searchsorted(wanted, ends.min) < np.searchsorted(wanted, ends.max, "right"))


def _signed(values: np.ndarray) -> np.ndarray:
    """As the table has them: Delta has no unsigned type. Sorted by that."""
    return np.ascontiguousarray(values, _TYPE).view(np.int64)


# --- Files, written by tasks ---


def added(place: Store, files: list[dict], bucket: int, new: np.ndarray) -> tuple[list, list]:
    """(new files, files that they replace) of the bucket, of which `files` are all (rows of
    FILES, with `rows`), with these fingerprints more."""
    if not len(new):
        return [], []
    count, gone = len(new), []
    for one in sorted(files, key=lambda file: file["rows"]):
        if one["rows"] > _LARGER * count or count + one["rows"] > _MERGED_MOST:
            break
        gone.append(one)
        count += one["rows"]
    old = tables.read_files(place, map(delta.name_of, gone), schemas.FINGERPRINT)
    parts = [_signed(new), old[_COLUMN].to_numpy()]
    return [_written(place, bucket, np.sort(np.concatenate(parts)))], gone


def without(table: delta.Table, gone: dict[int, np.ndarray]) -> tuple[list[dict], list[dict]]:
    """(new files, files that they replace) without those fingerprints, signed, of these buckets."""
    made, replaced, place = [], [], table.place
    for one in delta.files_of(table):
        bucket = int(one["partition"])
        rows = tables.read_files(place, [delta.name_of(one)], schemas.FINGERPRINT)
        values = rows[_COLUMN].to_numpy()
        stays = values[~np.isin(values, gone.get(bucket, np.zeros(0, np.int64)))]
        if len(stays) < len(values):
            replaced.append(one)
            if len(stays):
                made.append(_written(place, bucket, stays))
    return made, replaced


def _written(place: Store, bucket: int, values: np.ndarray) -> dict:
    rows = pa.table([values], schema=schemas.FINGERPRINT)
    # There is nothing to compress in them.
    options = {"compression": "none", "use_dictionary": False, "row_group_size": _GROUP_ROWS}
    return delta.write(place, rows, str(bucket), "bucket", **options)


# --- From the tables ---


def of_tables(opened: delta.Opened) -> list[dict]:
    """Write those of all messages, of silver and of the conflicts in quarantine: new files. Of
    other people's messages, those whose copies are recognised."""
    place, found = opened.tables_dir / TABLE, []
    for bucket, values in enumerate(_by_bucket(opened)):
        if len(values):
            found.append(_written(place, bucket, np.sort(_signed(values))))
    return found


def _by_bucket(opened: delta.Opened) -> list[np.ndarray]:
    parts, theirs = [], []
    for rows in _stored(opened, "readings"):
        is_foreign = promises.are_foreign(rows)
        parts.append(_of_part(rows.filter(pa.array(~is_foreign))))
        if is_foreign.any():
            theirs.append(_of_foreign(rows.filter(pa.array(is_foreign))))
    streams, messages, contents, buckets = (np.concatenate(c) for c in zip(*parts, strict=True))
    order = np.argsort(messages, kind="stable")  # a message's readings may lie in several files
    begins = np.flatnonzero(_changes(messages[order]))
    sums = np.add.reduceat(contents[order], begins) if len(begins) else _NONE
    silver = of_contents(sums, streams[order][begins], messages[order][begins])
    refused = [_of_conflicts(rows) for rows in _stored(opened, "quarantine")]
    more = [*refused, *theirs]
    values = np.concatenate([silver, *(one for one, _ in more)])
    at = np.concatenate([buckets[order][begins], *(one for _, one in more)])
    return [values[at == bucket] for bucket in range(packed.BUCKETS)]


def _of_part(rows: pa.Table) -> tuple[np.ndarray, ...]:
    return (*keys(rows), of_rows(rows), packed.buckets_of(rows))


def _of_foreign(rows: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    heads = rows.filter(pc.field("record") == 0)
    heads = heads.filter(pa.array(foreign_rows.identified(heads)))
    return foreign_rows.fingerprints(heads), packed.buckets_of(heads)


def _changes(values: np.ndarray) -> np.ndarray:
    changed = np.ones(len(values), dtype=bool)
    changed[1:] = values[1:] != values[:-1]
    return changed


def _of_conflicts(rows: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    found, at = [_NONE], [np.zeros(0, np.int64)]
    for row in rows.filter(pc.equal(rows["reason"], quarantine.CONFLICT)).to_pylist():
        batches = exact.arrow_batches(iter(exact.frame_rows(quarantine.frame(row), "", 0)))
        one = pa.Table.from_batches(batches).filter(pc.field("reason").is_null())
        found.append(of_messages(one, np.zeros(1, int)))
        at.append(packed.buckets_of(one)[:1])
    return np.concatenate(found), np.concatenate(at)


def _stored(opened: delta.Opened, name: str) -> Iterator[pa.Table]:
    """The table's files, after an empty one."""
    schema = {"readings": schemas.READING, "quarantine": schemas.QUARANTINE_TABLE}[name]
    yield schema.empty_table()
    for one in delta.files_of(opened[name]):
        yield tables.read_files(opened.tables_dir / name, [delta.name_of(one)], schema)
