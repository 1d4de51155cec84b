"""A checkpoint of a Delta table's log: a Parquet file of its actions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from outpost_tools.errors import ToolError

_NEEDED = {
    "protocol": ("minReaderVersion", "minWriterVersion", "readerFeatures", "writerFeatures"),
    "metaData": ("schemaString", "partitionColumns", "configuration"),
    "txn": ("appId", "version"),
    "add": ("path", "size", "partitionValues", "stats"),
}
_MAPS = ("partitionValues", "configuration")


def actions(data: bytes) -> Iterator[dict]:
    """Those that make the table: what was removed is not among them."""
    file = pq.ParquetFile(pa.BufferReader(data))
    names = file.schema_arrow.names
    if "sidecar" in names and file.read(["sidecar"])["sidecar"].drop_null():
        raise ToolError("a checkpoint with sidecars, which is not known here")
    rows = file.read([name for name in _NEEDED if name in names])
    for kind in rows.column_names:
        found = rows[kind].drop_null().combine_chunks()
        columns = {one.name: part for one, part in zip(found.type, found.flatten(), strict=True)}
        lists = [_values(columns[name], name) for name in _NEEDED[kind]]
        for values in zip(*lists, strict=True):
            yield {kind: dict(zip(_NEEDED[kind], values, strict=True))}


def _values(column: pa.Array, name: str) -> list[Any]:
    found = column.to_pylist()
    return [dict(one) if one else {} for one in found] if name in _MAPS else found
