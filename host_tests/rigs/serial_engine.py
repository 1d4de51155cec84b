"""An engine of the pipeline (engines.py) that does everything in this process, one after the other,
so that a test can look inside and break off at any place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from outpost_tools.readings.pipeline import packed


class Serial:
    """`tasks`: how many it pretends to have; mapped: how many items each call of map() got."""

    def __init__(self, tasks: int = 2) -> None:
        self.tasks = tasks
        self.mapped: list[int] = []

    def map(self, function: Callable[[Any], Any], items: list[Any]) -> list[Any]:
        self.mapped.append(len(items))
        return [function(one) for one in items]

    def grouped(self, items: list[str], read: Any, take: Any, schema: pa.Schema) -> list[dict]:
        rows = [pa.Table.from_batches(read(one), packed.PACKED) for one in items]
        every = pa.concat_tables([packed.PACKED.empty_table(), *rows])
        found = []
        for group in every["bucket"].unique():
            part = take(group.as_py(), every.filter(pc.equal(every["bucket"], group)))
            found += part.cast(schema).to_pylist()
        return found
