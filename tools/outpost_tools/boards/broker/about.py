"""broker.json: describes the folder of a broker; checks that each of its fields can be used."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outpost_tools.errors import ToolError
from outpost_tools.messages import name_rules
from outpost_tools.terminal.command_line import is_host

_WORD = re.compile(r"[\x21-\x7e]*")


@dataclass(frozen=True, slots=True)
class About:
    """hosts: names and addresses in the broker's certificate; clients use the first one. share: the
    group of the collectors' shared subscription. user: the user that runs mosquitto.
    own_authority: False if the user supplied the certificates."""

    hosts: list[str]
    port: int
    listen: str
    topic_prefix: str
    share: str
    user: str
    plugin: str
    own_authority: bool


def is_word(value: Any) -> bool:
    """Printable ASCII without blanks, as mosquitto.conf requires; may be empty."""
    return isinstance(value, str) and bool(_WORD.fullmatch(value))


def is_name(value: Any) -> bool:
    """A host name or an address."""
    return bool(value) and is_word(value) and is_host(value)


def is_prefix(value: Any) -> bool:
    return isinstance(value, str) and name_rules.is_prefix(value)


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(is_name, value))


def _is_port(value: Any) -> bool:
    return type(value) is int and 0 < value < 65536


def _is_level(value: Any) -> bool:
    return is_prefix(value) and "/" not in value


def _is_line(value: Any) -> bool:
    return isinstance(value, str) and bool(value) and value.isprintable()


_WANTED: dict[str, tuple[Callable[[Any], bool], str]] = {
    "hosts": (_are_names, "a list of names or addresses, at least one"),
    "port": (_is_port, "a port, 1 to 65535"),
    "listen": (is_word, "an address, or empty"),
    "topic_prefix": (is_prefix, "a topic without '+', '#', '%', blanks and empty levels"),
    "share": (_is_level, "the name of a group, one level of a topic"),
    "user": (_is_line, "the name of a user"),
    "plugin": (_is_line, "the path of a plugin"),
    "own_authority": (lambda value: isinstance(value, bool), "true or false"),
}


def load(path: Path) -> About:
    """Raises ToolError, FileNotFoundError."""
    given = _read(path)
    for name, (is_sound, wanted) in _WANTED.items():
        if name not in given:
            raise ToolError(f"{path}: key {name!r} is missing: {wanted}")
        if not is_sound(given[name]):
            raise ToolError(f"{path}: key {name!r} must be {wanted}, not {given[name]!r}")
    if unknown := sorted(given.keys() - _WANTED.keys()):
        raise ToolError(f"{path}: unknown key {unknown[0]!r}; known: {', '.join(_WANTED)}")
    return About(**given)


def _read(path: Path) -> dict[str, Any]:
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ToolError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise ToolError(f"{path}: not valid JSON: {error}") from None
    if not isinstance(given, dict):
        raise ToolError(f"{path}: a JSON object is needed")
    return given
