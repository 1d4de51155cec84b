"""From series payloads to columns, many payloads side by side: the fast reader of series.

A sample's place in the bits is known only after the one before it was read, so no vector can run
along a payload. It can run across them: here every step reads the next sample of all payloads at
once. What is not plainly valid is left to the exact reader (common/series.py), which decides and
names the reason; the two agree row for row (test_series_rows.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from outpost_tools.common import labels, series
from outpost_tools.common.senml import Malformed

_HEAD = np.dtype(
    [
        ("magic", "u1"), ("version", "u1"), ("end", "u1"), ("flags", "u1"), ("stream", "V4"),
        ("seq", "<u4"), ("held", "<u4"), ("boot", "<u2"), ("room", "<u2"), ("day", "<u2"),
        ("ms", "<u4"), ("step_ms", "<u2"), ("time_k", "u1"), ("columns", "u1"), ("name", "u1"),
    ]
)  # fmt: skip
_SCHEMA_AT = 28  # from here to the end of the columns: what a board's messages have in common
_UPTIME_BYTES = 6
_WINDOW_BITS = 57  # that are surely there of 64, read from a byte on
_MOST_BITS = 30
# A payload with more samples is the exact reader's: a step for a few payloads is a slow one.
_MOST_STEPS = 4096


@dataclass(frozen=True)
class _Schema:
    """Of a header's variable part: device, columns, and the codes' parameters."""

    device: str
    names: list[int]  # places in _Schemas.texts
    units: list[int]
    exponents: list[int]
    parameters: list[int]


class Schemas:
    """Of headers that were read before: a board sends the same one again and again."""

    _MOST = 100_000  # a flood of made-up ones

    def __init__(self) -> None:
        self.texts: list[str | None] = [None]
        self._places: dict[str, int] = {"": 0}  # no unit
        self._known: dict[bytes, _Schema | None] = {}

    def of(self, payload: bytes, end: int) -> _Schema | None:
        """None when the header is not valid. end: of its columns."""
        key = payload[_SCHEMA_AT:end]
        if key not in self._known:
            if len(self._known) >= self._MOST:
                self.__init__()
            self._known[key] = self._read(payload)
        return self._known[key]

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
    """Of the payloads that were read: a place of each array for each of them, then for each row.

    read: which payloads these are; message: of each row, the place among them.
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
        """Of these of its messages."""
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
    """data: bytes. The payloads lie from begins to ends; those not in `read` of the result are for
    the exact reader."""
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
    """(of each payload, which are within their bounds)."""
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

    def _group(self, bits: np.ndarray, members: np.ndarray, count: int) -> _Samples:
        """The samples of those with so many columns."""
        parameters = np.array([self.schemas[i].parameters for i in members]).reshape(-1, count)
        heads = self.heads[members]
        codes = _Codes(bits, self.at[members], self.end[members], heads["time_k"], parameters)
        samples = _Samples(codes, heads, self.start_ms[members])
        samples.read()
        samples.members = members
        return samples

    def _found(self, parts: list[_Samples], schemas: Schemas) -> Found:
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

    def _rows(self, part: _Samples) -> tuple[np.ndarray, ...]:
        """(payload, record, name, unit, value, time since its start) of each value that is there:
        payload by payload, sample by sample, column by column."""
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


class _Codes:
    """Reads codes at places of the bits, one of each payload at a time."""

    def __init__(self, bits, at, end, time_k, parameters) -> None:
        self._windows = np.lib.stride_tricks.sliding_window_view(bits, 8)
        self.at, self.end = at, end
        self.time_k, self.parameters = time_k.astype(np.int64), parameters.astype(np.int64)

    def window(self, at: np.ndarray) -> np.ndarray:
        """The bits from there on, in 64: _WINDOW_BITS of them, and more or less of the rest."""
        at = np.minimum(at, 8 * (len(self._windows) - 1))
        words = self._windows[at >> 3].view(">u8")[:, 0].astype(np.uint64)
        return words << (at & 7).astype(np.uint64)

    def take(self, at: np.ndarray, k: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Exp-Golomb of order k: (numbers, where they end, which are not plain)."""
        window = self.window(at)
        zeros = 32 - np.frexp((window >> np.uint64(32)).astype(np.float64))[1].astype(np.int64)
        length = zeros + 1 + k
        is_odd = (length > _MOST_BITS) | (zeros + length > _WINDOW_BITS)
        shown = np.minimum(length, _MOST_BITS)
        number = (window << zeros.astype(np.uint64)) >> (64 - shown).astype(np.uint64)
        return number.astype(np.int64) - (1 << k), at + zeros + length, is_odd

    def take_whole(self, at: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Numbers preceded by their length, signed; as take()."""
        window = self.window(at)
        length = (window >> np.uint64(59)).astype(np.int64)
        shown = np.clip(length, 1, _MOST_BITS)
        number = (window << np.uint64(5)) >> (64 - shown).astype(np.uint64)
        number = np.where(length > 0, number.astype(np.int64), 0)
        is_odd = (length > _MOST_BITS) | ((length > 0) & (number >> (shown - 1) != 1))
        return _signed(number), at + 5 + length, is_odd


def _signed(number: np.ndarray) -> np.ndarray:
    """0, -1, 1, -2, 2 ... of 0, 1, 2, 3, 4."""
    return np.where(number & 1, -(number + 1 >> 1), number >> 1)


class _Samples:
    """The samples of payloads with the same number of columns.

    After read(): is_whole of each payload; then a row a sample: its payload (owner), time in steps,
    values and which are there, in the order of each payload's samples.
    """

    members: np.ndarray

    def __init__(self, codes: _Codes, heads: np.ndarray, start_ms: np.ndarray) -> None:
        self._codes, self._step_ms = codes, heads["step_ms"].astype(np.int64)
        limits_ms = 1000 * np.array(series.TIME_LIMITS_S, np.int64)[heads["flags"] & 1]
        self._earliest_ms = np.maximum(limits_ms[:, 0] - start_ms, 1 - series.SPAN_LIMIT_MS)
        self._latest_ms = np.minimum(limits_ms[:, 1] - start_ms, series.SPAN_LIMIT_MS) - 1
        payloads, columns = codes.parameters.shape
        self.columns = columns
        self._time = np.zeros(payloads, np.int64)
        self._step = np.zeros(payloads, np.int64)
        self._last = np.zeros((payloads, columns), np.int64)
        self.is_whole = np.zeros(payloads, dtype=bool)
        self._samples: list[tuple[np.ndarray, ...]] = []

    def read(self) -> None:
        active, steps = np.arange(len(self.is_whole)), 0
        while len(active) and steps < _MOST_STEPS:
            active, steps = self._step_of(active, is_first=not steps), steps + 1
        columns = list(zip(*self._samples, strict=True)) or [()] * 4
        self.owner, self.times, self.values, self.present = (
            np.concatenate(column) if column else np.zeros((0, self.columns)[:dimensions], kind)
            for column, kind, dimensions in zip(
                columns, (np.int64, np.int64, np.int64, bool), (1, 1, 2, 2), strict=True
            )
        )

    def _step_of(self, active: np.ndarray, *, is_first: bool) -> np.ndarray:
        """The next sample of each; returns those that go on."""
        now = _Step(self._codes, active, self.columns)
        now.take_marks(is_first)
        now.take_times(self._time[active], self._step[active])
        now.take_values(self._last[active])
        since_ms = now.time * self._step_ms[active]
        out = (since_ms < self._earliest_ms[active]) | (since_ms > self._latest_ms[active])
        out |= (np.abs(now.values + 0.5) > series.VALUE_LIMIT).any(axis=1)
        has_ended = now.at > self._codes.end[active]
        self.is_whole[active[has_ended]] = self._is_padding(active[has_ended]) & (not is_first)
        keep = ~(has_ended | now.is_odd | out)
        kept = active[keep]
        self._codes.at[kept] = now.at[keep]
        self._time[kept], self._step[kept] = now.time[keep], now.step[keep]
        self._last[kept] = now.values[keep]
        self._samples.append((kept, now.time[keep], now.values[keep], now.present[keep]))
        return kept

    def _is_padding(self, ended: np.ndarray) -> np.ndarray:
        """What is left of each is less than a byte, and 0."""
        at = self._codes.at[ended]
        rest = self._codes.end[ended] - at
        bits = self._codes.window(at) >> (64 - np.clip(rest, 1, 8)).astype(np.uint64)
        return (rest == 0) | ((rest < 8) & (bits == 0))


@dataclass
class _Step:
    """A sample of each active payload while it is read. at: where each has got to."""

    codes: _Codes
    active: np.ndarray
    columns: int
    at: np.ndarray = field(init=False)
    is_odd: np.ndarray = field(init=False)
    is_restart: np.ndarray = field(init=False)
    present: np.ndarray = field(init=False)
    time: np.ndarray = field(init=False)
    step: np.ndarray = field(init=False)
    values: np.ndarray = field(init=False)
    _code: np.ndarray = field(init=False)  # of the time

    def take_marks(self, is_first: bool) -> None:
        """The time's code, and what a mark in its place says."""
        k = self.codes.time_k[self.active]
        self._code, self.at, self.is_odd = self.codes.take(self.codes.at[self.active], k)
        self.is_restart = np.zeros(len(self.active), dtype=bool)
        self.present = np.ones((len(self.active), self.columns), dtype=bool)
        marked = np.flatnonzero(self._code == 1)
        if len(marked):
            self._take_masks(marked, k)
        if is_first:
            self.is_odd |= ~self.is_restart

    def _take_masks(self, marked: np.ndarray, k: np.ndarray) -> None:
        window = self.codes.window(self.at[marked])
        is_restart = window >> np.uint64(63) == 1
        mask = (window << np.uint64(1)) >> np.uint64(64 - self.columns)
        self.at[marked] += 1 + self.columns
        places = np.arange(self.columns - 1, -1, -1, dtype=np.uint64)
        self.present[marked] = mask[:, None] >> places & np.uint64(1) == 1
        full = (1 << self.columns) - 1
        self.is_odd[marked] |= (mask == 0) | (~is_restart & (mask == full))
        self.is_restart[marked] = is_restart
        others = marked[~is_restart]
        self._code[others], self.at[others], is_odd = self.codes.take(self.at[others], k[others])
        self.is_odd[others] |= is_odd | (self._code[others] == 1)

    def take_times(self, time: np.ndarray, step: np.ndarray) -> None:
        self.step = step + _signed(np.maximum(self._code - 1, 0))
        self.time = time + self.step
        self._whole(np.flatnonzero(self.is_restart), self.time)
        self.step[self.is_restart] = 0

    def take_values(self, last: np.ndarray) -> None:
        self.values = last
        self.values[self.is_restart] = 0
        for column in range(self.columns):
            here = self.present[:, column]
            changed = np.flatnonzero(here & ~self.is_restart)
            k = self.codes.parameters[self.active[changed], column]
            number, self.at[changed], is_odd = self.codes.take(self.at[changed], k)
            self.is_odd[changed] |= is_odd
            self.values[changed, column] += _signed(number)
            self._whole(np.flatnonzero(here & self.is_restart), self.values[:, column])

    def _whole(self, places: np.ndarray, target: np.ndarray) -> None:
        if len(places):
            target[places], self.at[places], is_odd = self.codes.take_whole(self.at[places])
            self.is_odd[places] |= is_odd
