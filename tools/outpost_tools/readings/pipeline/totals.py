"""What is known about each boot, in sums that can be added to: the input of the small gold tables
(summaries.py). Arrow, no Spark.

One row per device, stream and boot; folded.py makes one of many boots. The rows of new readings are
added to the existing ones. The result is that of all readings together, because nothing in a row
depends on an order: counts, minima, maxima, and the last values by number or arrival. A reading
that got its time later is added once more, with only its time (of_placed()).

Delays are kept as counts by milliseconds rounded to three significant digits, which can be added,
unlike percentiles; the maximum is exact.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from outpost_tools.messages import arrival
from outpost_tools.readings.pipeline import gold_schemas, health, promises, schemas

KEY = [*schemas.KEY, "boot"]
BOUNDS = {"not_before": "max", "not_after": "min"}
NEEDED = [
    *KEY, "seq", "record", "held", "name", "value", "time", "placed", "guarantee", "received",
    "clock_unset",
]  # fmt: skip
# Metrics of the firmware and of its users that describe the device's own health: their last value
# is shown.
HEALTH = {"battery": ("battery", "battery_v", "vbat"), "reset_cause": ("reset_cause",)}
SUMS = ("readings", "without_time", "placed")
_ENDS = tuple((end, name) for name in ("seq", "received", "time") for end in ("first", "last"))
_LASTS = {"last": ("received", "seq", "backlog")}
_LASTS |= dict.fromkeys(HEALTH, ("received", "seq", "value"))
_LASTS |= dict.fromkeys(health.NAMES, ("seq", "value"))
_PAIRS = pa.list_(pa.struct([("key", pa.int64()), ("value", pa.int64())]))


def of_rows(rows: pa.Table) -> pa.Table:
    """The totals of only these readings."""
    return joined(_facts(rows), _delays(rows), KEY)


def of_placed(rows: pa.Table) -> pa.Table:
    """What to add when readings that were counted without a time have got one."""
    found = of_rows(rows)
    for name, values in (("readings", 0), ("without_time", pc.negate(found["placed"]))):
        column = pa.array([values] * found.num_rows, pa.int64()) if values == 0 else values
        found = found.set_column(found.schema.get_field_index(name), name, column)
    return found.cast(gold_schemas.TOTALS)


def added(parts: list[pa.Table]) -> pa.Table:
    """The totals of everything in the parts."""
    rows = pa.concat_tables([gold_schemas.TOTALS.empty_table(), *parts])
    if not rows.num_rows:
        return rows
    return joined(_combined(rows), sum_of_delays(rows, KEY), KEY)


def _facts(rows: pa.Table) -> pa.Table:
    """Rows of TOTALS without the delays, one per reading, then combined."""
    at = rows.schema.get_field_index("received")
    rows = rows.set_column(at, rows.schema.field(at), arrival.seen_of(rows))
    is_null = pc.is_null(rows["time"])
    backlog = pc.subtract(rows["seq"], rows["held"])
    columns = {name: rows[name] for name in KEY}
    columns["readings"] = pa.array(np.ones(rows.num_rows, np.int64))
    columns["without_time"] = is_null.cast(pa.int64())
    columns["placed"] = pc.fill_null(rows["placed"], False).cast(pa.int64())
    columns |= {f"{end}_{name}": rows[name] for end, name in _ENDS}
    columns["backlog_max"] = backlog
    columns |= {name: pa.nulls(rows.num_rows, rows.schema.field("time").type) for name in BOUNDS}
    given = {name: rows[name] for name in ("received", "seq", "value")} | {"backlog": backlog}
    for name, fields in _LASTS.items():
        missing = None if name == "last" else pc.invert(_is_told(rows, name))
        for field in fields:
            empty = pa.scalar(None, given[field].type)
            values = given[field] if missing is None else pc.if_else(missing, empty, given[field])
            columns[f"{name}.{field}"] = values
    return _combined_flat(pa.table(columns))


def _is_told(rows: pa.Table, name: str) -> pa.Array:
    """Which readings report this of the board's health. A value that cannot be a count belongs to
    a metric of a user with the same name."""
    is_it = pc.is_in(rows["name"], pa.array(HEALTH.get(name, (name,))))
    if name not in health.NAMES:
        return is_it
    return pc.and_(is_it, pa.array(health.is_count(rows["value"].to_numpy())))


def _combined(rows: pa.Table) -> pa.Table:
    return _combined_flat(rows.drop_columns(["delays", "delay_max_ms"]).flatten())


def _combined_flat(rows: pa.Table) -> pa.Table:
    """One row per KEY; structs as columns NAME.FIELD."""
    found = combined(rows, KEY, list(BOUNDS.items()))
    at = places(rows, found, KEY)
    for name, fields in _LASTS.items():
        found = with_last(found, rows, at, [f"{name}.{field}" for field in fields])
    return found


def combined(rows: pa.Table, key: list[str], more: list[tuple[str, str]]) -> pa.Table:
    """One row per key: sums, ends, and of the columns in `more` (name, what) that."""
    ends = [(f"{end}_{name}", "min" if end == "first" else "max") for end, name in _ENDS]
    how = [(name, "sum") for name in SUMS] + ends + [("backlog_max", "max"), *more]
    found = rows.group_by(key, use_threads=False).aggregate(how)
    found = found.select([*key, *(f"{name}_{what}" for name, what in how)])
    return found.rename_columns([*key, *(name for name, _ in how)])


def places(rows: pa.Table, found: pa.Table, key: list[str]) -> pa.Array:
    """For each of `rows`, the place of its key in `found`, which has all keys once."""
    return pc.index_in(key_names(rows, key), value_set=key_names(found, key))


def with_last(
    found: pa.Table, rows: pa.Table, at: pa.Array, names: list[str], also: tuple[str, ...] = ()
) -> pa.Table:
    """The maximum of these columns, compared in their order, for each of `found` that has any; with
    the columns `also` of the row that has it. at: places() of `rows`."""
    known = rows.select([*names, *also]).append_column("at", at)
    known = known.filter(pc.is_valid(rows[names[0]]))
    if known.num_rows:
        known = known.sort_by([(name, "ascending") for name in ("at", *names)])
    for name in (*names, *also):
        values = _last_of_each(known["at"].to_numpy(), known[name], found.num_rows)
        found = found.append_column(name, values)
    return found


def _last_of_each(at: np.ndarray, values: pa.ChunkedArray, count: int) -> pa.ChunkedArray:
    """The last value that is not null, for each of `count` places. at: ascending."""
    if values.null_count:
        is_known = values.is_valid()
        at, values = at[is_known.to_numpy()], values.filter(is_known)
    ends = np.flatnonzero(np.diff(at, append=-1))
    last = np.full(count, -1)
    last[at[ends]] = ends
    return values.take(pa.array(last, mask=last < 0))


def key_names(rows: pa.Table, key: list[str] = KEY) -> pa.Array:
    parts = [rows[name].cast(pa.string()) for name in key]
    joined = pc.binary_join_element_wise(*parts, schemas.BETWEEN)
    return joined.combine_chunks() if isinstance(joined, pa.ChunkedArray) else joined


def _delays(rows: pa.Table) -> pa.Table:
    """KEY, ms, count, max_ms: one value per message whose time and arrival are known, and are not
    the same by definition."""
    is_arrival = promises.are_foreign(rows) & pc.is_valid(rows["placed"]).to_numpy()
    rows = rows.filter(pa.array(~is_arrival)).filter(pc.field("clock_unset").is_null())
    rows = rows.filter(pc.and_(pc.equal(rows["record"], 0), pc.is_valid(rows["time"])))
    received, time = (rows[name].cast(pa.int64()).to_numpy() for name in ("received", "time"))
    delay_ms = np.rint((received - time) / 1000).astype(np.int64)
    columns = [*(rows[name] for name in KEY), three_digits(delay_ms), delay_ms]
    counted = pa.table(columns, names=[*KEY, "ms", "max_ms"]).append_column(
        "count", pa.array(np.ones(len(delay_ms), np.int64))
    )
    return _grouped(counted, KEY)


def _grouped(counted: pa.Table, key: list[str]) -> pa.Table:
    names = [*key, "ms"]
    how = [("count", "sum"), ("max_ms", "max")]
    found = counted.group_by(names, use_threads=False).aggregate(how)
    found = found.select([*names, "count_sum", "max_ms_max"])
    return found.rename_columns([*names, "count", "max_ms"])


def sum_of_delays(rows: pa.Table, key: list[str]) -> pa.Table:
    """As _delays(), of rows of TOTALS."""
    lists = rows["delays"].combine_chunks().cast(_PAIRS)
    pairs, parents = pc.list_flatten(lists), pc.list_parent_indices(lists)
    columns = [*(rows[name].take(parents) for name in key), pairs.field(0), pairs.field(1)]
    counted = pa.table([*columns, rows["delay_max_ms"].take(parents)],
                       names=[*key, "ms", "count", "max_ms"])  # fmt: skip
    return _grouped(counted, key)


def joined(facts: pa.Table, delays: pa.Table, key: list[str]) -> pa.Table:
    """Rows of TOTALS: facts, with the delays of each key as a map. What they lack is null."""
    delays = delays.append_column("at", places(delays, facts, key))
    delays = delays.sort_by([("at", "ascending"), ("ms", "ascending")])
    at = delays["at"].to_numpy().astype(np.int64)
    counts = np.bincount(at, minlength=facts.num_rows)
    highest = np.full(facts.num_rows, np.iinfo(np.int64).min)
    np.maximum.at(highest, at, delays["max_ms"].to_numpy())
    offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]), pa.int32())
    ms, count = (delays[name].combine_chunks() for name in ("ms", "count"))
    columns = {name: facts[name] for name in facts.column_names if "." not in name}
    for name, fields in _LASTS.items():
        columns[name] = _struct(facts, name, fields)
    columns["delays"] = pa.MapArray.from_arrays(offsets, ms, count)
    columns["delay_max_ms"] = pa.array(highest, mask=counts == 0)
    arrays = [
        columns[one.name] if one.name in columns else pa.nulls(facts.num_rows, one.type)
        for one in gold_schemas.TOTALS
    ]
    return pa.table(arrays, names=gold_schemas.TOTALS.names).cast(gold_schemas.TOTALS)


def _struct(facts: pa.Table, name: str, fields: tuple[str, ...]) -> pa.Array:
    kind = gold_schemas.TOTALS.field(name).type
    values = [facts[f"{name}.{field}"].combine_chunks() for field in fields]
    return pa.StructArray.from_arrays(
        [value.cast(kind.field(field).type) for field, value in zip(fields, values, strict=True)],
        fields=[kind.field(field) for field in fields],
    )


def three_digits(numbers: np.ndarray) -> np.ndarray:
    """Integers rounded, half away from 0, to their three leading digits."""
    size = np.abs(numbers)
    digits = np.char.str_len(size.astype(str)) if len(size) else np.zeros(0, np.int64)
    unit = 10 ** np.maximum(digits.astype(np.int64) - 3, 0)
    return np.sign(numbers) * ((size + unit // 2) // unit * unit)
