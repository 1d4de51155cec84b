"""The small gold tables, from `days` and the state `streams`: `gaps`, `devices`, `latency`,
`boots`. No Spark.

Their input has a row per boot and day, not per reading; four Spark jobs for it would cost seconds
each.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from outpost_tools.common import ranges
from outpost_tools.pipeline import conflicts, health, schemas, tables

_US = pa.timestamp("us", "UTC")
_LAST = pa.struct(
    [
        ("received", _US),
        ("stream", pa.string()),
        ("seq", pa.int64()),
        ("boot", pa.int32()),
        ("backlog", pa.int64()),
    ]
)
_VALUE = pa.struct([("received", _US), ("seq", pa.int64()), ("value", pa.float64())])
_TOLD = pa.struct([("seq", pa.int64()), ("value", pa.float64())])
_COUNTED = [(name, pa.int64()) for name in ("readings", "placed", "without_time")]
DAYS = pa.schema(
    [
        *(schemas.READING.field(name) for name in (*schemas.KEY, "boot")),
        *_COUNTED,
        *(
            (f"{end}_{name}", kind)
            for name, kind in (("seq", pa.int64()), ("received", _US), ("time", _US))
            for end in ("first", "last")
        ),
        ("backlog_max", pa.int64()),
        ("last", _LAST),
        ("battery", _VALUE),
        ("reset_cause", _VALUE),
        *((name, _TOLD) for name in health.NAMES),
        ("delays", pa.map_(pa.int64(), pa.int64())),
        ("delay_max_ms", pa.int64()),
    ]
)
GAPS = pa.schema(
    [("device", pa.string()), ("stream", pa.string())]
    + [(name, pa.int64()) for name in ("first", "last", "count")]
    + [("state", pa.string())]
)
_PERCENTILES = (0.5, 0.95, 0.99)
LATENCY = pa.schema(
    [("device", pa.string()), ("count", pa.int64())]
    + [(f"p{round(part * 100)}_ms", pa.float64()) for part in _PERCENTILES]
    + [("max_ms", pa.float64())]
)
_DEVICE_COUNTS = [
    "streams",
    "received",
    "messages",
    "redelivered",
    "missing_closed",
    "missing_open",
    "conflicts",
    "two_boards",
    "went_back",
]
DEVICES = pa.schema(
    [
        ("device", pa.string()),
        ("first_seen", _US),
        ("last_seen", _US),
        ("boots", pa.int64()),
        ("last_boot", pa.int32()),
    ]
    + [
        (name, pa.int64())
        for name in (
            "readings",
            "readings_without_time",
            "backlog_last",
            "backlog_max",
            *_DEVICE_COUNTS,
        )
    ]
    + [("battery", pa.float64()), ("reset_cause", pa.float64())]
    + [(name, pa.int64()) for name in health.NAMES]  # null: never told
)
BOOTS = pa.schema(
    [
        *(schemas.READING.field(name) for name in (*schemas.KEY, "boot")),
        ("first_seq", pa.int64()),
        ("last_seq", pa.int64()),
    ]
    + _COUNTED
    + [(name, _US) for name in ("first_time", "last_time", "not_before", "not_after")]
)


def write(tables_dir: Path, number: int) -> None:
    """All four of batch `number`, from its `days` and the newest state."""
    files = sorted(tables.batch_directory(tables_dir, "days", number).rglob("part-*.parquet"))
    pieces = tables.read_files(files, DAYS)
    streams = tables.read_table(tables_dir, "streams")
    missing = gaps(streams)
    made = {
        "gaps": missing,
        "devices": devices(pieces, streams, missing),
        "latency": latency(pieces),
        "boots": boots(pieces),
    }
    for name, table in made.items():
        directory = tables.open_batch(tables_dir, name, number)
        directory.mkdir(parents=True, exist_ok=True)
        for old in directory.glob("part-*.parquet"):
            old.unlink()
        pyarrow.parquet.write_table(table, directory / "part-00000.parquet", compression="zstd")
        (directory / tables.SUCCESS).touch()


def gaps(streams: pa.Table) -> pa.Table:
    """Missing sequence ranges, from the lowest `held` seen on.

    `closed`: below the highest `held`, will never come.
    """
    rows = [gap for stream in streams.to_pylist() for gap in stream_gaps(stream)]
    columns = zip(*rows, strict=True) if rows else [[] for _ in GAPS]
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, GAPS, strict=True)],
        schema=GAPS,
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
        parts = [percentile(values, weights, part) for part in _PERCENTILES]
        rows.append((device, int(weights.sum()), *parts, float(largest[device])))
    columns = zip(*rows, strict=True) if rows else [[] for _ in LATENCY]
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, LATENCY, strict=True)],
        schema=LATENCY,
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
    newest = rows.sort_values(["last.received", "last.stream", "last.seq"]).groupby("device")
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
        newest["last.boot"].last(),
        newest["last.backlog"].last(),
    )
    for name in ("battery", "reset_cause"):
        known = rows.sort_values([f"{name}.received", f"{name}.seq"], na_position="first")
        found[name] = known.groupby("device")[f"{name}.value"].last()
    found = found.join(health.of_devices(rows))
    found = found.join(_copies(streams)).join(_missing(missing)).reset_index()
    found[_DEVICE_COUNTS] = found[_DEVICE_COUNTS].fillna(0).astype("int64")
    return pa.Table.from_pandas(found[DEVICES.names], schema=DEVICES, preserve_index=False)


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
    rows = pieces.select(DAYS.names[: DAYS.get_field_index("backlog_max")]).to_pandas()
    sums = {name: (name, "sum") for name, _ in _COUNTED}
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
    return pa.Table.from_pandas(found[BOOTS.names], schema=BOOTS, preserve_index=False)
