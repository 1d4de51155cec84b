"""A table of a TOML file, read key by key. Each mistake is one line with file, table, key and
remedy. Knows no particular key."""

from __future__ import annotations

import difflib
import re
import stat
from pathlib import Path
from typing import Any, NoReturn

from outpost_tools.errors import ToolError

_SPAN = re.compile(r"(\d+(?:\.\d+)?)([smhd])\Z")
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_MOST_S = 366 * 86_400
_MISSING = object()


class Table:
    """where: the file and the table's name, for messages. folder: the base of file names."""

    def __init__(self, given: Any, where: str, folder: Path) -> None:
        self.where, self.folder = where, folder
        if not isinstance(given, dict):
            raise ToolError(f"{where}: a table is needed: [name], or [[name]] where it may repeat")
        self._given, self._asked = given, set()

    def has(self, key: str) -> bool:
        return key in self._given

    def wrong(self, key: str, what: str) -> NoReturn:
        raise ToolError(f"{self.where}: {key}: {what}")

    def text(self, key: str, default: Any = _MISSING) -> str:
        value = self._value(key, default, 'a string in "quotes" is needed')
        if value is default and not isinstance(value, str):
            return value
        if not isinstance(value, str) or not value or "\n" in value or "\r" in value:
            self.wrong(key, 'a string in "quotes", on one line, is needed')
        return value

    def choice(self, key: str, allowed: tuple[str, ...]) -> str:
        """One of `allowed`, whose first is the default."""
        value = self.text(key, allowed[0])
        if value not in allowed:
            self.wrong(key, f"{value!r}: " + ", ".join(f'"{one}"' for one in allowed))
        return value

    def texts(self, key: str, default: Any = _MISSING) -> tuple[str, ...]:
        """A list of strings; the file may also have a single string."""
        value = self._value(key, default, 'a list is needed: ["one", "two"]')
        if isinstance(value, str):
            value = [value]
        if not isinstance(value, list | tuple) or not all(
            isinstance(one, str) and one and "\n" not in one for one in value
        ):
            self.wrong(key, 'a list of strings is needed: ["one", "two"]')
        if not value and default is _MISSING:
            self.wrong(key, "empty; name at least one")
        return tuple(value)

    def number(self, key: str, least: float, most: float, default: Any = _MISSING) -> Any:
        value = self._value(key, default, "a number is needed")
        if value is default:
            return value
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not least <= value <= most:
            self.wrong(key, f"{value!r}: a number from {least:g} to {most:g} is needed")
        return value

    def whole(self, key: str, least: int, most: int, default: Any = _MISSING) -> int:
        value = self.number(key, least, most, default)
        if not isinstance(value, int):
            self.wrong(key, f"{value!r}: a whole number is needed")
        return value

    def span_s(self, key: str, default: Any = _MISSING) -> float:
        """Seconds, from a duration such as "90s", "10m", "2h" or "1d"."""
        value = self._value(key, default, 'a duration is needed: "10m"')
        found = _SPAN.match(value) if isinstance(value, str) else None
        seconds = float(found[1]) * _UNITS_S[found[2]] if found else -1.0
        if not 0 <= seconds <= _MOST_S:
            self.wrong(key, f'{value!r}: a duration is needed: "90s", "10m", "2h" or "1d"')
        return seconds

    def raw(self, key: str) -> Any:
        """The value unchecked; None if it is missing."""
        return self._value(key, None, "")

    def tables(self, key: str) -> list[Any]:
        """The elements of an array of tables; empty if it is missing."""
        value = self._value(key, [], "")
        if not isinstance(value, list):
            self.wrong(key, f"may repeat: write [[{key}]] with two brackets")
        return value

    def texts_of(self, key: str) -> dict[str, str]:
        """An inline table of strings: {name = "text"}; empty if it is missing."""
        value = self._value(key, {}, "")
        if not isinstance(value, dict) or not all(isinstance(one, str) for one in value.values()):
            self.wrong(key, 'a table of strings is needed: {topic = "my-topic"}')
        return dict(value)

    def file(self, key: str) -> Path | None:
        """The path of a readable file, relative to this file's folder; None if it is missing."""
        name = self.text(key, None)
        if name is None:
            return None
        path = self.folder / Path(name).expanduser()
        try:
            path.read_bytes()
        except OSError as error:
            self.wrong(key, f"{path}: {error.strerror}; give the path of a file that is there")
        return path

    def secret(self, key: str) -> str | None:
        """The first line of a file that nobody else can read; None if the key is missing."""
        path = self.file(key)
        if path is None:
            return None
        if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            self.wrong(key, f"{path}: others can read it, and it holds a secret; chmod 600 {path}")
        try:
            lines = path.read_text(encoding="utf-8-sig").splitlines()
        except UnicodeDecodeError:
            self.wrong(key, f"{path}: not text; its first line must be the secret")
        if not lines or not lines[0].strip():
            self.wrong(key, f"{path} is empty; its first line must be the secret")
        word = lines[0].strip()
        if not word.isascii() or not word.isprintable():
            self.wrong(key, f"{path}: has a character that is not ASCII and cannot be sent")
        return word

    def done(self) -> None:
        """Checks that the table has no other keys. Raises ToolError."""
        for key in self._given:
            if key not in self._asked:
                known = sorted(self._asked)
                near = difflib.get_close_matches(key, known, 1)
                what = f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
                self.wrong(key, f"no such key; {what}")

    def _value(self, key: str, default: Any, needed: str) -> Any:
        self._asked.add(key)
        if key in self._given:
            return self._given[key]
        if default is _MISSING:
            self.wrong(key, f"missing; {needed}")
        return default
