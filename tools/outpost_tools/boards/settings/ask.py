"""Asks for a board's settings at the terminal, for secrets without echo.

Returns what a settings file would contain. Each answer is checked at once: an invalid one is asked
for again, and `<` goes back to the previous question.
"""

from __future__ import annotations

import getpass
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from outpost_tools.boards.port.kinds import Kind
from outpost_tools.boards.settings import answers, broker_part, sensor_words, settings_file
from outpost_tools.boards.settings.drafts import Draft
from outpost_tools.errors import ToolError


@dataclass(frozen=True, slots=True)
class Question:
    """needs: asked only if the question with this key was answered. is_wifi: asked only for boards
    with Wi-Fi."""

    key: str
    text: str
    needs: str = ""
    is_wifi: bool = False


_QUESTIONS = (
    Question("device_id", "name of this board (A-Z a-z 0-9 _ . -)"),
    Question("wifi_ssid", "Wi-Fi network", is_wifi=True),
    Question("wifi_password", "its password (empty: an open network)", is_wifi=True),
    Question("wifi_country", "country, two letters (may be empty)", is_wifi=True),
    Question("broker_host", "MQTT broker, name or address"),
    Question("broker_port", "its port (empty: 1883, with TLS 8883)"),
    Question("user", "user at the broker (may be empty)"),
    Question("password", "its password (may be empty)", needs="user"),
    Question("ca_file", "TLS: file with the CA's certificate (empty: no TLS)"),
    Question(
        "client_cert_file", "TLS: file with the board's certificate (may be empty)", needs="ca_file"
    ),
    Question("client_key_file", "TLS: file with its key", needs="client_cert_file"),
    Question("interval_ms", "milliseconds between measurements (empty: 10000)"),
    Question("sensors", sensor_words.HELP),
    Question(
        "connect_every",
        "on a battery: measurements per connection, with sleep in between (empty: always awake)",
    ),
    Question(
        "mode",
        "who takes its messages: collector (`outpost collect` runs at this broker: none is lost), "
        "or broker (it does not: Home Assistant or any other consumer)",
    ),
    Question(
        "commands",
        "may `outpost send` restart it and change its settings from afar: yes or no (empty: no; "
        "whoever may write its topic at the broker can do it, too)",
    ),
)
_NUMBERS = ("broker_port", "interval_ms", "connect_every")
_BACK, _NONE = "<", "-"
_YES, _NO = "yes", "no"
SERIES = (
    "series = true: each measurement is on flash at once, and many go out as one message, at the "
    "latest after a minute, so pages show values that are a minute old. On a battery, series_age_s "
    "= 600 sends a tenth of the messages; series = false: a message each "
    "(firmware/station/SERIES.md)."
)


def ask(kind: Kind, draft: Draft, broker: Path | None = None) -> settings_file.Settings:
    """broker: path of the credentials; what they provide is not asked for. Raises ToolError; the
    draft then holds the answers so far."""
    if not sys.stdin.isatty():
        raise ToolError(
            "no settings file given, and nobody to ask; `outpost provision --example` prints one "
            "to begin with"
        )
    _say(f"{kind.description}. {_BACK} goes back one question, Ctrl-C ends.")
    if draft.answers:
        _say(f"In brackets: the last answers. Enter takes them, {_NONE} is for none.")
    known = broker_part.KEYS if broker else ()
    found = answers.completed(_Interview(kind, draft, known).run())
    given, ca = broker_part.merged(found, broker, "answers")
    settings = answers.check(given, "answers", Path(), kind, ca)
    if "series" in settings.given:
        _say(SERIES)
    settings_file.warn(settings)
    return settings


class _Interview:
    """_offered: the last answers. _answers: those of this interview."""

    def __init__(self, kind: Kind, draft: Draft, known: tuple[str, ...] = ()) -> None:
        self._kind, self._draft = kind, draft
        self._offered = dict(draft.answers)
        self._answers: dict[str, Any] = {}
        self._questions = [
            one for one in _QUESTIONS if (kind.has_wifi or not one.is_wifi) and one.key not in known
        ]

    def run(self) -> dict[str, Any]:
        """Ask all questions. Returns the answers by key. Raises ToolError when the input ends."""
        asked: list[int] = []
        at = 0
        while at < len(self._questions):
            question = self._questions[at]
            if question.needs and question.needs not in self._answers:
                self._answers.pop(question.key, None)
                at += 1
            elif self._is_taken(question):
                asked.append(at)
                at += 1
            else:
                at = asked.pop() if asked else 0
        return self._answers

    def _is_taken(self, question: Question) -> bool:
        """Ask until the answer is valid. Returns False if the user goes back to the previous
        question."""
        key = question.key
        while (text := self._read(question)) != _BACK:
            given = self._value(key, text)
            if given is None:
                continue
            fault = answers.answer_fault(key, self._answers | given, self._kind)
            if not fault:
                if not given:
                    self._answers.pop(key, None)
                self._answers |= given
                self._offered[key] = given.get(key, "")
                self._draft.keep(self._offered | self._answers)
                return True
            _say(f"  That {fault}.")
        return False

    def _read(self, question: Question) -> str:
        is_secret = question.key in settings_file.SECRET_KEYS
        read: Callable[[str], str] = getpass.getpass if is_secret else _input
        offered = "" if is_secret else self._offered.get(question.key, "")
        offered = _YES if offered is True else sensor_words.line(offered)
        try:
            text = read(f"{question.text}{f' [{offered}]' if offered else ''}: ").strip()
        except EOFError:
            raise ToolError(_ENDED) from None
        if is_secret:
            return text
        return "" if text == _NONE else text or offered

    def _value(self, key: str, text: str) -> dict[str, Any] | None:
        """Return {key: value}; {} for an empty answer; None: ask the question again."""
        if not text:
            return {}
        if key == "sensors":
            sensors = sensor_words.parsed(text, self._kind.sensors, _input_of_pin)
            return None if sensors is None else {key: sensors}
        if key == "commands":
            return _yes_or_no(key, text.lower())
        return {key: int(text) if key in _NUMBERS and text.isdecimal() else text}


def _yes_or_no(key: str, text: str) -> dict[str, Any] | None:
    if text in (_YES, _NO):
        return {key: True} if text == _YES else {}
    _say(f"  That must be {_YES} or {_NO}, not {text!r}.")
    return None


_ENDED = "the answers ended; nothing was changed, and those given are offered the next time"


def _say(text: str) -> None:
    print(text, file=sys.stderr)


def _input(question: str) -> str:
    print(question, end="", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    if not line:
        raise ToolError(_ENDED)
    return line


def _input_of_pin(question: str) -> str:
    return _input(f"{question}: ").strip()


def check_new(path: Path) -> None:
    """Check the path before the questions: save() would refuse it only after the last one. Raises
    ToolError."""
    if path.exists() or not path.parent.is_dir():
        reason = "File exists" if path.exists() else "no such folder"
        raise ToolError(f"--save {path}: {reason}; name a file that is not there yet")


def toml(settings: settings_file.Settings, left_out: tuple[str, ...] = ()) -> str:
    """The text of a settings file. left_out: keys that the credentials provide."""
    return "".join(
        f"{key} = {sensor_words.toml(value)}\n"
        for key, value in settings.given.items()
        if key not in left_out
    )


def save(path: Path, settings: settings_file.Settings, left_out: tuple[str, ...] = ()) -> None:
    """Save a settings file that only its owner may read. Raises ToolError, also if the file exists
    already."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise ToolError(
            f"--save {path}: {error.strerror}; name a file that is not there yet"
        ) from None
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(toml(settings, left_out))
