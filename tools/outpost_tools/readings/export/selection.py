"""Which readings the user wants: by device, metric and time."""

from __future__ import annotations

import datetime
import fnmatch
import re
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from outpost_tools.errors import ToolError
from outpost_tools.messages import labels

_UNITS_S = {"m": 60, "h": 3600, "d": 86_400}
_SPAN = re.compile(r"(\d+(?:\.\d+)?)([mhd])\Z")


@dataclass(frozen=True)
class Selection:
    """Shell patterns; none: all. Times in microseconds since 1970, `until_us` excluded."""

    devices: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    since_us: int | None = None
    until_us: int | None = None

    @property
    def has_times(self) -> bool:
        return self.since_us is not None or self.until_us is not None

    def of_devices(self, rows: pa.Table) -> pa.Table:
        return _matching(rows, "device", self.devices)

    def of_metrics(self, rows: pa.Table) -> pa.Table:
        return _matching(rows, "name", self.metrics)

    def in_time(self, rows: pa.Table) -> pa.Table:
        """Drops readings that have no time, if a time was asked for."""
        if not self.has_times:
            return rows
        time = rows["time"].cast(pa.int64())
        fits = pc.is_valid(time)
        if self.since_us is not None:
            fits = pc.and_(fits, pc.greater_equal(time, self.since_us))
        if self.until_us is not None:
            fits = pc.and_(fits, pc.less(time, self.until_us))
        return rows.filter(pc.fill_null(fits, False))


def _matching(rows: pa.Table, column: str, patterns: tuple[str, ...]) -> pa.Table:
    if not patterns:
        return rows
    encoded = rows[column].combine_chunks().dictionary_encode()
    fits = [
        any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
        for name in encoded.dictionary.to_pylist()
    ]
    return rows.filter(pa.array(np.array(fits, dtype=bool)[encoded.indices.to_numpy()]))


def moment_us(text: str, option: str) -> int:
    """Converts an ISO 8601 date or time; UTC unless it has an offset. Raises ToolError."""
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise ToolError(
            f"{option} {text}: not a date or time; write 2026-11-22, 2026-11-22T10:30 or "
            "2026-11-22T10:30:00+01:00 (UTC unless it says otherwise)"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return round(moment.timestamp() * 1_000_000)


def span_us(text: str, option: str) -> int:
    """Converts 90m, 24h or 7d. Raises ToolError."""
    found = _SPAN.match(text)
    if not found or not 0 < float(found[1]) * _UNITS_S[found[2]] <= labels.MAX_TIME_S:
        raise ToolError(f"{option} {text}: not a duration; write 90m, 24h or 7d")
    return round(float(found[1]) * _UNITS_S[found[2]] * 1_000_000)
