"""What of a board is in the tables: a receipt for flash that it has freed.

The state of a stream says which numbers silver holds, and the mark of its round says which commit
of `readings` brought the last of them: in that version, and in every later one, all of these
numbers are there (unless somebody deletes them). So whoever asks what became of a reading gets a
version of a table, which any engine reads.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import NamedTuple

import pyarrow.compute as pc

from outpost_tools.errors import ToolError
from outpost_tools.readings.pipeline import delta, plan, schemas, tables
from outpost_tools.store.at import at


class Receipt(NamedTuple):
    """Of a stream. ranges: first and last number, in order. version: of `readings`; committed: when
    that was, None if its log no longer shows it, and then the version is the newest. is_numbered:
    of other people's messages, `ranges` only counts them."""

    stream: str
    ranges: list[tuple[int, int]]
    version: int
    committed: datetime.datetime | None
    is_numbered: bool = True

    @property
    def messages(self) -> int:
        return sum(last - first + 1 for first, last in self.ranges)

    @property
    def missing(self) -> int:
        """Numbers between the first and the last that are not there."""
        return self.ranges[-1][1] - self.ranges[0][0] + 1 - self.messages if self.ranges else 0


def of_device(tables_dir: delta.Place, device: str) -> list[Receipt]:
    """One for each stream of the board. Raises ToolError for a board that no table knows."""
    streams = delta.open_table(at(tables_dir) / "streams")
    files = delta.files_of(streams, lambda one: one.overlaps("device", device, device))
    is_mine = pc.field("device") == device
    rows = tables.read_near(streams.place, files, schemas.STREAM, is_mine)
    if not rows.num_rows:
        raise ToolError(f"{tables_dir}: nothing of a board {device!r}")
    version, committed = _commit(at(tables_dir) / "readings", plan.mark(streams))
    found = [
        Receipt(row["stream"], [*_pairs(row["ranges"])], version, committed, row["names"] is None)
        for row in rows.to_pylist()
    ]
    return sorted(found)


def _pairs(flat: list[int]) -> Iterator[tuple[int, int]]:
    yield from zip(flat[::2], flat[1::2], strict=True)


def _commit(readings: delta.Place, mark: int) -> tuple[int, datetime.datetime | None]:
    """The version of `readings` that brought the round of this mark, and when."""
    table = delta.open_table(readings)
    version = delta.version_with(table, [plan.marked(mark)])
    if version is None:
        return table.version(), None
    said = next(one["commitInfo"] for one in table.actions(version) if "commitInfo" in one)
    return version, datetime.datetime.fromtimestamp(said["timestamp"] / 1000, datetime.UTC)


def text(device: str, found: list[Receipt]) -> str:
    """For people: a line for each stream."""
    lines = []
    for one in found:
        when = f", committed {one.committed:%Y-%m-%d %H:%M:%S} UTC" if one.committed else ""
        if not one.is_numbered:
            said = f"{device}, source {one.stream!r}: {one.messages:,} messages, without numbers,"
            lines.append(f"{said} are in `readings` version {one.version}{when}")
            continue
        but = f", but for {one.missing:,} numbers that are missing" if one.missing else ""
        ends = f"{one.ranges[0][0]} to {one.ranges[-1][1]}" if one.ranges else "none"
        lines.append(
            f"{device}, stream {one.stream}: numbers {ends}{but}, are in `readings` version "
            f"{one.version}{when}"
        )
    return "\n".join(lines)
