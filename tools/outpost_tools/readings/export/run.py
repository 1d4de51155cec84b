"""Reads the log twice: first to find the messages and the boots' clocks, then for the rows. Copies
of a message that differ are read once more, each at its place.

One portion of the segments is in memory at a time; a small log stays there between the two passes.
Memory grows as copies.py describes, by one clock for each boot, and with `by_time` by all exported
rows.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from outpost_tools.log import segments
from outpost_tools.readings.export.copies import Copies
from outpost_tools.readings.export.foreign_copies import ForeignCopies
from outpost_tools.readings.export.log_files import Log, SegmentFile, fetched
from outpost_tools.readings.export.selection import Selection
from outpost_tools.readings.export.sinks import Sink
from outpost_tools.readings.pipeline import clocks, decode, exact, promises, schemas
from outpost_tools.readings.sources.mapping import Mapping

# The fast reader pays off from a few dozen messages. A collector that seals every five seconds
# leaves 17,000 segments a day, most of them smaller.
_SMALL_BYTES = 8192
_CLOCKS_HELD = 1 << 16
_KEPT_BYTES = 32 << 20  # of the log: about 100 MB decoded
_BY_TIME = [(name, "ascending") for name in ("time", "device", "stream", "seq", "record")]
_BY_PLACE = [(name, "ascending") for name in ("segment", "offset", "record")]
Step = Callable[[int], None]


@dataclass
class Account:
    """What was found, besides the rows that were written. names: of the metrics, where some were
    asked for; matched: readings of those, whatever their time."""

    messages: int = 0
    repeats: int = 0
    rows: int = 0
    matched: int = 0
    without_time: int = 0
    newest_us: int | None = None
    refused: Counter[str] = field(default_factory=Counter)
    damage: list[str] = field(default_factory=list)
    conflicts: Counter[str] = field(default_factory=Counter)
    names: set[str] = field(default_factory=set)


def schema_of(columns: list[str]) -> pa.Schema:
    return pa.schema([schemas.READING.field(name) for name in columns])


def bytes_to_read(log: Log) -> int:
    return log.size if log.size <= _KEPT_BYTES else 2 * log.size


def export(
    log: Log,
    chosen: Selection,
    columns: list[str],
    sink: Sink,
    *,
    by_time: bool = False,
    mapping: Mapping | None = None,
    step: Step = lambda size: None,
) -> Account:
    """Write the chosen readings. mapping: for other people's messages. step: called with the size
    of each segment that was read; the total is bytes_to_read(). Raises ToolError."""
    return _Export(log, chosen, columns, sink, by_time, step, mapping).run()


class _Export:
    def __init__(
        self,
        log: Log,
        chosen: Selection,
        columns: list[str],
        sink: Sink,
        by_time: bool,
        step: Step,
        mapping: Mapping | None = None,
    ) -> None:
        self._log, self._chosen, self._columns, self._sink = log, chosen, columns, sink
        self._by_time, self._mapping, self._step = by_time, mapping, step
        self._copies = Copies(log.collectors, self._read_at)
        self._foreign = ForeignCopies(log.collectors)
        self._account = Account()
        self._held: list[pa.Table] = []
        self._portions: list[pa.Table] = []  # of a small log

    def run(self) -> Account:
        known = self._survey()
        for readings in self._portions or self._again():
            self._take(clocks.place(readings.filter(pa.array(self._kept(readings))), known))
        if self._held:
            self._write(pa.concat_tables(self._held).sort_by(_BY_TIME))
        self._account.conflicts = self._copies.conflicts
        return self._account

    def _kept(self, readings: pa.Table) -> np.ndarray:
        """Which rows count."""
        is_foreign = promises.are_foreign(readings)
        if not is_foreign.any():
            return self._copies.keep(readings)
        kept = np.zeros(readings.num_rows, dtype=bool)
        for which, copies in ((is_foreign, self._foreign), (~is_foreign, self._copies)):
            kept[which] = copies.keep(readings.filter(pa.array(which)))
        return kept

    def _survey(self) -> pa.Table:
        """The clocks of all boots; counts the refused frames."""
        found, size = [clocks.CLOCKS.empty_table()], 0
        for portion in self._log.portions():
            readings, refused = self._read(portion)
            self._count(refused)
            self._note(readings)
            if bytes_to_read(self._log) == self._log.size:
                self._portions.append(readings)
            found.append(clocks.from_readings(readings))
            size += found[-1].num_rows
            if size > _CLOCKS_HELD:
                found, size = [clocks.lowest(pa.concat_tables(found))], 0
        for copies in (self._copies, self._foreign):
            copies.settle()
            self._account.messages += copies.messages
            self._account.repeats += copies.repeats
        return clocks.lowest(pa.concat_tables(found))

    def _note(self, readings: pa.Table) -> None:
        is_foreign = promises.are_foreign(readings)
        if is_foreign.any():
            self._foreign.note(readings.filter(pa.array(is_foreign)))
            readings = readings.filter(pa.array(~is_foreign))
        self._copies.note(readings)

    def _again(self) -> Iterator[pa.Table]:
        for portion in self._log.portions():
            yield self._read(portion)[0]

    def _read(self, portion: list[SegmentFile]) -> tuple[pa.Table, pa.Table]:
        """(readings of the chosen devices in the log's order, refused frames)."""
        rows = pa.Table.from_batches(self._batches(portion), schemas.FRAME)
        readings = _in_order(self._chosen.of_devices(_of_messages(rows))).combine_chunks()
        return readings, rows.filter(pc.is_valid(rows["reason"])).select(schemas.QUARANTINE)

    def _batches(self, portion: list[SegmentFile]) -> Iterator[pa.RecordBatch]:
        portion = fetched(portion)
        small = [file for file in portion if file.size < _SMALL_BYTES]
        yield from exact.arrow_batches(chain.from_iterable(map(self._small, small)))
        for file in portion:
            if file.size >= _SMALL_BYTES:
                place = (file.read(), file.collector, file.number)
                yield from decode.segment_batches(
                    *place, mapping=self._mapping, is_open=file.is_open
                )
                self._step(file.size)

    def _read_at(self, places: list[tuple[str, int, int]]) -> pa.Table:
        """The rows of the messages at these (collector, segment, offset), in this order."""
        files = {(file.collector, file.number): file for file in self._log.files}
        offsets, found = defaultdict(list), {}
        for collector, number, offset in places:
            offsets[collector, number].append(offset)
        for key, theirs in offsets.items():
            contents = segments.Contents(files[key].read(), is_open=files[key].is_open)
            for offset in theirs:
                _, (end,) = next(contents.runs(offset, most=1))
                frame = segments.decoded(contents.data, offset, end)
                found[*key, offset] = exact.frame_rows(frame, *key)
        rows = chain.from_iterable(found[place] for place in places)
        return _of_messages(pa.Table.from_batches(exact.arrow_batches(rows), schemas.FRAME))

    def _small(self, file: SegmentFile) -> Iterator[tuple]:
        self._step(file.size)
        place = (file.read(), file.collector, file.number)
        return exact.segment_rows(*place, mapping=self._mapping, is_open=file.is_open)

    def _count(self, refused: pa.Table) -> None:
        for row in refused.select(["reason", "collector", "segment", "offset"]).to_pylist():
            reason = row["reason"]
            if reason.startswith(schemas.DAMAGE):
                place = f"{row['collector']}, segment {row['segment']}, byte {row['offset']}"
                self._account.damage.append(f"{place}: {reason}")
            else:
                self._account.refused[reason] += 1

    def _take(self, rows: pa.Table) -> None:
        account = self._account
        if self._chosen.metrics:
            account.names |= set(pc.unique(rows["name"]).to_pylist())
        rows = self._chosen.of_metrics(rows)
        account.matched += rows.num_rows
        if self._chosen.has_times:
            account.without_time += rows["time"].null_count
            newest = pc.max(rows["time"].cast(pa.int64())).as_py()
            account.newest_us = max(
                (one for one in (account.newest_us, newest) if one is not None), default=None
            )
        rows = self._chosen.in_time(rows)
        account.rows += rows.num_rows
        if self._by_time:
            self._held.append(rows)
        elif rows.num_rows:
            self._write(rows)

    def _write(self, rows: pa.Table) -> None:
        if "guarantee" in self._columns:
            rows = promises.written(rows)
        self._sink.write(rows.select(self._columns))


def _of_messages(rows: pa.Table) -> pa.Table:
    """The readings among the rows of frames."""
    return rows.filter(pc.is_null(rows["reason"])).select(schemas.READING.names)


def _in_order(rows: pa.Table) -> pa.Table:
    """By segment, offset and record; most portions are sorted already."""
    places = [rows[name].to_numpy() for name, _ in _BY_PLACE]
    is_sorted = np.ones(max(rows.num_rows - 1, 0), dtype=bool)
    is_same = is_sorted.copy()
    for values in places:
        is_sorted &= ~is_same | (values[1:] >= values[:-1])
        is_same &= values[1:] == values[:-1]
    return rows if is_sorted.all() else rows.sort_by(_BY_PLACE)
