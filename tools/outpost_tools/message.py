"""Read Outpost's message: a SenML pack (RFC 8428, JSON) with the labels of `outpost.telemetry`.

The device's encoder and this reader share one definition of labels and limits: `firmware/outpost/telemetry.py`.
`decode()` gives a Message or raises Malformed with the reason that the quarantine table shows.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from typing import Any

MESSAGE_VERSION = 1
MAX_PAYLOAD_BYTES = 16 * 1024
MAX_SEQ = (1 << 30) - 1
# RFC 8428 section 4.5.3: below 2^28 a time is relative to now, which a stored message must not be. The upper limit is
# the year 2100: a wilder clock would leave what a table's timestamps can hold.
MIN_TIME_S = 1 << 28
MAX_TIME_S = 4_102_444_800
_DEVICE = re.compile(r"[A-Za-z0-9_.-]{1,32}\Z")
_STREAM = re.compile(r"[0-9a-f]{8}\Z")


class Malformed(ValueError):
    """The payload is no Outpost message; str() is the reason, one short phrase."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One measured value. `time_s` is seconds since 1970, None when the board's clock was not set."""

    index: int
    name: str
    unit: str | None
    value: float
    time_s: float | None


@dataclass(frozen=True, slots=True)
class Message:
    """One pack. (device, stream, seq) is its key; `held` the oldest seq that the board still held then."""

    device: str
    stream: str
    seq: int
    boot: int
    held: int
    uptime_s: float | None
    readings: list[Reading] = field(default_factory=list)


def decode(topic: str, payload: bytes, *, retained: bool = False, original_length: int | None = None) -> Message:
    """The message in a PUBLISH on `<prefix>/<device>/data`. Raises Malformed."""
    if retained:
        raise Malformed("retained")
    length = len(payload) if original_length is None else original_length
    if length > MAX_PAYLOAD_BYTES:
        raise Malformed(f"oversize: {length} bytes, limit {MAX_PAYLOAD_BYTES}")
    records = _records(payload)
    message = _header(records[0])
    if topic.split("/")[-2:-1] != [message.device]:
        raise Malformed(f"device {message.device!r} does not match the topic")
    base_time = _number(records[0], "bt", None)
    for index, record in enumerate(records):
        message.readings.append(_reading(index, record, message.device, base_time))
    return message


def _records(payload: bytes) -> list[dict[str, Any]]:
    if not payload:
        raise Malformed("empty")
    try:
        text = payload.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Malformed(f"not UTF-8 at byte {error.start}") from None
    try:
        records = _DECODER.decode(text)
    except (ValueError, RecursionError):
        raise Malformed("not JSON") from None
    if not isinstance(records, list) or not records or not all(isinstance(r, dict) for r in records):
        raise Malformed("not a SenML pack")
    return records


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


# Made once: json.loads() with an option makes one per call.
_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def _header(record: dict[str, Any]) -> Message:
    version = _integer(record, "ver", 1 << 16)
    if version != MESSAGE_VERSION:
        raise Malformed(f"unknown version {version}")
    base_name, stream = record.get("bn"), record.get("sid")
    if not isinstance(base_name, str) or not base_name.endswith("/") or not _DEVICE.match(base_name[:-1]):
        raise Malformed("bad label bn")
    if not isinstance(stream, str) or not _STREAM.match(stream):
        raise Malformed("bad label sid")
    seq, held = _integer(record, "seq", MAX_SEQ), _integer(record, "held", MAX_SEQ)
    if held > seq:
        raise Malformed("held above seq")
    boot, uptime_s = _integer(record, "boot", 65535), _number(record, "up", None)
    return Message(base_name[:-1], stream, seq, boot, held, uptime_s)


def _reading(index: int, record: dict[str, Any], device: str, base_time: float | None) -> Reading:
    name, unit = record.get("n"), record.get("u")
    if not _is_text(name) or not name:
        raise Malformed(f"record {index}: bad label n")
    if unit is not None and not _is_text(unit):
        raise Malformed(f"record {index}: bad label u")
    value = _number(record, "v", None)
    if value is None:
        raise Malformed(f"record {index}: no value")
    return Reading(index, name, unit, value, _time(index, record, base_time))


def _is_text(value: Any) -> bool:
    """A string that can be stored: JSON's \\u escapes can name half a character, which UTF-8 cannot hold."""
    return isinstance(value, str) and (value.isascii() or not any("\ud800" <= c <= "\udfff" for c in value))


def _time(index: int, record: dict[str, Any], base_time: float | None) -> float | None:
    offset = _number(record, "t", 0.0)
    if base_time is None:
        return None
    time_s = base_time + (offset or 0.0)
    if not MIN_TIME_S <= time_s < MAX_TIME_S:
        raise Malformed(f"record {index}: time out of range")
    return time_s


def _integer(record: dict[str, Any], label: str, maximum: int) -> int:
    value = record.get(label)
    if type(value) is not int or not 0 <= value <= maximum:
        raise Malformed(f"bad label {label}" if label in record else f"missing label {label}")
    return value


def _number(record: dict[str, Any], label: str, default: float | None) -> float | None:
    value = record.get(label)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Malformed(f"bad label {label}")
    try:
        number = float(value)
    except OverflowError:  # an integer of more than 308 digits
        number = math.inf
    if not math.isfinite(number):
        raise Malformed(f"bad label {label}")
    return number
