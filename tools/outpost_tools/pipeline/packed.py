"""Decoded rows on their way through Spark: as bytes, a row of Spark's for thousands of ours.

A row of Spark's per reading goes through the JVM on each step of source - cache - shuffle - Python - cache - file; packed, the
JVM's tasks take a tenth of the CPU for the first step alone (`host_tests/bench/pipeline_rates.py --spark` shows both forms).
The job needs no reading in the JVM: it brings those of a stream together, and a shuffle of whole Arrow tables does that as well.
Readings go by bucket of (device, stream); what was refused goes anywhere.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql import functions as F

from outpost_tools.pipeline import schemas

PACKED = pa.schema([("bucket", pa.int32()), ("refused", pa.bool_()), ("rows", pa.binary())])
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


def _split(readings: pa.Table, buckets: int) -> Iterator[tuple[int, pa.Table]]:
    names = (
        pc.binary_join_element_wise(*(readings[name] for name in schemas.KEY), "/")
        .combine_chunks()
        .dictionary_encode()
    )
    of_name = np.array(
        [zlib.crc32(name.encode()) % buckets for name in names.dictionary.to_pylist()], np.int64
    )
    of_row = of_name[names.indices.to_numpy()]
    for bucket in np.unique(of_row).tolist():
        yield bucket, readings.take(np.flatnonzero(of_row == bucket))


def bucket_of_stream(buckets: int) -> Column:
    """The same buckets, in Spark's words, for rows with schemas.KEY."""
    return F.pmod(F.crc32(F.concat_ws("/", *schemas.KEY)), F.lit(buckets)).cast("int")


def _bytes(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=_OPTIONS) as writer:
        writer.write_table(rows)
    return sink.getvalue().to_pybytes()


def unpack(packed: pa.Table) -> tuple[pa.Table, pa.Table]:
    """(readings, refused frames) of rows of PACKED."""
    parts = {False: [schemas.READING.empty_table()], True: [schemas.QUARANTINE_TABLE.empty_table()]}
    for refused, rows in zip(packed["refused"].to_pylist(), packed["rows"], strict=True):
        parts[refused].append(pa.ipc.open_stream(rows.as_buffer()).read_all())
    return pa.concat_tables(parts[False]), pa.concat_tables(parts[True])
