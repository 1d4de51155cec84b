"""Values by path: which numbers of a JSON document are readings, and what they are called.

A path names the keys on the way to a value, with full stops between: `params.ts`. A key with a full
stop is quoted: `"a.b".c`. An element of a list is named by its index from 0. `*` is any one key,
`**` (last) any keys below. A wildcard makes a name of each key that it matched: `params.*.tC` finds
`temperature:0.tC` in {"params": {"temperature:0": {"tC": 21.5}}}: the path as walked, without the
keys before the first wildcard.

A Tree combines the paths of a source. Its nodes are made as documents show new keys, and say for
each key in which node the walk goes on, or that nothing below is wanted. So the cost of a document
does not depend on the number of paths, and what no path wants is not looked at.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from outpost_tools.messages.labels import MAX_VALUE
from outpost_tools.readings.sources.bounds import MAX_DEPTH
from outpost_tools.readings.sources.result import Reading

SWITCH = "/"  # SenML's unit of a switch or contact, where 1 is on (RFC 8428, section 12.1)
_PART = re.compile(r'"([^"]+)"|([^".\s][^".]*)')
_NODES_KEPT = 10_000

Parts = tuple[str, ...]


class BadPath(ValueError):
    """str(): what is wrong, and what to write."""


def parse(text: str) -> Parts:
    """Raises BadPath."""
    parts, at = [], 0
    while at < len(text):
        found = _PART.match(text, at)
        if found is None or (found.end() < len(text) and text[found.end()] != "."):
            raise BadPath(f'{text!r}: keys with full stops between are needed: params.*."a.b"')
        parts.append(found[0] if found[0] in ("*", "**") else found[1] or found[2])
        at = found.end() + 1
    if not parts or text.endswith("."):
        raise BadPath(f"{text!r}: a path such as params.*.tC is needed")
    if "**" in parts[:-1]:
        raise BadPath(f"{text!r}: ** must be last")
    if len(parts) > MAX_DEPTH:
        raise BadPath(f"{text!r}: at most {MAX_DEPTH} levels are read")
    return tuple(parts)


def get(document: Any, path: Parts) -> Any:
    """The value at a path without wildcards; None if there is none."""
    for part in path:
        if isinstance(document, dict):
            document = document.get(part)
        elif isinstance(document, list) and part.isdecimal() and int(part) < len(document):
            document = document[int(part)]
        else:
            return None
    return document


class Leaf(msgspec.Struct, frozen=True, gc=False):
    """What to make of the number at a path. name: "" if it is no valid name. divisor: of a scale
    that is a negative power of ten, which is exact as a division. unit_of_switch: of true and
    false. is_plain: the number itself is the reading. may_be_text: a wildcard found it, so a text
    there is no fault."""

    name: str
    unit: str | None
    unit_of_switch: str | None
    scale: float
    divisor: float
    offset: float
    is_plain: bool
    may_be_text: bool = False

    def reading(self, value: Any, words: dict[str, float], time_us: int | None) -> Reading | None:
        """None if it is no number, and no text for one, or out of bounds."""
        if not self.name:
            return None
        if isinstance(value, bool) or (isinstance(value, str) and value in words):
            number = words[value] if isinstance(value, str) else float(value)
            return Reading(self.name, self.unit_of_switch, number, time_us)
        if not isinstance(value, int | float) or not -MAX_VALUE < value < MAX_VALUE:
            return None
        number = value * self.scale / self.divisor + self.offset
        return Reading(self.name, self.unit, number, time_us) if abs(number) < MAX_VALUE else None


# Called with the number of the value path, the keys as walked and the keys that wildcards matched.
MakeLeaf = Callable[[int, Parts, Parts], Leaf]
# A path being followed: its number (negative: one to ignore), its place, what wildcards matched.
_State = tuple[int, int, Parts]


class Tree:
    """The paths of a source: `values` in order of precedence, and `ignored`, which win."""

    def __init__(self, values: list[Parts], ignored: list[Parts], make_leaf: MakeLeaf) -> None:
        self.paths = dict(enumerate(values)) | {-1 - i: one for i, one in enumerate(ignored)}
        self.make_leaf = make_leaf
        self.nodes = 0
        self.root = Node(self, (), [(number, 0, ()) for number in self.paths])


class _Children(dict):
    """The node of each key that was seen; None: nothing is wanted below it. A new key makes its
    node."""

    def __init__(self, node: Node) -> None:
        super().__init__()
        self._node = node

    def __missing__(self, key: str) -> Node | None:
        return self._node.grow(key)


class Node:
    """A place in documents. leaf: what to make of a number here; None: it is no reading."""

    __slots__ = ("_states", "_tree", "children", "leaf", "walked")

    def __init__(self, tree: Tree, walked: Parts, states: list[_State]) -> None:
        self._tree, self.walked, self._states = tree, walked, states
        self.children = _Children(self)
        self.leaf = self._make_leaf()

    def _make_leaf(self) -> Leaf | None:
        ends = [state for state in self._states if self._is_end(state)]
        if not ends or min(number for number, _, _ in ends) < 0:
            return None
        number, _, matched = min(ends)
        return self._tree.make_leaf(number, self.walked, matched)

    def _is_end(self, state: _State) -> bool:
        number, at, _ = state
        path = self._tree.paths[number]
        return at == len(path) or (path[at] == "**" and len(self.walked) > at)

    def grow(self, key: str) -> Node | None:
        """The node of a key that was not seen before."""
        after = [moved for state in self._states for moved in self._moved(state, key)]
        is_wanted = any(number >= 0 for number, _, _ in after) and len(self.walked) < MAX_DEPTH
        child = Node(self._tree, (*self.walked, key), after) if is_wanted else None
        if self._tree.nodes < _NODES_KEPT:
            self._tree.nodes += 1
            self.children[key] = child
        return child

    def _moved(self, state: _State, key: str) -> list[_State]:
        number, at, matched = state
        path = self._tree.paths[number]
        if at == len(path):
            return []
        if path[at] == "**":
            return [(number, at, (*matched, key))]
        if path[at] == "*":
            return [(number, at + 1, (*matched, key))]
        return [(number, at + 1, matched)] if path[at] == key else []


def walk(
    document: Any, node: Node, words: dict[str, float], time_us: int | None, found: list[Reading]
) -> list[str]:
    """Appends the readings of a document. Returns the paths of the values that could not be
    taken."""
    left_out: list[str] = []
    children = node.children
    for key, value in document.items() if type(document) is dict else _elements(document):
        child = children[key]
        if child is None:
            continue
        kind, leaf = type(value), child.leaf
        if kind is dict or kind is list:
            left_out += walk(value, child, words, time_us, found)
        elif leaf is not None and value is not None:
            if (kind is float or kind is int) and leaf.is_plain and -MAX_VALUE < value < MAX_VALUE:
                found.append(Reading(leaf.name, leaf.unit, float(value), time_us))
            else:
                reading = leaf.reading(value, words, time_us)
                if reading is not None:
                    found.append(reading)
                elif kind is not str or not leaf.may_be_text:
                    left_out.append(".".join(child.walked))
    return left_out


def _elements(document: Any) -> list[tuple[str, Any]]:
    """Of a list; a number or text has none."""
    if type(document) is not list:
        return []
    return [(str(index), value) for index, value in enumerate(document)]
