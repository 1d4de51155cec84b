"""A first file from what was heard: the ready sources that fit, and drafts for other payloads.

A ready source is taken if it reads something that was heard. What no ready one reads gets a draft
(unknown.py). Where two patterns could match the same topic, the broader one gets an `except`. The
draft is parsed and tried on all that was heard before it is printed. Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import combinations
from typing import Any, TypeVar

import msgspec

from outpost_tools.errors import ToolError
from outpost_tools.readings.sources import (
    file,
    guess,
    paths,
    ready_files,
    schema,
    toml_text,
    topics,
    unknown,
)
from outpost_tools.readings.sources.decode import decode
from outpost_tools.readings.sources.heard import Heard, Sample
from outpost_tools.readings.sources.mapping import Mapping, Source, State
from outpost_tools.readings.sources.result import Ignored, Message, Refused, Result
from outpost_tools.readings.sources.result import State as Came

_OURS = b"outpost/"
_BY_SHAPE = ("senml", "numbers")  # ready files whose topics are only examples
_EXAMPLE_BYTES = 2000
_HEAD = """\
# A draft by `outpost sources learn`, from {seconds:.0f} s of messages. Units, devices and zones are
# guesses: read it, then run `outpost sources check` on it. `outpost sources --help` explains the
# keys.
"""
Given = schema.Source | schema.State
G = TypeVar("G", schema.Source, schema.State)


@dataclass
class Draft:
    """readers: the tables in their order. notes: what a person should know about them."""

    readers: list[Given] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    text: str = ""


def of(heard: Heard, machine_zone: str | None) -> Draft:
    made = Draft()
    samples = {t: s for t, s in heard.samples.items() if not t.startswith(_OURS)}
    left = dict(samples)
    ready = [ready_files.ready(name) for name in ready_files.names() if name not in _BY_SHAPE]
    for one in sorted(ready, key=lambda one: bool(one.sources[0].pattern.levels[0].kind)):
        _take_ready(made, one, left)  # first those that fix the first level
    for shape, group in unknown.groups(left):
        made.readers += unknown.guessed(shape, group, {one.name for one in made.readers})
    _separate(made)
    made.readers = [_with_zone(one, samples, machine_zone, made.notes) for one in made.readers]
    made.readers = [_with_example(one, made, samples) for one in made.readers]
    made.text = _text(made, heard.seconds)
    _note_rest(made, samples)
    return made


def _text(made: Draft, seconds: float) -> str:
    parts = [_HEAD.format(seconds=seconds)]
    if made.ignored:
        parts.append(f"ignore = {toml_text.text(sorted(set(made.ignored)))}\n")
    for one in made.readers:
        parts.append(toml_text.table(_kind(one), one))
    return "\n".join(parts)


def _kind(one: Given) -> str:
    return "source" if isinstance(one, schema.Source) else "state"


# --- Ready sources ---


def _take_ready(made: Draft, ready: Mapping, left: dict[bytes, list[Sample]]) -> None:
    """Adds what reads something of `left`, and takes from it what that reads."""
    hits = {one.name: _hits(ready, one, left) for one in ready.readers}
    has_readings = any(hits[one.name] for one in ready.sources)
    for one in ready.readers:
        is_sure = has_readings or not one.pattern.levels[0].kind  # {device}/status fits too much
        if hits[one.name] and is_sure:
            made.readers.append(msgspec.structs.replace(one.given, example=[]))
            for topic in hits[one.name]:
                del left[topic]
        elif hits[one.name]:
            made.notes.append(
                f"{one.name}: heard on {hits[one.name][0].decode()}, and no readings beside it; "
                "listen longer with --seconds"
            )
    if has_readings:
        made.ignored += [one.text for one in ready.ignored]
        for topic in [t for t, samples in left.items() if _is_ignored(ready, samples, made)]:
            del left[topic]


def _is_ignored(ready: Mapping, samples: list[Sample], made: Draft) -> bool:
    """Whether the ready file says, by topic or by contents, that these are no readings. Not if it
    says so of a source that was not taken."""
    route = ready.route(samples[0].topic)
    if route.reader is not None and route.reader.name not in {one.name for one in made.readers}:
        return False
    return all(isinstance(_read(ready, one), Ignored) for one in samples)


def _hits(ready: Mapping, one: Source | State, left: dict[bytes, list[Sample]]) -> list[bytes]:
    return [
        topic
        for topic, samples in left.items()
        if ready.route(topic).reader is one
        and any(isinstance(_read(ready, sample), Message | Came) for sample in samples)
    ]


def _read(mapping: Mapping, one: Sample) -> Result:
    return decode(mapping, one.topic, one.payload, one.received_ms, one.retained)


# --- Overlaps, zones, examples ---


def _separate(made: Draft) -> None:
    """Adds to `except` what keeps two patterns apart; a pair that cannot be is noted."""
    for i, j in combinations(range(len(made.readers)), 2):
        one, other = made.readers[i], made.readers[j]
        if _common(one, other, made) is None:
            continue
        broad, narrow = (i, j) if _is_broader(one, other) else (j, i)
        beside = topics.parse(made.readers[narrow].topic).filter
        made.readers[broad] = _excepting(made.readers[broad], beside)
    for one, other in combinations(made.readers, 2):
        if _common(one, other, made) is not None:
            made.notes.append(f"{one.name} and {other.name} overlap; edit one of their topics")


def _excepting(one: G, beside: str) -> G:
    return msgspec.structs.replace(one, without=[*one.without, beside])


def _common(one: Given, other: Given, made: Draft) -> str | None:
    without = map(topics.parse, [*one.without, *other.without, *made.ignored])
    return topics.common_topic(topics.parse(one.topic), topics.parse(other.topic), without)


def _is_broader(one: Given, other: Given) -> bool:
    return _fixed(one) > _fixed(other)


def _fixed(one: Given) -> list[bool]:
    return [bool(level.kind) for level in topics.parse(one.topic).levels]


def _with_zone(
    one: Given, samples: dict[bytes, list[Sample]], machine_zone: str | None, notes: list[str]
) -> Given:
    """The zone of local times, from those that came at once."""
    if not isinstance(one, schema.Source) or not isinstance(one.time, schema.Time):
        return one
    if one.time.format != "local":
        return one
    pattern, path = topics.parse(one.topic), paths.parse(one.time.path)
    live = [s for s in _all(samples) if not s.retained and _matches(pattern, s.topic)]
    read = [(paths.get(guess.document(s.payload), path), s.received_ms) for s in live]
    pairs = [(guess.local_time(at), ms) for at, ms in read]
    ahead = guess.offset((at, ms) for at, ms in pairs if at is not None)
    zone = None if ahead is None else guess.zone(ahead, machine_zone, live[0].received_ms)
    if zone is None:
        notes.append(f"{one.name}: set the zone of its times; {one.time.zone} is no evidence")
        return one
    if zone.startswith("Etc/"):
        notes.append(f"{one.name}: {zone} fits now; name the place, for summer time")
    return msgspec.structs.replace(one, time=msgspec.structs.replace(one.time, zone=zone))


def _all(samples: dict[bytes, list[Sample]]) -> Iterable[Sample]:
    return (one for kept in samples.values() for one in kept)


def _matches(pattern: topics.Pattern, topic: bytes) -> bool:
    return pattern.match(topic.decode("utf-8", "replace")) is not None


def _with_example(one: Given, made: Draft, samples: dict[bytes, list[Sample]]) -> Given:
    """With the first short message that it reads, and what that becomes."""
    alone = Draft([one], made.ignored)
    try:
        mapping = file.parse(_text(alone, 0), "the draft")
    except ToolError as error:
        made.notes.append(str(error))
        return one
    for sample in _all(samples):
        if len(sample.payload) > _EXAMPLE_BYTES or mapping.route(sample.topic).reader is None:
            continue
        example = _example(mapping, sample)
        if example is not None:
            return msgspec.structs.replace(one, example=[example])
    return one


def _example(mapping: Mapping, sample: Sample) -> schema.Example | None:
    found = _read(mapping, sample)
    try:
        topic, payload = sample.topic.decode(), sample.payload.decode()
    except UnicodeDecodeError:
        return None
    made = schema.Example(topic, payload, _moment(sample.received_ms * 1000), sample.retained)
    if isinstance(found, Came):
        return msgspec.structs.replace(made, device=found.device, online=found.is_online)
    if not isinstance(found, Message):
        return None
    moments = {one.time_us for one in found.readings}
    is_one = len(moments) == 1
    readings: dict[str, Any] = defaultdict(list)
    for one in found.readings:
        at = [] if is_one or one.time_us is None else [_moment(one.time_us)]
        readings[one.name].append([one.value, one.unit or "", *at])
    flat = {name: given[0] if len(given) == 1 else given for name, given in readings.items()}
    time_us = found.readings[0].time_us
    time = _moment(time_us) if is_one and time_us not in (None, sample.received_ms * 1000) else None
    return msgspec.structs.replace(made, device=found.device, time=time, readings=flat)


def _moment(us: int) -> str:
    seconds, rest = divmod(us, 1_000_000)
    moment = datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest)
    return moment.isoformat().replace("+00:00", "Z")


def _note_rest(made: Draft, samples: dict[bytes, list[Sample]]) -> None:
    """Tries the draft on all that was heard; notes what it does not read."""
    if not made.readers:
        return
    try:
        mapping = file.parse(made.text, "the draft")
    except ToolError as error:
        made.notes.append(f"the draft has a fault that needs an edit: {error}")
        return
    routes = {topic: mapping.route(topic) for topic in samples}
    unread = [t for t, one in routes.items() if one.reader is None and not one.is_ignored]
    refused = [t for t, one in routes.items() if one.reader and _is_refused(mapping, samples[t])]
    for what, found in (("have no source", unread), ("are refused by theirs", refused)):
        if found:
            shown = ", ".join(one.decode("utf-8", "replace") for one in sorted(found)[:5])
            made.notes.append(f"{len(found)} topics {what}, such as {shown}")


def _is_refused(mapping: Mapping, samples: list[Sample]) -> bool:
    return all(isinstance(_read(mapping, one), Refused) for one in samples)
