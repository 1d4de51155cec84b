"""Read Outpost's message: a SenML pack (RFC 8428, JSON or CBOR) with the labels of `station.telemetry`.

The device's encoder and this reader share one definition of labels and limits: `firmware/station/telemetry.py`.
`decode()` gives a Message or raises Malformed with the reason that the quarantine table shows. This is the definition
of a valid message; `pipeline/decode.py` reads the plain ones faster and must agree with it.

The first byte tells the format: 0x80..0x9f begins a CBOR array, all else is JSON. In CBOR, SenML's labels are the
integers of RFC 8428 section 6, Outpost's own are text as in JSON.
"""

from __future__ import annotations

import io
import json
import math
import re
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

MESSAGE_VERSION = 1
VERSIONS = (MESSAGE_VERSION,)  # that this reader understands
MAX_PAYLOAD_BYTES = 16 * 1024
MAX_SEQ = (1 << 30) - 1
MAX_BOOT = 65535
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
    """One measured value. `time_s` is seconds since 1970, None when the board's clock was not set; `shift_s` is the
    record's own SenML time, relative to the pack's `bt` or `up`."""

    index: int
    name: str
    unit: str | None
    value: float
    time_s: float | None
    shift_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Message:
    """One pack. (device, stream, seq) is its key; `held` the oldest seq that the board still held then."""

    device: str
    stream: str
    seq: int
    boot: int
    held: int
    uptime_s: float | None
    version: int = MESSAGE_VERSION
    readings: list[Reading] = field(default_factory=list)


def decode(
    topic: str,
    payload: bytes,
    *,
    retained: bool = False,
    original_length: int | None = None,
    versions: tuple[int, ...] = VERSIONS,
) -> Message:
    """The message in a PUBLISH on `<prefix>/<device>/data`. Raises Malformed."""
    if retained:
        raise Malformed("retained")
    length = len(payload) if original_length is None else original_length
    if length > MAX_PAYLOAD_BYTES:
        raise Malformed(f"oversize: {length} bytes, limit {MAX_PAYLOAD_BYTES}")
    records = _records(payload)
    message = _header(records[0], versions)
    if not _fits(topic, message.device):
        raise Malformed(f"device {message.device!r} does not match the topic")
    base_time = _number(records[0], "bt", None)
    for index, record in enumerate(records):
        message.readings.append(_reading(index, record, message.device, base_time))
    return message


def device_of(topic: str, base_name: str | None) -> str | None:
    """The device that both the topic and SenML's base name tell; None when they don't."""
    return base_name[:-1] if _is_base_name(base_name) and _fits(topic, base_name[:-1]) else None


def is_stream(name: Any) -> bool:
    return isinstance(name, str) and _STREAM.match(name) is not None


def _is_base_name(name: Any) -> bool:
    return isinstance(name, str) and name.endswith("/") and _DEVICE.match(name[:-1]) is not None


def _fits(topic: str, device: str) -> bool:
    return topic.split("/")[-2:-1] == [device]


def _records(payload: bytes) -> list[dict[str, Any]]:
    if not payload:
        raise Malformed("empty")
    records = from_cbor(payload) if is_cbor(payload) else _from_json(payload)
    if not isinstance(records, list) or not records or not all(isinstance(r, dict) for r in records):
        raise Malformed("not a SenML pack")
    return records


def _from_json(payload: bytes) -> Any:
    try:
        text = payload.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Malformed(f"not UTF-8 at byte {error.start}") from None
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError):
        raise Malformed("not JSON") from None


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


# Made once: json.loads() with an option makes one per call.
_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)

_CBOR_LABELS = {-1: "bver", -2: "bn", -3: "bt", -4: "bu", -5: "bv", -6: "bs"}
_CBOR_LABELS |= {0: "n", 1: "u", 2: "v", 3: "vs", 4: "vb", 5: "s", 6: "t", 7: "ut", 8: "vd"}
_CBOR_DEPTH = 8  # a pack needs 3, and 2 more for a decimal fraction
_CBOR_DECIMAL_TAG = 4  # the one tag that SenML uses; others run code that a stranger should not choose (regular expressions)
_CBOR_OTHER_TAGS = (0, 1, 2, 3, 5, 25, 28, 29, 30, 35, 36, 37, 100, 256, 258, 260, 261, 1004, 43000, 55799)


def is_cbor(payload: bytes) -> bool:
    """By its first byte: an array, which in JSON text it cannot be."""
    return 0x80 <= payload[0] <= 0x9F if payload else False


def from_cbor(payload: bytes) -> Any:
    """The pack with JSON's labels. Raises Malformed."""
    import cbor2  # late: the simulator and the tools for boards read no CBOR and start sooner

    source = io.BytesIO(payload)
    decoder = cbor2.CBORDecoder(
        source,
        tag_hook=_refuse_tag,
        semantic_decoders=dict.fromkeys(_CBOR_OTHER_TAGS, _refuse_tag),
        read_size=1,  # so that what lies behind the pack is seen
        max_depth=_CBOR_DEPTH,
        allow_duplicate_keys=False,
    )
    try:
        pack = decoder.decode()
    except (cbor2.CBORError, ValueError, ArithmeticError, TypeError, RecursionError, MemoryError):
        raise Malformed("not CBOR") from None
    if source.tell() != len(payload):
        raise Malformed("not CBOR")
    return [_named(record) for record in pack] if isinstance(pack, list) else pack


def _refuse_tag(*arguments: Any) -> None:
    raise ValueError("tag")


def _named(record: Any) -> Any:
    """A CBOR record with JSON's labels."""
    if not isinstance(record, dict):
        return record
    plain = {_CBOR_LABELS.get(label, label) if type(label) is int else label: value for label, value in record.items()}
    if len(plain) != len(record):  # -2 and "bn" are one label
        raise Malformed("not CBOR")
    return {label: _float(value) if isinstance(value, Decimal) else value for label, value in plain.items()}


def _float(value: Decimal) -> float:
    try:
        return float(value)
    except (OverflowError, ValueError):
        return math.inf


def _header(record: dict[str, Any], versions: tuple[int, ...]) -> Message:
    version = _integer(record, "ver", 1 << 16)
    if version not in versions:
        raise Malformed(f"unknown version {version}")
    base_name, stream = record.get("bn"), record.get("sid")
    if not _is_base_name(base_name):
        raise Malformed("bad label bn")
    if not is_stream(stream):
        raise Malformed("bad label sid")
    seq, held = _integer(record, "seq", MAX_SEQ), _integer(record, "held", MAX_SEQ)
    if held > seq:
        raise Malformed("held above seq")
    boot, uptime_s = _integer(record, "boot", MAX_BOOT), _number(record, "up", None)
    return Message(base_name[:-1], stream, seq, boot, held, uptime_s, version)


def _reading(index: int, record: dict[str, Any], device: str, base_time: float | None) -> Reading:
    name, unit = record.get("n"), record.get("u")
    if not _is_text(name) or not name:
        raise Malformed(f"record {index}: bad label n")
    if unit is not None and not _is_text(unit):
        raise Malformed(f"record {index}: bad label u")
    value = _number(record, "v", None)
    if value is None:
        raise Malformed(f"record {index}: no value")
    shift_s = _number(record, "t", 0.0) or 0.0
    return Reading(index, name, unit, value, _time(index, shift_s, base_time), shift_s)


def _is_text(value: Any) -> bool:
    """A string that can be stored: JSON's \\u escapes can name half a character, which UTF-8 cannot hold."""
    return isinstance(value, str) and (value.isascii() or not any("\ud800" <= c <= "\udfff" for c in value))


def _time(index: int, shift_s: float, base_time: float | None) -> float | None:
    if base_time is None:
        return None
    time_s = base_time + shift_s
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
