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

from outpost_tools.boards.broker import configuration, rights, security_file
from outpost_tools.boards.broker.control import Control, NotRunning
from outpost_tools.boards.broker.folder import Folder, check_name
from outpost_tools.errors import ToolError
from outpost_tools.mqtt import credentials
from outpost_tools.mqtt.credentials import Credentials

ROLES = tuple(role for role in credentials.ROLES if role != "admin")
_TO_SET = "; set that in the program that reads (Home Assistant: MQTT, Configure, client ID)"


@dataclass(frozen=True, slots=True)
class Member:
    """is_known: the broker accepts it. is_bound: from one client identifier alone, in which folders
    of earlier versions may be lacking."""

    role: str
    name: str
    is_known: bool
    is_bound: bool = True


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
            mended = _bind(folder, door)
        path = folder.save(made)
        what = "credentials in" if is_new else "exists already; its credentials stay in"
        done = f"{role} {name}: {what} {path}; {door.when}"
        return "\n".join([done, *mended, *filter(None, [configuration.mend(folder, about)])])


def _bind(folder: Folder, door: _Running | _Stopped) -> list[str]:
    """Binds the users of an earlier version to their client identifiers. Returns what was done."""
    known, done = door.bound(), []
    for role, name in (*_members_here(folder), ("admin", "admin")):
        users = [user for user in rights.users(role, name) if known.get(user) != user]
        if not users or name not in known:
            continue
        if role == "admin":
            door.bind(name)
        else:
            door.add(folder.load(role, name))
        done.append(
            f"{role} {name}: from now on the broker accepts it with the client identifier "
            f"{name!r} alone{_TO_SET if role == 'reader' else ''}"
        )
    return done


def check_free(folder: Folder, role: str, name: str) -> None:
    """That it is a name, and nobody's in another role. Raises ToolError."""
    check_name(name)
    if other := _other_role(folder, role, name):
        raise ToolError(f"{name!r} is already the name of a {other}; choose another name")


def _typed(role: str, name: str) -> str:
    """The member as options of a command; its name may begin as one of them."""
    if role == "board":
        return f"-- {name}" if name.startswith("-") else name
    return f"--{role}={name}" if name.startswith("-") else f"--{role} {name}"


def revoke(folder: Folder, role: str, name: str) -> str:
    check_name(name)
    folder.about()
    with folder.locked():
        if other := _other_role(folder, role, name):  # the broker knows users, but not their roles
            raise ToolError(
                f"{name!r} is a {other}, not a {role}: `outpost broker revoke {folder.quoted} "
                f"{_typed(other, name)}`"
            )
        with _door(folder) as door:
            was_known = door.remove(role, name)
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
            known = door.bound()
        here = _members_here(folder)
        users = {one: rights.users(*one) for one in here}
        others = known.keys() - {user for many in users.values() for user in many} - {"admin"}
        found = [
            Member(*one, one[1] in known, all(known.get(user) == user for user in users[one]))
            for one in here
        ]
        return found + [Member("?", name, True) for name in sorted(others)], door.source


def _members_here(folder: Folder) -> list[tuple[str, str]]:
    return [(role, name) for role in ROLES for name in folder.names(role)]


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
        for role in rights.made_with(made.role, made.user, made.topic_prefix):
            has_role = self._control.has("Role", role["rolename"])
            self._control.do("modifyRole" if has_role else "createRole", **role)
        for client in rights.clients(made.role, made.user):
            has_client = self._control.has("Client", client["username"])
            verb = "modifyClient" if has_client else "createClient"
            self._control.do(verb, **client, password=made.password)

    def bind(self, user: str) -> None:
        self._control.bind(user)

    def remove(self, role: str, name: str) -> bool:
        """When the plugin deletes a client, it closes the client's connection."""
        known = [one for one in rights.users(role, name) if self._control.has("Client", one)]
        for user in known:
            self._control.do("deleteClient", username=user)
        if self._control.has("Role", rights.board_role(name)):
            self._control.do("deleteRole", rolename=rights.board_role(name))
        return name in known

    def bound(self) -> dict[str, str]:
        """The client identifier to which each user is bound; "": to none."""
        clients = self._control.do("listClients", verbose=True).get("clients", [])
        return {one["username"]: one.get("clientid", "") for one in clients}


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

    def bind(self, user: str) -> None:
        security_file.bind(self._document, user)
        self._write()

    def remove(self, role: str, name: str) -> bool:
        was_known = security_file.remove(self._document, role, name)
        self._write()
        return was_known

    def bound(self) -> dict[str, str]:
        return security_file.bound(self._document)

    def _write(self) -> None:
        path = self._folder.security.relative_to(self._folder.path)
        self._folder.write(str(path), security_file.text(self._document))
        self._folder.give_to(self._folder.about().user)


@contextmanager
def _door(folder: Folder) -> Iterator[_Running | _Stopped]:
    from outpost_tools.mqtt.credentials import load

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
