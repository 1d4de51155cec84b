"""The time of readings that were taken before their board's clock was set.

Such a message carries `up`, seconds since boot, and no `bt`. Once the clock is set, the firmware
sends both for the rest of that boot: `bt - up` is when the board booted, and gives the earlier
readings of the same (device, stream, boot) their time. Of several such messages, the one with the
lowest number counts: it is nearest to the earlier readings, and the result does not depend on the
order of arrival. It dates only numbers lower than its own, so a boot number that returns after
65,536 boots dates nothing wrongly.

Where the time is filled in: when a batch is written, if the clock is known by then; otherwise in
the batch that brings the clock, which rewrites the files of silver that hold such readings
(moves.py). A clock with a lower number replaces a known one, and the times that came from it: the
time of a reading follows from all messages of the boot, never from the batches that they came in.
If the clock of a boot never became known, its readings keep no time; their neighbours bound them
(`boots` among the gold tables). The state is one clock per boot whose clock was set late.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from outpost_tools.messages import arrival, labels
from outpost_tools.readings.pipeline import schemas

BOOT = [*schemas.KEY, "boot"]
_LAST_US = (labels.MAX_TIME_S - 1) * 1_000_000
CLOCKS = pa.schema(
    [
        *(schemas.READING.field(name) for name in BOOT),
        ("clock_seq", pa.int64()),
        ("offset_us", pa.int64()),
    ]
)
BOOTS = pa.schema([schemas.READING.field(name) for name in BOOT])
# Clocks that give readings other times; is_first: the boot had no clock before.
CHANGED = pa.schema([*CLOCKS, ("is_first", pa.bool_())])
# columns that place() needs
NEEDED = [
    *BOOT, "seq", "uptime_s", "shift_s", "time", "placed", "received", "clock_unset",
]  # fmt: skip


def since_boot_us(rows: pa.Table) -> np.ndarray:
    """Microseconds from boot to reading; NaN where the message does not say."""
    up, shift = rows["uptime_s"].to_numpy(), rows["shift_s"].to_numpy()
    return np.rint((up + np.nan_to_num(shift)) * 1_000_000)


def from_readings(rows: pa.Table) -> pa.Table:
    """The clocks that these readings reveal, one per boot."""
    both = pc.and_(
        pc.is_valid(rows["uptime_s"]),
        pc.and_(pc.is_valid(rows["time"]), pc.is_null(rows["placed"])),
    )
    rows = rows.filter(both)
    offset = rows["time"].cast(pa.int64()).to_numpy() - since_boot_us(rows).astype(np.int64)
    columns = [rows[name] for name in BOOT]
    return lowest(pa.table([*columns, rows["seq"], pa.array(offset, pa.int64())], schema=CLOCKS))


def from_state(streams: pa.Table) -> pa.Table:
    """The clocks in rows of schemas.STREAM."""
    lists = streams["clocks"].combine_chunks()
    parents, clocks = pc.list_parent_indices(lists), pc.list_flatten(lists)
    columns = [streams[name].take(parents) for name in schemas.KEY]
    return pa.table([*columns, *(clocks.field(index) for index in range(3))], schema=CLOCKS)


def to_state(clocks: pa.Table, streams: int, codes: np.ndarray) -> pa.ListArray:
    """The column `clocks` of `streams` rows; codes: the row of each clock."""
    order = np.argsort(codes, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(codes, minlength=streams))])
    rows = clocks.take(order).combine_chunks()
    values = [rows[name].combine_chunks() for name in CLOCKS.names[2:]]
    flat = pa.StructArray.from_arrays(values, fields=list(schemas.CLOCK))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), flat)


def lowest(clocks: pa.Table) -> pa.Table:
    """For each boot, the clock with the lowest message number."""
    if not clocks.num_rows:
        return clocks
    clocks = clocks.sort_by([(name, "ascending") for name in CLOCKS.names])
    return clocks.filter(pa.array(_begins(clocks, BOOT)))


def _begins(rows: pa.Table, names: list[str]) -> np.ndarray:
    """Which of the sorted rows differ in `names` from the preceding row."""
    new = np.ones(rows.num_rows, dtype=bool)
    new[1:] = False
    for name in names:
        column = rows[name].combine_chunks()
        new[1:] |= pc.not_equal(column[1:], column[:-1]).to_numpy(zero_copy_only=False)
    return new


def boots_of_state(streams: pa.Table) -> pa.Table:
    """Rows (BOOT) of the open boots in rows of schemas.STREAM."""
    lists = streams["open_boots"].combine_chunks()
    parents, boots = pc.list_parent_indices(lists), pc.list_flatten(lists)
    return pa.table([*(streams[name].take(parents) for name in schemas.KEY), boots], schema=BOOTS)


def boots_to_state(boots: pa.Table, streams: int, codes: np.ndarray) -> pa.ListArray:
    """The column `open_boots` of `streams` rows, in the order of their numbers, as it must not
    depend on what was read first; codes: the row of each boot."""
    order = np.lexsort((boots["boot"].to_numpy(), codes))
    offsets = np.concatenate([[0], np.cumsum(np.bincount(codes, minlength=streams))])
    values = boots["boot"].take(order).combine_chunks()
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)


def with_open_boots(rows: pa.Table, before: pa.Table) -> pa.Table:
    """The boots in `before`, and those of readings without a time of their own."""
    is_open = pc.and_(_has_no_time(rows), pc.is_valid(rows["uptime_s"]))
    boots = pa.concat_tables([before, rows.filter(is_open).select(BOOT).cast(BOOTS)])
    return boots.group_by(BOOT, use_threads=False).aggregate([]).select(BOOT)


def changed(now: pa.Table, before: pa.Table, boots: pa.Table) -> pa.Table:
    """Rows of CHANGED: the clocks of these boots that differ from before."""
    mine = now.filter(pc.is_in(_boot_names(now), value_set=_boot_names(boots)))
    at = pc.index_in(_boot_names(mine), value_set=_boot_names(before))
    same = [pc.equal(mine[name], before[name].take(at)) for name in CLOCKS.names[3:]]
    mine = mine.append_column("is_first", pc.is_null(at))
    return mine.filter(pc.invert(pc.fill_null(pc.and_(*same), False))).cast(CHANGED)


def is_of(rows: pa.Table, boots: pa.Table) -> pa.Array:
    """Which rows belong to one of these BOOTs."""
    return pc.is_in(_boot_names(rows), value_set=_boot_names(boots))


def _has_no_time(rows: pa.Table) -> pa.ChunkedArray:
    return pc.or_(pc.is_null(rows["time"]), pc.is_valid(rows["placed"]))


def place(rows: pa.Table, clocks: pa.Table) -> pa.Table:
    """`rows` (with the columns NEEDED), where readings of the boots in `clocks` without a time of
    their own get the time that follows from the clock, or none."""
    open_ones = pc.and_(_has_no_time(rows), pc.is_valid(rows["uptime_s"]))
    where = np.flatnonzero(open_ones.to_numpy(zero_copy_only=False)) if rows.num_rows else []
    if not len(where) or not clocks.num_rows:
        return rows
    open_rows = rows.select(NEEDED).take(where)
    found = pc.index_in(_boot_names(open_rows), value_set=_boot_names(clocks))
    mine = pc.is_valid(found).to_numpy(zero_copy_only=False)
    index = pc.fill_null(found, 0).to_numpy(zero_copy_only=False)
    time = clocks["offset_us"].to_numpy()[index] + np.nan_to_num(since_boot_us(open_rows)).astype(
        np.int64
    )
    known = mine & (open_rows["seq"].to_numpy() < clocks["clock_seq"].to_numpy()[index])
    received = open_rows["received"].cast(pa.int64()).to_numpy()
    is_unset = pc.is_valid(open_rows["clock_unset"]).to_numpy()
    earliest, latest = arrival.limits_of(received, is_unset, 1_000_000)
    known &= (time >= earliest) & (time <= np.minimum(latest, _LAST_US))
    return _with_times(rows, where[mine], time[mine], known[mine])


def _with_times(
    rows: pa.Table, where: np.ndarray, time_us: np.ndarray, known: np.ndarray
) -> pa.Table:
    times = rows["time"].cast(pa.int64()).combine_chunks()
    values, missing = (
        pc.fill_null(times, 0).to_numpy(zero_copy_only=False).copy(),
        times.is_null().to_numpy(zero_copy_only=False),
    )
    placed = (
        pc.fill_null(rows["placed"].combine_chunks(), False).to_numpy(zero_copy_only=False).copy()
    )
    values[where], missing[where], placed[where] = time_us, ~known, known
    column = pa.array(values, mask=missing).cast(rows.schema.field("time").type)
    rows = rows.set_column(rows.schema.get_field_index("time"), rows.schema.field("time"), column)
    # true or null: an absent column of an older file reads as null
    flags = pa.array(placed, mask=~placed)
    return rows.set_column(
        rows.schema.get_field_index("placed"), rows.schema.field("placed"), flags
    )


def _boot_names(rows: pa.Table) -> pa.Array:
    """device, stream and boot in one text."""
    parts = [rows[name].cast(pa.string()).combine_chunks() for name in BOOT]
    return pc.binary_join_element_wise(*parts, schemas.BETWEEN)
