"""Topic patterns: which topics a source reads, and whether two patterns can match the same one.

A pattern is a topic filter of MQTT with two names for levels:

    tele/{device}/SENSOR         {device}, {metric}: one level, or a part of one: plug-{device}
    zigbee2mqtt/{device#}        one or more levels; once in a pattern
    application/+/{device}/up    +: any level
    zigbee2mqtt/bridge/#         #: these levels and any below; last, and not with {device#}

No wildcard matches a first level that begins with `$`: those topics are the broker's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

_NAMED = re.compile(r"([^{}]*)\{(device|metric)(#?)\}([^{}]*)\Z")
_ANY, _ONE = "#", "+"
_OTHER = "any"  # stands for a level that no pattern names


class BadPattern(ValueError):
    """str(): what is wrong, and what to write."""


@dataclass(frozen=True)
class _Level:
    """One level of a pattern; `text` where it is fixed, otherwise what it begins and ends with."""

    kind: str  # _ONE, _ANY, or "" for a fixed level
    text: str = ""
    begin: str = ""
    end: str = ""

    def takes(self, level: str) -> bool:
        if not self.kind:
            return level == self.text
        fits = level.startswith(self.begin) and level.endswith(self.end)
        return fits and len(level) >= len(self.begin) + len(self.end)


@dataclass(frozen=True)
class Pattern:
    """text: as the file has it. filter: to subscribe to; it may match more than the pattern."""

    text: str
    filter: str
    names: frozenset[str]
    levels: tuple[_Level, ...] = field(repr=False)
    _regex: re.Pattern[str] = field(repr=False)

    def match(self, topic: str) -> dict[str, str] | None:
        """{name: level}; None if it does not match."""
        found = self._regex.match(topic)
        return None if found is None else found.groupdict()

    def after(self, at: frozenset[int], level: str) -> frozenset[int]:
        """The places that may follow `at` when this level has been read."""
        levels, found = self.levels, set()
        for place in at:
            if place < len(levels) and levels[place].takes(level):
                found.add(place if levels[place].kind == _ANY else place + 1)
        return self.opened(found)

    def opened(self, at: Iterable[int]) -> frozenset[int]:
        """With the places that are reached by reading nothing."""
        found = set(at)
        for place in range(len(self.levels)):
            if place in found and self.levels[place].kind == _ANY:
                found.add(place + 1)
        return frozenset(found)

    def is_end(self, at: frozenset[int]) -> bool:
        return len(self.levels) in at


def parse(text: str) -> Pattern:
    """Raises BadPattern."""
    if not text or "\0" in text or text.startswith("$"):
        raise BadPattern("a topic is needed, and none of the broker's own ($...)")
    parts = text.split("/")
    levels: list[_Level] = []
    regex, filters, names = [], [], []
    for index, part in enumerate(parts):
        is_last = index == len(parts) - 1
        made, expression, name = _part(part, is_last=is_last)
        levels += made
        regex.append(expression)
        names += [name] if name else []
        filters.append(_filter(part) if name else part)
    if len(set(names)) < len(names):
        raise BadPattern("{device} and {metric} may occur once each")
    if sum(level.kind == _ANY for level in levels) > 1:
        raise BadPattern("only one of #, {device#} and {metric#} can be in a pattern")
    return Pattern(
        text, _whole_filter(filters), frozenset(names), tuple(levels), _compiled(regex, parts)
    )


def _filter(part: str) -> str:
    return "#" if part.endswith("#}") else "+"


def _whole_filter(filters: list[str]) -> str:
    """Up to its first `#`, which MQTT allows at the end alone."""
    return "/".join(filters[: filters.index("#") + 1] if "#" in filters else filters)


def _compiled(regex: list[str], parts: list[str]) -> re.Pattern[str]:
    if parts[-1] == "#":
        below = r"(?:/.*)?" if len(parts) > 1 else ".*"
        body = "/".join(regex[:-1]) + below
    else:
        body = "/".join(regex)
    return re.compile(rf"(?!\$){body}\Z", re.DOTALL)


def _part(part: str, *, is_last: bool) -> tuple[list[_Level], str, str]:
    """(levels, regular expression, name or "") of the text between two slashes."""
    if part == "+":
        return [_Level(_ONE)], "[^/]*", ""
    if part == "#":
        if not is_last:
            raise BadPattern("# must be last; several levels before others are {device#}")
        return [_Level(_ANY)], "", ""
    if not any(one in part for one in "+#{}"):
        return [_Level("", part)], re.escape(part), ""
    return _named(part)


def _named(part: str) -> tuple[list[_Level], str, str]:
    found = _NAMED.match(part)
    begin, name, many, end = found.groups() if found else ("", "", "", "+")
    if "+" in begin + end or "#" in begin + end or (many and begin + end):
        raise BadPattern(
            f"{part!r}: a level is text, or +, or has one of {{device}} and {{metric}}; "
            "{device#} and {metric#} are levels of their own"
        )
    if many:
        return [_Level(_ONE), _Level(_ANY)], rf"(?P<{name}>.+)", name
    expression = rf"{re.escape(begin)}(?P<{name}>[^/]+){re.escape(end)}"
    return [_Level(_ONE, "", begin, end)], expression, name


# --- Two patterns ---


def common_topic(one: Pattern, other: Pattern, without: Iterable[Pattern] = ()) -> str | None:
    """A topic that both match and none of `without` does; None if there is none.

    The patterns are automata over levels. A search through all of them together decides it: levels
    that no pattern names are alike, so few levels have to be tried at each step.
    """
    if _are_apart(one, other):
        return None
    patterns = (one, other, *without)
    symbols = [*_symbols(patterns)]
    begin = tuple(pattern.opened([0]) for pattern in patterns)
    todo, seen = [((), begin)], {begin}
    while todo:
        topic, places = todo.pop(0)
        ends = [p.is_end(at) for p, at in zip(patterns, places, strict=True)]
        if topic and all(ends[:2]) and not any(ends[2:]):
            return "/".join(topic)
        for symbol in symbols:
            after = tuple(p.after(at, symbol) for p, at in zip(patterns, places, strict=True))
            if after[0] and after[1] and after not in seen:
                seen.add(after)
                todo.append(((*topic, symbol), after))
    return None


def _are_apart(one: Pattern, other: Pattern) -> bool:
    """Whether a fixed level or the number of levels tells them apart: cheap, and enough for most
    pairs of a long file."""
    for a, b in zip(one.levels, other.levels, strict=False):
        if _ANY in (a.kind, b.kind):
            return False
        if not (a.kind or b.kind) and a.text != b.text:
            return True
    is_open = any(level.kind == _ANY for level in (*one.levels, *other.levels))
    return not is_open and len(one.levels) != len(other.levels)


def _symbols(patterns: Iterable[Pattern]) -> Iterator[str]:
    """Levels that stand for all: each fixed one, each combination of a beginning and an end, and
    one that no pattern names."""
    levels = [level for pattern in patterns for level in pattern.levels]
    fixed = {level.text for level in levels if not level.kind}
    other = _OTHER
    while other in fixed:
        other += "-other"
    begins = {level.begin for level in levels} | {""}
    ends = {level.end for level in levels} | {""}
    yield from sorted({begin + other + end for begin in begins for end in ends} - fixed)
    yield from sorted(fixed)
