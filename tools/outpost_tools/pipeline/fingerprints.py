"""The contents of each message in 8 bytes: a repeat with the same contents is a duplicate, one with
other contents is a conflict (conflicts.py). contents.py computes them.

On disk, `fingerprints/FIRST-LAST.u64` is a sorted array for some batches. A new one is merged with
those before it while they are at most twice its size. So a lookup reads a few pages of a few files,
depending on the number of repeats, and the state of the streams stays as small as it was. Rejected:
a column of silver; a replay of an old outbox would have to find it in the files of its days.

The files can be recreated from silver and quarantine, and are when they are missing: tables of an
older version have none.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from outpost_tools.pipeline import delta, exact, quarantine, schemas, tables
from outpost_tools.pipeline.contents import TYPE as _TYPE
from outpost_tools.pipeline.contents import keys, of_contents, of_messages, of_rows

FOLDER = "fingerprints"
_NONE = np.zeros(0, _TYPE)
_MERGED_MOST = 1 << 27  # 1 GiB: larger ones are not merged
_SLICE = 1 << 20


class Known:
    """The fingerprints of earlier batches."""

    def __init__(self, arrays: Iterable[np.ndarray] = ()) -> None:
        self._arrays = [array for array in arrays if len(array)]

    @classmethod
    def of_files(cls, paths: Iterable[Path]) -> Known:
        return cls(map(_mapped, paths))

    def contains(self, wanted: np.ndarray) -> np.ndarray:
        """Which of `wanted` are there."""
        found = np.zeros(len(wanted), dtype=bool)
        for array in self._arrays:
            at = np.searchsorted(array, wanted)
            found |= array[np.minimum(at, len(array) - 1)] == wanted
        return found


# --- Files ---


def begin(tables_dir: Path, batch: int) -> Path:
    """The folder that the batch's tasks write into; what earlier attempts left is removed."""
    place = tables_dir / FOLDER
    place.mkdir(parents=True, exist_ok=True)
    for old in place.glob(".batch=*"):
        shutil.rmtree(old)
    folder = place / f".batch={batch}-{uuid.uuid4().hex}"
    folder.mkdir()
    return folder


def write(folder: Path, number: int, values: np.ndarray) -> None:
    """Part `number`, by a task. A repeated task writes the same."""
    _write(folder / f"part-{number:05d}.u64", [values])


def finish(tables_dir: Path, batch: int, folder: Path) -> None:
    """Make the attempt's parts the batch's file."""
    parts = [np.fromfile(path, _TYPE) for path in sorted(folder.glob("part-*.u64"))]
    _write(tables_dir / FOLDER / _name(batch, batch), [np.sort(np.concatenate([_NONE, *parts]))])
    shutil.rmtree(folder)


def before(tables_dir: Path, batch: int) -> list[Path]:
    """The files of all batches before `batch`, merged where that is due, or recreated from the
    tables."""
    files = _cover(tables_dir / FOLDER, batch)
    if files is None:
        path = tables_dir / FOLDER / _name(0, batch - 1)
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, [np.sort(_of_tables(tables_dir, batch))])
        files = [path]
    return _merged(files)


def _name(first: int, last: int) -> str:
    return f"{first}-{last}.u64"


def _span(path: Path) -> tuple[int, int]:
    first, last = path.stem.split("-")
    return int(first), int(last)


def _cover(folder: Path, batch: int) -> list[Path] | None:
    """The files that hold 0..batch - 1; removes those that others contain. None when some are
    missing."""
    found, following = [], 0
    for path in sorted(folder.glob("[0-9]*.u64"), key=lambda one: (_span(one)[0], -_span(one)[1])):
        first, last = _span(path)
        if last >= batch:
            continue  # from an attempt that was killed
        if last < following:
            path.unlink()
        elif first == following:
            found.append(path)
            following = last + 1
    return found if following == batch else None


def _merged(files: list[Path]) -> list[Path]:
    """Merges the newest ones into one file, as long as the one before is not much larger."""
    files = list(files)
    while len(files) > 1:
        sizes = [path.stat().st_size for path in files[-2:]]
        if sizes[0] > 2 * sizes[1] or sum(sizes) > _MERGED_MOST * _TYPE.itemsize:
            break
        pair = files[-2:]
        path = pair[0].with_name(_name(_span(pair[0])[0], _span(pair[1])[1]))
        _write(path, _slices([_mapped(one) for one in pair]))
        for one in pair:
            one.unlink()
        files[-2:] = [path]
    return files


def _slices(arrays: list[np.ndarray]) -> Iterator[np.ndarray]:
    """The arrays merged into one, piece by piece."""
    count = 1 + sum(map(len, arrays)) // _SLICE
    limits = np.array([(place << 64) // count for place in range(1, count)], _TYPE)
    cuts = [[0, *np.searchsorted(array, limits).tolist(), len(array)] for array in arrays]
    for place in range(count):
        pieces = [
            array[cut[place] : cut[place + 1]] for array, cut in zip(arrays, cuts, strict=True)
        ]
        yield np.sort(np.concatenate(pieces), kind="stable")


def _mapped(path: Path) -> np.ndarray:
    return np.memmap(path, _TYPE, "r") if path.stat().st_size else _NONE


def _write(path: Path, pieces: Iterable[np.ndarray]) -> None:
    temporary = path.with_name(f".{path.name}-{uuid.uuid4().hex}")
    with temporary.open("wb") as file:
        for piece in pieces:
            file.write(np.ascontiguousarray(piece, _TYPE).data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


# --- From the tables ---


def _of_tables(tables_dir: Path, batch: int) -> np.ndarray:
    """All messages in batches before `batch`: those of silver, and the conflicts in quarantine."""
    parts = [_of_part(rows) for rows in _stored(tables_dir, "readings")]
    streams, messages, contents = (
        np.concatenate([_NONE, *column]) for column in zip(*parts, strict=True)
    )
    order = np.argsort(messages, kind="stable")  # a message's readings may lie in several files
    begins = np.flatnonzero(_changes(messages[order]))
    sums = np.add.reduceat(contents[order], begins) if len(begins) else _NONE
    silver = of_contents(sums, streams[order][begins], messages[order][begins])
    return np.concatenate([silver, *map(_of_conflicts, _stored(tables_dir, "quarantine"))])


def _of_part(rows: pa.Table) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return (*keys(rows), of_rows(rows))


def _changes(values: np.ndarray) -> np.ndarray:
    changed = np.ones(len(values), dtype=bool)
    changed[1:] = values[1:] != values[:-1]
    return changed


def _of_conflicts(rows: pa.Table) -> np.ndarray:
    found = []
    for row in rows.filter(pc.equal(rows["reason"], quarantine.CONFLICT)).to_pylist():
        frame = quarantine.frame(row)
        batches = exact.arrow_batches(iter(exact.frame_rows(frame, "", 0)))
        found.append(pa.Table.from_batches(batches).filter(pc.field("reason").is_null()))
    return np.concatenate([_NONE, *(of_messages(one, np.zeros(1, int)) for one in found)])


def _stored(tables_dir: Path, name: str) -> Iterator[pa.Table]:
    """The table's files, after an empty one."""
    schema = {"readings": schemas.READING, "quarantine": schemas.QUARANTINE_TABLE}[name]
    yield schema.empty_table()
    table = delta.open_table(tables_dir / name)
    for one in delta.files_of(table):
        yield tables.read_files([delta.path_of(table, one)], schema)
