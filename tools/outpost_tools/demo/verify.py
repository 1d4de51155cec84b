"""Ground truth against the silver table, row for row. Pure: lists in, figures out.

Every `ok` line of a journal is a message that must be in the table: all its readings, each exactly
once, with the values that were published. A message without an `ok` line is allowed only where the
power went inside publish(): at most one for each cut, and only the next number (the board was cut
before it could say that the message is stored).

    lost             messages with an `ok` line of which a reading is missing, or has another value
    duplicate_rows   rows beyond the first of the same (device, stream, seq, record)
    invented         messages that nobody published, or with a reading that nobody published
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from outpost_tools.common.message import decode
from outpost_tools.simulate.journal import Entry

# What of a reading is compared: name, unit, value, time in ms since 1970 (None: not known when it
# was taken).
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
    """Of one device, in messages, but for duplicate_rows and rows. `examples` are for people."""

    device: str
    published: int = 0
    stored: int = 0
    unacknowledged: int = 0  # stored without an `ok` line, as a cut explains
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
    """One Result a device, those without a journal included (all that they have is invented).

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
    result = Result(
        device, rows=len(rows), power_cuts=sum(entry.kind == "cut" for entry in journal)
    )
    table = _messages(rows, result)
    result.stored = len(table)
    expected = _expected(device, journal, result)
    for key, readings in expected.items():
        _compare(key, readings, table.get(key), result)
    explained = _explained_by_cuts(journal, set(table) - set(expected))
    result.unacknowledged = len(explained)
    for stream, seq in sorted(set(table) - set(expected) - explained):
        result.invented += 1
        result.complain(f"nobody published message {seq} of stream {stream}, but the table has it")
    return result


def _messages(rows: list[Row], result: Result) -> dict[MessageKey, dict[int, Reading]]:
    """The first row of each key; later ones are counted."""
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


def _expected(
    device: str, journal: list[Entry], result: Result
) -> dict[MessageKey, dict[int, Reading]]:
    expected: dict[MessageKey, dict[int, Reading]] = {}
    for entry in journal:
        if entry.kind != "ok":
            continue
        result.published += 1
        key = (entry.stream, entry.seq)
        if key in expected:  # of two messages under one number the tables can hold only one
            result.lost += 1
            result.complain(f"number {entry.seq} of stream {entry.stream} was published twice")
        expected[key] = _readings(device, entry)
    return expected


def _readings(device: str, entry: Entry) -> dict[int, Reading]:
    message = decode(f"outpost/{device}/data", entry.payload)
    if (message.stream, message.seq) != (entry.stream, entry.seq):
        raise ValueError(
            f"{device}: the payload of number {entry.seq} says {message.seq}, stream "
            f"{message.stream}"
        )
    return {r.index: (r.name, r.unit, r.value, milliseconds(r.time_s)) for r in message.readings}


def milliseconds(time_s: float | None) -> int | None:
    return None if time_s is None else round(time_s * 1000)


def _compare(
    key: MessageKey, expected: dict[int, Reading], stored: dict[int, Reading] | None, result: Result
) -> None:
    stream, seq = key
    stored = stored or {}
    wrong = [
        i for i, reading in expected.items() if i not in stored or not _same(reading, stored[i])
    ]
    if wrong:
        result.lost += 1
        index = wrong[0]
        place = f"message {seq} of stream {stream}, record {index}"
        result.complain(f"{place}: {expected[index]} was published, {stored.get(index)} is stored")
    if any(i in stored and not _same(expected[i], stored[i]) for i in expected) or set(
        stored
    ) - set(expected):
        result.invented += 1
        result.complain(f"message {seq} of stream {stream} has a reading that nobody published")


def _same(published: Reading, stored: Reading) -> bool:
    """A reading taken before the clock was set has no time of its own: the pipeline may have placed
    it."""
    return published[:3] == stored[:3] and published[3] in (None, stored[3])


def _explained_by_cuts(journal: list[Entry], extra: set[MessageKey]) -> set[MessageKey]:
    """Which of `extra` a cut explains: between two `ok` lines with n cuts, the first n numbers
    after the first line."""
    explained: set[MessageKey] = set()
    following: dict[str, int] = defaultdict(int)  # stream: number after the last that is known
    for entry in journal:
        if entry.kind == "ok":
            following[entry.stream] = entry.seq + 1
        elif entry.kind == "cut":
            key = (entry.stream, following[entry.stream])
            if key in extra:
                explained.add(key)
                following[entry.stream] += 1
    return explained
