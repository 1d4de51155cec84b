"""Converts series payloads to columns, many payloads side by side: the fast reader of series.

The position of a sample in the bits is known only after the sample before it was read, so we cannot
vectorize along a payload. We can vectorize across payloads: every step reads the next sample of all
payloads at once. What is not clearly valid is left to the exact reader (messages/series.py), which
decides and names the reason; the two agree row for row (test_series_rows.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from outpost_tools.messages import labels, series
from outpost_tools.messages.senml import Malformed
from outpost_tools.readings.pipeline.series_steps import Codes, Samples

_HEAD = np.dtype(
    [
        ("magic", "u1"), ("version", "u1"), ("end", "u1"), ("flags", "u1"), ("stream", "V4"),
        ("seq", "<u4"), ("held", "<u4"), ("boot", "<u2"), ("room", "<u2"), ("day", "<u2"),
        ("ms", "<u4"), ("step_ms", "<u2"), ("time_k", "u1"), ("columns", "u1"), ("name", "u1"),
    ]
)  # fmt: skip
_SCHEMA_AT = 28  # from here to the end of the columns: the part that a board's messages share
_UPTIME_BYTES = 6


@dataclass(frozen=True)
class _Schema:
    """The variable part of a header: device, columns, and the codes' parameters."""

    device: str
    names: list[int]  # places in Schemas.texts
    units: list[int]
    exponents: list[int]
    parameters: list[int]


class Schemas:
    """The headers that were read before: a board sends the same one repeatedly."""

    _MOST = 100_000  # against a flood of made-up ones

    def __init__(self) -> None:
        self.texts: list[str | None] = [None]
        self._places: dict[str, int] = {"": 0}  # no unit
        self._known: dict[bytes, _Schema | None] = {}

    def of(self, payload: bytes, end: int) -> _Schema | None:
        """None when the header is not valid. end: where its columns end."""
        key = payload[_SCHEMA_AT:end]
        if key not in self._known:
            self._known[key] = self._read(payload)
        return self._known[key]

    def forget_many(self) -> None:
        """Forget all when there are too many. Not during a read, which holds places in texts."""
        if len(self._known) > self._MOST:
            self.__init__()

    def _read(self, payload: bytes) -> _Schema | None:
        try:
            header = series.header_of(payload)
        except Malformed:
            return None
        columns = header.columns
        return _Schema(
            header.device,
            [self._place(column.name) for column in columns],
            [self._place(column.unit) for column in columns],
            [column.exponent for column in columns],
            header.parameters,
        )

    def _place(self, text: str) -> int:
        if text not in self._places:
            self._places[text] = len(self.texts)
            self.texts.append(text)
        return self._places[text]


@dataclass
class Found:
    """The payloads that were read: first arrays with an entry per payload, then per row.

    read: which payloads these are; message: for each row, its place among them.
    """

    read: np.ndarray
    devices: list[str]
    heads: np.ndarray
    start_ms: np.ndarray
    uptime_ms: np.ndarray  # -1: the message does not say
    message: np.ndarray
    record: np.ndarray
    names: pa.Array
    units: pa.Array
    values: np.ndarray
    since_ms: np.ndarray  # since start_ms

    @property
    def is_clock_set(self) -> np.ndarray:
        return self.heads["flags"] & series.CLOCK_SET > 0

    def only(self, good: np.ndarray) -> Found:
        """The same for only these of its messages."""
        kept, rows = np.flatnonzero(good), np.flatnonzero(good[self.message])
        places = pa.array(rows)
        return Found(
            self.read[kept], [self.devices[i] for i in kept.tolist()], self.heads[kept],
            self.start_ms[kept], self.uptime_ms[kept],
            (np.cumsum(good) - 1)[self.message[rows]], self.record[rows],
            self.names.take(places), self.units.take(places), self.values[rows],
            self.since_ms[rows],
        )  # fmt: skip


def read(data: np.ndarray, begins: np.ndarray, ends: np.ndarray, schemas: Schemas) -> Found:
    """data: bytes. The payloads lie from begins to ends; those that are not in `read` of the result
    are for the exact reader."""
    schemas.forget_many()
    places = np.flatnonzero(ends - begins >= _HEAD.itemsize)
    spans = begins[places, None] + np.arange(_HEAD.itemsize)
    heads = np.ascontiguousarray(data[spans]).view(_HEAD)[:, 0]
    start_ms = heads["day"].astype(np.int64) * series.DAY_MS + heads["ms"]
    fits = _fitting(heads, start_ms, (ends - begins)[places])
    uptime_ms, fits_too = _uptimes(data, heads, begins[places], start_ms, fits)
    fits &= fits_too
    found: list[_Schema | None] = [None] * len(places)
    for index in np.flatnonzero(fits).tolist():
        begin, end = int(begins[places[index]]), int(ends[places[index]])
        head = heads[index]
        columns_end = int(head["end"]) - _UPTIME_BYTES * (int(head["flags"]) >> 1)
        found[index] = schemas.of(data[begin:end].tobytes(), columns_end)
    keep = np.array([schema is not None for schema in found], dtype=bool)
    kept = [schema for schema in found if schema is not None]
    chunk = _Chunk(
        places[keep], heads[keep], start_ms[keep], uptime_ms[keep], kept,
        8 * (begins[places] + heads["end"])[keep], 8 * ends[places][keep],
    )  # fmt: skip
    return chunk.read(data, schemas)


def _fitting(heads: np.ndarray, start_ms: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Which headers have fields within their bounds (those of series.py)."""
    is_set = heads["flags"] & series.CLOCK_SET > 0
    fits = (heads["magic"] == series.MAGIC) & (heads["version"] == series.VERSION)
    fits &= (heads["flags"] <= 3) & (heads["flags"] != series.HAS_UPTIME)
    fits &= (heads["held"] <= heads["seq"]) & (heads["seq"] <= labels.MAX_SEQ)
    fits &= (heads["end"] >= _HEAD.itemsize) & (heads["end"] <= lengths)
    fits &= (heads["ms"] < series.DAY_MS) & (heads["step_ms"] > 0) & (heads["time_k"] <= 15)
    fits &= (heads["columns"] > 0) & (heads["columns"] <= series.MOST_COLUMNS)
    lowest_ms, highest_ms = labels.MIN_TIME_S * 1000, labels.MAX_TIME_S * 1000
    in_range = (start_ms >= lowest_ms) & (start_ms < highest_ms)
    return fits & np.where(is_set, in_range, start_ms <= labels.MAX_UPTIME_S * 1000)


def _uptimes(data, heads, begins, start_ms, fits) -> tuple[np.ndarray, np.ndarray]:
    """(the uptime of each payload, which payloads are valid so far)."""
    uptime_ms = np.where(heads["flags"] & series.CLOCK_SET, -1, start_ms)
    has = np.flatnonzero(fits & (heads["flags"] & series.HAS_UPTIME > 0))
    places = (begins + heads["end"])[has, None] - _UPTIME_BYTES + np.arange(_UPTIME_BYTES)
    kind = np.dtype([("day", "<u2"), ("ms", "<u4")])
    given = np.ascontiguousarray(data[places]).view(kind)[:, 0]
    uptime_ms[has] = given["day"].astype(np.int64) * series.DAY_MS + given["ms"]
    fits = uptime_ms <= labels.MAX_UPTIME_S * 1000
    fits[has] &= (given["ms"] < series.DAY_MS) & (
        heads["end"][has] >= _HEAD.itemsize + _UPTIME_BYTES
    )
    return uptime_ms, fits


@dataclass
class _Chunk:
    """Payloads with valid headers, side by side. at, end: bits."""

    places: np.ndarray
    heads: np.ndarray
    start_ms: np.ndarray
    uptime_ms: np.ndarray
    schemas: list[_Schema]
    at: np.ndarray
    end: np.ndarray

    def read(self, data: np.ndarray, schemas: Schemas) -> Found:
        bits = np.concatenate([data, np.zeros(16, np.uint8)])
        counts = self.heads["columns"]
        parts = [
            self._group(bits, np.flatnonzero(counts == count), int(count))
            for count in np.unique(counts)
        ]
        return self._found(parts, schemas)

    def _group(self, bits: np.ndarray, members: np.ndarray, count: int) -> Samples:
        """The samples of the payloads with this many columns."""
        parameters = np.array([self.schemas[i].parameters for i in members]).reshape(-1, count)
        heads = self.heads[members]
        codes = Codes(bits, self.at[members], self.end[members], heads["time_k"], parameters)
        samples = Samples(codes, heads, self.start_ms[members])
        samples.read()
        samples.members = members
        return samples

    def _found(self, parts: list[Samples], schemas: Schemas) -> Found:
        good = np.zeros(len(self.places), dtype=bool)
        for part in parts:
            good[part.members[part.is_whole]] = True
        rows = [self._rows(part) for part in parts]
        owner, record, name, unit, value, since = (
            np.concatenate([row[i] for row in rows]) if rows else np.zeros(0, np.int64)
            for i in range(6)
        )
        texts = pa.array(schemas.texts, pa.string())
        kept = np.flatnonzero(good)
        number = np.cumsum(good) - 1  # of a payload among the good ones
        return Found(
            self.places[kept], [self.schemas[i].device for i in kept.tolist()], self.heads[kept],
            self.start_ms[kept], self.uptime_ms[kept],
            number[owner], record, texts.take(pa.array(name)), texts.take(pa.array(unit)),
            value.astype(np.float64), since,
        )  # fmt: skip

    def _rows(self, part: Samples) -> tuple[np.ndarray, ...]:
        """(payload, record, name, unit, value, time since its start) of each value present: payload
        by payload, sample by sample, column by column."""
        order = np.argsort(part.owner, kind="stable")
        order = order[part.is_whole[part.owner[order]]]
        owner, present = part.owner[order], part.present[order]
        sample, column = np.nonzero(present)
        local = owner[sample]
        count = np.bincount(local, minlength=len(part.members))
        record = np.arange(len(local)) - (np.cumsum(count) - count)[local]
        schemas = [self.schemas[i] for i in part.members.tolist()]
        place = local * part.columns + column

        def each(field_name: str) -> np.ndarray:
            table = [getattr(schema, field_name) for schema in schemas]
            return np.array(table, np.int64).reshape(-1)[place]

        scales = 10.0 ** np.abs(np.arange(-9, 10))
        exponent, raw = each("exponents"), part.values[order][present].astype(np.float64)
        scale = scales[exponent + 9]
        value = np.where(exponent < 0, raw / scale, raw * scale)
        step_ms = self.heads["step_ms"].astype(np.int64)[part.members]
        since_ms = (part.times[order] * step_ms[owner])[sample]
        return part.members[local], record, each("names"), each("units"), value, since_ms
