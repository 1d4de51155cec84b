"""Other people's messages in the fast reader: the same rows as foreign_rows.frame_rows(), of many
frames at once, in columns. A test compares the two."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from outpost_tools.log import segments
from outpost_tools.readings.pipeline import foreign_rows, schemas
from outpost_tools.readings.sources.decode import decode
from outpost_tools.readings.sources.mapping import Mapping
from outpost_tools.readings.sources.result import Message, Reading

Frames = dict[str, np.ndarray]  # see decode.py
_SPECIAL = segments.FLAG_TRUNCATED
_COLUMNS = ("flags", "received_ms", "topic_at", "payload_at", "end")


@dataclass
class Batch:
    """Messages side by side: an entry of each list for a message, and its readings in `readings`.
    rest: the places of frames that are no plain message."""

    places: list[int] = field(default_factory=list)
    heads: list[tuple[str, str, int, bool | None, str]] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)
    rest: list[int] = field(default_factory=list)

    def arrow(self, frames: Frames, collector: str, number: int) -> pa.RecordBatch:
        """Rows of schemas.FRAME."""
        counts, readings = np.array(self.counts), self.readings
        at = pa.array(np.repeat(np.arange(len(counts)), counts))
        devices, streams, seqs, placed, promised = zip(*self.heads, strict=True)

        def each(values: Any, kind: pa.DataType | None = None) -> pa.Array:
            return pa.array(values, kind).take(at)

        mine = {name: frames[name][self.places] for name in ("received_ms", "begin", "flags")}
        is_set = np.repeat(mine["flags"] & segments.FLAG_CLOCK_UNSET == 0, counts)
        seq, begins = each(seqs, pa.int64()), np.cumsum(counts) - counts
        columns = {
            "device": each(devices, pa.string()),
            "stream": each(streams, pa.string()),
            "seq": seq,
            "record": pa.array(np.arange(len(readings)) - np.repeat(begins, counts)),
            "boot": pa.array(np.zeros(len(readings), np.int32)),
            "held": seq,
            "name": pa.array([one.name for one in readings], pa.string()),
            "unit": pa.array([one.unit for one in readings], pa.string()),
            "value": pa.array([one.value for one in readings], pa.float64()),
            "time": pa.array([one.time_us for one in readings], pa.int64()),
            "placed": each(placed, pa.bool_()),
            "guarantee": each(promised, pa.string()),
            "received": each(mine["received_ms"].astype(np.int64) * 1000),
            "collector": pa.repeat(pa.scalar(collector, pa.string()), len(readings)),
            "segment": pa.repeat(pa.scalar(number, pa.int64()), len(readings)),
            "offset": each(mine["begin"]),
            "clock_unset": pa.array(~is_set, mask=is_set),
        }
        return schemas.frame_batch(columns, len(readings))


def read(
    mapping: Mapping, data: bytes, frames: Frames, collector: str, number: int
) -> tuple[list[pa.RecordBatch], list[tuple]]:
    """(batches of messages, rows of the other frames), of schemas.FRAME."""
    found = _decoded(mapping, data, frames, collector, number)
    rows: list[tuple] = []
    for place in found.rest:
        begin, end = (int(frames[name][place]) for name in ("begin", "end"))
        frame = segments.decoded(data, begin, end)
        rows += foreign_rows.frame_rows(mapping, frame, collector, number)
    return [found.arrow(frames, collector, number)] if found.places else [], rows


def _decoded(mapping: Mapping, data: bytes, frames: Frames, collector: str, number: int) -> Batch:
    made, begins = Batch(), frames["begin"].tolist()
    for place, (flags, received_ms, topic_at, payload_at, end) in enumerate(_spans(frames)):
        if flags & _SPECIAL:
            made.rest.append(place)
            continue
        topic, payload = data[topic_at:payload_at], data[payload_at:end]
        arrival_ms = None if flags & segments.FLAG_CLOCK_UNSET else received_ms
        found = decode(mapping, topic, payload, arrival_ms, flags & segments.FLAG_RETAIN > 0)
        if type(found) is not Message:
            made.rest.append(place)
        elif not found.is_last_known:
            where = (collector, number, begins[place])
            made.places.append(place)
            made.heads.append(foreign_rows.head_of(found, topic, payload, where))
            made.counts.append(len(found.readings))
            made.readings += found.readings
    return made


def _spans(frames: Frames) -> Iterator[tuple[int, ...]]:
    return zip(*(frames[name].tolist() for name in _COLUMNS), strict=True)
