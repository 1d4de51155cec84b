"""A credentials file: everything that one client needs to reach its broker, in one file to copy.

JSON, written by `outpost broker` (boards/broker/folder.py), readable only by its owner. Knows no
network.

    {"outpost_credentials": 1, "role": "board", "host": "broker.home", "port": 8883,
     "ca": "-----BEGIN CERTIFICATE-----...", "client_id": "kitchen", "user": "kitchen",
     "password": "...", "topic_prefix": "outpost", "share": ""}
"""

from __future__ import annotations

import json
import shlex
import ssl
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from outpost_tools.errors import ToolError
from outpost_tools.machine import exposure
from outpost_tools.mqtt import tls
from outpost_tools.mqtt.arguments import check_topic
from outpost_tools.terminal.command_line import is_host

ROLES = {
    "admin": "", "board": "boards", "collector": "collectors", "monitor": "monitors",
    "operator": "operators", "republisher": "republishers", "reader": "readers",
}  # fmt: skip
_VERSION = 1
_MARK = "outpost_credentials"


def second_name(name: str) -> str:
    """The name of the second user. Nobody else can have it, because no valid name contains "~"."""
    return f"{name}~2"


@dataclass(frozen=True, slots=True)
class Credentials:
    """role: one of ROLES, whose values are the folders. ca: PEM. share: the group of the
    collectors' shared subscription, if there is one."""

    role: str
    host: str
    port: int
    ca: str
    client_id: str
    user: str
    password: str = field(repr=False)
    topic_prefix: str = "outpost"
    share: str = ""

    def text(self) -> str:
        return json.dumps({_MARK: _VERSION, **asdict(self)}, indent=1) + "\n"

    @property
    def address(self) -> tuple[str, int]:
        return self.host, self.port

    @property
    def login(self) -> tuple[str, str]:
        return self.user, self.password

    @property
    def second(self) -> Credentials:
        """The second user's credentials, for a connection beside the permanent one: the broker
        binds the first user to the identifier of that connection."""
        return replace(self, user=second_name(self.user), client_id=second_name(self.client_id))

    def tls(self) -> ssl.SSLContext:
        """Verifies the broker's certificate and its name. Raises ToolError."""
        try:
            # never empty: then Python would trust the system's authorities
            return tls.context(cadata=self.ca or "none")
        except (ssl.SSLError, TypeError, ValueError):
            raise ToolError(
                f"the credentials of {self.role} {self.user!r}: key 'ca' is not a certificate; "
                "`outpost broker init DIR` recreates it"
            ) from None


def place(folder: Path, role: str, name: str) -> Path:
    """The path of the file of `name` in a folder of `outpost broker init`."""
    return folder / ROLES[role] / f"{name}.json"


def find(path: Path, role: str, name: str | None = None) -> Credentials:
    """The credentials in a file, or in the folder of `outpost broker init`. Raises ToolError.

    name: the client, if `path` is a folder; None: the only one with this role.
    """
    if not path.is_dir():
        return load(path, role)
    if (path / "broker" / "broker.json").is_file():  # the folder of `outpost run`
        raise ToolError(f"--credentials {path}: the broker's folder is {path / 'broker'}")
    if name is None:
        found = sorted((path / ROLES[role]).glob("*.json"))
        if len(found) != 1:
            if not found:
                raise _missing(path, role)
            names = ", ".join(one.stem for one in found)
            raise ToolError(
                f"--credentials {path}: which {role}? There: {names}; give its file instead"
            )
        return load(found[0], role)
    if not place(path, role, name).is_file():
        raise _missing(path, role, name)
    return load(place(path, role, name), role)


def _missing(path: Path, role: str, name: str | None = None) -> ToolError:
    option = "" if role == "board" else f" --{role}"
    return ToolError(
        f"--credentials {path}: no {role}{f' {name!r}' if name else ''} there; make it with "
        f"`outpost broker add {shlex.quote(str(path))}{option} {name or 'NAME'}`"
    )


def load(path: Path, role: str) -> Credentials:
    """Raises ToolError if it is not a credentials file, or is for another role."""
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not text"
        raise ToolError(f"--credentials {path}: cannot be read: {reason}") from None
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict) or given.get(_MARK) != _VERSION:
        raise ToolError(
            f"--credentials {path}: not a credentials file of this version; make it with "
            "`outpost broker`"
        )
    exposure.tell(exposure.to_readers(path, "--credentials"))
    found = _checked(given, path)
    if found.role != role:
        raise ToolError(
            f"--credentials {path}: these are of a {found.role}, and a {role}'s are needed"
        )
    return found


def _checked(given: dict[str, Any], path: Path) -> Credentials:
    for one in fields(Credentials):
        kind = int if one.name == "port" else str
        if type(given.get(one.name)) is not kind:
            what = "a number" if kind is int else "text"
            raise ToolError(f"--credentials {path}: key '{one.name}' is missing or not {what}")
        if kind is str and not _is_text(given[one.name], one.name == "ca"):
            raise ToolError(
                f"--credentials {path}: key '{one.name}' is not a text for MQTT: UTF-8 without "
                "NUL, at most 65,535 bytes"
            )
    host = given["host"]
    if not host or not is_host(host) or not 0 < given["port"] < 65536:
        raise ToolError(f"--credentials {path}: keys 'host' and 'port' are not an address")
    check_topic(f"--credentials {path}: key 'topic_prefix'", given["topic_prefix"])
    return Credentials(**{one.name: given[one.name] for one in fields(Credentials)})


def _is_text(text: str, may_be_long: bool) -> bool:
    try:
        length = len(text.encode())
    except UnicodeEncodeError:  # a lone surrogate, from an escape
        return False
    return "\0" not in text and (length < 65536 or may_be_long)
