"""Messages of silver that gave their place to one with the same number, other contents and an
earlier arrival, which a later batch brought.

Of several collectors each log is read as far as it is sealed, so a batch may hold what came before
the batches before it. Which of two conflicting messages is in silver must not depend on that: it is
the one received first; of two in the same millisecond, the first by collector, segment and offset.
Silver is append-only, so the one that loses its place stays in its file until the next compaction,
and its origin is in the state `streams`: whoever reads silver leaves it out. Files only, no Spark.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset

from outpost_tools.pipeline import schemas

ORIGIN = ["collector", "segment", "offset"]
PLACE = ["received", *ORIGIN]  # the order of arrival
Origin = tuple[str, int, int]


def of_state(streams: pa.Table) -> set[Origin]:
    """The origins in rows of schemas.STREAM."""
    found = pc.list_flatten(streams["displaced"].combine_chunks())
    return {tuple(one.values()) for one in found.to_pylist()}


def without(rows: pa.Table, gone: Collection[Origin]) -> pa.Table:
    """`rows`, with the columns ORIGIN, but for those."""
    if not gone:
        return rows
    offsets = pa.array(sorted({offset for _, _, offset in gone}), pa.int64())
    suspects = np.flatnonzero(pc.is_in(rows["offset"], offsets).to_numpy())
    few = rows.select(ORIGIN).take(suspects)
    origins = zip(*(few[name].to_pylist() for name in ORIGIN), strict=True)
    keep = np.ones(rows.num_rows, dtype=bool)
    keep[suspects[[origin in gone for origin in origins]]] = False
    return rows.filter(pa.array(keep))


def stored(files: list[Path], wanted: set[tuple[str, str, int]]) -> pa.Table:
    """The rows of these messages (device, stream, number) in files of silver."""
    if not files or not wanted:
        return schemas.READING.empty_table()
    data = pa.dataset.dataset([str(path) for path in files], schema=schemas.READING)
    columns = ("device", "stream", "seq")
    is_near = pc.scalar(True)
    for name, values in zip(columns, zip(*wanted, strict=True), strict=True):
        is_near = is_near & pc.field(name).isin(sorted(set(values)))
    rows = data.to_table(filter=is_near)
    keys = zip(*(rows[name].to_pylist() for name in columns), strict=True)
    return rows.filter(pa.array([key in wanted for key in keys], pa.bool_()))


def rebuilt(rows: list[dict]) -> bytes:
    """A pack that says what these readings of one message say: the frame's segment was deleted."""
    first = rows[0]
    labels = (("bn", "device"), ("sid", "stream"), ("ver", "version"), ("up", "uptime_s"))
    head = {label: first[name] for label, name in labels} | {"bn": first["device"] + "/"}
    head |= {name: first[name] for name in ("seq", "held", "boot")}
    if first["time"] is not None and not first["placed"]:
        head["bt"] = first["time"].timestamp() - (first["shift_s"] or 0.0)
    records = [
        {"n": row["name"], "u": row["unit"], "v": row["value"], "t": row["shift_s"] or None}
        for row in sorted(rows, key=lambda row: row["record"])
    ]
    records[0] = head | records[0]
    return json.dumps(
        [{label: value for label, value in one.items() if value is not None} for one in records]
    ).encode()
