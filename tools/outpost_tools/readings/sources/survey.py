"""Which message of a broker matches what: for `outpost sources check --broker`. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from outpost_tools.readings.sources import examples
from outpost_tools.readings.sources.decode import decode
from outpost_tools.readings.sources.heard import Heard
from outpost_tools.readings.sources.mapping import Mapping
from outpost_tools.readings.sources.result import Ignored, Message, Refused, State
from outpost_tools.text.visible import visible

_SHOWN = 10  # topics and reasons in a list
_LINE = 100  # characters of the newest readings


@dataclass
class Matches:
    """What one source or state made of the messages that were kept of each topic."""

    topics: int = 0
    messages: int = 0
    ignored: int = 0
    devices: set[str] = field(default_factory=set)
    metrics: set[str] = field(default_factory=set)
    guarantees: Counter[str] = field(default_factory=Counter)
    newest: str = ""
    refused: dict[str, str] = field(default_factory=dict)  # reason: a topic
    notes: dict[str, str] = field(default_factory=dict)  # about times: a topic


@dataclass
class Survey:
    readers: dict[str, Matches]
    unmatched: list[str] = field(default_factory=list)
    ignored: int = 0
    seconds: float = 0.0

    @property
    def is_refused(self) -> bool:
        return any(one.refused for one in self.readers.values())


def of(mapping: Mapping, heard: Heard) -> Survey:
    found = Survey({reader.name: Matches() for reader in mapping.readers}, seconds=heard.seconds)
    for topic, samples in heard.samples.items():
        reader = mapping.route(topic).reader
        if reader is None:
            if mapping.route(topic).is_ignored:
                found.ignored += heard.messages[topic]
            else:
                found.unmatched.append(visible(topic))
            continue
        matches = found.readers[reader.name]
        matches.topics += 1
        matches.messages += heard.messages[topic]
        for one in samples:
            result = decode(mapping, topic, one.payload, one.received_ms, one.retained)
            _note(matches, result, visible(topic))
    return found


def _note(matches: Matches, result: Message | State | Ignored | Refused, topic: str) -> None:
    if isinstance(result, Refused):
        matches.refused[visible(result.reason)] = topic
    elif isinstance(result, Ignored):
        matches.ignored += 1
    else:
        matches.devices.add(result.device)
        matches.newest = visible(examples.shown(result))
    if isinstance(result, Message):
        matches.metrics |= {one.name for one in result.readings}
        matches.guarantees[result.guarantee] += 1
        if result.note:
            matches.notes[visible(result.note)] = topic


def lines(found: Survey, mapping: Mapping) -> Iterator[str]:
    yield f"in {found.seconds:.0f} s:"
    for reader in mapping.readers:
        yield from _of_reader(reader.name, found.readers[reader.name])
    if found.ignored:
        yield f"  ignored: {_many(found.ignored, 'message')} on topics in `ignore`"
    if found.unmatched:
        shown = ", ".join(sorted(found.unmatched)[:_SHOWN])
        more = ", ..." if len(found.unmatched) > _SHOWN else ""
        yield f"  without a source: {_many(len(found.unmatched), 'topic')}: {shown}{more}"


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _of_reader(name: str, one: Matches) -> Iterator[str]:
    if not one.topics:
        yield f"  {name}: no message"
        return
    counts = f"{_many(one.messages, 'message')} on {_many(one.topics, 'topic')}"
    counts += f", {_many(len(one.devices), 'device')}"
    metrics = f", {_many(len(one.metrics), 'metric')}" if one.metrics else ""
    words = f"; {', '.join(sorted(one.guarantees))}" if one.guarantees else ""
    yield f"  {name}: {counts}{metrics}{words}"
    if one.newest:
        cut = one.newest if len(one.newest) <= _LINE else f"{one.newest[:_LINE]}..."
        yield f"    newest: {cut}"
    for reason, topic in [*one.refused.items()][:_SHOWN]:
        yield f"    refused: {reason} ({topic})"
    for note, topic in [*one.notes.items()][:_SHOWN]:
        yield f"    time of arrival instead: {note} ({topic})"
