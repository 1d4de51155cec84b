"""A file of sources, made ready for decoding: patterns, paths, clocks. file.py makes it from text.

A Mapping remembers which source reads a topic, and what was found at each path, so that the next
message of the same kind is decoded at once. This changes no result: the same mapping, topic and
bytes always become the same.
"""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass, field
from typing import Any

import msgspec

from outpost_tools.readings.sources import schema, times
from outpost_tools.readings.sources.bounds import is_name
from outpost_tools.readings.sources.paths import SWITCH, Leaf, Parts, Tree
from outpost_tools.readings.sources.topics import Pattern

_TOPICS_KEPT = 100_000
_TREES_KEPT = 1000


@dataclass
class Source:
    """One [[source]]. `line` is that of its header in the file, 0 if not known."""

    given: schema.Source
    pattern: Pattern
    without: list[Pattern]
    line: int
    values: list[tuple[Parts, schema.Value]] = field(default_factory=list)
    ignored: list[Parts] = field(default_factory=list)
    when: list[tuple[Parts, frozenset[Any]]] = field(default_factory=list)
    ids: list[Parts] = field(default_factory=list)
    device_path: Parts | None = None
    time_path: Parts | None = None
    read_time: times.Read | None = None
    examples: list[schema.Example] = field(default_factory=list)
    _trees: dict[str, Tree] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.given.name

    def tree(self, metric: str) -> Tree:
        """The tree of values for a topic with this {metric}, "" if it has none."""
        found = self._trees.get(metric)
        if found is None:
            if len(self._trees) >= _TREES_KEPT:
                self._trees.clear()

            def make_leaf(number: int, walked: Parts, matched: Parts) -> Leaf:
                return self._leaf(number, walked, matched, metric)

            found = Tree([path for path, _ in self.values], self.ignored, make_leaf)
            self._trees[metric] = found
        return found

    def _leaf(self, number: int, walked: Parts, matched: Parts, metric: str) -> Leaf:
        path, value = self.values[number]
        name = _name(value.name, path, walked, matched, metric)
        unit = value.unit or self.unit_of(name)
        made = leaf(name, unit, value.scale, value.offset)
        return msgspec.structs.replace(made, may_be_text=path[-1].startswith("*"))

    def unit_of(self, name: str) -> str | None:
        """By `units`: first an exact key, then patterns in their order. A place in a list has the
        unit of the list."""
        units, name = self.given.units, re.sub(r"(\.\d+)+\Z", "", name)
        last = name.rpartition(".")[2]
        if name in units or last in units:
            return units.get(name) or units[last]
        fits = (key for key in units if "*" in key and fnmatch.fnmatchcase(last, key))
        return units.get(next(fits, ""))


def leaf(name: str, unit: str | None, scale: float | None, offset: float) -> Leaf:
    name = name if is_name(name) else ""
    scale = 1.0 if scale is None else scale
    divisor = _divisor(scale)
    is_plain = bool(name) and scale == 1 and offset == 0
    return Leaf(
        name, unit, unit or SWITCH, 1.0 if divisor > 1 else scale, divisor, offset, is_plain
    )


def _divisor(scale: float) -> float:
    """10, 100 ... for 0.1, 0.01 ...: 215 / 10 is 21.5, and 3 * 0.1 is not 0.3. Otherwise 1."""
    return next((10.0**n for n in range(1, 16) if scale == float(f"1e-{n}")), 1.0)


def _name(given: str | None, path: Parts, walked: Parts, matched: Parts, metric: str) -> str:
    if given is not None:
        return filled(given, {"metric": metric, **{str(i): m for i, m in enumerate(matched, 1)}})
    first = next((i for i, part in enumerate(path) if part.startswith("*")), 0)
    name = ".".join(walked[first:])
    return f"{metric}.{name}" if metric else name


def filled(template: str, names: dict[str, str]) -> str:
    """Text with {names} replaced; what is not known stays."""
    return re.sub(r"\{(\w+)\}", lambda found: names.get(found[1], found[0]), template)


@dataclass
class State:
    """One [[state]]."""

    given: schema.State
    pattern: Pattern
    without: list[Pattern]
    line: int
    path: Parts | None = None
    examples: list[schema.Example] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.given.name


@dataclass(frozen=True)
class Route:
    """Who reads a topic: a source, a state, or nobody. device: "" if the payload names it. reason:
    why nobody; is_ignored: on purpose."""

    reader: Source | State | None
    device: str = ""
    metric: str = ""
    is_ignored: bool = False
    reason: str = ""
    leaf: Leaf | None = None


@dataclass
class Mapping:
    """file: its name, for messages. topics: the topic filters to subscribe to."""

    file: str
    sources: list[Source]
    states: list[State]
    ignored: list[Pattern]
    limits: schema.Limits
    _routes: dict[bytes, Route] = field(default_factory=dict)

    @property
    def readers(self) -> list[Source | State]:
        return [*self.sources, *self.states]

    @property
    def topics(self) -> list[str]:
        return sorted({one.pattern.filter for one in self.readers})

    def has(self, topic: bytes) -> bool:
        """Whether messages on this topic are for this mapping, to read or to ignore."""
        route = self.route(topic)
        return route.reader is not None or route.is_ignored

    def route(self, topic: bytes) -> Route:
        found = self._routes.get(topic)
        if found is None:
            if len(self._routes) >= _TOPICS_KEPT:  # a flood of made-up names
                self._routes.clear()
            found = self._routes[topic] = self._find(topic)
        return found

    def _find(self, topic: bytes) -> Route:
        try:
            text = topic.decode()
        except UnicodeDecodeError:
            return Route(None, reason="topic is not UTF-8")
        if any(pattern.match(text) is not None for pattern in self.ignored):
            return Route(None, is_ignored=True, reason="a topic to ignore")
        for reader in self.readers:
            names = reader.pattern.match(text)
            if names is not None and all(one.match(text) is None for one in reader.without):
                return _route(reader, names)
        return Route(None, reason="no source has this topic")


def _route(reader: Source | State, names: dict[str, str]) -> Route:
    device, metric = names.get("device", ""), names.get("metric", "")
    given = reader.given
    if isinstance(given.device, str):
        device = filled(given.device, names)
    if device and not is_name(device):
        return Route(None, reason="the device's name is too long, or cannot be printed")
    if metric and not is_name(metric):
        return Route(None, reason="the metric's name is too long, or cannot be printed")
    if isinstance(reader, State) or reader.given.payload != "number":
        return Route(reader, device, metric)
    source = reader.given
    name = filled(source.metric or "{metric}", names)
    unit = source.unit or reader.unit_of(name)
    return Route(reader, device, metric, leaf=leaf(name, unit, source.scale, source.offset))
