"""The folder that `outpost broker init` makes, and who may read what in it.

    broker.json            the broker's address; the group of the collectors' shared subscription
    ca.pem, ca.key         the authority; the key only signs the broker's next certificate
    admin.json             credentials for `outpost broker add` and `revoke`
    boards/, collectors/, monitors/, operators/, republishers/, readers/
                           one credentials file for each (mqtt/credentials.py)
    server/                everything that mosquitto reads and writes; another machine needs only it

Files have mode 0600, folders 0700. If mosquitto runs as another user, `server` belongs to that
user, and this folder can be traversed (0711), but not listed.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pwd
import secrets
import shlex
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from outpost_tools.boards.broker import about as about_file
from outpost_tools.boards.broker.about import About
from outpost_tools.errors import ToolError
from outpost_tools.messages import name_rules
from outpost_tools.mqtt import credentials
from outpost_tools.mqtt.credentials import Credentials

_PASSWORD_BYTES = 20


class Folder:
    """Knows names and modes, but not the contents of the files."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.quoted = shlex.quote(str(self.path))  # to be typed
        self.server = self.path / "server"
        self.security = self.server / "dynamic-security.json"
        self.configuration = self.server / "mosquitto.conf"
        self.state = self.server / "state"
        self.pid = self.server / "mosquitto.pid"
        self._about = self.path / "broker.json"

    @property
    def is_made(self) -> bool:
        return self._about.is_file()

    def make(self) -> None:
        """Creates the folders that do not exist yet."""
        parts = [name for name in credentials.ROLES.values() if name]
        for one in (self.path, self.server, self.state, *(self.path / name for name in parts)):
            with _told(one):
                one.mkdir(mode=0o700, parents=True, exist_ok=True)

    def about(self) -> About:
        """Raises ToolError."""
        try:
            return about_file.load(self._about)
        except FileNotFoundError:
            if (self.path / "broker" / "broker.json").is_file():  # the folder of `outpost run`
                raise ToolError(
                    f"{self.path}: the broker's folder is {self.path / 'broker'}"
                ) from None
            raise ToolError(
                f"{self.path}: not a broker's folder; `outpost broker init {self.quoted} --host "
                "NAME` makes one"
            ) from None

    def keep(self, about: About) -> None:
        self.write("broker.json", json.dumps(asdict(about), indent=1) + "\n")

    def write(self, name: str, text: str) -> bool:
        """Replaces the file atomically. False: it has this text already."""
        path = self.path / name
        with _told(path):
            if path.is_file() and path.read_text(encoding="utf-8") == text:
                path.chmod(0o600)
                return False
            new = path.with_name(path.name + ".new")
            new.unlink(missing_ok=True)
            descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            new.replace(path)
        return True

    def read(self, name: str) -> str:
        with _told(self.path / name):
            return (self.path / name).read_text(encoding="utf-8")

    def give_to(self, user: str) -> None:
        """Gives `server` and its contents to the user that runs mosquitto. Only root can."""
        if os.geteuid() or user == "root":
            return
        try:
            entry = pwd.getpwnam(user)
        except KeyError:
            raise ToolError(
                f"--user {user}: no such user here; install mosquitto first, or name another"
            ) from None
        self.path.chmod(0o711)
        for one in (self.server, *self.server.rglob("*")):
            # do not follow a link that this user put there: it may lead to any file of root's
            with contextlib.suppress(FileNotFoundError):  # a running mosquitto replaces files
                os.chown(one, entry.pw_uid, entry.pw_gid, follow_symlinks=False)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Allows one command at a time."""
        with _told(self.path), (self.path / ".lock").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    # --- Credentials ---

    def names(self, role: str) -> list[str]:
        return sorted(one.stem for one in (self.path / credentials.ROLES[role]).glob("*.json"))

    def has(self, role: str, name: str) -> bool:
        return credentials.place(self.path, role, name).is_file()

    def load(self, role: str, name: str) -> Credentials:
        return credentials.load(credentials.place(self.path, role, name), role)

    def save(self, made: Credentials) -> Path:
        path = credentials.place(self.path, made.role, made.user)
        self.write(str(path.relative_to(self.path)), made.text())
        return path

    def forget(self, role: str, name: str) -> None:
        credentials.place(self.path, role, name).unlink(missing_ok=True)

    def new_credentials(self, role: str, name: str, about: About) -> Credentials:
        """With a new password; not saved."""
        return Credentials(
            role,
            about.hosts[0],
            about.port,
            self.read("ca.pem"),
            name,
            name,
            secrets.token_urlsafe(_PASSWORD_BYTES),
            about.topic_prefix,
            about.share if role == "collector" else "",
        )


def check_name(name: str) -> None:
    """Checks the name of a board, a collector, or a monitor. Raises ToolError."""
    if fault := name_rules.member_fault(name):
        raise ToolError(f"{name!r} {fault}")


@contextlib.contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ToolError(f"{error.filename or path}: {error.strerror or error}") from None
