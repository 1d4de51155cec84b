"""Boards, collectors and monitors of a broker: add, revoke, list.

While the broker runs, we use its control topic, and changes take effect at once: a revoked client
is disconnected. While it does not run, we change the plugin's file, which takes effect at the next
start. We never change the file of a running broker, because it would be overwritten.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from outpost_tools.broker import configuration, rights, security_file
from outpost_tools.broker.control import Control, NotRunning
from outpost_tools.broker.folder import Folder, check_name
from outpost_tools.common import credentials
from outpost_tools.common.credentials import Credentials
from outpost_tools.common.errors import ToolError

ROLES = tuple(role for role in credentials.ROLES if role != "admin")


@dataclass(frozen=True, slots=True)
class Member:
    """is_known: the broker accepts it."""

    role: str
    name: str
    is_known: bool


def add(folder: Folder, role: str, name: str, *, new_password: bool = False) -> str:
    """Returns what was done, for people. Repeating it makes the broker match the folder."""
    about = folder.about()
    folder.make()  # it may be older than this role
    with folder.locked():
        check_free(folder, role, name)
        is_new = new_password or not folder.has(role, name)
        made = folder.new_credentials(role, name, about) if is_new else folder.load(role, name)
        with _door(folder) as door:
            door.add(made)
        path = folder.save(made)
        what = "credentials in" if is_new else "exists already; its credentials stay in"
        done = [f"{role} {name}: {what} {path}; {door.when}", configuration.mend(folder, about)]
        return "\n".join(filter(None, done))


def check_free(folder: Folder, role: str, name: str) -> None:
    """That it is a name, and nobody's in another role. Raises ToolError."""
    check_name(name)
    if other := _other_role(folder, role, name):
        raise ToolError(f"{name!r} is already the name of a {other}; choose another name")


def revoke(folder: Folder, role: str, name: str) -> str:
    check_name(name)
    folder.about()
    with folder.locked():
        if other := _other_role(folder, role, name):  # the broker knows users, but not their roles
            raise ToolError(
                f"{name!r} is a {other}, not a {role}: `outpost broker revoke {folder.quoted} "
                f"{'' if other == 'board' else f'--{other} '}{name}`"
            )
        with _door(folder) as door:
            was_known = door.remove(name)
        was_here = folder.has(role, name)
        folder.forget(role, name)
        if not was_known and not was_here:
            known = ", ".join(folder.names(role)) or "none"
            raise ToolError(f"{folder.path}: no {role} {name!r}; there: {known}")
        return f"{role} {name}: revoked; {door.when_gone}"


def members(folder: Folder) -> tuple[list[Member], str]:
    """Every member in the folder or at the broker, and where the broker's part comes from."""
    folder.about()
    with folder.locked():
        with _door(folder) as door:
            known = door.names()
        here = [(role, name) for role in ROLES for name in folder.names(role)]
        others = known - {name for _, name in here} - {"admin"}
        found = [Member(role, name, name in known) for role, name in here]
        return found + [Member("?", name, True) for name in sorted(others)], door.source


def _other_role(folder: Folder, role: str, name: str) -> str:
    """The other role that has this name; "" if none has."""
    return next((one for one in ROLES if one != role and folder.has(one, name)), "")


# --- The two ways to reach the plugin ---


class _Running:
    """The broker runs."""

    when = "the broker knows it; no restart is needed"
    when_gone = "the broker has disconnected it and no longer accepts it"
    source = "asked the running broker"

    def __init__(self, control: Control) -> None:
        self._control = control

    def add(self, made: Credentials) -> None:
        client = rights.client(made.role, made.user)
        for role in rights.made_with(made.role, made.user, made.topic_prefix):
            has_role = self._control.has("Role", role["rolename"])
            self._control.do("modifyRole" if has_role else "createRole", **role)
        has_client = self._control.has("Client", made.user)
        verb = "modifyClient" if has_client else "createClient"
        self._control.do(verb, **client, password=made.password)

    def remove(self, name: str) -> bool:
        """When the plugin deletes a client, it closes the client's connection."""
        was_known = self._control.has("Client", name)
        if was_known:
            self._control.do("deleteClient", username=name)
        if self._control.has("Role", rights.board_role(name)):
            self._control.do("deleteRole", rolename=rights.board_role(name))
        return was_known

    def names(self) -> set[str]:
        return set(self._control.do("listClients").get("clients", []))


class _Stopped:
    """The broker does not run, so we may change its file."""

    when = when_gone = "the broker does not run; it takes effect at its next start"
    source = "the broker does not run; read from its file"

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._document = security_file.load(folder.security)

    def add(self, made: Credentials) -> None:
        prefix = made.topic_prefix
        security_file.add(self._document, made.role, made.user, made.password, prefix)
        self._write()

    def remove(self, name: str) -> bool:
        was_known = security_file.remove(self._document, name)
        self._write()
        return was_known

    def names(self) -> set[str]:
        return security_file.names(self._document)

    def _write(self) -> None:
        path = self._folder.security.relative_to(self._folder.path)
        self._folder.write(str(path), security_file.text(self._document))
        self._folder.give_to(self._folder.about().user)


@contextmanager
def _door(folder: Folder) -> Iterator[_Running | _Stopped]:
    from outpost_tools.common.credentials import load

    try:
        control = Control(load(folder.path / "admin.json", "admin"))
    except NotRunning as error:
        if (number := _process(folder.pid)) is not None:
            raise ToolError(
                f"{error}, but mosquitto (process {number}) runs with this folder: wait until it "
                "has started, or correct the address by `outpost broker init`"
            ) from None
        yield _Stopped(folder)
        return
    with control:
        yield _Running(control)


def _process(path: Path) -> int | None:
    """The mosquitto that wrote the pid file, if it still runs."""
    try:
        number = int(path.read_text(encoding="ascii"))
        os.kill(number, 0)
    except PermissionError:  # it runs, as another user
        return number
    except (OSError, ValueError):
        return None
    try:
        words = Path(f"/proc/{number}/cmdline").read_bytes()
    except OSError:
        return number
    return number if b"mosquitto" in words else None
