"""The small gold tables, from `totals` and the state `streams`: `gaps`, `devices`, `latency`,
`boots`. No Spark.

Their input has a row per open boot, and one for all closed boots of a stream (folded.py). All
devices are computed at once, with Arrow and numpy: a round of 5,000 readings may touch a thousand
devices, and one pandas call for each would take a second.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from outpost_tools.readings.pipeline import conflicts, folded, health, promises, schemas
from outpost_tools.readings.pipeline import gold_schemas as gold

_TIME = pa.timestamp("us", "UTC")


def made(pieces: pa.Table, streams: pa.Table) -> dict[str, pa.Table]:
    """All but `boots`, for the same devices."""
    if not pieces.num_rows:
        return {name: pieces.slice(0, 0) for name in ("latency", "gaps", "devices")}
    missing = gaps(streams)
    return {
        "latency": latency(pieces),
        "gaps": missing,
        "devices": devices(pieces, streams, missing),
    }


# --- gaps ---


def gaps(streams: pa.Table) -> pa.Table:
    """Missing sequence ranges, starting from the lowest `held` seen.

    `closed`: below the highest `held`, so it will never arrive. A gap that straddles that number is
    split there.
    """
    firsts, lasts, at = _ranges(streams)
    held_min, held_max = (streams[name].to_numpy()[at] for name in ("held_min", "held_max"))
    starts = held_min.copy()
    goes_on = at[1:] == at[:-1]
    starts[1:][goes_on] = np.maximum(held_min[1:], lasts[:-1] + 1)[goes_on]
    parts = {
        "closed": (starts, np.minimum(firsts, held_max) - 1),
        "open": (np.maximum(starts, held_max), firsts - 1),
    }
    found = [_gaps(streams, at, *ends, state) for state, ends in parts.items()]
    return pa.concat_tables(found).sort_by(
        [(name, "ascending") for name in (*schemas.KEY, "first")]
    )


def _ranges(streams: pa.Table) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(first number, last number, row of its stream) of each range."""
    lists = streams["ranges"].combine_chunks()
    flat, at = (part(lists).to_numpy() for part in (pc.list_flatten, pc.list_parent_indices))
    return flat[0::2], flat[1::2], at[0::2]


def _gaps(
    streams: pa.Table, at: np.ndarray, firsts: np.ndarray, lasts: np.ndarray, state: str
) -> pa.Table:
    """Rows of GAPS; where the first is above the last, there is no gap."""
    is_gap = firsts <= lasts
    first, last, at = firsts[is_gap], lasts[is_gap], at[is_gap]
    columns = [*(streams[name].take(at) for name in schemas.KEY), first, last, last - first + 1]
    return pa.table([*columns, pa.repeat(state, len(at))], schema=gold.GAPS)


# --- latency ---


def latency(pieces: pa.Table) -> pa.Table:
    """Per device: milliseconds from the reading's time to its first arrival, one value per
    message."""
    lists = (
        pieces["delays"]
        .combine_chunks()
        .cast(pa.list_(pa.struct([("key", pa.int64()), ("value", pa.int64())])))
    )
    pairs, parents = pc.list_flatten(lists), pc.list_parent_indices(lists)
    columns = [pieces["device"].take(parents), pairs.field(0), pairs.field(1)]
    counts = _grouped(pa.table(columns, names=["device", "ms", "count"]), ["device", "ms"], "count")
    counts = counts.sort_by([("device", "ascending"), ("ms", "ascending")])
    values, weights = (counts[name].to_numpy() for name in ("ms", "count"))
    begins = np.flatnonzero(_begins(counts, ["device"]))
    found = pa.table({"device": counts["device"].take(begins)})
    total = np.add.reduceat(weights, begins) if len(begins) else weights
    found = found.append_column("count", pa.array(total))
    for part, name in zip(gold.PERCENTILES, gold.LATENCY.names[2:], strict=False):
        found = found.append_column(name, pa.array(percentiles(values, weights, begins, part)))
    largest = pieces.group_by("device", use_threads=False).aggregate([("delay_max_ms", "max")])
    found = _with(found, largest.rename_columns(["device", "max_ms"]))
    return found.cast(gold.LATENCY)


def percentiles(
    values: np.ndarray, weights: np.ndarray, begins: np.ndarray, part: float
) -> np.ndarray:
    """The percentile of each part of `values`, which begins at `begins`: ascending values that
    occur `weights` times each; interpolated linearly between two neighbours."""
    ends = np.cumsum(weights)
    before = ends[begins] - weights[begins]
    place = part * (np.append(before[1:], ends[-1:]) - before - 1)
    low, high = (
        values[np.searchsorted(ends, before + index.astype(np.int64), side="right")]
        for index in (np.floor(place), np.ceil(place))
    )
    return low + (high - low) * (place - np.floor(place))


# --- devices ---


def devices(pieces: pa.Table, streams: pa.Table, missing: pa.Table) -> pa.Table:
    """Per device: when seen, boots, messages, copies, missing numbers, the outbox's backlog (seq -
    held), its health."""
    rows = pieces.drop_columns(["delays"]).flatten()
    is_board = promises.of_boards(pieces["stream"]).to_numpy()
    rows = rows.append_column("boots", pa.array(folded.boots_of(pieces) * is_board))
    whats = [("first_received", "min"), ("last_received", "max"), ("readings", "sum")]
    whats += [("without_time", "sum"), ("backlog_max", "max"), ("boots", "sum")]
    names = ["first_seen", "last_seen", "readings", "readings_without_time", "backlog_max", "boots"]
    found = rows.group_by("device", use_threads=False).aggregate(whats)
    found = found.rename_columns(["device", *names])
    last = {"boot": "last_boot", "last.backlog": "backlog_last"}
    found = _with(found, _newest(rows, ["last.received", "stream", "last.seq"], last))
    for name in ("battery", "reset_cause"):
        order = [f"{name}.received", f"{name}.seq", "stream"]
        found = _with(found, _newest(rows, order, {f"{name}.value": name}))
    for more in (*health.of_devices(rows).values(), _copies(streams), *_missing(missing)):
        found = _with(found, more)
    columns = {name: found[name] for name in gold.DEVICES.names}
    columns |= {name: pc.fill_null(found[name], 0) for name in gold.DEVICE_COUNTS}
    return pa.table(columns).cast(gold.DEVICES)


def _newest(rows: pa.Table, order: list[str], wanted: dict[str, str]) -> pa.Table:
    """`device` and these columns under their new names, from the last row of each device that has
    the first column of `order`."""
    known = rows.filter(pc.is_valid(rows[order[0]])).sort_by([(one, "ascending") for one in order])
    last = known.group_by("device", use_threads=False).aggregate([(n, "last") for n in wanted])
    return last.rename_columns(["device", *wanted.values()])


def _copies(streams: pa.Table) -> pa.Table:
    """received: message frames in the log; messages: distinct ones; conflicts: other messages with
    one of their numbers; redelivered: the rest, exact. two_boards, went_back: streams whose
    conflicts show this."""
    firsts, lasts, at = _ranges(streams)
    messages = np.zeros(streams.num_rows, np.int64)
    np.add.at(messages, at, lasts - firsts + 1)
    received = streams["copies"].to_numpy()
    conflicting = pc.fill_null(streams["conflicts"], 0).to_numpy()
    two = pc.fill_null(streams["twin_signs"], 0).to_numpy() >= conflicts.TWIN_SIGNS
    columns = {"received": received, "messages": messages, "conflicts": conflicting}
    columns |= {"redelivered": received - messages - conflicting, "two_boards": two}
    columns |= {"went_back": (conflicting > 0) & ~two, "streams": np.ones(len(two))}
    sums = {name: values.astype(np.int64) for name, values in columns.items()}
    return _grouped(pa.table({"device": streams["device"], **sums}), ["device"], *sums)


def _missing(gap_rows: pa.Table) -> list[pa.Table]:
    found = []
    for state in ("closed", "open"):
        rows = _grouped(gap_rows.filter(pc.equal(gap_rows["state"], state)), ["device"], "count")
        found.append(rows.rename_columns(["device", f"missing_{state}"]))
    return found


# --- boots ---


def boots(rows: pa.Table) -> pa.Table:
    """Per boot of a board: its numbers, readings and times; and for a boot without a known clock,
    the bounds of its time: those that its neighbours give (closing.py), or its arrival."""
    rows = rows.filter(promises.of_boards(rows["stream"]))
    has_time = pc.equal(rows["without_time"], 0)
    none, ends = pa.scalar(None, _TIME), ("not_after", "first_received")
    earliest = pc.min_element_wise(*(rows[name].cast(pa.int64()) for name in ends))
    bounds = {"not_before": rows["not_before"], "not_after": earliest.cast(_TIME)}
    bounds = {name: pc.if_else(has_time, none, ends) for name, ends in bounds.items()}
    columns = [bounds.get(name, rows[name]) for name in gold.BOOTS.names]
    return pa.table(columns, schema=gold.BOOTS)


# --- Arrow ---


def _begins(rows: pa.Table, names: list[str]) -> np.ndarray:
    """Which of the sorted rows differ in `names` from the preceding row."""
    new = np.zeros(rows.num_rows, dtype=bool)
    new[:1] = True
    for name in names:
        column = rows[name].combine_chunks()
        new[1:] |= pc.not_equal(column[1:], column[:-1]).to_numpy(zero_copy_only=False)
    return new


def _grouped(rows: pa.Table, key: list[str], *sums: str) -> pa.Table:
    found = rows.group_by(key, use_threads=False).aggregate([(name, "sum") for name in sums])
    return found.select([*key, *(f"{name}_sum" for name in sums)]).rename_columns([*key, *sums])


def _with(found: pa.Table, more: pa.Table) -> pa.Table:
    """Adds the columns of `more` to the rows of the same device; null where it has none."""
    at = pc.index_in(found["device"], value_set=more["device"].combine_chunks())
    for name in more.column_names[1:]:
        found = found.append_column(name, more[name].take(at))
    return found
