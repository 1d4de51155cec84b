"""Reads the tables for the page: the readings of a time range, and what was refused in it.

Delta's list of files says which days and which arrivals are in a file, and other files are skipped.
So memory grows with the range, not with the history.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from outpost_tools.errors import ToolError
from outpost_tools.messages import labels
from outpost_tools.readings.export import selection
from outpost_tools.readings.pipeline.tables import open_dataset, within_days
from outpost_tools.store.at import Place

LAST = "7d"  # the default
ALL = "all"
READING_COLUMNS = [
    "device", "stream", "boot", "record", "seq", "name", "unit", "value", "time", "received",
    "placed", "clock_unset",
]  # fmt: skip
_REFUSED_COLUMNS = ["reason", "topic", "received", "payload"]
# Otherwise a board whose clock is ahead would extend the page into the future.
_AHEAD = pd.Timedelta(hours=1)
_END_US = 2 * labels.MAX_TIME_S * 1_000_000  # 2229
_UNKNOWN = pd.Timestamp(
    0, tz="UTC"
)  # the arrival of what is not a frame (readings/pipeline/exact.py)


@dataclass(frozen=True)
class TimeRange:
    """since <= time < until; None: open."""

    since: pd.Timestamp | None = None
    until: pd.Timestamp | None = None

    def days(self) -> str | None:
        """As SQL, to skip files."""
        ends = (None if end is None else end.date() for end in (self.since, self.until))
        return within_days(*ends)

    def arrivals(self) -> str | None:
        found = [] if self.since is None else [f"received >= '{_iso(self.since)}'"]
        if self.until is not None:
            found.append(f"received < '{_iso(self.until)}'")
        return " AND ".join(found) or None

    def rows(self, column: str) -> pc.Expression:
        """The rows that have a time within the range."""
        field = pc.field(column)
        found = field.is_valid()
        if self.since is not None:
            found &= field >= _scalar(self.since)
        if self.until is not None:
            found &= field < _scalar(self.until)
        return found


@dataclass(frozen=True)
class Wish:
    """The options. last_us: before `until`, or before the newest arrival; None: all."""

    since: pd.Timestamp | None = None
    until: pd.Timestamp | None = None
    last_us: int | None = None

    def within(self, newest_arrival: pd.Timestamp | None) -> TimeRange:
        end = self.until if self.until is not None else newest_arrival
        if self.last_us is None or end is None:
            return TimeRange(self.since, self.until)
        return TimeRange(end - pd.Timedelta(self.last_us, "us"), self.until)


def wish(since: str | None = None, until: str | None = None, last: str | None = None) -> Wish:
    """Parses the options' texts. Raises ToolError that names the option."""
    if last is not None and since is not None:
        raise ToolError("--last and --since: give one of them")
    begin = None if since is None else _moment(since, "--since")
    end = None if until is None else _moment(until, "--until")
    if begin is not None and end is not None and begin >= end:
        raise ToolError("--until is not after --since: no reading has such a time")
    if begin is not None or last == ALL:
        return Wish(begin, end)
    try:
        return Wish(None, end, selection.span_us(last or LAST, "--last"))
    except ToolError as error:
        raise ToolError(f"{error}, or `all`") from None


def readings(tables: Place, wanted: TimeRange) -> pa.Table:
    """Raises FileNotFoundError, ToolError."""
    data = open_dataset(tables, "readings", wanted.days())
    return data.to_table(columns=READING_COLUMNS, filter=wanted.rows("time"))


def past(rows: pa.Table, newest_arrival: pd.Timestamp) -> pa.Table:
    """Without times in the future."""
    return rows.filter(pc.less_equal(rows["time"], _scalar(newest_arrival + _AHEAD)))


def refused(tables: Place, wanted: TimeRange) -> Iterator[pd.DataFrame]:
    """The quarantine's rows, a batch at a time, because payloads are long. Unreadable pieces of
    segments belong to any range, because nobody knows when they arrived."""
    where, unknown = wanted.arrivals(), f"received = '{_iso(_UNKNOWN)}'"
    data = open_dataset(tables, "quarantine", where and f"({where}) OR {unknown}")
    rows = wanted.rows("received") | (pc.field("received") == _scalar(_UNKNOWN))
    for batch in data.to_batches(columns=_REFUSED_COLUMNS, filter=rows):
        if batch.num_rows:
            yield batch.to_pandas()


def by_reason(parts: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """One row per reason: how many, from which topics, the newest time and one payload."""
    found: dict[str, dict] = {}
    for part in parts:
        for reason, rows in part.groupby("reason"):
            newest = rows.loc[rows["received"].idxmax()]
            row = found.setdefault(
                str(reason), {"reason": str(reason), "count": 0, "topics": {}, "last": None}
            )
            row["count"] += len(rows)
            row["topics"] |= dict.fromkeys(sorted(rows["topic"].unique()))
            if row["last"] is None or newest["received"] > row["last"]:
                row["last"], row["example"] = newest["received"], newest["payload"]
    columns = ["reason", "count", "topics", "last", "example"]
    rows = [one | {"topics": list(one["topics"])} for one in found.values()]
    frame = pd.DataFrame(rows, columns=columns)
    return frame.sort_values(["count", "reason"], ascending=[False, True], ignore_index=True)


def _moment(text: str, option: str) -> pd.Timestamp:
    """Clipped to the times that a table can have: people write 0001-01-01 or 9999-12-31 for "open",
    and nanoseconds cannot represent them."""
    moment_us = selection.moment_us(text, option)
    return pd.Timestamp(min(max(moment_us, 0), _END_US), unit="us", tz="UTC")


def _iso(time: pd.Timestamp) -> str:
    return time.tz_convert("UTC").strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _scalar(time: pd.Timestamp) -> pa.Scalar:
    moment: datetime.datetime = time.to_pydatetime(warn=False)
    return pa.scalar(moment, pa.timestamp("us", "UTC"))
