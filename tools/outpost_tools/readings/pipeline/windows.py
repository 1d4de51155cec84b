"""Windows of readings: per device, metric and unit, with Arrow and no Spark.

Readings are sorted by time before they are added up, because a sum of floats depends on its order,
and that must depend neither on the number of machines nor on when a window was computed. So a
window whose new readings are all later than its old ones continues from its sum, with the same
result as from all its readings at once; any other window is recomputed.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from outpost_tools.readings.pipeline import gold_schemas

KEY = ["device", "name", "unit", "start"]
NEEDED = ["device", "stream", "seq", "record", "name", "unit", "value", "time"]
_NAMES = gold_schemas.WINDOWS.names
_ORDER = ["device", "name", "unit", "time", "stream", "seq", "record"]


def with_start(rows: pa.Table, seconds: float) -> pa.Table:
    """The readings that have a time, with the beginning of their window."""
    rows = rows.filter(pc.is_valid(rows["time"])).select(NEEDED)
    width = width_us(seconds)
    starts = rows["time"].cast(pa.int64()).to_numpy() // width * width
    return rows.append_column("start", pa.array(starts).cast(rows["time"].type))


def width_us(seconds: float) -> int:
    return round(seconds * 1000) * 1000


def of_rows(rows: pa.Table) -> pa.Table:
    """The windows of rows of with_start()."""
    found = _sums(rows)
    mean = pc.divide(found["sum"], found["count"].cast(pa.float64()))
    return found.append_column("mean", mean).select(_NAMES).cast(gold_schemas.WINDOWS)


def _sums(rows: pa.Table) -> pa.Table:
    rows = rows.sort_by([(name, "ascending") for name in _ORDER])
    whats = [("value", what) for what in ("count", "min", "max", "sum", "last")]
    found = rows.group_by(KEY, use_threads=False).aggregate([*whats, ("time", "last")])
    names = {f"value_{what}": what for _, what in whats} | {"time_last": "last_time"}
    return found.rename_columns([names.get(name, name) for name in found.column_names])


def going_on(there: pa.Table, rows: pa.Table) -> tuple[pa.Table, pa.Table, pa.Table]:
    """(windows of `there` extended by rows that come after all they have, the other windows, the
    other windows' rows). rows: of with_start(), all of these windows."""
    at = pc.index_in(_names(rows), value_set=_names(there))
    early = pc.less_equal(rows["time"], there["last_time"].take(at))
    again = np.zeros(there.num_rows, bool)
    again[at.filter(early).to_numpy()] = True
    mine = ~again[at.to_numpy()]
    before, after = there.filter(pa.array(~again)), rows.filter(pa.array(mine))
    return _added(before, after), there.filter(pa.array(again)), rows.filter(pa.array(~mine))


def _added(before: pa.Table, rows: pa.Table) -> pa.Table:
    """Each window of `before` has some of the rows. Its sum precedes them as a value."""
    sums = [before[name] for name in ("device", "name", "unit", "start")]
    columns = dict(zip(KEY, sums, strict=True)) | {"time": before["last_time"]}
    columns |= {"value": before["sum"]}
    first = pa.table(
        [columns.get(f.name, pa.nulls(before.num_rows, f.type)) for f in rows.schema],
        schema=rows.schema,
    )
    summed, new = _sums(pa.concat_tables([first, rows])), _sums(rows)
    of_new, of_sum = (pc.index_in(_names(before), value_set=_names(t)) for t in (new, summed))
    new, total = new.take(of_new), summed["sum"].take(of_sum)
    count = pc.add(before["count"], new["count"])
    found = {name: before[name] for name in KEY} | {"count": count, "sum": total}
    found |= {"min": pc.min_element_wise(before["min"], new["min"])}
    found |= {"max": pc.max_element_wise(before["max"], new["max"])}
    found |= {"mean": pc.divide(total, count.cast(pa.float64()))}
    found |= {name: new[name] for name in ("last", "last_time")}
    return pa.table(found).select(_NAMES).cast(gold_schemas.WINDOWS)


def is_of(rows: pa.Table, keys: pa.Table) -> np.ndarray:
    """Which rows have one of these KEYs."""
    found = pc.is_in(_names(rows), value_set=_names(keys))
    return found.to_numpy(zero_copy_only=False)


def in_order(rows: pa.Table, keys: pa.Table) -> pa.Table:
    """The rows that have one of these KEYs, in their order."""
    at = pc.index_in(_names(keys), value_set=_names(rows))
    return rows.take(at.drop_null())


def _names(rows: pa.Table) -> pa.Array:
    """A name may be any text, so its length precedes it; a missing unit has no length."""
    parts = [rows["start"].cast(pa.int64()).cast(pa.string())]
    for name in KEY[:3]:
        length = pc.binary_length(rows[name]).cast(pa.string())
        parts += [pc.fill_null(part, "") for part in (length, rows[name])]
    joined = pc.binary_join_element_wise(*parts, ":")
    return joined.combine_chunks() if isinstance(joined, pa.ChunkedArray) else joined
