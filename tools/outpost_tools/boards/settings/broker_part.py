"""The part of a board's settings that comes from credentials made by `outpost broker`: broker, TLS,
user, password, topics. Knows no board."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from outpost_tools.errors import ToolError
from outpost_tools.mqtt import credentials
from outpost_tools.mqtt.credentials import Credentials

# Keys that credentials provide, and that a settings file used with them must leave out.
KEYS = (
    "broker_host", "broker_port", "tls", "ca_file", "server_name", "user", "password",
    "topic_prefix",
)  # fmt: skip


_KEY = re.compile(r"(?:# )?(\w+) = ")
_COMMAND = "--port /dev/ttyACM0 THIS_FILE"


def example(text: str, path: Path) -> str:
    """Return an example of a settings file, without the keys that the credentials at this path
    provide. Raises ToolError."""
    found = credentials.find(path, "board")
    text = text[: text.index("\n# TLS:")]  # TLS is the last part, and the credentials provide it
    lines = [
        line
        for line in text.replace('"kitchen" ', f'"{found.user}" ', 1).splitlines(keepends=True)
        if not ((key := _KEY.match(line)) and key[1] in KEYS)
    ]
    made = "".join(lines).replace(_COMMAND, f"{_COMMAND} \\\n#         --credentials {path}")
    return f"{made}\n# Broker, TLS, user, password and topics: of --credentials.\n"


def settings_of(found: Credentials) -> dict[str, Any]:
    """The settings that the credentials provide, without the certificate: the value of ca_file is
    only for people to read."""
    return {
        "device_id": found.user,
        "broker_host": found.host,
        "broker_port": found.port,
        "tls": True,
        "ca_file": "(of the credentials)",
        "user": found.user,
        "password": found.password,
        "topic_prefix": found.topic_prefix,
    }


def merged(
    given: dict[str, Any], path: Path | None, name: str
) -> tuple[dict[str, Any], bytes | None]:
    """Return the settings with the broker's part, and the authority's certificate. path: that of
    the credentials; None: there are none, and the settings stay as they are. name: that of the
    settings, for messages. Raises ToolError."""
    if path is None:
        return given, None
    device = given.get("device_id")
    found = credentials.find(path, "board", device if isinstance(device, str) else None)
    return with_credentials(given, found, name), found.ca.encode()


def with_credentials(given: dict[str, Any], found: Credentials, name: str) -> dict[str, Any]:
    """Return the settings with the broker's part. name: that of the settings, for messages. Raises
    ToolError."""
    device = given.get("device_id")
    clash = [key for key in KEYS if key in given]
    if clash:
        raise ToolError(
            f"{name}: --credentials says {', '.join(clash)}: delete those keys from it, or leave "
            "out --credentials"
        )
    if device not in (None, found.user):
        raise ToolError(
            f"{name}: key 'device_id' is {device!r}, and the credentials are those of "
            f"{found.user!r}; a board's user is its device_id"
        )
    return given | settings_of(found)
