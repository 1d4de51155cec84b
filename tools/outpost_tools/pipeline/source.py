"""Spark data source `outpost`: sealed segments of every collector, decoded, as Arrow record
batches.

One row per reading; a frame that is not a message yields one row with `reason`, `topic` and
`payload` instead. Decoding here rather than in a later step saves sending every payload from
Python to the JVM and back.

Besides the collectors' folders, one belongs to the tables, REPLAY: frames taken out of quarantine
(quarantine.py).

Offsets are {collector: number of the last consumed segment}. Sealed segments never change and are
numbered without gaps, so a range of offsets always yields the same rows: Spark repeats a batch
exactly after a kill. A missing number, or a log that has become shorter, stops the query, because
continuing silently would lose data. Knows no tables and no deduplication: each round starts a
Python process for the offsets, and libraries that read tables (pandas, Arrow's datasets) would
double the CPU of its start.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from outpost_tools.common import labels, segments
from outpost_tools.pipeline import decode, packed, schemas

# about 800,000 small messages: bounds the memory of one micro-batch
DEFAULT_BATCH_BYTES = 128 << 20
_PARTITION_BYTES = 8 << 20
REPLAY = schemas.REPLAY  # not a collector's name: an id does not begin with a dot


class OutpostSource(DataSource):
    """Options: `path` (the log directory), `maxbytesperbatch`, `replay` (a folder), `versions`.
    Spark lower-cases the names.

    With `buckets` the rows come as packed.PACKED.
    """

    @classmethod
    def name(cls) -> str:
        return "outpost"

    def schema(self) -> StructType:
        return schemas.spark(packed.PACKED if self._buckets() else schemas.FRAME)

    def _buckets(self) -> int:
        return int(self.options.get("buckets", 0))

    def streamReader(self, schema) -> SegmentReader:  # noqa: N802 (Spark's name)
        replay, versions = self.options.get("replay"), self.options.get("versions")
        return SegmentReader(
            Path(self.options["path"]),
            int(self.options.get("maxbytesperbatch", DEFAULT_BATCH_BYTES)),
            replay=Path(replay) if replay else None,
            versions=labels.VERSIONS if versions is None else tuple(map(int, versions.split())),
            buckets=self._buckets(),
        )


class Segments(InputPartition):
    """The segment files of one task: [(collector, number), ...]."""


class SegmentReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The driver computes offsets; the executors' Python workers call read().

    The method names are Spark's.
    """

    def __init__(
        self,
        log: Path,
        batch_bytes: int,
        *,
        replay: Path | None = None,
        versions: tuple[int, ...] = labels.VERSIONS,
        buckets: int = 0,
    ) -> None:
        self._log = log
        self._batch_bytes = batch_bytes
        self._replay = replay
        self._versions = versions
        self._buckets = buckets
        self._target: dict[str, int] | None = None

    def initialOffset(self) -> dict:  # noqa: N802
        return {
            name: numbers[0] - 1 for name, numbers in available(self._log, self._replay).items()
        }

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxBytes(self._batch_bytes)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = {
            name: numbers[-1] for name, numbers in available(self._log, self._replay).items()
        }

    def reportLatestOffset(self) -> dict:  # noqa: N802
        return dict(
            sorted(
                (name, numbers[-1]) for name, numbers in available(self._log, self._replay).items()
            )
        )

    def latestOffset(self, start: dict, limit: ReadLimit) -> dict:  # noqa: N802
        _check_not_behind(available(self._log, self._replay), start)
        pending = [
            item
            for item in waiting(self._log, start, self._replay)
            if self._target is None or self._wanted(item)
        ]
        end = dict(start)
        budget = (
            None
            if isinstance(limit, ReadAllAvailable)
            else getattr(limit, "max_bytes", self._batch_bytes)
        )
        taken = 0
        for collector, number in pending:
            if budget is not None and taken >= budget:
                break
            end[collector] = number
            taken += segment_path(self._log, collector, number, self._replay).stat().st_size
        return dict(sorted(end.items()))  # Spark compares offsets as text

    def _wanted(self, item: tuple[str, int]) -> bool:
        return item[1] <= self._target.get(item[0], -1)

    def partitions(self, start: dict, end: dict) -> list[Segments]:
        """Segments in start..end, bundled so that many small ones make few tasks."""
        bundles, size = [[]], 0
        for collector, number in waiting(self._log, start, self._replay):
            if number > end.get(collector, -1):
                continue
            if size >= _PARTITION_BYTES:
                bundles, size = [*bundles, []], 0
            bundles[-1].append((collector, number))
            size += segment_path(self._log, collector, number, self._replay).stat().st_size
        _check_complete(bundles, start, end)
        return [Segments(bundle) for bundle in bundles if bundle]

    def read(self, partition: Segments) -> Iterator[pa.RecordBatch]:
        for collector, number in partition.value:
            data = segment_path(self._log, collector, number, self._replay).read_bytes()
            batches = decode.segment_batches(data, collector, number, self._versions)
            yield from packed.pack(batches, self._buckets) if self._buckets else batches


def segment_path(log: Path, collector: str, number: int, replay: Path | None = None) -> Path:
    folder = replay if replay is not None and collector == REPLAY else log / collector
    return folder / f"segment-{number:012d}.seg"


def available(log: Path, replay: Path | None = None) -> dict[str, list[int]]:
    """The numbers of the sealed segments of each collector, ascending; collectors without any are
    left out."""
    folders = {path.name: path for path in segments.collector_folders(log)}
    if replay is not None:
        folders[REPLAY] = replay
    found = {}
    for name in sorted(folders):
        numbers = [
            segments.segment_number(path) for path in segments.sealed_segments(folders[name])
        ]
        if numbers:
            found[name] = numbers
    return found


def waiting(log: Path, start: dict, replay: Path | None = None) -> list[tuple[str, int]]:
    """(collector, number) of every sealed segment after `start`, lowest numbers first, alternating
    between collectors."""
    items = [
        (number - start.get(collector, numbers[0] - 1), collector, number)
        for collector, numbers in available(log, replay).items()
        for number in numbers
        if number > start.get(collector, -1)
    ]
    return [(collector, number) for _, collector, number in sorted(items)]


def _check_not_behind(present: dict[str, list[int]], start: dict) -> None:
    """Raises FileNotFoundError when the log is behind: an older copy of a collector's log would use
    numbers a second time, and those segments would never be read."""
    for collector, numbers in present.items():
        if numbers[-1] < start.get(collector, -1):
            raise FileNotFoundError(
                f"the log of collector {collector} ends at segment {numbers[-1]}, but "
                f"{start[collector]} has been taken in:"
                " an older copy of it? Put the newer one back, or start again with new tables"
            )


def _check_complete(bundles: list[list[tuple[str, int]]], start: dict, end: dict) -> None:
    present = {item for bundle in bundles for item in bundle}
    for collector, last in end.items():
        first = (
            start.get(
                collector, min((n for c, n in present if c == collector), default=last + 1) - 1
            )
            + 1
        )
        for number in range(first, last + 1):
            if (collector, number) not in present:
                raise FileNotFoundError(
                    f"segment {number} of collector {collector} is missing from the log directory"
                )
