"""From the text of a file of sources to a Mapping. Pure; ready_files.py reads files.

Each fault is a ToolError of one line: file, line of the table, which source, what, what to do. Two
patterns that can match the same topic are refused, with both lines and such a topic: which of the
two reads it must not depend on their order.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from outpost_tools.errors import ToolError
from outpost_tools.messages import labels
from outpost_tools.readings.sources import paths, schema, times, topics
from outpost_tools.readings.sources.bounds import is_name
from outpost_tools.readings.sources.mapping import Mapping, Source, State
from outpost_tools.readings.sources.paths import Parts
from outpost_tools.readings.sources.topics import Pattern, common_topic
from outpost_tools.readings.sources.wording import Place, convert

T = TypeVar("T")
_EXAMPLE = "`outpost sources ready` prints files to start from"


def parse(text: str, file: str) -> Mapping:
    """file: its name, for messages. Raises ToolError."""
    place = Place(file, text)
    given = convert(_toml(text, file), schema.File, place)
    readers: list[Any] = []
    for kind, tables, make in (
        ("source", given.source, _source), ("state", given.state, _state),
    ):  # fmt: skip
        readers += [make(raw, place.table(kind, index)) for index, raw in enumerate(tables)]
    if not readers:
        place.wrong(f"neither [[source]] nor [[state]]; {_EXAMPLE}")
    sources = [one for one in readers if isinstance(one, Source)]
    states = [one for one in readers if isinstance(one, State)]
    ignored = [_pattern(one, "ignore", place) for one in given.ignore]
    made = Mapping(file, sources, states, ignored, given.limits)
    for fault in _faults_between(made):
        place.wrong(fault)
    return made


def _toml(text: str, file: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        found = re.search(r"\((at .*)\)", str(error))
        raise ToolError(
            f'{file}: not valid TOML {found[1] if found else ""}; a text needs "quotes", and a key '
            "may occur only once in a table"
        ) from None


def _faults_between(made: Mapping) -> Iterator[str]:
    names = [one.name for one in made.readers]
    if twice := sorted({one for one in names if names.count(one) > 1}):
        yield f"the name {twice[0]!r} occurs twice; give each source and state its own"
    for one, other in combinations(made.readers, 2):
        without = [*one.without, *other.without, *made.ignored]
        topic = common_topic(one.pattern, other.pattern, without)
        if topic is not None:
            broad, narrow = (one, other) if _is_broader(one, other) else (other, one)
            yield (
                f"{_named(one)} and {_named(other)} can match the same topic, such as {topic!r}; "
                f"make one narrower, or write for {broad.name!r}: "
                f'except = ["{narrow.pattern.filter}"]'
            )


def _named(one: Source | State) -> str:
    line = f" (line {one.line})" if one.line else ""
    return f"{one.name!r}{line}, topic {one.pattern.text!r},"


def _is_broader(one: Source | State, other: Source | State) -> bool:
    """Whether its pattern fixes less at its beginning."""
    return [bool(a.kind) for a in one.pattern.levels] > [bool(a.kind) for a in other.pattern.levels]


# --- One table ---


def _tried(make: Callable[[str], T], text: str, key: str, place: Place) -> T:
    try:
        return make(text)
    except ValueError as error:
        place.wrong(f"{key}: {error}")


def _pattern(text: str, key: str, place: Place) -> Pattern:
    return _tried(topics.parse, text, key, place)


def _path(text: str, key: str, place: Place) -> Parts:
    return _tried(paths.parse, text, key, place)


def _fixed(text: str, key: str, place: Place) -> Parts:
    found = _path(text, key, place)
    if any(part.startswith("*") for part in found):
        place.wrong(f"{key}: {text!r}: one place is needed, without *")
    return found


def _begun(raw: Any, kind: type[T], place: Place) -> T:
    """The table as a struct; its name is in messages from then on."""
    if isinstance(raw, dict) and isinstance(raw.get("name"), str):
        place.name = raw["name"]
        if not is_name(place.name) or labels.is_stream(place.name):
            place.wrong(f"name: {place.name!a} cannot name a stream in the tables; use plain words")
    return convert(raw, kind, place)


def _source(raw: Any, place: Place) -> Source:
    given = _begun(raw, schema.Source, place)
    pattern = _pattern(given.topic, "topic", place)
    without = [_pattern(one, "except", place) for one in given.without]
    made = Source(given, pattern, without, place.line)
    made.values = [_value(one, i, place) for i, one in enumerate(given.values)]
    made.ignored = [_path(one, "ignore", place) for one in given.ignore]
    made.when = [(_fixed(k, "when", place), frozenset(v)) for k, v in given.when.items()]
    ids = [given.id] if isinstance(given.id, str) else given.id
    made.ids = [_fixed(one, "id", place) for one in ids]
    made.examples = _examples(given.example, place)
    _set_time(made, place)
    _check_device(made, place)
    # what says when, who and which is no reading
    says = [made.time_path, made.device_path, *made.ids, *(path for path, _ in made.when)]
    made.ignored += [path for path in says if path is not None]
    _check_payload(made, place)
    return made


def _value(raw: Any, index: int, place: Place) -> tuple[Parts, schema.Value]:
    key = f"values, entry {index + 1}"
    value = (
        schema.Value(raw)
        if isinstance(raw, str) and raw
        else convert(raw, schema.Value, place, key)
    )
    return _path(value.path, key, place), value


def _examples(tables: list[Any], place: Place) -> list[schema.Example]:
    return [
        convert(raw, schema.Example, place, f"example {index + 1}")
        for index, raw in enumerate(tables)
    ]


def _set_time(made: Source, place: Place) -> None:
    given = made.given.time
    if given is None:
        return
    time = schema.Time(given) if isinstance(given, str) else given
    if (time.format == "local") != (time.zone is not None):
        place.wrong('time: format = "local" and zone = "Europe/Berlin" go together')
    try:
        ZoneInfo(time.zone or "UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError):
        place.wrong(f"time: no such zone: {time.zone!r}; a name such as Europe/Berlin is needed")
    made.time_path = _fixed(time.path, "time", place)
    made.read_time = times.reader(time.format, time.zone)


def _check_device(made: Source, place: Place) -> None:
    given = made.given.device
    if isinstance(given, schema.FromPath):
        made.device_path = _fixed(given.path, "device", place)
    elif given is None and "device" not in made.pattern.names and made.given.payload != "senml":
        place.wrong(
            'the device is not known: put {device} into the topic, or give device = "name", or '
            'device = { path = "node" }'
        )
    if isinstance(given, str):
        _check_template(given, made.pattern.names, "device", place)


def _check_template(text: str, known: frozenset[str], key: str, place: Place) -> None:
    for name in re.findall(r"\{(.*?)\}", text):
        if name not in known:
            place.wrong(f"{key}: {text!r}: the topic has no {{{name}}}")


_OF_JSON = ("values", "ignore", "when", "time", "id")
_OF_NUMBER = ("metric", "unit", "scale", "offset")


def _check_payload(made: Source, place: Place) -> None:
    """Refuses keys that mean nothing for this payload, and a source without values."""
    given = made.given
    defaults = schema.Source("", "")
    others = {"json": _OF_NUMBER, "number": _OF_JSON, "senml": (*_OF_JSON, *_OF_NUMBER)}
    for key in others[given.payload]:
        if getattr(given, key) != getattr(defaults, key):
            place.wrong(f'{key}: not for payload = "{given.payload}"')
    if given.payload == "json" and not made.values:
        place.wrong('values: missing; name their paths: values = ["temperature"], or all: ["**"]')
    if given.payload == "number":
        if given.metric is None and "metric" not in made.pattern.names:
            place.wrong('the metric is not known: put {metric} into the topic, or metric = "name"')
        _check_template(given.metric or "", made.pattern.names, "metric", place)
        if made.device_path is not None:
            place.wrong("device: a number has no paths; put {device} into the topic")
    for path, value in made.values:
        stars = {str(i + 1) for i, _ in enumerate(p for p in path if p.startswith("*"))}
        known = frozenset(stars | made.pattern.names)
        _check_template(value.name or "", known, "values: name", place)


def _state(raw: Any, place: Place) -> State:
    given = _begun(raw, schema.State, place)
    pattern = _pattern(given.topic, "topic", place)
    without = [_pattern(one, "except", place) for one in given.without]
    made = State(given, pattern, without, place.line)
    if given.path is not None:
        made.path = _fixed(given.path, "path", place)
    if given.device is None and "device" not in pattern.names:
        place.wrong('the device is not known: put {device} into the topic, or device = "name"')
    _check_template(given.device or "", pattern.names, "device", place)
    if given.online == given.offline:
        place.wrong("online and offline must differ")
    made.examples = _examples(given.example, place)
    return made
