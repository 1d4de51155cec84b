"""Runs the examples of a file: what each message becomes, beside what the file says it must
become. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from outpost_tools.readings.sources import schema
from outpost_tools.readings.sources.decode import decode
from outpost_tools.readings.sources.mapping import Mapping
from outpost_tools.readings.sources.result import Ignored, Message, Reading, Refused, Result, State

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def count(mapping: Mapping) -> int:
    return sum(len(reader.examples) for reader in mapping.readers)


def faults(mapping: Mapping) -> Iterator[str]:
    """A line for each difference."""
    for reader in mapping.readers:
        for number, example in enumerate(reader.examples, 1):
            where = f"{reader.name!r}, example {number} ({example.topic})"
            try:
                yield from (f"{where}: {one}" for one in _differences(mapping, example))
            except ValueError as error:
                yield f"{where}: {error}"


def received_ms(example: schema.Example) -> int:
    """Raises ValueError."""
    return _us(example.received) // 1000


def result_of(mapping: Mapping, example: schema.Example) -> Result:
    """Raises ValueError."""
    arrival_ms = received_ms(example)
    topic, payload = example.topic.encode(), example.payload.encode()
    return decode(mapping, topic, payload, arrival_ms, example.retained)


def _us(text: str) -> int:
    """Raises ValueError."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r}: a time such as 2026-01-15T12:00:00Z is needed") from None
    if moment.tzinfo is None:
        raise ValueError(f"{text!r}: the time needs an offset, or Z")
    return (moment - _EPOCH) // timedelta(microseconds=1)


def _differences(mapping: Mapping, example: schema.Example) -> Iterator[str]:
    found = result_of(mapping, example)
    wanted = _wanted(example)
    if not isinstance(found, wanted):
        yield f"becomes {shown(found)}"
    elif isinstance(found, Refused) and (example.refused or "") not in found.reason:
        yield f"is refused with {found.reason!r}, not with {example.refused!r}"
    elif isinstance(found, State) and found.is_online != example.online:
        yield f"becomes {shown(found)}"
    elif isinstance(found, Message):
        yield from _of_message(example, found)
    device = getattr(found, "device", None)
    if wanted in (Message, State) and example.device not in (None, device):
        yield f"the device is {device!r}, not {example.device!r}"


def _wanted(example: schema.Example) -> type[Result]:
    """Raises ValueError."""
    given = [
        (example.readings is not None, Message),
        (example.online is not None, State),
        (example.ignored, Ignored),
        (example.refused is not None, Refused),
    ]
    kinds = [kind for is_given, kind in given if is_given]
    if len(kinds) != 1:
        raise ValueError("give one of readings, online, ignored = true, refused")
    return kinds[0]


def _of_message(example: schema.Example, found: Message) -> Iterator[str]:
    if found.note:
        yield from [] if example.time is None else [found.note]
    received_us = received_ms(example) * 1000
    default_us = received_us if example.time is None else _us(example.time)
    wanted = sorted(_readings(example.readings or {}, default_us, found), key=_order)
    got = sorted(found.readings, key=_order)
    yield from (f"lacks {_reading(one)}" for one in wanted if one not in got)
    yield from (f"has {_reading(one)}" for one in got if one not in wanted)


def _order(one: Reading) -> tuple[str, int]:
    return one.name, one.time_us or 0


def _readings(given: dict[str, Any], time_us: int, found: Message) -> Iterator[Reading]:
    """Raises ValueError. A name with several values has a list of lists."""
    for name, value in given.items():
        is_several = isinstance(value, list) and value and isinstance(value[0], list)
        for one in value if is_several else [value]:
            number, unit, at = [*(one if isinstance(one, list) else [one]), None, None, None][:3]
            if isinstance(number, bool) or not isinstance(number, int | float):
                raise ValueError(f'{name!r}: a number is needed: [21.5, "Cel"]')
            yield Reading(name, unit or None, float(number), time_us if at is None else _us(at))


def shown(found: Result) -> str:
    """A result in words."""
    if isinstance(found, Refused):
        return f"nothing: {found.reason}"
    if isinstance(found, Ignored):
        return f"nothing, on purpose: {found.why}"
    if isinstance(found, State):
        return f"{found.device} {'online' if found.is_online else 'offline'}"
    readings = ", ".join(
        f"{one.name} {one.value:g} {one.unit or ''}".strip() for one in found.readings
    )
    return f"{found.device}: {readings}"


def _reading(one: Reading) -> str:
    at = "no time" if one.time_us is None else (_EPOCH + timedelta(microseconds=one.time_us))
    when = at if isinstance(at, str) else at.isoformat().replace("+00:00", "Z")
    return f"{one.name!r} = [{one.value:g}, {one.unit or ''!r}] at {when}"
