"""Compares ground truth with the silver table, row for row. Pure: lists in, numbers out.

Every `ok` line of a journal is a message that must be in the table, and every `sample` line a
sample of the series with that number: all its readings, each exactly once, in its place, with the
published values and its time. Each of these lines is a measurement. A measurement without a line is
allowed only where the power failed while it was being stored: at most one per cut, the message with
the next number, or the next sample of the open series (the board was cut before it could report
that it is stored).

    lost             measurements with a line of which a reading is missing, or has another value
    duplicate_rows   rows beyond the first of the same (device, stream, seq, record)
    invented         messages that nobody published, or with a reading that nobody published
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from outpost_tools.messages import labels
from outpost_tools.messages.message import decode
from outpost_tools.trying.simulate.journal import Entry

# The parts of a reading that are compared: name, unit, value, time in ms since 1970 (None: it is
# not known when it was taken).
Reading = tuple[str, str | None, float, int | None]
MessageKey = tuple[str, int]


class Row(NamedTuple):
    """One row of the table."""

    device: str
    stream: str
    seq: int
    record: int
    name: str
    unit: str | None
    value: float
    time_ms: int | None


@dataclass
class Result:
    """The result for one device, in measurements, except messages, series, duplicate_rows and rows.
    `examples` are for people."""

    device: str
    published: int = 0
    stored: int = 0
    messages: int = 0  # in the table
    series: int = 0  # of these messages
    unacknowledged: int = 0  # stored without an `ok` line, which a cut explains
    rows: int = 0
    lost: int = 0
    duplicate_rows: int = 0
    invented: int = 0
    power_cuts: int = 0
    examples: list[str] = field(default_factory=list)

    @property
    def exact(self) -> bool:
        return not (self.lost or self.duplicate_rows or self.invented)

    def complain(self, text: str) -> None:
        if len(self.examples) < 5:
            self.examples.append(f"{self.device}: {text}")


def verify(journals: dict[str, list[Entry]], rows: Iterable[Row]) -> list[Result]:
    """One Result per device, also for devices without a journal (all their messages are invented).

    Raises Malformed.
    """
    by_device: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_device[row.device].append(row)
    return [
        _verify_device(d, journals.get(d, []), by_device[d])
        for d in sorted({*journals, *by_device})
    ]


def _verify_device(device: str, journal: list[Entry], rows: list[Row]) -> Result:
    cuts = sum(entry.kind == "cut" for entry in journal)
    result = Result(device, rows=len(rows), power_cuts=cuts)
    table = _messages(rows, result)
    result.messages = len(table)
    expected = _expected(device, journal, result)
    tails = {key: _beyond(of, table.get(key, {})) for key, of in expected.items() if of.is_series}
    messages, samples = _explained_by_cuts(journal, set(table) - set(expected), tails)
    for key, published in expected.items():
        known = len(tails[key]) if key in samples else 0
        _compare(key, published, table.get(key), known, result)
    result.series = sum(key in table for key in tails)
    result.unacknowledged = len(messages) + len(samples)
    result.stored += result.unacknowledged
    for stream, seq in sorted(set(table) - set(expected) - messages):
        result.invented += 1
        result.stored += 1
        result.complain(f"nobody published message {seq} of stream {stream}, but the table has it")
    return result


def _messages(rows: list[Row], result: Result) -> dict[MessageKey, dict[int, Reading]]:
    """The first row of each key; counts the later ones."""
    table: dict[MessageKey, dict[int, Reading]] = defaultdict(dict)
    for row in rows:
        message = table[row.stream, row.seq]
        if row.record in message:
            result.duplicate_rows += 1
            result.complain(
                f"message {row.seq} of stream {row.stream}, record {row.record}: more than one row"
            )
        else:
            message[row.record] = (row.name, row.unit, row.value, row.time_ms)
    return dict(table)


@dataclass
class Published:
    """What the table must have for a message: the readings of each of its measurements."""

    is_series: bool
    measurements: list[list[Reading]] = field(default_factory=list)
    start_ms: int | None = None  # time of the first sample

    def readings(self) -> dict[int, Reading]:
        """The readings by their place in the message."""
        return dict(enumerate(one for readings in self.measurements for one in readings))


def _expected(device: str, journal: list[Entry], result: Result) -> dict[MessageKey, Published]:
    expected: dict[MessageKey, Published] = {}
    for entry in journal:
        if entry.kind not in ("ok", "sample"):
            continue
        result.published += 1
        key = (entry.stream, entry.seq)
        if entry.kind == "sample":
            of = expected.setdefault(key, Published(True))
            of.measurements.append(_sample(entry, of))
            continue
        if key in expected:  # the tables can hold only one of two messages with the same number
            result.lost += 1
            result.complain(f"number {entry.seq} of stream {entry.stream} was published twice")
        expected[key] = Published(False, [_readings(device, entry)])
    return expected


def _readings(device: str, entry: Entry) -> list[Reading]:
    message = decode(f"outpost/{device}/data", entry.payload)
    if (message.stream, message.seq) != (entry.stream, entry.seq):
        raise ValueError(
            f"{device}: the payload of number {entry.seq} says {message.seq}, stream "
            f"{message.stream}"
        )
    return [(r.name, r.unit, r.value, milliseconds(r.time_s)) for r in message.readings]


def _sample(entry: Entry, of: Published) -> list[Reading]:
    """The time is rounded down to the record's unit, counted from the record's first sample."""
    is_set, day, ms, step_ms, readings = json.loads(entry.payload)
    time_ms = day * 86_400_000 + ms
    if of.start_ms is None:
        of.start_ms = time_ms
    time_ms = of.start_ms + (time_ms - of.start_ms) // step_ms * step_ms
    return [
        (name, unit or None, labels.scaled(value, exponent), time_ms if is_set else None)
        for name, unit, value, exponent in readings
    ]


def milliseconds(time_s: float | None) -> int | None:
    return None if time_s is None else round(time_s * 1000)


def _beyond(of: Published, stored: dict[int, Reading]) -> list[Reading]:
    """The readings in the table beyond the last published sample."""
    beyond = sorted(set(stored) - set(of.readings()))
    return [stored[index] for index in beyond]


def _compare(
    key: MessageKey,
    published: Published,
    stored: dict[int, Reading] | None,
    known: int,
    result: Result,
) -> None:
    """known: readings beyond the published ones that a cut explains."""
    stream, seq = key
    stored = stored or {}
    index = 0
    is_invented = len(set(stored) - set(published.readings())) > known
    for readings in published.measurements:
        places = dict(enumerate(readings, index))
        index += len(readings)
        result.stored += any(place in stored for place in places)
        wrong = [i for i, one in places.items() if i not in stored or not _same(one, stored[i])]
        is_invented = is_invented or any(i in stored for i in wrong)
        if wrong:
            result.lost += 1
            at = wrong[0]
            place = f"message {seq} of stream {stream}, record {at}"
            result.complain(f"{place}: {places[at]} was published, {stored.get(at)} is stored")
    if is_invented:
        result.invented += 1
        result.complain(f"message {seq} of stream {stream} has a reading that nobody published")


def _same(published: Reading, stored: Reading) -> bool:
    """A reading taken before the clock was set has no time of its own; the pipeline may have found
    it."""
    return published[:3] == stored[:3] and published[3] in (None, stored[3])


def _explained_by_cuts(
    journal: list[Entry], extra: set[MessageKey], tails: dict[MessageKey, list[Reading]]
) -> tuple[set[MessageKey], set[MessageKey]]:
    """Which of `extra`, and which series with a sample in `tails`, are explained by cuts: n cuts
    between two lines of measurements explain the next sample of the first line's series or the n
    numbers after it, n in all."""
    messages: set[MessageKey] = set()
    samples: set[MessageKey] = set()
    following: dict[str, int] = defaultdict(int)  # stream: the number after the last known one
    is_open: MessageKey | None = None  # the series that would take the next sample
    for entry in journal:
        key = (entry.stream, entry.seq)
        if entry.kind in ("ok", "sample"):
            following[entry.stream] = entry.seq + 1
            is_open = key if entry.kind == "sample" else None
        elif entry.kind == "cut":
            key = (entry.stream, following[entry.stream])
            if is_open is not None and _is_sample(tails[is_open]):
                samples.add(is_open)
            elif key in extra:
                messages.add(key)
                following[entry.stream] += 1
            is_open = None
    return messages, samples


def _is_sample(readings: list[Reading]) -> bool:
    """Whether they can be one sample: the same time, each name once."""
    names, moments = {one[0] for one in readings}, {one[3] for one in readings}
    return len(names) == len(readings) and len(moments) == 1
