"""Writes sources and states as TOML, for a person to read and edit. Pure. Knows only what schema.py
has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

_BARE = re.compile(r"[A-Za-z0-9_-]+\Z")
_WIDTH = 100
_LONG = 8  # keys of a table that stay on one line


def table(kind: str, given: msgspec.Struct) -> str:
    """[[kind]] with the keys that differ from their defaults, and its examples after it."""
    lines = [f"[[{kind}]]"]
    tables: list[str] = []
    for key, value in _set(given):
        if key == "example":
            continue
        if isinstance(value, dict) and len(value) > _LONG:
            tables += ["", f"[{kind}.{key}]", *_pairs(value)]
        else:
            lines += _assigned(key, value)
    for one in getattr(given, "example", []):
        tables += ["", *_example(kind, one)]
    return "\n".join([*lines, *tables]) + "\n"


def _example(kind: str, example: Any) -> Iterator[str]:
    yield f"[[{kind}.example]]"
    readings: dict[str, Any] = {}
    for key, value in _set(example):
        if key == "readings":
            readings = value
        else:
            yield from _assigned(key, value)
    if readings:
        yield from ("", f"[{kind}.example.readings]", *_pairs(readings))


def _set(given: msgspec.Struct) -> Iterator[tuple[str, Any]]:
    """(key, value) of what is not the default."""
    for field in msgspec.structs.fields(given):
        value = getattr(given, field.name)
        default = field.default
        if field.default_factory is not msgspec.NODEFAULT:
            default = field.default_factory()
        if value != default:
            yield field.encode_name, value


def _pairs(given: dict[str, Any]) -> Iterator[str]:
    for key, value in given.items():
        yield from _assigned(key, value)


def _assigned(key: str, value: Any) -> Iterator[str]:
    line = f"{_key(key)} = {text(value)}"
    if len(line) <= _WIDTH or not isinstance(value, list):
        yield line
        return
    yield f"{_key(key)} = ["
    yield from (f"    {text(one)}," for one in value)
    yield "]"


def _key(key: str) -> str:
    return key if _BARE.match(key) else text(key)


def text(value: Any) -> str:
    """A value on one line; a text with line breaks, too."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(text, value))}]"
    if isinstance(value, msgspec.Struct):
        value = dict(_set(value))
    return "{ " + ", ".join(f"{_key(key)} = {text(one)}" for key, one in value.items()) + " }"


def _quoted(value: str) -> str:
    """Literal where TOML allows it: JSON keeps its quotes readable."""
    if '"' in value and "'" not in value and value.isprintable():
        return f"'{value}'"
    return '"' + "".join(map(_escaped, value)) + '"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    if character.isprintable():
        return character
    return f"\\U{ord(character):08x}"
