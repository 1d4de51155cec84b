"""decode(): from a topic and its bytes to readings, by a mapping. Pure: no clock, no files, and the
same arguments always return the same, so a mended mapping can be applied to an old log.

No payload, however odd, raises: it becomes a Refused with the reason. How often a name is new is
not decided here but by bounds.Names, which sees the messages in order.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec

from outpost_tools.log.segment_frames import MAX_PAYLOAD_BYTES, Frame
from outpost_tools.messages.labels import MAX_VALUE
from outpost_tools.readings.sources import guarantee, pack, paths
from outpost_tools.readings.sources.bounds import MAX_ID, MAX_READINGS, is_name
from outpost_tools.readings.sources.mapping import Mapping, Route, Source, State
from outpost_tools.readings.sources.result import (
    Ignored,
    Message,
    Reading,
    Refused,
    Result,
    TimeFrom,
)
from outpost_tools.readings.sources.result import State as Came
from outpost_tools.readings.sources.times import Unreadable, plausible_us

_from_json = msgspec.json.Decoder().decode
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def decode(
    mapping: Mapping,
    topic: bytes,
    payload: bytes,
    received_ms: int | None,
    retained: bool = False,
) -> Result:
    """received_ms: the arrival in ms since 1970; None if the clock of the arrival was not known to
    be set. retained: the PUBLISH had RETAIN set, so this is the last known value."""
    route = mapping.route(topic)
    reader = route.reader
    if reader is None:
        return Ignored("", route.reason) if route.is_ignored else Refused(route.reason)
    if len(payload) > MAX_PAYLOAD_BYTES:
        return Refused(f"longer than {MAX_PAYLOAD_BYTES} bytes", reader.name, route.device)
    if type(reader) is State:
        return _state(reader, route, payload, retained)
    return _READERS[reader.given.payload](reader, route, payload, received_ms, retained)


def of_frame(mapping: Mapping, frame: Frame) -> Result:
    """decode() of a frame in a collector's log. mapping.has() says whether it is for a mapping at
    all: the frames of Outpost's boards are not."""
    if frame.truncated:
        route = mapping.route(frame.topic)
        name = route.reader.name if route.reader is not None else ""
        return Refused(f"longer than {MAX_PAYLOAD_BYTES} bytes", name, route.device)
    return decode(mapping, frame.topic, frame.payload, frame.arrival_ms, frame.retained)


# --- JSON ---


def _json(
    source: Source, route: Route, payload: bytes, received_ms: int | None, retained: bool
) -> Result:
    try:
        document = _from_json(payload)
    except _UNREADABLE:
        return Refused("not JSON", source.name, route.device)
    for path, allowed in source.when:
        if not _is_among(paths.get(document, path), allowed):
            return Ignored(source.name, f"{'.'.join(path)} says that it is another kind of message")
    device = route.device
    if source.device_path is not None:
        device = _text(paths.get(document, source.device_path))
        if not is_name(device):
            return Refused(f"no device at {'.'.join(source.device_path)}", source.name)
    time_us, origin, note = _time(source, document, received_ms)
    found: list[Reading] = []
    root = source.tree(route.metric).root
    left_out = paths.walk(document, root, source.given.words, time_us, found)
    if not found:
        return _none_found(source, device, left_out)
    if len(found) > MAX_READINGS:
        return Refused(f"more than {MAX_READINGS} values", source.name, device)
    native_id = _native_id(source, document) if source.ids else None
    return Message(
        source.name, device, found, origin, guarantee.of(native_id, has_time=origin == "device"),
        native_id, retained, tuple(left_out), note,
    )  # fmt: skip


def _is_among(value: Any, allowed: frozenset[Any]) -> bool:
    return isinstance(value, str | int) and value in allowed


def _text(value: Any) -> str:
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""


def _none_found(source: Source, device: str, left_out: list[str]) -> Result:
    if left_out:
        return Refused(f"no number at {left_out[0]}", source.name, device)
    if source.given.empty == "ignore":
        return Ignored(source.name, "none of the values is in it")
    return Refused("none of the values is in it", source.name, device)


def _time(
    source: Source, document: Any, received_ms: int | None
) -> tuple[int | None, TimeFrom, str]:
    """(time, where it comes from, what is wrong with the device's)."""
    note = ""
    received_us = None if received_ms is None else received_ms * 1000
    if source.read_time is not None and source.time_path is not None:
        at = paths.get(document, source.time_path)
        if at is not None:
            try:
                read_us = source.read_time(at, received_us)
                return plausible_us(read_us, received_ms), "device", ""
            except (Unreadable, OverflowError) as error:
                note = f"{'.'.join(source.time_path)}: {error}"
    return received_us, "unknown" if received_us is None else "arrival", note


def _native_id(source: Source, document: Any) -> str | None:
    parts = [_text(paths.get(document, path)) for path in source.ids]
    native_id = "/".join(parts)
    return native_id if all(parts) and len(native_id) <= MAX_ID else None


# --- A number ---


def _number(
    source: Source, route: Route, payload: bytes, received_ms: int | None, retained: bool
) -> Result:
    leaf = route.leaf
    text = payload.strip().strip(b'"').decode("utf-8", "replace")
    given = source.given
    if text in given.no_value:
        return Ignored(source.name, f"{text!r} is no value")
    if leaf is None or not leaf.name:
        return Refused("the metric's name cannot be used", source.name, route.device)
    time_us = None if received_ms is None else received_ms * 1000
    value = text if text in given.words else _float(text)
    reading = leaf.reading(value, given.words, time_us)
    if reading is None:
        return Refused(f"not a number: {text[:40]!a}", source.name, route.device)
    return Message(
        source.name, route.device, [reading], "unknown" if time_us is None else "arrival",
        guarantee.NONE, None, retained,
    )  # fmt: skip


def _float(text: str) -> float | None:
    """None if it is no finite number as JSON and printf write it: 1_000 and inf are for Python."""
    try:
        value = float(text)
    except ValueError:
        return None
    is_plain = text.isascii() and "_" not in text
    return value if is_plain and math.isfinite(value) and abs(value) < MAX_VALUE else None


# --- SenML ---


def _senml(
    source: Source, route: Route, payload: bytes, received_ms: int | None, retained: bool
) -> Result:
    try:
        found = pack.Pack(_from_json(payload), route.device or None, received_ms)
    except _UNREADABLE:
        return Refused("not JSON", source.name, route.device)
    except pack.Odd as error:
        return Refused(str(error), source.name, route.device)
    if not is_name(found.device):
        return Refused("no base name that can name a device", source.name)
    if not found.readings:
        return Refused("no record has a number", source.name, found.device)
    origin: TimeFrom = "device" if found.has_time else "arrival"
    if not found.has_time and received_ms is None:
        origin = "unknown"
    return Message(
        source.name, found.device, found.readings, origin,
        guarantee.of(None, has_time=found.has_time), None, retained,
        tuple(found.left_out), found.note,
    )  # fmt: skip


_READERS = {"json": _json, "number": _number, "senml": _senml}


# --- Availability ---


def _state(state: State, route: Route, payload: bytes, retained: bool) -> Result:
    text = payload.decode("utf-8", "replace").strip()
    if state.path is not None:
        try:
            text = _text_or_word(paths.get(_from_json(payload), state.path)) or text
        except _UNREADABLE:
            pass  # the payload itself may be the word, as in older versions of the same sender
    given = state.given
    if text not in (given.online, given.offline):
        return Refused(f"neither online nor offline: {text[:40]!a}", state.name, route.device)
    return Came(state.name, route.device, text == given.online, retained)


def _text_or_word(value: Any) -> str:
    """true and false as JSON writes them."""
    return str(value).lower() if isinstance(value, bool) else _text(value)
