"""Decoded rows and states on their way through Spark: as bytes, one row of Spark for thousands of
ours.

A row of Spark per reading goes through the JVM at each step of source, cache, shuffle, Python,
cache, file; packed, the JVM's tasks take a tenth of the CPU for the first step alone
(`host_tests/bench/pipeline_rates.py --spark` shows both forms). The job needs no reading in the
JVM: it brings those of a stream together, and a shuffle of whole Arrow tables does that as well.

Readings and states go by the bucket of their (device, stream), computed here alone: the driver
packs the states that it has written itself. What was refused goes anywhere.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from outpost_tools.pipeline import schemas

PACKED = pa.schema([("bucket", pa.int32()), ("refused", pa.bool_()), ("rows", pa.binary())])
PACKED_STATE = pa.schema([("bucket", pa.int32()), ("rows", pa.binary())])
_BYTES_PER_TABLE = 64 << 20  # decoded: bounds a worker's memory, far below the 2 GiB of a value
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


def pack(batches: Iterable[pa.RecordBatch], buckets: int) -> Iterator[pa.RecordBatch]:
    """Batches of schemas.FRAME to batches of PACKED."""
    held, size = [], 0
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        if size >= _BYTES_PER_TABLE:
            yield _packed(pa.Table.from_batches(held), buckets)
            held, size = [], 0
    if held:
        yield _packed(pa.Table.from_batches(held), buckets)


def _packed(rows: pa.Table, buckets: int) -> pa.RecordBatch:
    readings, refused = (
        rows.select(schemas.READING.names),
        rows.slice(0, 0).select(schemas.QUARANTINE),
    )
    if rows["reason"].null_count < rows.num_rows:
        is_reading = pc.is_null(rows["reason"])
        readings, refused = (
            readings.filter(is_reading),
            rows.select(schemas.QUARANTINE).filter(pc.invert(is_reading)),
        )
    found = [
        (bucket, False, _bytes(part)) for bucket, part in _split(readings.combine_chunks(), buckets)
    ]
    if refused.num_rows:
        found.append(
            (zlib.crc32(str(refused["segment"][0]).encode()) % buckets, True, _bytes(refused))
        )
    columns = zip(*found, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(c, f.type) for c, f in zip(columns, PACKED, strict=True)], schema=PACKED
    )


def _split(rows: pa.Table, buckets: int) -> Iterator[tuple[int, pa.Table]]:
    names = (
        pc.binary_join_element_wise(*(rows[name] for name in schemas.KEY), "/")
        .combine_chunks()
        .dictionary_encode()
    )
    of_name = np.array(
        [zlib.crc32(name.encode()) % buckets for name in names.dictionary.to_pylist()], np.int64
    )
    of_row = of_name[names.indices.to_numpy()]
    for bucket in np.unique(of_row).tolist():
        yield bucket, rows.take(np.flatnonzero(of_row == bucket))


def pack_state(states: pa.Table, buckets: int) -> pa.Table:
    """Rows of schemas.STREAM to a row of PACKED_STATE for each bucket that has any."""
    found = [(bucket, _bytes(part)) for bucket, part in _split(states.combine_chunks(), buckets)]
    rows = [dict(zip(PACKED_STATE.names, one, strict=True)) for one in found]
    return pa.Table.from_pylist(rows, schema=PACKED_STATE)


def _bytes(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=_OPTIONS) as writer:
        writer.write_table(rows)
    return sink.getvalue().to_pybytes()


def unpack_state(packed: pa.Table) -> pa.Table:
    """The rows of schemas.STREAM in rows of PACKED_STATE."""
    return pa.concat_tables([schemas.STREAM.empty_table(), *map(_table, packed["rows"])])


def _table(rows: pa.BinaryScalar) -> pa.Table:
    return pa.ipc.open_stream(rows.as_buffer()).read_all()


def unpack(packed: pa.Table) -> tuple[pa.Table, pa.Table]:
    """(readings, refused frames) of rows of PACKED."""
    parts = {False: [schemas.READING.empty_table()], True: [schemas.QUARANTINE_TABLE.empty_table()]}
    for refused, rows in zip(packed["refused"].to_pylist(), packed["rows"], strict=True):
        parts[refused].append(_table(rows))
    return pa.concat_tables(parts[False]), pa.concat_tables(parts[True])
