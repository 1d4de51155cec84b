"""How decoded rows travel through Spark: as bytes, one Spark row for thousands of ours.

One Spark row per reading would go through the JVM at each step: source, cache, shuffle, Python,
cache, file. Packed, the JVM's tasks take a tenth of the CPU in the first step
(`host_tests/bench/pipeline_profile.py` measures both forms). The job needs no single readings in
the JVM: it brings those of a stream together, and a shuffle of whole Arrow tables does that too.

Readings are grouped by the bucket of their device, which only this module computes. The state of
the streams lies in one file for each of BUCKETS. A run with fewer tasks gives several buckets to
one task, so its number of groups must divide BUCKETS. Refused frames go to any bucket.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from outpost_tools.readings.pipeline import schemas

PACKED = pa.schema([("bucket", pa.int32()), ("refused", pa.bool_()), ("rows", pa.binary())])
BUCKETS = 16  # fixed, the tables depend on it: at most this many tasks mark a batch at once
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
    found = [(number, False, part) for number, part in split(readings, buckets)]
    if refused.num_rows:
        number = zlib.crc32(str(refused["segment"][0]).encode()) % buckets
        found.append((number, True, refused))
    return of_parts(found)


def of_parts(parts: Iterable[tuple[int, bool, pa.Table]]) -> pa.RecordBatch:
    """Rows of PACKED."""
    columns = zip(
        *((number, refused, _bytes(rows)) for number, refused, rows in parts), strict=True
    )
    return pa.RecordBatch.from_arrays(
        [pa.array(c, f.type) for c, f in zip(columns, PACKED, strict=True)], schema=PACKED
    )


def split(rows: pa.Table, buckets: int) -> Iterator[tuple[int, pa.Table]]:
    """(bucket, its rows) for each bucket that has rows."""
    of_row = buckets_of(rows, buckets)
    for number in np.unique(of_row).tolist():
        yield number, rows.take(np.flatnonzero(of_row == number))


def buckets_of(rows: pa.Table, buckets: int = BUCKETS) -> np.ndarray:
    """The bucket of each row."""
    names = rows["device"].combine_chunks().dictionary_encode()
    of_name = np.array([bucket(one, buckets) for one in names.dictionary.to_pylist()], np.int64)
    return of_name[names.indices.to_numpy()]


def bucket(device: str, buckets: int = BUCKETS) -> int:
    return zlib.crc32(device.encode()) % buckets


def groups(tasks: int) -> int:
    """The number of groups into which a batch is split for this many tasks: twice as many, since
    each call holds a group in memory and writes a file for it; a divisor of BUCKETS."""
    return min(BUCKETS, 1 << (2 * tasks - 1).bit_length())


def _bytes(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=_OPTIONS) as writer:
        writer.write_table(rows)
    return sink.getvalue().to_pybytes()


def _table(rows: pa.BinaryScalar) -> pa.Table:
    return pa.ipc.open_stream(rows.as_buffer()).read_all()


def unpack_rows(packed: pa.Table) -> pa.Table:
    """The readings, when there are no refused frames."""
    return pa.concat_tables([_table(rows) for rows in packed["rows"]])


def unpack(packed: pa.Table) -> tuple[pa.Table, pa.Table]:
    """(readings, refused frames) of rows of PACKED."""
    parts = {False: [schemas.READING.empty_table()], True: [schemas.REFUSED.empty_table()]}
    for refused, rows in zip(packed["refused"].to_pylist(), packed["rows"], strict=True):
        parts[refused].append(_table(rows))
    return pa.concat_tables(parts[False]), pa.concat_tables(parts[True])
