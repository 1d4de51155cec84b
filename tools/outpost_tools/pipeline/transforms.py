"""From decoded frames to silver: Spark groups, Arrow functions do the rest.

Exactness is here. Per (device, stream) the numbers already in silver are known as ranges; a
micro-batch is grouped with them, the first copy of each new number is kept and the ranges grow. No
watermark: a replay of last year's outbox is as good as today's reading, and the state grows with
gaps, not with messages. Rejected: dropDuplicates (state of every key), a join with silver (rescans
it once an old replay widens the range).

The group that a function sees is a bucket of many streams: a call of Python costs a millisecond
whatever is in it, and a thousand boards would cost a thousand.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from outpost_tools.pipeline import clocks, packed, parts, schemas

BUCKETS_PER_PARTITION = 2  # bounds what one call holds in memory; each is a file
_ORDER = [
    (name, "ascending")
    for name in ("code", "seq", "received", "collector", "segment", "offset", "record")
]
_SEQ_BITS = 31  # one more than a number has, so that the ranges of two streams never touch


def mark(batch: DataFrame, states: DataFrame, folders: dict[str, Path]) -> DataFrame:
    """The state of every stream after the batch; its tasks write what is new into `folders`.

    batch: rows of packed.PACKED. states: those before, rows of packed.PACKED_STATE.
    """

    def take(key: tuple[pa.Scalar, ...], rows: pa.Table, state: pa.Table) -> pa.Table:
        readings, refused = packed.unpack(rows)
        parts.write(folders["quarantine"], key[0].as_py(), refused)
        fresh, after = mark_streams(readings, packed.unpack_state(state))
        parts.write_by_day(folders["readings"], key[0].as_py(), fresh)
        return after

    grouped = batch.groupBy("bucket").cogroup(states.groupBy("bucket"))
    return grouped.applyInArrow(take, schemas.spark(schemas.STREAM))


def mark_streams(rows: pa.Table, state: pa.Table) -> tuple[pa.Table, pa.Table]:
    """(new readings, state after) of `rows` of this batch and the `state` of their streams (and of
    others, handed on)."""
    names, row_codes, state_codes = _coded(rows, state)
    rows = rows.append_column("code", row_codes).sort_by(_ORDER)
    code, seq = rows["code"].to_numpy(), rows["seq"].to_numpy()
    old = _bounds(state, state_codes)
    first_copy, copies = first_copies(rows)
    key = (code << _SEQ_BITS) + seq
    fresh = first_copy & ~in_ranges(key, old)
    readings = rows.filter(pa.array(fresh)).select(schemas.READING.names).cast(schemas.READING)
    known = clocks.lowest(
        pa.concat_tables([clocks.from_state(state), clocks.from_readings(readings)])
    )
    counts = np.bincount(code[copies], minlength=len(names))
    after = _next_state(names, grown(old, key[fresh]), known)
    after |= _sums(state, state_codes, code, rows["held"].to_numpy(), counts)
    states = pa.table([after[field.name] for field in schemas.STREAM], schema=schemas.STREAM)
    return clocks.place(readings, known), states


def _coded(rows: pa.Table, state: pa.Table) -> tuple[pa.Array, pa.Array, np.ndarray]:
    """(distinct "device/stream", their index for each row, for each state)."""
    all_names = pa.chunked_array(
        [*_names(rows).chunks, *_names(state).chunks], pa.string()
    ).combine_chunks()
    encoded = all_names.dictionary_encode()
    codes = encoded.indices.cast(pa.int64())
    return (
        encoded.dictionary,
        codes[: rows.num_rows],
        codes[rows.num_rows :].to_numpy(zero_copy_only=False),
    )


def _names(table: pa.Table) -> pa.ChunkedArray:
    parts = (table[name] for name in schemas.KEY)  # neither has a slash
    return pc.binary_join_element_wise(*parts, "/")


def first_copies(rows: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """Of sorted rows: which belong to the first copy of their message, and which begin a copy."""
    if not rows.num_rows:
        return np.zeros(0, dtype=bool), np.zeros(0, dtype=bool)
    new_message = _changes(rows, ["code", "seq"])
    new_copy = new_message | _changes(rows, ["collector", "segment", "offset"])
    start_of_copy = np.maximum.accumulate(np.where(new_copy, np.arange(rows.num_rows), 0))
    return new_message[start_of_copy], new_copy


def _changes(rows: pa.Table, names: list[str]) -> np.ndarray:
    changed = np.ones(rows.num_rows, dtype=bool)
    changed[1:] = False
    for name in names:
        column = rows[name].combine_chunks()
        column = column.dictionary_encode().indices if pa.types.is_string(column.type) else column
        values = column.to_numpy(zero_copy_only=False)
        changed[1:] |= values[1:] != values[:-1]
    return changed


def _bounds(state: pa.Table, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(firsts, lasts) of the ranges of all streams, ascending, the stream's code above the
    number."""
    lists = state["ranges"].combine_chunks()
    flat = pc.list_flatten(lists).to_numpy(zero_copy_only=False)
    parents = pc.list_parent_indices(lists).to_numpy(zero_copy_only=False)
    keys = (codes[parents] << _SEQ_BITS) + flat
    order = np.argsort(keys[0::2], kind="stable")
    return keys[0::2][order], keys[1::2][order]


def in_ranges(keys: np.ndarray, bounds: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Which numbers lie in one of the ranges (firsts, lasts)."""
    firsts, lasts = bounds
    if not len(firsts):
        return np.zeros(len(keys), dtype=bool)
    index = np.searchsorted(firsts, keys, side="right") - 1
    return (index >= 0) & (keys <= lasts[index])


def grown(bounds: tuple[np.ndarray, np.ndarray], keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The ranges with ascending numbers put in (repeats allowed) that lie in none of them; what
    touches becomes one."""
    breaks = np.diff(keys) > 1
    firsts = np.concatenate([bounds[0], keys[:1], keys[1:][breaks]])
    lasts = np.concatenate([bounds[1], keys[:-1][breaks], keys[-1:]])
    order = np.argsort(firsts, kind="stable")
    firsts, lasts = firsts[order], lasts[order]
    apart = firsts[1:] != lasts[:-1] + 1
    return np.concatenate([firsts[:1], firsts[1:][apart]]), np.concatenate(
        [lasts[:-1][apart], lasts[-1:]]
    )


def _next_state(
    names: pa.Array, bounds: tuple[np.ndarray, np.ndarray], known: pa.Table
) -> dict[str, pa.Array]:
    keys = np.stack(bounds, axis=1).ravel()
    codes = bounds[0] >> _SEQ_BITS
    offsets = np.concatenate([[0], np.cumsum(2 * np.bincount(codes, minlength=len(names)))])
    ranges = pa.ListArray.from_arrays(
        pa.array(offsets, pa.int32()), pa.array(keys & ((1 << _SEQ_BITS) - 1))
    )
    clock_codes = pc.index_in(_names(known), value_set=names).to_numpy().astype(np.int64)
    parts = pc.split_pattern(names, "/")
    device, stream = (pc.list_element(parts, index) for index in (0, 1))
    return {
        "device": device,
        "stream": stream,
        "ranges": ranges,
        "clocks": clocks.to_state(known, len(names), clock_codes),
    }


def _sums(
    state: pa.Table, state_codes: np.ndarray, code: np.ndarray, held: np.ndarray, counts: np.ndarray
) -> dict:
    """copies, held_min and held_max of every stream, old and new together."""
    lowest, highest = np.full(len(counts), np.iinfo(np.int64).max), np.full(len(counts), -1)
    np.minimum.at(lowest, code, held)
    np.maximum.at(highest, code, held)
    if state.num_rows:
        counts[state_codes] += state["copies"].to_numpy()
        lowest[state_codes] = np.minimum(lowest[state_codes], state["held_min"].to_numpy())
        highest[state_codes] = np.maximum(highest[state_codes], state["held_max"].to_numpy())
    return {"copies": pa.array(counts), "held_min": pa.array(lowest), "held_max": pa.array(highest)}
