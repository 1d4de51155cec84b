"""Messages of silver that were displaced by one with the same number, other contents and an earlier
arrival, which a later batch brought.

With several collectors, each log is read as far as it is sealed, so a batch may hold messages that
came before those of the preceding batches. Which of two conflicting messages is in silver must not
depend on that: it is the one received first; of two in the same millisecond, the first by
collector, segment and offset. The displaced message goes to quarantine, and its rows are removed
from their file in the commit that brings the other (moves.py). Files only, no Spark.
"""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.compute as pc

from outpost_tools.readings.pipeline import delta, schemas, tables

ORIGIN = schemas.ORIGIN


def stored(
    place: delta.Place, wanted: set[tuple[str, str, int]], version: int | None = None
) -> pa.Table:
    """The rows of these messages (device, stream, number) in silver, the table in `place`, in that
    version of it (None: the newest; also used where a vacuum has deleted the version's files)."""
    if not wanted:
        return schemas.READING.empty_table()
    devices, _, numbers = zip(*wanted, strict=True)
    ends = {"device": (min(devices), max(devices)), "seq": (min(numbers), max(numbers))}
    is_near = pc.field("device").isin(sorted(set(devices)))
    is_near &= pc.field("seq").isin(sorted(set(numbers)))
    table = delta.open_table(place, version)
    files = delta.files_of(
        table, lambda one: all(one.overlaps(name, *both) for name, both in ends.items())
    )
    try:
        rows = tables.read_near(table.place, files, schemas.READING, is_near)
    except FileNotFoundError:
        if version is None:
            raise
        return stored(place, wanted)
    keys = zip(*(rows[name].to_pylist() for name in ("device", "stream", "seq")), strict=True)
    found = rows.filter(pa.array([key in wanted for key in keys], pa.bool_()))
    return found.cast(schemas.READING)


def without(rows: pa.Table, gone: pa.Table) -> pa.Table:
    """`rows` without those of messages with these ORIGINs."""
    return rows.filter(pc.invert(pc.is_in(_origins(rows), value_set=_origins(gone))))


def _origins(rows: pa.Table) -> pa.ChunkedArray:
    parts = (rows[name].cast(pa.string()) for name in ORIGIN)
    return pc.binary_join_element_wise(*parts, "/")


def rebuilt(rows: list[dict]) -> bytes:
    """A pack with these readings of one message, because the frame's segment was deleted."""
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
