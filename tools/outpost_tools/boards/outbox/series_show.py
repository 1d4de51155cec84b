"""A series in an image, for people and programs: its columns, samples, first and last time, and the
room in flash that it took."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from outpost_tools.boards.outbox.image import Image, Message
from outpost_tools.boards.outbox.layout import Record
from outpost_tools.messages import series
from outpost_tools.messages.senml import Malformed

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def may_be_open(image: Image, message: Message) -> bool:
    """Whether the board may still have been adding samples: the flash does not show whether the
    newest record is open or closed."""
    gathered = message.record.series
    if gathered is None or gathered.bad_bytes or message.block != image.head.number:
        return False
    newest = [record for record in image.head.walk.records if record.is_message][-1]
    is_last = newest.offset == message.record.offset
    return is_last and image.head.rest_is_erased and gathered.used_bytes < gathered.room_bytes


def line(record: Record, *, is_open: bool) -> str:
    """A summary of the series, shown instead of a payload."""
    gathered = record.series
    room = f"{gathered.used_bytes} of {gathered.room_bytes} bytes of room used"
    bad = f", {gathered.bad_bytes} of them no sample" if gathered.bad_bytes else ""
    try:
        found = series.decode(record.payload)
    except Malformed as reason:
        return f"not readable ({reason}); {room}{bad}; hex {record.payload.hex()}"
    columns = ", ".join(_column(column) for column in found.columns)
    open_ = "open, or closed last; " if is_open else ""
    first, last = _ends(found)
    count = f"{len(found.samples)} sample{'' if len(found.samples) == 1 else 's'}"
    return f"{open_}{count} of {columns}; {first} to {last}; {room}{bad}"


def as_json(record: Record, *, is_open: bool) -> dict[str, Any]:
    """Added to the message's other fields; `reason` if it cannot be decoded."""
    gathered = record.series
    fields: dict[str, Any] = {
        "may_be_open": is_open,
        "room_bytes": gathered.room_bytes,
        "used_bytes": gathered.used_bytes,
        "bad_bytes": gathered.bad_bytes,
        "lost_samples": gathered.lost,
    }
    try:
        found = series.decode(record.payload)
    except Malformed as reason:
        return fields | {"reason": str(reason)}
    first, last = _ends(found)
    columns = [column._asdict() for column in found.columns]
    facts = {"columns": columns, "samples": len(found.samples), "clock_set": found.clock_set}
    return fields | facts | {"first_time": first, "last_time": last}


def _column(column: series.Column) -> str:
    unit = f" {column.unit}" if column.unit else ""
    return f"{column.name}{unit} e{column.exponent}" if column.exponent else column.name + unit


def _ends(found: series.Series) -> tuple[str, str]:
    first, last = found.samples[0].time_ms, found.samples[-1].time_ms
    if found.clock_set:
        return _moment(first), _moment(last)
    return f"{first / 1000:g} s", f"{last / 1000:g} s after boot {found.boot}"


def _moment(time_ms: int) -> str:
    moment = _EPOCH + timedelta(milliseconds=time_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
