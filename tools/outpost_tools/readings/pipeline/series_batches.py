"""Converts the frames of a segment that hold a series to Arrow batches of schemas.FRAME."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from outpost_tools.log import segments
from outpost_tools.messages import arrival, labels, name_rules, series
from outpost_tools.readings.pipeline import exact, schemas, series_rows

_BYTES_PER_BATCH = 512 << 10  # of payload: bounds the rows of a batch; a byte can make several


class SeriesReader:
    """Reads one segment. Frames: as in decode.py."""

    def __init__(self, data: bytes, collector: str, number: int) -> None:
        self._data, self._collector, self._number = data, collector, number
        self._bytes = np.frombuffer(data, np.uint8)
        self._schemas = series_rows.Schemas()
        self._fits: dict[tuple[bytes, str], bool] = {}

    def which(self, frames: dict[str, np.ndarray]) -> np.ndarray:
        """The frames whose payload begins as a series does."""
        at, found = frames["payload_at"], np.zeros(len(frames["end"]), dtype=bool)
        some = np.flatnonzero(at < frames["end"])
        found[some] = self._bytes[at[some]] == series.MAGIC
        return found

    def read(self, frames: dict[str, np.ndarray]) -> Iterator[pa.RecordBatch]:
        sizes = np.cumsum(frames["end"] - frames["payload_at"])
        for part in np.unique(sizes // _BYTES_PER_BATCH):
            chosen = np.flatnonzero(sizes // _BYTES_PER_BATCH == part)
            yield from self._part({name: values[chosen] for name, values in frames.items()})

    def _part(self, frames: dict[str, np.ndarray]) -> Iterator[pa.RecordBatch]:
        found = series_rows.read(self._bytes, frames["payload_at"], frames["end"], self._schemas)
        good = self._plain(frames, found)
        batch = self._batch(frames, found, good)
        if batch.num_rows:
            yield batch
        rest = np.ones(len(frames["end"]), dtype=bool)
        rest[found.read[good]] = False
        yield from exact.arrow_batches(self._exact(frames, np.flatnonzero(rest)))

    def _exact(self, frames: dict[str, np.ndarray], places: np.ndarray) -> Iterator[tuple]:
        for begin, end in zip(frames["begin"][places], frames["end"][places], strict=True):
            frame = segments.decoded(self._data, int(begin), int(end))
            yield from exact.frame_rows(frame, self._collector, self._number)

    def _plain(self, frames: dict[str, np.ndarray], found: series_rows.Found) -> np.ndarray:
        """Which of the payloads found have nothing odd about their frame, topic or times."""
        read = found.read
        good = frames["flags"][read] & segments.FLAG_RETAIN == 0
        good &= frames["original_length"][read] <= labels.MAX_PAYLOAD_BYTES
        spans = zip(frames["topic_at"][read], frames["payload_at"][read], strict=True)
        topics = [self._data[begin:end] for begin, end in spans]
        good &= np.array(list(map(self._matches, topics, found.devices)), dtype=bool)
        received_s = frames["received_ms"][read].astype(np.float64) / 1000
        unset = frames["flags"][read] & segments.FLAG_CLOCK_UNSET > 0
        earliest, latest = arrival.limits_of(received_s, unset)
        time_s = (found.start_ms[found.message] + found.since_ms) / 1000
        fits = (time_s >= earliest[found.message]) & (time_s <= latest[found.message])
        fits |= ~found.is_clock_set[found.message]
        good[found.message[~fits]] = False
        return good

    def _matches(self, topic: bytes, device: str) -> bool:
        key = topic, device
        if key not in self._fits:
            self._fits[key] = name_rules.is_topic_of(topic.decode("utf-8", "replace"), device)
        return self._fits[key]

    def _batch(
        self, frames: dict[str, np.ndarray], found: series_rows.Found, good: np.ndarray
    ) -> pa.RecordBatch:
        found = found if good.all() else found.only(good)
        of_row, count = found.message, len(found.message)
        time_ms = found.start_ms[of_row] + found.since_ms

        def each(values: np.ndarray) -> pa.Array:
            return pa.array(values[of_row])

        def each_text(values: list[str]) -> pa.Array:
            return pa.array(values, pa.string()).take(pa.array(of_row))

        def of_frame(name: str) -> pa.Array:
            return each(frames[name][found.read].astype(np.int64))

        uptime_ms = found.uptime_ms[of_row]
        unset = frames["flags"][found.read][of_row] & segments.FLAG_CLOCK_UNSET > 0
        columns = {
            "device": each_text(found.devices),
            "stream": each_text([bytes(stream).hex() for stream in found.heads["stream"]]),
            "seq": each(found.heads["seq"].astype(np.int64)),
            "record": pa.array(found.record.astype(np.int32)),
            "boot": each(found.heads["boot"].astype(np.int32)),
            "held": each(found.heads["held"].astype(np.int64)),
            "uptime_s": pa.array(uptime_ms / 1000, mask=uptime_ms < 0),
            "shift_s": pa.array(found.since_ms / 1000),
            "version": each(found.heads["version"].astype(np.int32)),
            "name": found.names,
            "unit": found.units,
            "value": pa.array(found.values),
            "time": pa.array(time_ms * 1000, mask=~found.is_clock_set[of_row]),
            "received": pc.multiply(of_frame("received_ms"), 1000),
            "collector": pa.repeat(pa.scalar(self._collector, pa.string()), count),
            "segment": pa.repeat(pa.scalar(self._number, pa.int64()), count),
            "offset": of_frame("begin"),
            "clock_unset": pa.array(unset, mask=~unset),
        }
        return schemas.frame_batch(columns, count)
