"""Spark data source `outpost`: sealed segments of every collector, decoded, as Arrow record batches.

One row per reading; a frame that is no message gives one row with `reason`, `topic` and `payload` instead. Decoding
here and not in a later step saves one trip of every payload from Python to the JVM and back.

Offsets are {collector: number of the last consumed segment}. Sealed segments never change and are numbered without
holes, so a range of offsets always gives the same rows: Spark's replay of a batch after a kill is exact. A missing
number stops the query: silence would be loss. Knows no tables and no deduplication.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from outpost_tools import message, segments
from outpost_tools.pipeline import schemas

DEFAULT_BATCH_BYTES = 128 << 20  # some 800,000 small messages: bounds the memory of one micro-batch
_PARTITION_BYTES = 8 << 20
_ROWS_PER_ARROW_BATCH = 10_000
_BYTES_PER_ARROW_BATCH = 16 << 20
_NO_MESSAGE = (None,) * schemas.READING.get_field_index("received")


class OutpostSource(DataSource):
    """Options: `path` (the log directory), `maxbytesperbatch`. Spark lower-cases option names."""

    @classmethod
    def name(cls) -> str:
        return "outpost"

    def schema(self) -> StructType:
        return schemas.spark(schemas.FRAME)

    def streamReader(self, schema) -> SegmentReader:  # noqa: N802 (Spark's name)
        return SegmentReader(Path(self.options["path"]), int(self.options.get("maxbytesperbatch", DEFAULT_BATCH_BYTES)))


class Segments(InputPartition):
    """The segment files of one task: [(collector, number), ...]."""


class SegmentReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets at the driver, read() in the executors' Python workers. Spark gives the method names."""

    def __init__(self, log: Path, batch_bytes: int) -> None:
        self._log = log
        self._batch_bytes = batch_bytes
        self._target: dict[str, int] | None = None

    def initialOffset(self) -> dict:  # noqa: N802
        return {name: numbers[0] - 1 for name, numbers in available(self._log).items()}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxBytes(self._batch_bytes)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = {name: numbers[-1] for name, numbers in available(self._log).items()}

    def reportLatestOffset(self) -> dict:  # noqa: N802
        return dict(sorted((name, numbers[-1]) for name, numbers in available(self._log).items()))

    def latestOffset(self, start: dict, limit: ReadLimit) -> dict:  # noqa: N802
        pending = [item for item in waiting(self._log, start) if self._target is None or self._wanted(item)]
        end = dict(start)
        budget = None if isinstance(limit, ReadAllAvailable) else getattr(limit, "max_bytes", self._batch_bytes)
        taken = 0
        for collector, number in pending:
            if budget is not None and taken >= budget:
                break
            end[collector] = number
            taken += segment_path(self._log, collector, number).stat().st_size
        return dict(sorted(end.items()))  # Spark compares offsets as text

    def _wanted(self, item: tuple[str, int]) -> bool:
        return item[1] <= self._target.get(item[0], -1)

    def partitions(self, start: dict, end: dict) -> list[Segments]:
        """Segments in start..end, bundled so that many small ones make few tasks."""
        bundles, size = [[]], 0
        for collector, number in waiting(self._log, start):
            if number > end.get(collector, -1):
                continue
            if size >= _PARTITION_BYTES:
                bundles, size = [*bundles, []], 0
            bundles[-1].append((collector, number))
            size += segment_path(self._log, collector, number).stat().st_size
        _check_complete(bundles, start, end)
        return [Segments(bundle) for bundle in bundles if bundle]

    def read(self, partition: Segments) -> Iterator[pa.RecordBatch]:
        rows = (row for item in partition.value for row in segment_rows(self._log, *item))
        return arrow_batches(rows)


def segment_path(log: Path, collector: str, number: int) -> Path:
    return log / collector / f"segment-{number:012d}.seg"


def available(log: Path) -> dict[str, list[int]]:
    """The numbers of the sealed segments of each collector, ascending; collectors without any are left out."""
    found = {}
    for directory in sorted(path for path in log.iterdir() if path.is_dir()):
        numbers = [segments.segment_number(path) for path in segments.sealed_segments(directory)]
        if numbers:
            found[directory.name] = numbers
    return found


def waiting(log: Path, start: dict) -> list[tuple[str, int]]:
    """(collector, number) of every sealed segment after `start`, oldest numbers first, collectors in turn."""
    items = [
        (number - start.get(collector, numbers[0] - 1), collector, number)
        for collector, numbers in available(log).items()
        for number in numbers
        if number > start.get(collector, -1)
    ]
    return [(collector, number) for _, collector, number in sorted(items)]


def _check_complete(bundles: list[list[tuple[str, int]]], start: dict, end: dict) -> None:
    present = {item for bundle in bundles for item in bundle}
    for collector, last in end.items():
        first = start.get(collector, min((n for c, n in present if c == collector), default=last + 1) - 1) + 1
        for number in range(first, last + 1):
            if (collector, number) not in present:
                raise FileNotFoundError(f"segment {number} of collector {collector} is missing from the log directory")


def segment_rows(log: Path, collector: str, number: int) -> Iterator[tuple]:
    """The rows of one segment, in the order of schemas.FRAME."""
    data = segment_path(log, collector, number).read_bytes()
    end = len(segments.MAGIC)
    if data[:end] != segments.MAGIC:
        yield _damage_row(data, 0, collector, number, "not a segment: wrong magic")
        return
    for frame in segments.scan(data):
        yield from frame_rows(frame, collector, number)
        end = frame.end
    if end != len(data):  # a sealed segment is whole, so this is the disk's doing
        yield _damage_row(data, end, collector, number, f"damaged segment: {len(data) - end} bytes unreadable")


def _damage_row(data: bytes, offset: int, collector: str, number: int, reason: str) -> tuple:
    payload = data[offset : offset + segments.MAX_PAYLOAD_BYTES]
    return (*_NO_MESSAGE, 0, collector, number, offset, reason, "", payload)


def frame_rows(frame: segments.Frame, collector: str, number: int) -> list[tuple]:
    """One row per reading, or the one row of a frame that is no message."""
    topic = frame.topic.decode("utf-8", "replace")
    origin = (frame.received_ms * 1000, collector, number, frame.offset)
    try:
        pack = message.decode(topic, frame.payload, retained=frame.retained, original_length=frame.original_length)
    except message.Malformed as error:
        return [(*_NO_MESSAGE, *origin, str(error), topic, frame.payload)]
    head = (pack.device, pack.stream, pack.seq)
    return [
        (*head, r.index, pack.boot, pack.held, pack.uptime_s, r.name, r.unit, r.value, _micros(r.time_s))
        + (*origin, None, None, None)
        for r in pack.readings
    ]


def _micros(time_s: float | None) -> int | None:
    return None if time_s is None else round(time_s * 1_000_000)


def arrow_batches(rows: Iterator[tuple]) -> Iterator[pa.RecordBatch]:
    """Rows packed into batches bounded in rows and in payload bytes."""
    held, length = [], 0
    for row in rows:
        held.append(row)
        length += len(row[-1] or b"")
        if len(held) >= _ROWS_PER_ARROW_BATCH or length >= _BYTES_PER_ARROW_BATCH:
            yield _record_batch(held)
            held, length = [], 0
    if held:
        yield _record_batch(held)


def _record_batch(rows: list[tuple]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schemas.FRAME, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schemas.FRAME)
