"""The exact reader: from a segment's frames to rows and Arrow batches, one message at a time.

message.decode() decides what is a message, and names the fault of what is not. decode.py reads
plain messages faster; a test compares the two row for row.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from outpost_tools.log import collector_notes, segments
from outpost_tools.messages import labels, message
from outpost_tools.readings.pipeline import foreign_rows, schemas
from outpost_tools.readings.sources import belongs
from outpost_tools.readings.sources.mapping import Mapping

_ROWS_PER_BATCH = 10_000
_BYTES_PER_BATCH = 16 << 20  # of payload


def segment_rows(
    data: bytes,
    collector: str,
    number: int,
    versions: tuple[int, ...] = labels.VERSIONS,
    mapping: Mapping | None = None,
    *,
    is_open: bool = False,
) -> Iterator[tuple]:
    """The rows of one segment by the exact reader only, in the order of schemas.FRAME. is_open: it
    is not sealed, so it need not have an end."""
    found = segments.Contents(data, is_open=is_open)
    for frame in found.frames():
        yield from frame_rows(frame, collector, number, versions, mapping)
    yield from damage_rows(found, collector, number)


def damage_rows(found: segments.Contents, collector: str, number: int) -> Iterator[tuple]:
    """The unreadable pieces, with a copy of their bytes: one row for each piece."""
    for piece in found.damage:
        origin = (0, collector, number, piece.begin, None)
        payload = found.data[piece.begin : piece.end]
        yield (*schemas.NO_MESSAGE, *origin, str(piece), "", payload, False, len(payload))


def frame_rows(
    frame: segments.Frame,
    collector: str,
    number: int,
    versions: tuple[int, ...] = labels.VERSIONS,
    mapping: Mapping | None = None,
) -> list[tuple]:
    """One row per reading, and one for the frame when it is not, or only in part, a message."""
    if mapping is not None and belongs.is_foreign(mapping, frame.topic, frame.payload):
        return foreign_rows.frame_rows(mapping, frame, collector, number)
    topic = frame.topic.decode("utf-8", "replace")
    origin = schemas.origin_of(frame, collector, number)
    refused = (topic, frame.payload, frame.retained, frame.original_length)
    if note := collector_notes.reason_of(topic, frame.payload):
        return [(*schemas.NO_MESSAGE, *origin, note, *refused)]
    try:
        pack = message.decode(
            topic,
            frame.payload,
            retained=frame.retained,
            original_length=frame.original_length,
            versions=versions,
            received_ms=frame.arrival_ms,
        )
    except message.Malformed as error:
        return [(*schemas.NO_MESSAGE, *origin, str(error), *refused)]
    rows = [_row(pack, place, one, origin) for place, one in enumerate(pack.readings)]
    if pack.left_out:
        rows.append((*schemas.NO_MESSAGE, *origin, message.left_out_reason(pack), *refused))
    return rows


def _row(pack: message.Message, place: int, r: message.Reading, origin: tuple) -> tuple:
    head = (pack.device, pack.stream, pack.seq, place, pack.boot, pack.held)
    times = (pack.uptime_s, r.shift_s, pack.version)
    value = (r.name, r.unit, r.value, _micros(r.time_s), None, None)
    return (*head, *times, *value, *origin, *schemas.NOT_REFUSED)


def _micros(time_s: float | None) -> int | None:
    return None if time_s is None else round(time_s * 1_000_000)


def arrow_batches(rows: Iterator[tuple]) -> Iterator[pa.RecordBatch]:
    """Rows packed into batches bounded in rows and in payload bytes."""
    payload = schemas.FRAME.get_field_index("payload")
    held, length = [], 0
    for row in rows:
        held.append(row)
        length += len(row[payload] or b"")
        if len(held) >= _ROWS_PER_BATCH or length >= _BYTES_PER_BATCH:
            yield _record_batch(held)
            held, length = [], 0
    if held:
        yield _record_batch(held)


def _record_batch(rows: list[tuple]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [
        pa.array(column, field.type) for column, field in zip(columns, schemas.FRAME, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schemas.FRAME)
