"""One row of `totals` for all closed boots of a stream. Arrow, no Spark.

It has the columns of a boot, combined over the boots: sums, minima, maxima, the last values by
arrival, delays. Different from a boot's row are

- `boot`: that of `last`;
- `closed` and `timeless`: the boots themselves as ranges (first, last, first, ...), and those of
  them that had readings without a time. The second may have more boots than that, never fewer;
- a count of health: `value` is the sum of each boot's last value, `seq` how many boots reported it;
- a state of health: NAME_received is the last arrival from the boot that reported it, by which
  states are ordered.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from outpost_tools.readings.pipeline import gold_schemas, health, schemas, totals

KIND = 1  # of a folded row, in `kind`
_KEY = schemas.KEY
_SHIFT = 32  # of a stream's code, above the number of a boot
_SETS = ("closed", "timeless")
Ranges = tuple[np.ndarray, np.ndarray]


def of_boots(rows: pa.Table) -> pa.Table:
    """Each of these rows of boots as that of a stream with only this boot."""
    flags = {"closed": np.ones(rows.num_rows, bool)}
    flags["timeless"] = pc.greater(rows["without_time"], 0).to_numpy()
    boots = rows["boot"].to_numpy()
    found = {name: _lists(np.repeat(boots[is_in], 2), 2 * is_in) for name, is_in in flags.items()}
    for name in health.STATES:
        arrival = pc.struct_field(rows["last"], "received")
        is_told = _is_told(rows, name)
        found |= {name: _told(rows, name, is_told)}
        found |= {f"{name}_received": pc.if_else(is_told, arrival, pa.scalar(None, arrival.type))}
    for name in health.COUNTS:
        found[name] = _told(rows, name, _is_told(rows, name), seq=1)
    found["kind"] = pa.repeat(pa.scalar(KIND, pa.int8()), rows.num_rows)
    return _replaced(rows, found)


def correction(delta: pa.Table, before: pa.Table, after: pa.Table) -> pa.Table:
    """What to add for boots that were folded as `before` and are `after` with `delta`; rows of the
    same boots in the same order."""
    found = of_boots(after)
    old = of_boots(before)
    more = {name: delta[name] for name in (*totals.SUMS, "delays", "delay_max_ms")}
    for name in health.COUNTS:
        fields = {}
        for field in ("seq", "value"):
            values = [pc.struct_field(part[name], field) for part in (found, old)]
            fields[field] = pc.subtract(values[0], pc.coalesce(values[1], _zero(values[1].type)))
        more[name] = _struct(found.schema.field(name).type, fields)
    return _replaced(found, more)


def added(parts: list[pa.Table]) -> pa.Table:
    """One row per stream, of rows of streams."""
    rows = pa.concat_tables([gold_schemas.TOTALS.empty_table(), *parts])
    sets = {name: _union(rows, name) for name in _SETS}
    delays = totals.sum_of_delays(rows, _KEY)
    rows = rows.drop_columns(["delays", "delay_max_ms", *_SETS]).flatten()
    counts = [(f"{name}.{part}", "sum") for name in health.COUNTS for part in ("seq", "value")]
    found = totals.combined(rows, _KEY, counts)
    at = totals.places(rows, found, _KEY)
    last = ["last.received", "last.seq", "last.backlog"]
    found = totals.with_last(found, rows, at, last, ("boot",))
    for name in totals.HEALTH:
        names = [f"{name}.{part}" for part in ("received", "seq", "value")]
        found = totals.with_last(found, rows, at, names)
    for name in health.STATES:
        names = [f"{name}_received", f"{name}.seq", f"{name}.value"]
        found = totals.with_last(found, rows, at, names)
    kind = pa.repeat(pa.scalar(KIND, pa.int8()), found.num_rows)
    found = found.append_column("kind", kind)
    for name, (streams, lists) in sets.items():
        at = pc.index_in(totals.key_names(found, _KEY), value_set=streams)
        found = found.append_column(name, lists.take(at))
    return totals.joined(found, delays, _KEY)


def boots_of(rows: pa.Table) -> np.ndarray:
    """How many boots each row of `totals` stands for."""
    firsts, lasts = ranges(rows["closed"])
    at = pc.list_parent_indices(rows["closed"].combine_chunks()).to_numpy()[::2]
    counts = np.bincount(at, lasts - firsts + 1, rows.num_rows).astype(np.int64)
    return np.where(pc.is_valid(rows["closed"]).to_numpy(), counts, 1)


def ranges(lists: pa.ChunkedArray) -> Ranges:
    """(firsts, lasts) of all lists."""
    flat = pc.list_flatten(lists).to_numpy().astype(np.int64)
    return flat[0::2], flat[1::2]


class Sets:
    """Which boots of which streams are closed, or timeless, by rows of streams."""

    def __init__(self, rows: pa.Table, name: str) -> None:
        self._streams = totals.key_names(rows, _KEY)
        at = pc.list_parent_indices(rows[name].combine_chunks()).to_numpy()[::2].astype(np.int64)
        firsts, lasts = ranges(rows[name])
        order = np.lexsort((firsts, at))
        self._firsts, self._lasts = ((at << _SHIFT) + ends for ends in (firsts, lasts))
        self._firsts, self._lasts = self._firsts[order], self._lasts[order]

    def has_within(self, rows: pa.Table, distance: int) -> np.ndarray:
        """For each row, whether a boot is in the set whose number differs by so much at most."""
        if not len(self._firsts) or not rows.num_rows:
            return np.zeros(rows.num_rows, bool)
        code = pc.index_in(totals.key_names(rows, _KEY), value_set=self._streams)
        known = pc.is_valid(code).to_numpy(zero_copy_only=False)
        base = pc.fill_null(code, 0).to_numpy(zero_copy_only=False).astype(np.int64) << _SHIFT
        boot = rows["boot"].to_numpy().astype(np.int64)
        low, high = base + np.maximum(boot - distance, 0), base + boot + distance
        at = np.searchsorted(self._lasts, low)
        nearest = self._firsts[np.minimum(at, len(self._firsts) - 1)]
        return known & (at < len(self._firsts)) & (nearest <= high)


def _union(rows: pa.Table, name: str) -> tuple[pa.Array, pa.ListArray]:
    """(streams, the ranges of each), adjacent ones merged."""
    encoded = totals.key_names(rows, _KEY).dictionary_encode()
    streams = encoded.dictionary
    firsts, lasts = ranges(rows[name])
    at = pc.list_parent_indices(rows[name].combine_chunks()).to_numpy()[::2]
    code = encoded.indices.to_numpy()[at].astype(np.int64)
    order = np.lexsort((firsts, code))
    firsts, lasts = ((code << _SHIFT) + ends for ends in (firsts, lasts))
    firsts, lasts = firsts[order], np.maximum.accumulate(lasts[order])
    begins = np.flatnonzero(np.append(True, firsts[1:] > lasts[:-1] + 1)[: len(firsts)])
    firsts, ends = firsts[begins], lasts[np.append(begins[1:], len(lasts))[: len(begins)] - 1]
    counts = np.bincount(firsts >> _SHIFT, minlength=len(streams))
    flat = np.stack([firsts, ends], axis=1).ravel() & ((1 << _SHIFT) - 1)
    return streams, _lists(flat, 2 * counts)


def _lists(values: np.ndarray, lengths: np.ndarray) -> pa.ListArray:
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(values, pa.int32()))


def _is_told(rows: pa.Table, name: str) -> pa.Array:
    value = pc.struct_field(rows[name], "value").to_numpy()
    return pa.array(health.is_count(value))


def _told(rows: pa.Table, name: str, is_told: pa.Array, seq: int | None = None) -> pa.Array:
    """The column where that is so; with this `seq`, if given."""
    fields = {part: pc.struct_field(rows[name], part) for part in ("seq", "value")}
    if seq is not None:
        fields["seq"] = pa.repeat(pa.scalar(seq, pa.int64()), rows.num_rows)
    fields = {
        part: pc.if_else(is_told, values, pa.scalar(None, values.type))
        for part, values in fields.items()
    }
    return _struct(rows.schema.field(name).type, fields)


def _struct(kind: pa.StructType, fields: dict) -> pa.StructArray:
    values = [
        part.combine_chunks() if isinstance(part, pa.ChunkedArray) else part
        for part in fields.values()
    ]
    names = [kind.field(name) for name in fields]
    return pa.StructArray.from_arrays(
        [value.cast(one.type) for value, one in zip(values, names, strict=True)], fields=names
    )


def _zero(kind: pa.DataType) -> pa.Scalar:
    return pa.scalar(0, kind)


def _replaced(rows: pa.Table, columns: dict) -> pa.Table:
    """With these columns instead; without bounds, which the rows of streams do not have."""
    columns = {name: pa.nulls(rows.num_rows, rows.schema.field(name).type)
               for name in totals.BOUNDS} | columns  # fmt: skip
    arrays = [columns.get(name, rows[name]) for name in rows.column_names]
    return pa.table(arrays, names=rows.column_names).cast(gold_schemas.TOTALS)
