"""Reads the pipeline's tables in the form that verify.py needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from outpost_tools.store.base import Store
from outpost_tools.trying.demo.verify import Row

_COLUMNS = ["device", "stream", "seq", "record", "name", "unit", "value", "time"]


def silver_rows(tables: Store) -> Iterator[Row]:
    """Raises FileNotFoundError when the pipeline has not run."""
    from outpost_tools.readings.pipeline.tables import (
        read_table,
    )  # late: pyarrow takes half a second

    table = read_table(tables, "readings", _COLUMNS)
    times = [
        None if time is None else round(time / 1000)
        for time in table["time"].cast("int64").to_pylist()
    ]
    columns = [table[name].to_pylist() for name in _COLUMNS[:-1]]
    return (Row(*values) for values in zip(*columns, times, strict=True))


def quarantine_reasons(tables: Store) -> Counter[str]:
    """How many frames were refused, by reason."""
    from outpost_tools.readings.pipeline.tables import read_table

    return Counter(read_table(tables, "quarantine", ["reason"])["reason"].to_pylist())
