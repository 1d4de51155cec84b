"""The rows of a dataset, also of files that pyarrow cannot filter.

Where Delta's library deletes rows, it writes what stays into a file whose Arrow schema calls texts
views, and pyarrow (26) then fails to compare the file's statistics with a text: "no kernel matching
input types (string, string_view)". We do not delete with it (upkeep.py), but earlier versions did,
and others may. Such a file is read as a whole, and filtered in memory. Knows nothing of tables.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.dataset


class Rows:
    def __init__(self, data: pa.dataset.Dataset) -> None:
        self._data = data

    def to_table(self, columns: list[str] | None = None, filter: Any = None) -> pa.Table:
        """As that of a dataset."""
        try:
            return self._data.to_table(columns, filter=filter)
        except pa.ArrowNotImplementedError:
            if filter is None:
                raise
        parts = [self._of(one, columns, filter) for one in self._data.get_fragments()]
        return pa.concat_tables(parts)

    def to_batches(
        self, columns: list[str] | None = None, filter: Any = None
    ) -> Iterator[pa.RecordBatch]:
        """A file that can be filtered is not read as a whole."""
        for one in self._data.get_fragments(filter):
            found = one.to_batches(self._data.schema, columns, filter=filter)
            try:
                first = next(found, None)
            except pa.ArrowNotImplementedError:
                found, first = iter(self._of(one, columns, filter).to_batches()), None
            if first is not None:
                yield first
            yield from found

    def count_rows(self) -> int:
        return self._data.count_rows()

    @property
    def files(self) -> list[str]:
        return self._data.files

    def _of(self, one: pa.dataset.Fragment, columns: list[str] | None, wanted: Any) -> pa.Table:
        schema = self._data.schema
        try:
            return one.to_table(schema, columns, filter=wanted)
        except pa.ArrowNotImplementedError:
            if wanted is None:
                raise
        rows = one.to_table(schema).filter(wanted)
        return rows if columns is None else rows.select(columns)
