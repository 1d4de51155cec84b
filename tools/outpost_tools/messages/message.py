"""Reads Outpost's messages exactly: a series (series.py), or a SenML pack in JSON or CBOR with the
labels of labels.py; senml.py turns its records into readings.

`decode()` returns a Message, or raises Malformed with the reason that the quarantine table shows:
this is the definition of a valid message. `readings/pipeline/decode.py` reads plain messages five
times as fast, with the same labels and limits, and passes on all others; a test compares them row
for row. `key_of()` checks only the key, for the collector; for a plain message it takes a sixth of
the time (plain_key.py).

The first byte determines the format: 0x80 to 0x9f begins a CBOR array, 0xf5 a series, everything
else is JSON.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, NamedTuple

from outpost_tools.messages import labels, name_rules, senml, series
from outpost_tools.messages.plain_key import plain_key
from outpost_tools.messages.senml import Malformed, Reading

LEFT_OUT = "records without a number left out"  # how such a reason begins


@dataclass(frozen=True, slots=True)
class Message:
    """One pack or series. (device, stream, seq) is its key. held: the oldest seq that the board
    still held when it sent the message. left_out: the label of each value that is not a number."""

    device: str
    stream: str
    seq: int
    boot: int
    held: int
    uptime_s: float | None
    version: int = labels.MESSAGE_VERSION
    readings: list[Reading] = field(default_factory=list)
    left_out: tuple[str, ...] = ()


class Key(NamedTuple):
    """Identifies a message by device, stream and number. held: the oldest number that its board
    still held."""

    device: str
    stream: str
    seq: int
    held: int


def decode(
    topic: str,
    payload: bytes,
    *,
    retained: bool = False,
    original_length: int | None = None,
    versions: tuple[int, ...] = labels.VERSIONS,
    received_ms: int | None = None,
) -> Message:
    """The message in a PUBLISH on `<prefix>/<device>/data`. Raises Malformed.

    received_ms: its arrival, in ms since 1970, with which times are compared. None: the clock was
    not known to be set (Frame.arrival_ms).
    """
    if retained:
        raise Malformed("retained")
    length = len(payload) if original_length is None else original_length
    if length > labels.MAX_PAYLOAD_BYTES:
        raise Malformed(f"oversize: {length} bytes, limit {labels.MAX_PAYLOAD_BYTES}")
    received_s = None if received_ms is None else float(received_ms) / 1000
    if series.is_series(payload):
        return _from_series(topic, series.decode(payload), received_s)
    records = _records(payload)
    message = _header(topic, records[0], versions)
    readings, left_out = senml.read(records, message.device)
    if not readings:
        raise Malformed(f"no reading has a number: {_listed(left_out)}")
    senml.check_times(readings, received_s)
    _check_clock(message, records, readings)
    return replace(message, readings=readings, left_out=left_out)


def left_out_reason(message: Message) -> str:
    """The reason that quarantine shows beside the bytes of a message with some values left out; its
    other readings were stored."""
    return f"{LEFT_OUT}: {_listed(message.left_out)}"


def _listed(left_out: tuple[str, ...]) -> str:
    return ", ".join(sorted(set(left_out)))


def key_of(topic: bytes, payload: bytes) -> Key | None:
    """The key in a payload on `<prefix>/<device>/data`; None if there is none to confirm.

    Looser than decode() on purpose: a message with a valid key and a bad reading goes to quarantine
    with its bytes, and its board must receive a confirmation, or it would resend it indefinitely.
    """
    device = device_in(topic)
    return None if device is None else key_in(device, payload)


def device_in(topic: bytes) -> str | None:
    """The device in a topic `<prefix>/<device>/data`; None if its name is not valid."""
    device = b"".join(topic.split(b"/")[-2:-1]).decode("ascii", "replace")
    return device if name_rules.is_device(device) else None


def key_in(device: str, payload: bytes) -> Key | None:
    """The key in a payload of this device; None if there is none to confirm."""
    if series.is_series(payload):
        found = series.key_in(payload)
        return None if found is None else Key(device, *found[1:])
    plain = plain_key(payload)
    return exact_key_in(device, payload) if plain is None else Key(device, *plain)


def exact_key_in(device: str, payload: bytes) -> Key | None:
    """As key_in() for a SenML pack, but reads the whole payload. This defines the key."""
    try:
        # This is the CBOR reader that decode() uses: what it rejects as CBOR must have no key here.
        return Key(device, *_key(records_in(payload)[0]))
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return None


# --- From a series ---


def _from_series(topic: str, found: series.Series, received_s: float | None) -> Message:
    if not name_rules.is_topic_of(topic, found.device):
        raise Malformed(f"device {found.device!r} does not match the topic")
    readings = list(_series_readings(found))
    senml.check_times(readings, received_s)
    uptime_s = None if found.uptime_ms is None else found.uptime_ms / 1000
    head = (found.device, found.stream, found.seq, found.boot, found.held)
    return Message(*head, uptime_s, found.version, readings)


def _series_readings(found: series.Series) -> Iterator[Reading]:
    """The readings, sample by sample and column by column. A missing value takes no index."""
    index = 0
    for sample in found.samples:
        time_s = sample.time_ms / 1000 if found.clock_set else None
        shift_s = (sample.time_ms - found.start_ms) / 1000
        for column, value in zip(found.columns, sample.values, strict=True):
            if value is not None:
                scaled = labels.scaled(value, column.exponent)
                yield Reading(index, column.name, column.unit or None, scaled, time_s, shift_s)
                index += 1


# --- From bytes to records ---


def is_cbor(payload: bytes) -> bool:
    """Whether the first byte begins a CBOR array; it cannot begin JSON text."""
    return 0x80 <= payload[0] <= 0x9F if payload else False


def records_in(payload: bytes) -> Any:
    """The contents of JSON or CBOR, with JSON's labels. Raises ValueError (Malformed is one)."""
    return _from_cbor(payload) if is_cbor(payload) else json.loads(payload)


def _records(payload: bytes) -> list[dict[str, Any]]:
    if not payload:
        raise Malformed("empty")
    records = _from_cbor(payload) if is_cbor(payload) else _from_json(payload)
    is_list = isinstance(records, list) and bool(records)
    if not is_list or not all(isinstance(record, dict) for record in records):
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

_CBOR_DEPTH = 8  # a pack needs 3, and 2 more for a decimal fraction
# The only tag that SenML uses is 4, decimal fraction. Others run code that a stranger should not be
# able to choose (regular expressions).
_CBOR_OTHER_TAGS = (
    0, 1, 2, 3, 5, 25, 28, 29, 30, 35, 36, 37, 100, 256, 258, 260, 261, 1004, 43000, 55799,
)  # fmt: skip


def _from_cbor(payload: bytes) -> Any:
    """The pack with JSON's labels. Raises Malformed."""
    import cbor2  # late: the simulator and the tools for boards read no CBOR and so start sooner

    source = io.BytesIO(payload)
    decoder = cbor2.CBORDecoder(
        source,
        tag_hook=_refuse_tag,
        semantic_decoders=dict.fromkeys(_CBOR_OTHER_TAGS, _refuse_tag),
        read_size=1,  # no reading ahead, so that tell() shows bytes after the pack
        max_depth=_CBOR_DEPTH,
        allow_duplicate_keys=False,
    )
    try:
        pack = decoder.decode()
    except (
        cbor2.CBORError, ValueError, ArithmeticError, TypeError, RecursionError, MemoryError,
    ):  # fmt: skip
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
    plain = {
        labels.CBOR.get(label, label) if type(label) is int else label: _plain(value)
        for label, value in record.items()
    }
    if len(plain) != len(record):  # -2 and "bn" are the same label
        raise Malformed("not CBOR")
    return plain


def _plain(value: Any) -> Any:
    """Converts a decimal fraction to a float."""
    if not isinstance(value, Decimal):
        return value
    try:
        return float(value)
    except (OverflowError, ValueError):
        return math.inf


# --- From records to the message ---


def _header(topic: str, record: dict[str, Any], versions: tuple[int, ...]) -> Message:
    version = _integer(record, "ver")
    if version not in versions:
        raise Malformed(f"unknown version {version}")
    base_name = record.get("bn")
    if not name_rules.is_base_name(base_name):
        raise Malformed("bad label bn")
    stream, seq, held = _key(record)
    boot, uptime_s = _integer(record, "boot"), senml.number(record, "up", None)
    device = base_name[:-1]
    if not name_rules.is_topic_of(topic, device):
        raise Malformed(f"device {device!r} does not match the topic")
    return Message(device, stream, seq, boot, held, uptime_s, version)


def _key(record: dict[str, Any]) -> tuple[str, int, int]:
    """(stream, seq, held) of the first record."""
    stream = record.get("sid")
    if not labels.is_stream(stream):
        raise Malformed("bad label sid")
    seq, held = _integer(record, "seq"), _integer(record, "held")
    if held > seq:
        raise Malformed("held above seq")
    return stream, seq, held


def _check_clock(message: Message, records: list[dict[str, Any]], readings: list[Reading]) -> None:
    """Refuses a time in a record without a base time if there is `up`: it does not show what the
    clock was at `up`. Raises Malformed."""
    if message.uptime_s is not None and records[0].get("bt") is None:
        for reading in readings:
            if reading.time_s is not None:
                raise Malformed(f"record {reading.index}: up, and no bt in record 0")


def _integer(record: dict[str, Any], label: str) -> int:
    value = record.get(label)
    if type(value) is not int or not 0 <= value <= labels.INTEGERS[label]:
        raise Malformed(f"bad label {label}" if label in record else f"missing label {label}")
    return value
