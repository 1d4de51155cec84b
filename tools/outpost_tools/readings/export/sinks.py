"""Where exported rows go: CSV, JSON lines or Parquet, into a file or to stdout.

A file is complete or missing, and an older file stays until then.
"""

from __future__ import annotations

import codecs
import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from outpost_tools.errors import ToolError
from outpost_tools.machine.files import replaced
from outpost_tools.text import csv_cells

FORMATS = ("csv", "jsonl", "parquet")
_FORMAT_OF = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
_ROWS_PER_GROUP = 1 << 17  # of Parquet: what a reader can skip


class Sink(Protocol):
    def write(self, rows: pa.Table) -> None: ...

    def close(self) -> None: ...


def format_of(path: Path | None, wanted: str | None) -> str:
    """The format that was asked for, otherwise that of the file's name. Raises ToolError."""
    if wanted is not None:
        return wanted
    if path is None:
        return "csv"
    found = _FORMAT_OF.get(path.suffix.lower())
    if found is None:
        raise ToolError(
            f"{path}: which format? Let its name end in .csv, .jsonl or .parquet, or add --format"
        )
    return found


def sink(form: str, stream: Any, schema: pa.Schema) -> Sink:
    return {"csv": _Csv, "jsonl": _JsonLines, "parquet": _Parquet}[form](stream, schema)


class _Csv:
    """With a header; RFC 4180. A missing value is empty, an empty text is two quotes. No cell is a
    spreadsheet's formula: csv_cells.py."""

    def __init__(self, stream: Any, schema: pa.Schema) -> None:
        texts = _with_texts(schema.empty_table()).schema
        options = pyarrow.csv.WriteOptions(quoting_style="needed")
        self._writer = pyarrow.csv.CSVWriter(stream, texts, write_options=options)

    def write(self, rows: pa.Table) -> None:
        self._writer.write_table(_with_texts(_guarded(rows)))

    def close(self) -> None:
        self._writer.close()


class _JsonLines:
    """One object per line, with all columns."""

    def __init__(self, stream: Any, schema: pa.Schema) -> None:
        self._stream, self._encoder = stream, msgspec.json.Encoder()

    def write(self, rows: pa.Table) -> None:
        for batch in _with_texts(rows).to_batches(max_chunksize=10_000):
            self._stream.write(self._encoder.encode_lines(batch.to_pylist()))

    def close(self) -> None:
        pass


class _Parquet:
    """Columns as in silver. Rows are collected until a group is full."""

    def __init__(self, stream: Any, schema: pa.Schema) -> None:
        self._writer = pyarrow.parquet.ParquetWriter(stream, schema, compression="zstd")
        self._held, self._count = [], 0
        self._schema = schema

    def write(self, rows: pa.Table) -> None:
        self._held.append(rows)
        self._count += rows.num_rows
        if self._count >= _ROWS_PER_GROUP:
            self._flush()

    def _flush(self) -> None:
        rows = pa.concat_tables([self._schema.empty_table(), *self._held])
        self._writer.write_table(rows, row_group_size=_ROWS_PER_GROUP)
        self._held, self._count = [], 0

    def close(self) -> None:
        if self._count:
            self._flush()
        self._writer.close()


def _guarded(rows: pa.Table) -> pa.Table:
    return _each_text(rows, lambda column: pc.if_else(_runs(column), _quoted(column), column))


def _runs(column: pa.ChunkedArray) -> pa.ChunkedArray:
    is_number = pc.match_substring_regex(column, csv_cells.NUMBER)
    return pc.and_not(pc.match_substring_regex(column, csv_cells.RUNS), is_number)


def _quoted(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.binary_join_element_wise("'", column, "")


def unguarded(rows: pa.Table) -> pa.Table:
    """As it was before it was written as CSV."""
    return _each_text(rows, _original)


def _original(column: pa.ChunkedArray) -> pa.ChunkedArray:
    is_guarded = pc.match_substring_regex(column, csv_cells.GUARDED)
    return pc.if_else(is_guarded, pc.utf8_slice_codeunits(column, 1), column)


def _each_text(rows: pa.Table, change: Callable[[Any], Any]) -> pa.Table:
    for index, field in enumerate(rows.schema):
        if pa.types.is_string(field.type):
            rows = rows.set_column(index, field, change(rows[field.name]))
    return rows


def _with_texts(rows: pa.Table) -> pa.Table:
    """Times as in 2026-11-22T10:30:00.000000Z."""
    for index, field in enumerate(rows.schema):
        if pa.types.is_timestamp(field.type):
            said = rows[field.name].cast(pa.timestamp("us")).cast(pa.string())
            day, clock = pc.utf8_slice_codeunits(said, 0, 10), pc.utf8_slice_codeunits(said, 11)
            column = pc.binary_join_element_wise(day, "T", clock, "Z", "")
            rows = rows.set_column(index, pa.field(field.name, pa.string()), column)
    return rows


# --- Streams ---


@contextlib.contextmanager
def opened(path: Path | None, form: str) -> Iterator[Any]:
    """What a sink writes to; None is stdout. Raises ToolError."""
    if path is None:
        yield _standard_output(form)
        sys.stdout.flush()
        return
    try:
        with replaced(path) as file:
            yield _Pipe(file)  # it may be one
    except BrokenPipeError:
        raise
    except OSError as error:
        raise ToolError(f"{path}: {error.strerror or error}; nothing was exported") from None


def _standard_output(form: str) -> Any:
    if not sys.stdout.isatty():
        return _Pipe(sys.stdout.buffer)
    if form == "parquet":
        raise ToolError("Parquet is not for a terminal; name a file with --out, or redirect stdout")
    return _Terminal()


class _Stream:
    """The methods of a file that Arrow needs."""

    closed = False

    def __init__(self) -> None:
        self._length = 0

    def tell(self) -> int:
        return self._length

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False


class _Pipe(_Stream):
    """Writes bytes unchanged."""

    def __init__(self, stream: BinaryIO) -> None:
        super().__init__()
        self._stream = stream

    def write(self, data: Any) -> int:
        length = len(data)
        self._stream.write(data)
        self._length += length
        return length

    def flush(self) -> None:
        self._stream.flush()


class _Terminal(_Stream):
    """Writes through the guard of stdout: a metric's name may contain control characters."""

    def __init__(self) -> None:
        super().__init__()
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode

    def write(self, data: Any) -> int:
        data = bytes(data)
        sys.stdout.write(self._decode(data))
        self._length += len(data)
        return len(data)
