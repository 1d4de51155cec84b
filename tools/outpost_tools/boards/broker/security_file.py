"""The plugin's own file, dynamic-security.json, to change while no broker runs with it. A running
broker keeps a copy in memory and writes all of it at each change, so changes to the file would be
lost (members.py prevents that).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from outpost_tools.boards.broker import rights
from outpost_tools.errors import ToolError

Document = dict[str, Any]


def new(prefix: str, share: str) -> Document:
    return {
        "defaultACLAccess": dict(rights.DENIED),
        "clients": [],
        "groups": [],
        "roles": rights.common(prefix, share),
    }


def add(document: Document, role: str, name: str, password: str, prefix: str) -> None:
    """Adds the user, replacing one with this name."""
    remove(document, role, name)
    made = rights.made_with(role, name, prefix)
    names = {one["rolename"] for one in made}
    others = [one for one in document["roles"] if one["rolename"] not in names]
    document["roles"] = [*others, *made]
    clients = rights.clients(role, name)
    document["clients"] += [one | rights.hashed(password) for one in clients]


def remove(document: Document, role: str, name: str) -> bool:
    """False: there is none."""
    before, users = len(document["clients"]), rights.users(role, name)
    document["clients"] = [one for one in document["clients"] if one["username"] not in users]
    role = rights.board_role(name)
    document["roles"] = [one for one in document["roles"] if one["rolename"] != role]
    return len(document["clients"]) < before


def bound(document: Document) -> dict[str, str]:
    """The client identifier to which each user is bound; "": to none."""
    return {one["username"]: one.get("clientid", "") for one in document["clients"]}


def bind(document: Document, user: str) -> None:
    for one in document["clients"]:
        if one["username"] == user:
            one["clientid"] = user


def load(path: Path) -> Document:
    """Raises ToolError."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if all(isinstance(found[key], list) for key in ("clients", "roles")):
            return found
    except OSError as error:
        raise ToolError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, LookupError, TypeError):
        pass
    raise ToolError(
        f"{path}: not what mosquitto's dynamic-security plugin writes; restore it from a copy"
    )


def text(document: Document) -> str:
    return json.dumps(document, indent="\t")
