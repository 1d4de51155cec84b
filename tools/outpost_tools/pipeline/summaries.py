"""The small gold tables, from `totals` and the state `streams`: `gaps`, `devices`, `latency`,
`boots`. No Spark.

Their input has a row per boot, not per reading.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from outpost_tools.common import ranges
from outpost_tools.pipeline import conflicts, health, schemas
from outpost_tools.pipeline import gold_schemas as gold


def made(pieces: pa.Table, streams: pa.Table) -> dict[str, pa.Table]:
    """All four, of the same devices."""
    if not pieces.num_rows:
        return {name: pieces.slice(0, 0) for name in ("boots", "latency", "gaps", "devices")}
    missing = gaps(streams)
    return {
        "boots": boots(pieces),
        "latency": latency(pieces),
        "gaps": missing,
        "devices": devices(pieces, streams, missing),
    }


def gaps(streams: pa.Table) -> pa.Table:
    """Missing sequence ranges, from the lowest `held` seen on.

    `closed`: below the highest `held`, will never come.
    """
    rows = [gap for stream in streams.to_pylist() for gap in stream_gaps(stream)]
    columns = zip(*rows, strict=True) if rows else [[] for _ in gold.GAPS]
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, gold.GAPS, strict=True)],
        schema=gold.GAPS,
    )


def stream_gaps(stream: dict) -> list[tuple]:
    """The gaps of one row of `streams`; one that straddles `held_max` is cut there in two."""
    found, stored = [], ranges.of_pairs(stream["ranges"])
    for first, last in ranges.missing(stored, stream["held_min"]):
        limit = stream["held_max"]
        parts = [(first, min(last, limit - 1), "closed"), (max(first, limit), last, "open")]
        found += [
            (stream["device"], stream["stream"], a, b, b - a + 1, state)
            for a, b, state in parts
            if a <= b
        ]
    return found


def latency(pieces: pa.Table) -> pa.Table:
    """Per device: milliseconds from the reading's time to its first arrival, one figure per
    message."""
    lists = (
        pieces["delays"]
        .combine_chunks()
        .cast(pa.list_(pa.struct([("key", pa.int64()), ("value", pa.int64())])))
    )
    pairs, parents = pc.list_flatten(lists), pc.list_parent_indices(lists)
    counts = pa.table(
        [pieces["device"].take(parents), pairs.field(0), pairs.field(1)],
        names=["device", "ms", "count"],
    )
    counts = counts.group_by(["device", "ms"]).aggregate([("count", "sum")]).to_pandas()
    largest = (
        pieces.group_by("device")
        .aggregate([("delay_max_ms", "max")])
        .to_pandas()
        .set_index("device")["delay_max_ms_max"]
    )
    rows = []
    for device, group in counts.sort_values(["device", "ms"]).groupby("device"):
        values, weights = group["ms"].to_numpy(), group["count_sum"].to_numpy()
        parts = [percentile(values, weights, part) for part in gold.PERCENTILES]
        rows.append((device, int(weights.sum()), *parts, float(largest[device])))
    columns = zip(*rows, strict=True) if rows else [[] for _ in gold.LATENCY]
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, gold.LATENCY, strict=True)],
        schema=gold.LATENCY,
    )


def percentile(values: np.ndarray, weights: np.ndarray, part: float) -> float:
    """Of ascending values that occur `weights` times each; between two neighbours in a straight
    line."""
    ends = np.cumsum(weights)
    place = part * (ends[-1] - 1)
    low, high = (
        values[np.searchsorted(ends, index, side="right")]
        for index in (np.floor(place), np.ceil(place))
    )
    return float(low + (high - low) * (place - np.floor(place)))


def devices(pieces: pa.Table, streams: pa.Table, missing: pa.Table) -> pa.Table:
    """Per device: when seen, boots, messages, copies, what is missing, the outbox's backlog (seq -
    held), its health."""
    rows = pieces.drop_columns(["delays"]).flatten().to_pandas()
    newest = rows.sort_values(["last.received", "stream", "last.seq"]).groupby("device")
    groups = rows.groupby("device")
    found = groups.agg(
        first_seen=("first_received", "min"),
        last_seen=("last_received", "max"),
        readings=("readings", "sum"),
        readings_without_time=("without_time", "sum"),
        backlog_max=("backlog_max", "max"),
    )
    found["boots"] = rows.drop_duplicates(["device", "stream", "boot"]).groupby("device").size()
    found["last_boot"], found["backlog_last"] = (
        newest["boot"].last(),
        newest["last.backlog"].last(),
    )
    for name in ("battery", "reset_cause"):
        known = rows.sort_values([f"{name}.received", f"{name}.seq"], na_position="first")
        found[name] = known.groupby("device")[f"{name}.value"].last()
    found = found.join(health.of_devices(rows))
    found = found.join(_copies(streams)).join(_missing(missing)).reset_index()
    found[gold.DEVICE_COUNTS] = found[gold.DEVICE_COUNTS].fillna(0).astype("int64")
    return pa.Table.from_pandas(
        found[gold.DEVICES.names], schema=gold.DEVICES, preserve_index=False
    )


def _copies(streams: pa.Table) -> pd.DataFrame:
    """received: message frames in the log; messages: distinct ones; conflicts: other messages with
    a number of theirs; redelivered: the rest, exact. two_boards, went_back: streams whose conflicts
    say so."""
    rows = pd.DataFrame(
        {"device": streams["device"].to_pylist(), "received": streams["copies"].to_numpy()}
    )
    rows["conflicts"] = pc.fill_null(streams["conflicts"], 0).to_numpy()
    rows["two_boards"] = pc.fill_null(streams["twin_signs"], 0).to_numpy() >= conflicts.TWIN_SIGNS
    rows["went_back"] = (rows["conflicts"] > 0) & ~rows["two_boards"]
    rows["messages"] = [
        ranges.count(ranges.of_pairs(flat)) for flat in streams["ranges"].to_pylist()
    ]
    sums = ("received", "messages", "conflicts", "two_boards", "went_back")
    found = rows.groupby("device").agg(
        streams=("received", "size"), **{name: (name, "sum") for name in sums}
    )
    found["redelivered"] = found["received"] - found["messages"] - found["conflicts"]
    return found


def _missing(gap_rows: pa.Table) -> pd.DataFrame:
    rows = gap_rows.to_pandas()
    totals = {
        f"missing_{state}": rows[rows["state"] == state].groupby("device")["count"].sum()
        for state in ("closed", "open")
    }
    return pd.DataFrame(totals, dtype="float64")


def boots(pieces: pa.Table) -> pa.Table:
    """Per boot: its numbers, readings and times; and where no clock became known, between which
    times it was.

    not_before is the last known time of an earlier boot of the stream, not_after the first of a
    later one, or the arrival.
    """
    few = gold.TOTALS.names[: gold.TOTALS.get_field_index("backlog_max")]
    rows = pieces.select(few).to_pandas()
    sums = {name: (name, "sum") for name, _ in gold.COUNTED}
    ends = {
        f"{end}_{of}": (f"{end}_{of}", how)
        for of in ("seq", "time")
        for end, how in (("first", "min"), ("last", "max"))
    }
    key = [*schemas.KEY, "boot"]
    found = rows.groupby(key).agg(**ends, **sums, arrived=("first_received", "min")).reset_index()
    found = found.sort_values([*schemas.KEY, "first_seq"])
    times = found.groupby(schemas.KEY)
    before = times["last_time"].transform(lambda column: column.cummax().ffill().shift())
    after = times["first_time"].transform(
        lambda column: column[::-1].cummin().ffill()[::-1].shift(-1)
    )
    unknown = found["without_time"] > 0
    found["not_before"] = before.where(unknown)
    found["not_after"] = pd.concat([after, found["arrived"]], axis=1).min(axis=1).where(unknown)
    for name in ("first_time", "last_time", "not_before", "not_after"):
        found[name] = pd.to_datetime(found[name], utc=True)  # a column of nothing has lost its type
    return pa.Table.from_pandas(found[gold.BOOTS.names], schema=gold.BOOTS, preserve_index=False)
