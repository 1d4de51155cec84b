"""Drafts for payloads that no ready source reads. Pure.

They are grouped by their looks and the shape of their topics: levels that differ within a group are
the device, and for bare numbers the last one is the metric.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import msgspec

from outpost_tools.readings.sources import guess, schema
from outpost_tools.readings.sources.heard import Sample


def groups(left: dict[bytes, list[Sample]]) -> Iterator[tuple[guess.Shape, list[Sample]]]:
    """Samples of the same shape whose topics have the same number of levels and the same first
    one; of a shape that can be read."""
    found: dict[tuple[str, int, str], list[Sample]] = defaultdict(list)
    for topic, samples in left.items():
        if not _is_plain(topic):
            continue
        levels = topic.decode().split("/")
        shape = guess.shape(samples[-1].payload)
        found[shape, len(levels), levels[0]] += samples
    for (shape, _, _), samples in sorted(found.items()):
        if shape == "object" or shape == "number" or shape == "senml":
            yield shape, samples


def _is_plain(topic: bytes) -> bool:
    """Whether a pattern can have its levels as they are."""
    try:
        return not set("+#{}\0") & set(topic.decode()) and not topic.startswith(b"$")
    except UnicodeDecodeError:
        return False


def guessed(shape: guess.Shape, group: list[Sample], names: set[str]) -> Iterator[schema.Source]:
    levels = [one.topic.decode().split("/") for one in group]
    pattern, device, metric = _pattern(levels, has_metric=shape == "number")
    name = _new_name(levels[0][0], names)
    made = schema.Source(name, pattern, device=device)
    if shape == "number":
        ends = [one[-1] for one in levels]
        yield msgspec.structs.replace(
            made, payload="number", metric=metric, units=guess.units(ends)
        )
    elif shape == "senml":
        yield msgspec.structs.replace(made, payload="senml")
    else:
        yield _object(made, group)


def _new_name(level: str, taken: set[str]) -> str:
    base = "".join(c if c.isalnum() or c in "_.-" else "-" for c in level)[:40] or "source"
    numbered = (f"{base}-{number}" for number in range(2, len(taken) + 3))
    return next(one for one in (base, *numbered) if one not in taken)


def _pattern(levels: list[list[str]], *, has_metric: bool) -> tuple[str, str | None, str | None]:
    """(topic pattern, device, metric) of topics with the same number of levels."""
    first, count = [*levels[0]], len(levels[0])
    varying = [i for i in range(count) if len({one[i] for one in levels}) > 1]
    metric_at = count - 1 if has_metric else -1
    if has_metric and varying and varying[-1] != metric_at and len(varying) == 1:
        metric_at = -1  # one metric of several devices: its name is the last fixed level
    places = [i for i in varying if i != metric_at]
    if not places and count > (2 if has_metric else 1):
        places = [count - 2 if has_metric else count - 1]
    device = None
    if places:
        first[places[0] : places[-1] + 1] = ["{device}" if len(places) == 1 else "{device#}"]
    else:
        device = first[0] or "device"
    if has_metric and metric_at >= 0 and count > 1:
        first[-1] = "{metric}"
        return "/".join(first), device, None
    metric = levels[0][-1] if has_metric else None
    return "/".join(first), device, metric


def _object(made: schema.Source, group: list[Sample]) -> schema.Source:
    documents = [(guess.document(one.payload), one.received_ms) for one in group]
    found = [(one, ms) for one, ms in documents if isinstance(one, dict)]
    names = {name for one, _ in found for name in guess.numbers(one)}
    keys = [guess.time_key(one, ms) for one, ms in found]
    key = next((one for one in keys if one is not None), None)
    time: str | schema.Time | None = None
    if key is not None:
        path = _as_path(key[0])
        time = path if key[1] is None else schema.Time(path, "local", "UTC")
        names.discard(key[0])
    device = made.device
    if "{device" not in made.topic or len({one.topic for one in group}) == 1:
        named = next((k for k in map(guess.device_key, (one for one, _ in found)) if k), None)
        if named is not None:
            device = schema.FromPath(_as_path(named))
    return msgspec.structs.replace(
        made, values=["**"], time=time, units=guess.units(sorted(names)), device=device
    )


def _as_path(key: str) -> str:
    return f'"{key}"' if "." in key or "*" in key else key
