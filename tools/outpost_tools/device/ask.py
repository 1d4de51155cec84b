"""Asks for a board's settings at the terminal; secrets without echo.

Gives what a settings file would hold.
"""

from __future__ import annotations

import getpass
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from outpost_tools.common.errors import ToolError
from outpost_tools.device import settings_file
from outpost_tools.device.kinds import Kind

# key, question, whether only boards with Wi-Fi are asked
_QUESTIONS = (
    ("device_id", "name of this board (A-Z a-z 0-9 _ . -)", False),
    ("wifi_ssid", "Wi-Fi network", True),
    ("wifi_password", "its password", True),
    ("wifi_country", "country, two letters (may be empty)", True),
    ("broker_host", "MQTT broker, name or address", False),
    ("broker_port", "its port (empty: 1883, with TLS 8883)", False),
    ("user", "user at the broker (may be empty)", False),
    ("password", "its password (may be empty)", False),
    ("ca_file", "TLS: file with the CA's certificate (empty: no TLS)", False),
    ("client_cert_file", "TLS: file with the board's certificate (may be empty)", False),
    ("client_key_file", "TLS: file with its key (may be empty)", False),
    ("interval_ms", "milliseconds between measurements (empty: 10000)", False),
    ("sensors", "sensors, with commas (empty: all that the chip has)", False),
    (
        "connect_every",
        "on a battery: measurements a connection, asleep in between (empty: always awake)",
        False,
    ),
)
_NUMBERS = ("broker_port", "interval_ms", "connect_every")


def ask(kind: Kind) -> settings_file.Settings:
    """Raises ToolError."""
    if not sys.stdin.isatty():
        raise ToolError(
            "no settings file given, and nobody to ask; `outpost provision --example` prints one "
            "to begin with"
        )
    print(
        f"{kind.description}. Ctrl-C ends, nothing is changed before the last answer.",
        file=sys.stderr,
    )
    answers: dict[str, Any] = {}
    for key, question, is_wifi in _QUESTIONS:
        if kind.has_wifi or not is_wifi:
            _ask_one(key, question, answers)
    if answers.get("ca_file"):
        answers["tls"] = True
    if "connect_every" in answers:
        answers["deep_sleep"] = True
    return settings_file.check(answers, "answers", Path(), kind)


def _ask_one(key: str, question: str, answers: dict[str, Any]) -> None:
    read: Callable[[str], str] = getpass.getpass if key in settings_file.SECRET_KEYS else _input
    text = read(f"{question}: ").strip()
    if not text:
        return
    if key == "sensors":
        answers[key] = [part.strip() for part in text.split(",") if part.strip()]
    else:
        answers[key] = int(text) if key in _NUMBERS and text.isdecimal() else text


def _input(question: str) -> str:
    print(question, end="", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    if not line:
        raise ToolError("the answers ended; nothing was changed")
    return line


def save(path: Path, settings: settings_file.Settings) -> None:
    """As a settings file that only its owner may read.

    Raises ToolError when there is one already.
    """
    lines = [
        f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in settings.given.items()
    ]
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise ToolError(
            f"--save {path}: {error.strerror}; name a file that is not there yet"
        ) from None
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write("\n".join([*lines, ""]))
