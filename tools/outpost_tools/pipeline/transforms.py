"""From decoded frames to silver: DataFrame and Arrow functions without any reading or writing.

Exactness is here. Per (device, stream) the numbers already in silver are known as ranges; a micro-batch is grouped
with them, the first copy of each new number is kept and the ranges grow. No watermark: a replay of last year's outbox
is as good as today's reading, and the state grows with gaps, not with messages. Rejected: dropDuplicates (state of
every key), a join with silver (rescans it once an old replay widens the range).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from outpost_tools.pipeline import schemas
from outpost_tools.pipeline.ranges import Ranges

_ORDER = [(name, "ascending") for name in ("seq", "received", "collector", "segment", "offset", "record")]


def quarantine(batch: DataFrame) -> DataFrame:
    """The frames that are no message."""
    rows = batch.filter(F.col("reason").isNotNull())
    return rows.select(*schemas.QUARANTINE)


def mark(batch: DataFrame, streams: DataFrame) -> DataFrame:
    """New readings of the batch and the state of every stream after it, in one frame."""
    messages = batch.filter(F.col("reason").isNull()).select(*schemas.READING.names)
    grouped = messages.groupBy(*schemas.KEY).cogroup(streams.groupBy(*schemas.KEY))
    return grouped.applyInArrow(mark_stream, schemas.spark(schemas.MARKED))


def new_readings(marked: DataFrame) -> DataFrame:
    """Silver's rows, with the day they are stored under: the reading's own, or that of its arrival."""
    rows = marked.filter(F.col("ranges").isNull()).select(*schemas.READING.names)
    return rows.withColumn("day", F.to_date(F.coalesce("time", "received")))


def new_streams(marked: DataFrame) -> DataFrame:
    rows = marked.filter(F.col("ranges").isNotNull())
    return rows.select(*schemas.STREAM.names)


def mark_stream(rows: pa.Table, state: pa.Table) -> pa.Table:
    """One stream: `rows` of this batch against its `state` (no row or one)."""
    old = state.to_pylist()[0] if state.num_rows else None
    if not rows.num_rows:
        return _state_row(old)
    rows = rows.sort_by(_ORDER)
    first_copy, copies = first_copies(rows)
    seen = old["ranges"] if old else []
    fresh = first_copy & ~in_ranges(rows["seq"].to_numpy(), seen)
    readings = rows.filter(pa.array(fresh)).select(schemas.READING.names)
    ranges = grown(seen, readings["seq"].to_numpy())
    return pa.concat_tables([_with_empty_state(readings), _state_row(_next_state(rows, old, ranges, copies))])


def _next_state(rows: pa.Table, old: dict | None, ranges: list[int], copies: int) -> dict:
    held = rows["held"].to_numpy()
    state = {name: rows[name][0].as_py() for name in schemas.KEY}
    state |= {"ranges": ranges, "copies": copies, "held_min": int(held.min()), "held_max": int(held.max())}
    if old:
        state["copies"] += old["copies"]
        state["held_min"] = min(state["held_min"], old["held_min"])
        state["held_max"] = max(state["held_max"], old["held_max"])
    return state


def first_copies(rows: pa.Table) -> tuple[np.ndarray, int]:
    """Of sorted rows: which belong to the first copy of their number, and how many copies there are in all."""
    seq = rows["seq"].to_numpy()
    new_seq = np.ones(len(seq), dtype=bool)
    new_seq[1:] = seq[1:] != seq[:-1]
    new_copy = new_seq.copy()
    for name in ("collector", "segment", "offset"):
        column = rows[name].to_numpy()
        new_copy[1:] |= column[1:] != column[:-1]
    start_of_copy = np.maximum.accumulate(np.where(new_copy, np.arange(len(seq)), 0))
    return new_seq[start_of_copy], int(new_copy.sum())


def in_ranges(seq: np.ndarray, flat: list[int]) -> np.ndarray:
    """Which numbers lie in the ranges [first, last, first, last, ...]."""
    if not flat:
        return np.zeros(len(seq), dtype=bool)
    bounds = np.asarray(flat)
    index = np.searchsorted(bounds[0::2], seq, side="right") - 1
    return (index >= 0) & (seq <= bounds[1::2][index])


def grown(flat: list[int], seq: np.ndarray) -> list[int]:
    """The ranges with ascending numbers `seq` (repeats allowed) put in."""
    ranges = Ranges(flat)
    if len(seq):
        breaks = np.flatnonzero(np.diff(seq) > 1)
        firsts, lasts = seq[np.r_[0, breaks + 1]], seq[np.r_[breaks, len(seq) - 1]]
        for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True):
            ranges.add_range(first, last)
    return ranges.to_list()


def _with_empty_state(readings: pa.Table) -> pa.Table:
    nothing = [pa.nulls(readings.num_rows, field.type) for field in schemas.STREAM_STATE]
    return pa.table([*readings.cast(schemas.READING).columns, *nothing], schema=schemas.MARKED)


def _state_row(state: dict) -> pa.Table:
    return pa.Table.from_pylist([state], schema=schemas.MARKED)
