"""Faults of a file of sources in words: file, line, which source, what is wrong, what to do."""

from __future__ import annotations

import difflib
import re
from typing import Any, NoReturn, TypeVar

import msgspec

from outpost_tools.errors import ToolError

_HEADER = re.compile(r"^[ \t]*\[\[[ \t]*(source|state)[ \t]*\]\]", re.MULTILINE)
_KINDS = {  # msgspec's word, as a person writes it
    "str": 'a string in "quotes"',
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list: [ ]",
    "object": "a table: { }",
}
T = TypeVar("T")


class Place:
    """Where in the file: for `source` number `index` of `kind`. name: "" until it is known."""

    def __init__(self, file: str, text: str = "", kind: str = "", index: int = -1) -> None:
        self.file, self._text, self._kind, self._index = file, text, kind, index
        self.name = ""

    def table(self, kind: str, index: int) -> Place:
        return Place(self.file, self._text, kind, index)

    @property
    def line(self) -> int:
        """Of the table's header; 0 if there is none to point to."""
        found = [one for one in _HEADER.finditer(self._text) if one[1] == self._kind]
        if not 0 <= self._index < len(found):
            return 0
        return self._text.count("\n", 0, found[self._index].start(1)) + 1

    def __str__(self) -> str:
        where = self.file + (f", line {self.line}" if self.line else "")
        if not self._kind:
            return where
        return f"{where}: {self._kind} {repr(self.name) if self.name else self._index + 1}"

    def wrong(self, what: str) -> NoReturn:
        raise ToolError(f"{self}: {what}")


def convert(raw: Any, kind: type[T], place: Place, key: str = "") -> T:
    """raw as a struct. key: where it is in the table. Raises ToolError."""
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        place.wrong(_in_words(str(error), kind, key))


def _in_words(error: str, kind: Any, key: str) -> str:
    what, _, at = error.partition(" - at `$")
    at = at.rstrip("`").replace("[...]", "").strip(".")
    prefix = "".join(f"{one}: " for one in (key, at) if one)
    if found := re.match(r"Object contains unknown field `(.*)`", what):
        return prefix + _unknown(found[1], kind, at)
    if found := re.match(r"Object missing required field `(.*)`", what):
        return f"{prefix}{found[1]} is missing"
    if found := re.match(r"Invalid enum value '?(.*?)'?$", what):
        return f"{prefix}{found[1]!r} is not known; `outpost sources --help` lists what is"
    return prefix + _expected(what)


def _expected(what: str) -> str:
    if found := re.match(r"Expected `(.*)`, got `(.*)`", what):
        wanted = [_KINDS[one] for one in found[1].split(" | ") if one in _KINDS]
        got = "true or false" if found[2] == "bool" else _KINDS.get(found[2], found[2])
        return f"{' or '.join(wanted)} is needed, not {got}"
    if found := re.match(r"Expected `(\w+)` (of length )?([<>])= (\S+)", what):
        bound = "at most" if found[3] == "<" else "at least"
        unit = " characters" if found[2] else ""
        return f"{_KINDS.get(found[1], found[1])} of {bound} {float(found[4]):.15g}{unit} is needed"
    return what


def _unknown(name: str, kind: Any, at: str) -> str:
    """`at`: "" if it is a key of `kind` itself."""
    if at:
        return f"no such key: {name}; `outpost sources --help` lists the keys"
    known = [one.encode_name for one in msgspec.structs.fields(kind)]
    near = difflib.get_close_matches(name, known, 1)
    return f"no such key: {name}; " + (
        f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
    )
