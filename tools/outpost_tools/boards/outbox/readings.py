"""The readings in an image's messages, one per row: from single messages and from series alike, as
in the pipeline's table.

The rows contain only what the message says: a reading taken while the clock was not set has no
time, but its boot and the time since then. The pipeline computes its time if other messages of that
boot have both.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from outpost_tools.boards.outbox.image import Message, State
from outpost_tools.messages import message as messages
from outpost_tools.messages.senml import Malformed, Reading
from outpost_tools.text import csv_cells

COLUMNS = (
    "time", "device", "name", "value", "unit", "stream", "seq", "record", "boot", "uptime_s",
)  # fmt: skip
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Rows(NamedTuple):
    """refused: one line for each message without readings."""

    rows: list[tuple]
    refused: list[str]


def rows_of(chosen: Iterable[Message]) -> Rows:
    found = Rows([], [])
    for one in chosen:
        if one.state is State.SUPERSEDED:  # its number belongs to another message
            continue
        topic = one.record.topic.decode("utf-8", "replace")
        try:
            decoded = messages.decode(topic, one.record.payload)
        except Malformed as reason:
            found.refused.append(f"message {one.seq} has no readings: {reason}")
            continue
        if decoded.left_out:
            found.refused.append(f"message {one.seq}: {messages.left_out_reason(decoded)}")
        found.rows.extend(_rows(decoded))
    return found


def csv_text(rows: Iterable[tuple]) -> str:
    """With a header line; RFC 4180, but with lines that end in a newline only. No cell is a
    spreadsheet's formula: csv_cells.py."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        writer.writerow(csv_cells.guarded(one) if isinstance(one, str) else one for one in row)
    return text.getvalue()


def _rows(decoded: messages.Message) -> Iterator[tuple]:
    for place, reading in enumerate(decoded.readings):
        value = reading.value
        yield (
            _time(reading), decoded.device, reading.name, value, reading.unit or "",
            decoded.stream, decoded.seq, place, decoded.boot, _uptime(decoded, reading),
        )  # fmt: skip


def _time(reading: Reading) -> str:
    if reading.time_s is None:
        return ""
    moment = _EPOCH + timedelta(milliseconds=round(reading.time_s * 1000))
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _uptime(decoded: messages.Message, reading: Reading) -> str:
    if decoded.uptime_s is None:
        return ""
    return f"{decoded.uptime_s + reading.shift_s:.3f}"
