"""From the bytes of a segment to Arrow batches of schemas.FRAME.

The fast reader: it reads the messages that are clearly valid. msgspec decodes a pack into typed
records in C and refuses anything unusual (a wrong type, an unknown label); series are read side by
side (series_rows.py). What these refuse goes to the exact reader (exact.py). The two readers agree
row for row.

Why msgspec: it checks types and labels while it parses, whereas orjson returns dictionaries for
Python to check, and pyarrow.json fails a whole block of messages because of one odd message.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, compress
from typing import Annotated, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from outpost_tools.log import segments
from outpost_tools.messages import arrival, labels, name_rules
from outpost_tools.readings.pipeline import exact, foreign_batches, schemas
from outpost_tools.readings.pipeline.series_batches import SeriesReader
from outpost_tools.readings.sources import belongs
from outpost_tools.readings.sources.mapping import Mapping

_FRAMES_PER_BATCH = 4096
_BYTES_PER_BATCH = 1 << 20  # of payload: bounds the number of rows in a batch
_NAMES_REMEMBERED = 100_000
_HEADER = np.dtype(list(segments.HEADER))
_UNDECIDED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


# For each frame: segments.HEADER, begin, end, topic_at, payload_at.
Frames = dict[str, np.ndarray]
_ABSENT = -1  # an integer that the pack does not have


def _record_type() -> type[msgspec.Struct]:
    """A plain record, by labels.py: an unknown label, or a value of another type, is refused."""
    kinds: dict[str, Any] = dict.fromkeys(labels.TEXTS, str)
    for label, (lowest, highest) in labels.NUMBERS.items():
        kinds[label] = Annotated[float, msgspec.Meta(ge=float(lowest), le=float(highest))]
    optional = [
        (label, kind | None, None) for label, kind in kinds.items() if label not in labels.REQUIRED
    ]
    for label, maximum in labels.INTEGERS.items():
        optional.append((label, Annotated[int, msgspec.Meta(ge=0, le=maximum)], _ABSENT))
    required = [(label, kinds[label]) for label in labels.REQUIRED]
    return msgspec.defstruct("_Record", required + optional, gc=False, forbid_unknown_fields=True)


_Record = _record_type()
_decode_pack = msgspec.json.Decoder(list[_Record]).decode


def segment_batches(
    data: bytes,
    collector: str,
    number: int,
    versions: tuple[int, ...] = labels.VERSIONS,
    mapping: Mapping | None = None,
    *,
    is_open: bool = False,
) -> Iterator[pa.RecordBatch]:
    """All rows of one segment, in no particular order. mapping: for other people's messages.
    is_open: it is not sealed, so it need not have an end."""
    reader = _Reader(data, collector, number, versions, mapping)
    found = segments.Contents(data, is_open=is_open)
    for begin, ends in found.runs(most=_FRAMES_PER_BATCH, most_bytes=_BYTES_PER_BATCH):
        yield from reader.read(begin, ends)
    yield from exact.arrow_batches(exact.damage_rows(found, collector, number))


def _decoded(payloads: list[bytes]) -> list[list[_Record] | None]:
    """Each payload's records; None (or an empty list) for what is not plain."""
    try:
        return [_decode_pack(payload) for payload in payloads]
    except _UNDECIDED:
        return [_decoded_one(payload) for payload in payloads]


def _decoded_one(payload: bytes) -> list[_Record] | None:
    try:
        return _decode_pack(payload)
    except _UNDECIDED:
        return None


@contextlib.contextmanager
def _without_collector() -> Iterator[None]:
    """Otherwise Python would search a chunk's thousands of lists for cycles, repeatedly; they have
    none."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@dataclass
class _Chunk:
    """Frames side by side: each list and array has one entry per frame. columns: Frames, and the
    labels of the first record: seq, held, boot, ver. heads: the first record of each pack, once
    none is empty. names: the devices."""

    columns: Frames
    packs: list[list[_Record]]
    heads: list[_Record]
    names: list[str]

    def without(self, places: np.ndarray) -> _Chunk:
        keep = np.ones(len(self.packs), dtype=bool)
        keep[places] = False
        return _Chunk(
            _of(self.columns, keep),
            list(compress(self.packs, keep)),
            list(compress(self.heads, keep)),
            list(compress(self.names, keep)),
        )


def _of(frames: Frames, keep: np.ndarray) -> Frames:
    return {name: values[keep] for name, values in frames.items()}


def _floats(values: list[float | None], absent: float) -> np.ndarray:
    """By Arrow, which takes None three times as fast as numpy does."""
    return pc.fill_null(pa.array(values, pa.float64()), absent).to_numpy()


def _is_clock_unset(frames: Frames) -> np.ndarray:
    return frames["flags"] & segments.FLAG_CLOCK_UNSET > 0


class _Reader:
    """Splits the frames of a chunk into plain messages and rows of the exact reader, and packs both
    into batches."""

    def __init__(
        self,
        data: bytes,
        collector: str,
        number: int,
        versions: tuple[int, ...],
        mapping: Mapping | None,
    ) -> None:
        self._data, self._collector, self._number = data, collector, number
        self._versions, self._mapping = versions, mapping
        self._bytes = np.frombuffer(data, np.uint8)
        self._devices: dict[tuple[bytes, str | None, str | None], str] = {}
        self._series = SeriesReader(data, collector, number)

    def read(self, begin: int, ends: list[int]) -> Iterator[pa.RecordBatch]:
        """The rows of these frames; bounded by _FRAMES_PER_BATCH and _BYTES_PER_BATCH."""
        if len(self._devices) > _NAMES_REMEMBERED:  # a flood of made-up names
            self._devices.clear()
        frames = self._frames(begin, ends)
        if self._mapping is not None:
            is_foreign = self._which_are_foreign(self._mapping, frames)
            yield from self._foreign(self._mapping, _of(frames, is_foreign))
            frames = _of(frames, ~is_foreign)
        is_series = self._series.which(frames)
        if is_series.any():
            yield from self._series.read(_of(frames, is_series))
            frames = _of(frames, ~is_series)
        with _without_collector():
            batch, rows = self._sorted(frames)
        if batch.num_rows:
            yield batch
        yield from exact.arrow_batches(iter(rows))

    def _which_are_foreign(self, mapping: Mapping, frames: Frames) -> np.ndarray:
        data = self._data
        spans = (frames[name].tolist() for name in ("topic_at", "payload_at", "end"))
        return np.fromiter(
            (
                belongs.is_foreign(mapping, data[begin:at], data[at:end])
                for begin, at, end in zip(*spans, strict=True)
            ),
            bool,
            len(frames["begin"]),
        )

    def _foreign(self, mapping: Mapping, frames: Frames) -> Iterator[pa.RecordBatch]:
        with _without_collector():
            place = (self._collector, self._number)
            batches, rows = foreign_batches.read(mapping, self._data, frames, *place)
        yield from batches
        yield from exact.arrow_batches(iter(rows))

    def _sorted(self, frames: Frames) -> tuple[pa.RecordBatch, list[tuple]]:
        """(the plain rows, the rows of the exact reader)."""
        chunk, rows = self._chunk(frames), []
        for not_plain in (self._undecided, self._odd_labels, self._odd_records):
            while len(places := not_plain(chunk)):
                for index in places.tolist():
                    rows += self._exact_rows(chunk, index)
                chunk = chunk.without(places)
        return self._plain_batch(chunk), rows

    def _frames(self, begin: int, ends: list[int]) -> Frames:
        end = np.array(ends)
        begins = np.concatenate(([begin], end[:-1]))
        headers = self._bytes[begins[:, None] + np.arange(_HEADER.itemsize)].view(_HEADER)[:, 0]
        topic_at = begins + _HEADER.itemsize
        payload_at = np.minimum(topic_at + headers["topic_length"], end)
        columns = {name: headers[name] for name in _HEADER.names or ()}
        return columns | {
            "begin": begins, "end": end, "topic_at": topic_at, "payload_at": payload_at
        }  # fmt: skip

    def _chunk(self, frames: Frames) -> _Chunk:
        spans = zip(frames["payload_at"].tolist(), frames["end"].tolist(), strict=True)
        packs = _decoded([self._data[begin:end] for begin, end in spans])
        return _Chunk(frames, packs, [], [])

    def _exact_rows(self, chunk: _Chunk, index: int) -> list[tuple]:
        begin, end = (int(chunk.columns[name][index]) for name in ("begin", "end"))
        return exact.frame_rows(
            segments.decoded(self._data, begin, end), self._collector, self._number, self._versions
        )

    @staticmethod
    def _undecided(chunk: _Chunk) -> np.ndarray:
        """Places of the packs that msgspec refused, and of the empty ones."""
        return np.flatnonzero([not pack for pack in chunk.packs])

    def _odd_labels(self, chunk: _Chunk) -> np.ndarray:
        """Places of the packs whose own labels, or whose frames, are not valid."""
        chunk.heads = heads = [pack[0] for pack in chunk.packs]
        columns = chunk.columns
        columns["seq"] = np.array([head.seq for head in heads], np.int64)
        columns["held"] = np.array([head.held for head in heads], np.int64)
        columns["boot"] = np.array([head.boot for head in heads], np.int64)
        columns["ver"] = np.array([head.ver for head in heads], np.int64)
        fits = (columns["held"] >= 0) & (columns["held"] <= columns["seq"])
        fits &= (columns["boot"] >= 0) & np.isin(columns["ver"], self._versions)
        fits &= columns["flags"] & segments.FLAG_RETAIN == 0
        fits &= columns["original_length"] <= labels.MAX_PAYLOAD_BYTES
        chunk.names = self._names(chunk)
        if "" in chunk.names:
            fits &= np.array(list(map(bool, chunk.names)))
        return np.flatnonzero(~fits)

    def _names(self, chunk: _Chunk) -> list[str]:
        """The device of each pack, from topic and base name; empty when they name none, or when the
        stream is invalid."""
        data, devices, columns = self._data, self._devices, chunk.columns
        spans = columns["topic_at"].tolist(), columns["payload_at"].tolist()
        keys = [
            (data[begin:end], head.bn, head.sid)
            for begin, end, head in zip(*spans, chunk.heads, strict=True)
        ]
        names = list(map(devices.get, keys))
        if None not in names:
            return names
        for topic, base_name, stream in set(keys) - devices.keys():
            device = (
                name_rules.device_of(topic.decode("utf-8", "replace"), base_name)
                if labels.is_stream(stream)
                else None
            )
            devices[topic, base_name, stream] = device or ""
        return [devices[key] for key in keys]

    def _odd_records(self, chunk: _Chunk) -> np.ndarray:
        """Places of the packs with an implausible time, an empty name, or base values that change
        within the pack.

        Stores the rows' times, NaN where not known.
        """
        self._counts = np.fromiter(map(len, chunk.packs), np.int64, len(chunk.packs))
        self._records = records = list(chain.from_iterable(chunk.packs))
        pack_of = np.repeat(np.arange(len(chunk.packs)), self._counts)
        self._shifts = _floats([record.t for record in records], 0.0) + 0.0  # no -0.0
        base = _floats([head.bt for head in chunk.heads], np.nan)[pack_of]
        self._times = base + self._shifts
        unknown = np.isnan(base)
        wrong = np.where(
            unknown, self._shifts >= labels.MIN_TIME_S, self._odd_times(chunk, pack_of)
        )
        wrong |= self._is_spread(chunk)[pack_of]
        wrong |= self._has_new_bases(chunk)
        self._labels = [record.n for record in records]
        if "" in self._labels:
            wrong |= np.array([not label for label in self._labels])
        return np.unique(pack_of[wrong])

    def _odd_times(self, chunk: _Chunk, pack_of: np.ndarray) -> np.ndarray:
        """Which records have a time out of range, or far from their arrival."""
        earliest, latest = arrival.limits_of(
            chunk.columns["received_ms"].astype(np.float64) / 1000, _is_clock_unset(chunk.columns)
        )
        fits = (self._times >= earliest[pack_of]) & (self._times <= latest[pack_of])
        return ~(fits & (self._times < labels.MAX_TIME_S))

    def _has_new_bases(self, chunk: _Chunk) -> np.ndarray:
        """Which records after the first of their pack have their own base name or base time."""
        records, heads = self._records, chunk.heads
        is_new = np.zeros(len(records), dtype=bool)
        for values, of_heads in (
            ([record.bn for record in records], [head.bn for head in heads]),
            ([record.bt for record in records], [head.bt for head in heads]),
        ):
            if values.count(None) - len(values) != of_heads.count(None) - len(heads):
                is_new |= np.array([value is not None for value in values])
        is_new[np.cumsum(self._counts) - self._counts] = False
        return is_new

    def _is_spread(self, chunk: _Chunk) -> np.ndarray:
        """Which packs have times that are too far apart."""
        if not chunk.packs:
            return np.zeros(0, dtype=bool)
        times = np.where(np.isnan(self._times), self._shifts, self._times)
        begins = np.cumsum(self._counts) - self._counts
        span = np.maximum.reduceat(times, begins) - np.minimum.reduceat(times, begins)
        return span > labels.MAX_SPAN_S

    def _plain_batch(self, chunk: _Chunk) -> pa.RecordBatch:
        records, heads, counts = self._records, chunk.heads, self._counts
        index = pa.array(np.repeat(np.arange(len(heads)), counts))

        def each(values: list | np.ndarray, kind: pa.DataType | None = None) -> pa.Array:
            return pa.array(values, kind).take(index)

        unset = np.repeat(_is_clock_unset(chunk.columns), counts)
        unknown = np.isnan(self._times)
        micros = np.rint(np.where(unknown, 0, self._times) * 1_000_000).astype(np.int64)
        columns = {
            "device": each(chunk.names, pa.string()),
            "stream": each([head.sid for head in heads], pa.string()),
            "seq": each(chunk.columns["seq"]),
            "record": pa.array(
                np.arange(len(records)) - np.repeat(np.cumsum(counts) - counts, counts)
            ),
            "boot": each(chunk.columns["boot"]),
            "held": each(chunk.columns["held"]),
            "uptime_s": each([head.up for head in heads], pa.float64()),
            "shift_s": pa.array(self._shifts),
            "version": each(chunk.columns["ver"]),
            "name": pa.array(self._labels, pa.string()),
            "unit": pa.array([record.u for record in records], pa.string()),
            "value": pa.array([record.v for record in records], pa.float64()),
            "time": pa.array(micros, mask=unknown),
            "received": each(chunk.columns["received_ms"].astype(np.int64) * 1000),
            "collector": pa.repeat(pa.scalar(self._collector, pa.string()), len(records)),
            "segment": pa.repeat(pa.scalar(self._number, pa.int64()), len(records)),
            "offset": each(chunk.columns["begin"]),
            "clock_unset": pa.array(unset, mask=~unset),
        }
        return schemas.frame_batch(columns, len(records))
