"""The files of closed boots: their rows in `boots`, and their totals, the archive (closing.py).

Both lie in a partition of their own beside that of each bucket, sorted by device and boot, so that
Delta's statistics tell which files can hold a boot. Rounds add files and merge those of similar
size, so a row is written again a few times, and a bucket has few files. Only a boot that got more
readings after it was closed makes a round open others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from outpost_tools.readings.pipeline import closing, delta, packed, schemas, tables, totals
from outpost_tools.store.base import Store

MOST_FILES = 64  # that a round opens in each of its parts, beyond those of each board's first turn
_SPAN = 64  # boots that have their turn together
_MERGED_MOST = 1 << 17  # rows: such a file is not merged any more
_LARGER = 2  # times what is new: such files are not merged yet
_GROUP_ROWS = 1 << 13
_ORDER = [(name, "ascending") for name in totals.KEY]


def partition(bucket: int) -> int:
    """Where the closed boots of a bucket are."""
    return ~bucket


def files_of(table: delta.Table) -> list[dict]:
    """As delta.files_of(), with the ends of their devices and boots, None where unknown."""
    return [
        delta.row(table, one) | {"devices": one.ends("device"), "boots": one.ends("boot")}
        for one in table.files.values()
    ]


class Ends(NamedTuple):
    """Of files, as arrays: which devices, by their place in `names`, and which boots they can
    have; both ends inclusive."""

    names: list[str]
    devices: tuple[np.ndarray, np.ndarray]
    boots: tuple[np.ndarray, np.ndarray]

    def can_hold(self, device: int, first: int, last: int) -> np.ndarray:
        """Which files can hold one of these boots of the device."""
        low, high = self.devices
        found = (low <= device) & (device <= high)
        return found & (self.boots[0] <= last) & (self.boots[1] >= first)


def _ends(files: list[dict], names: list[str]) -> Ends:
    sorted_names = np.array(names, object)
    low = [0 if a is None else np.searchsorted(sorted_names, a) for a, _ in _of(files, "devices")]
    high = [
        len(names) if b is None else np.searchsorted(sorted_names, b, side="right") - 1
        for _, b in _of(files, "devices")
    ]
    first = [-1 if a is None else a for a, _ in _of(files, "boots")]
    last = [1 << 31 if b is None else b for _, b in _of(files, "boots")]
    pairs = [
        tuple(np.array(one, np.int64) for one in pair) for pair in ((low, high), (first, last))
    ]
    return Ends(names, *pairs)


def _of(files: list[dict], name: str) -> list[tuple]:
    return [one[name] for one in files]


class Files:
    """Those of some buckets. archive, boots: rows of files_of()."""

    def __init__(self, tables_dir: Store, archive: list[dict], boots: list[dict]) -> None:
        self._dir, self._archive, self._boots = tables_dir, archive, boots

    # --- What closing.py asks for ---

    def looked_up(self, asked: pa.Table) -> tuple[np.ndarray, pa.Table]:
        """(which of these boots have their turn, what the archive has of them and of boots near).
        Of each device the first boots have it."""
        names = sorted(set(asked["device"].to_pylist()))
        devices = pc.index_in(asked["device"], value_set=pa.array(names, pa.string())).to_numpy()
        spans = asked["boot"].to_numpy() // _SPAN
        archive, boots = (_ends(files, names) for files in (self._archive, self._boots))
        turns = _turns(devices, spans)
        taken, chosen = set(), np.zeros(len(self._archive) + len(self._boots), bool)
        for device, span, is_first in turns:
            ends = (device, span * _SPAN - closing.NEAR, (span + 1) * _SPAN + closing.NEAR)
            mine = np.concatenate([part.can_hold(*ends) for part in (archive, boots)])
            if is_first or np.count_nonzero(chosen | mine) <= MOST_FILES:
                chosen |= mine
                taken.add((device, span))
        turn = [pair in taken for pair in zip(devices.tolist(), spans.tolist(), strict=True)]
        has_turn = np.array(turn, bool)
        near = asked.filter(pa.array(has_turn))
        wanted = [one for one, is_in in zip(self._archive, chosen, strict=False) if is_in]
        return has_turn, self._near(wanted, near)

    def _near(self, files: list[dict], boots: pa.Table) -> pa.Table:
        """The rows of the archive whose boots are near to these."""
        numbers = boots["boot"].to_numpy()
        ends = (int(numbers.min()) - closing.NEAR, int(numbers.max()) + closing.NEAR)
        where = pc.field("device").isin(boots["device"].unique().to_pylist())
        where &= (pc.field("boot") >= ends[0]) & (pc.field("boot") <= ends[1])
        rows = _read(self._dir / "totals", files, closing.SCHEMA, where)
        return rows.filter(pa.array(_are_near(rows, boots)))

    # --- What changes ---

    def archived(self, rows: pa.Table, again: list[str]) -> tuple[list[dict], list[dict]]:
        """(new files, files that they replace), with these rows more, and without any of the
        devices `again`."""
        return self._changed("totals", self._archive, rows, _NO_KEYS, again)

    def booted(
        self, rows: pa.Table, replaced: pa.Table, again: list[str]
    ) -> tuple[list[dict], list[dict]]:
        """As archived(), of `boots`. replaced: boots whose rows may be there."""
        return self._changed("boots", self._boots, rows, replaced, again)

    def _changed(
        self, name: str, files: list[dict], rows: pa.Table, keys: pa.Table, again: list[str]
    ) -> tuple[list[dict], list[dict]]:
        place, made, gone = self._dir / name, [], []
        for one in _holding(files, keys, again):
            if self._has_any(place, one, keys, again):
                found = _read(place, [one], rows.schema)
                kept = found.filter(pa.array(~_is_of(found, keys, again)))
                gone.append(one)
                made += _written(place, int(one["partition"]), kept)
        left = [one for one in files if one not in gone]
        for bucket, part in packed.split(rows, packed.BUCKETS):
            number = partition(bucket)
            mine = [one for one in left if int(one["partition"]) == number]
            merged = _small(mine, part.num_rows)
            whole = pa.concat_tables([part, _read(place, merged, rows.schema)])
            made += _written(place, number, whole)
            gone += merged
        return made, gone

    @staticmethod
    def _has_any(place: Store, file: dict, keys: pa.Table, again: list[str]) -> bool:
        """Reads no more than the keys of these boards."""
        names = [*keys["device"].unique().to_pylist(), *again]
        found = _read(place, [file], _KEYS, pc.field("device").isin(names))
        return bool(_is_of(found, keys, again).any())


_KEYS = pa.schema([closing.SCHEMA.field(name) for name in totals.KEY])
_NO_KEYS = closing.SCHEMA.empty_table()


def _turns(devices: np.ndarray, spans: np.ndarray) -> list[tuple[int, int, bool]]:
    """(device, span, whether it is the device's first) in the order of their turn."""
    pairs, rank, found = np.unique(np.stack([devices, spans]), axis=1).T.tolist(), 0, []
    for at, (device, span) in enumerate(pairs):
        rank = rank + 1 if at and pairs[at - 1][0] == device else 0
        found.append((rank, device, span))
    return [(device, span, not rank) for rank, device, span in sorted(found)]


def _small(files: list[dict], rows: int) -> list[dict]:
    """Those to merge with so many new rows."""
    found = []
    for one in sorted(files, key=lambda file: file["rows"]):
        if one["rows"] > _LARGER * rows or rows + one["rows"] > _MERGED_MOST:
            break
        found.append(one)
        rows += one["rows"]
    return found


def _holding(files: list[dict], keys: pa.Table, again: list[str]) -> list[dict]:
    """The files that can hold these boots, or any of the devices `again`."""
    wanted = keys.select(["device", "boot"]).group_by(["device", "boot"]).aggregate([])
    names = sorted({*wanted["device"].to_pylist(), *again})
    ends, found = _ends(files, names), np.zeros(len(files), bool)
    for device in again:
        found |= ends.can_hold(names.index(device), -1, 1 << 31)
    places = {name: at for at, name in enumerate(names)}
    for device, boot in zip(*(wanted[n].to_pylist() for n in ("device", "boot")), strict=True):
        found |= ends.can_hold(places[device], boot, boot)
    return [one for one, is_in in zip(files, found, strict=True) if is_in]


def _is_of(rows: pa.Table, keys: pa.Table, again: list[str]) -> np.ndarray:
    found = pc.is_in(rows["device"], value_set=pa.array(again, pa.string())).to_numpy()
    if keys.num_rows:
        mine = pc.is_in(totals.key_names(rows), value_set=totals.key_names(keys))
        found = found | mine.to_numpy(zero_copy_only=False)
    return found


def _are_near(rows: pa.Table, boots: pa.Table) -> np.ndarray:
    """Which rows are of a boot whose number differs by at most NEAR from one of these."""
    streams = totals.key_names(boots, schemas.KEY)
    codes = pc.index_in(totals.key_names(rows, schemas.KEY), value_set=streams)
    known = pc.is_valid(codes).to_numpy(zero_copy_only=False)
    # the place of the stream's first row stands for it
    mine = pc.index_in(streams, value_set=streams).to_numpy().astype(np.int64)
    wanted = np.sort((mine << 32) + boots["boot"].to_numpy())
    values = pc.fill_null(codes, 0).to_numpy(zero_copy_only=False).astype(np.int64) << 32
    values = values + rows["boot"].to_numpy()
    at = np.searchsorted(wanted, values - closing.NEAR)
    return known & (at < len(wanted)) & (
        wanted[np.minimum(at, len(wanted) - 1)] <= values + closing.NEAR
    )  # fmt: skip


def _read(
    place: Store, files: list[dict], schema: pa.Schema, where: pc.Expression | None = None
) -> pa.Table:
    if where is None:
        return tables.read_files(place, map(delta.name_of, files), schema)
    return tables.read_near(place, files, schema, where)


def _written(place: Store, number: int, rows: pa.Table) -> list[dict]:
    rows = rows.sort_by(_ORDER)
    parts = [rows.slice(at, _MERGED_MOST) for at in range(0, rows.num_rows, _MERGED_MOST)]
    numbers = [name for name, kind in _leaves(rows.schema) if _is_number(kind)]
    texts = [name for name, kind in _leaves(rows.schema) if not _is_number(kind)]
    # Of each board, boots follow each other, and so do all their numbers and times.
    options = {"row_group_size": _GROUP_ROWS, "use_dictionary": texts}
    options |= {"column_encoding": dict.fromkeys(numbers, "DELTA_BINARY_PACKED")}
    return [delta.write(place, part, str(number), "bucket", **options) for part in parts]


def _leaves(fields: Iterable[pa.Field], before: str = "") -> Iterator[tuple[str, pa.DataType]]:
    """The columns as Parquet names them, but for those in lists."""
    for one in fields:
        if pa.types.is_struct(one.type):
            yield from _leaves(one.type, f"{before}{one.name}.")
        else:
            yield f"{before}{one.name}", one.type


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_timestamp(kind)
