"""Who may do what, as roles of mosquitto's dynamic-security plugin. Pure.

An ACL file will not do: mosquitto 2.0 grants every SUBSCRIBE under one and drops at delivery, so
that a board on the collectors' shared subscription takes its share of the fleet's messages away
from them. The plugin answers 0x80. Whatever no role allows is denied, delivery too.

A board's and a monitor's user is bound to one client identifier, so neither can take another's
session. Collectors, operators and the administrator are not bound: they open second connections
beside their own, and could do worse things than that with the rights they need.
"""

from __future__ import annotations

import base64
import hashlib
import os
from typing import Any

SEND, RECEIVE, SUBSCRIBE = "publishClientSend", "publishClientReceive", "subscribePattern"
DENIED = {SEND: False, RECEIVE: False, "subscribe": False, "unsubscribe": True}
CONTROL = "$CONTROL/dynamic-security/#"
# Of a random password of 160 bits; more rounds would only slow a thousand boards' return.
_ROUNDS = 101
# Topics below PREFIX/collectors/ are the collectors' own.
RESERVED = ("collectors",)
DISCOVERY = "homeassistant"  # Home Assistant's prefix, as it comes


def board_role(name: str) -> str:
    return f"board {name}"


def role_of(role: str, name: str) -> str:
    """A board has a role of its own, since the plugin of 2.0 knows no patterns with %u."""
    return board_role(name) if role == "board" else role


def _acls(*allowed: tuple[str, str]) -> list[dict[str, Any]]:
    return [
        {"acltype": kind, "topic": topic, "priority": 0, "allow": True} for kind, topic in allowed
    ]


def board(name: str, prefix: str) -> dict[str, Any]:
    """Sends its own messages, answers and state, reads its own confirmations and commands, nothing
    else."""
    sent = ((SEND, f"{prefix}/{name}/{ending}") for ending in ("data", "state", "answer"))
    read = (
        (kind, f"{prefix}/{name}/{ending}")
        for ending in ("durable", "command")
        for kind in (SUBSCRIBE, RECEIVE)
    )
    allowed = (*sent, *read)
    return {"rolename": board_role(name), "acls": _acls(*allowed)}


def operator(prefix: str) -> dict[str, Any]:
    """Sends commands to any board, reads their answers."""
    answers = (f"{prefix}/+/data", f"{prefix}/+/answer")
    read = ((kind, topic) for topic in answers for kind in (SUBSCRIBE, RECEIVE))
    return {"rolename": "operator", "acls": _acls((SEND, f"{prefix}/+/command"), *read)}


def common(prefix: str, share: str) -> list[dict[str, Any]]:
    """The roles that are there once and from the start: collector, monitor, admin."""
    data, durable = f"{prefix}/+/data", f"{prefix}/+/durable"
    between = f"{prefix}/collectors/#"
    collector = _acls(
        (SEND, durable),
        (SEND, between),
        (SUBSCRIBE, data),
        (SUBSCRIBE, f"$share/{share}/{data}"),
        (SUBSCRIBE, durable),  # its own, at the start: can it write them?
        (SUBSCRIBE, between),
        # its question at the start: does the broker have shared subscriptions?
        (SUBSCRIBE, f"$share/+/{prefix}/collectors/.share/+"),
        *((RECEIVE, topic) for topic in (data, durable, between)),
    )
    read = ((kind, topic) for kind in (SUBSCRIBE, RECEIVE) for topic in (data, durable))
    control = ((kind, CONTROL) for kind in (SEND, SUBSCRIBE, RECEIVE))
    return [
        {"rolename": "collector", "acls": collector},
        {"rolename": "monitor", "acls": _acls(*read)},
        {"rolename": "admin", "acls": _acls(*control)},
    ]


def roles_on_demand(prefix: str) -> list[dict[str, Any]]:
    """The roles of operators, of `outpost republish` and of those who read what it publishes. Made
    when the first of them is added: a broker of an earlier version has none."""
    latest, each = f"{prefix}/+/latest", f"{prefix}/+/latest/+"
    state, available = f"{prefix}/+/state", f"{prefix}/+/available"
    config, ours = f"{DISCOVERY}/device/+/config", f"{prefix}/collectors/.latest"
    read = (f"{prefix}/+/data", state, available, config)
    republisher = _acls(
        # a board's state, to take it away with the board
        *((SEND, topic) for topic in (latest, each, available, config, ours, state)),
        *((kind, topic) for kind in (SUBSCRIBE, RECEIVE) for topic in (*read, each)),
    )
    read = (latest, each, state, available, ours, f"{DISCOVERY}/#")
    reader = _acls(
        (SEND, f"{DISCOVERY}/status"),  # Home Assistant tells that it is there
        *((kind, topic) for kind in (SUBSCRIBE, RECEIVE) for topic in read),
    )
    return [
        operator(prefix),
        {"rolename": "republisher", "acls": republisher},
        {"rolename": "reader", "acls": reader},
    ]


def made_with(role: str, name: str, prefix: str) -> list[dict[str, Any]]:
    """The roles that a member needs and that are not there from the start."""
    if role == "board":
        return [board(name, prefix)]
    return [one for one in roles_on_demand(prefix) if one["rolename"] == role]


def client(role: str, name: str) -> dict[str, Any]:
    """Without a password."""
    bound = {"clientid": name} if role in ("board", "monitor") else {}
    return {"username": name, **bound, "roles": [{"rolename": role_of(role, name)}]}


def hashed(password: str) -> dict[str, Any]:
    """What the plugin keeps of a password: PBKDF2 with SHA-512."""
    salt = os.urandom(12)
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, _ROUNDS)
    return {
        "password": base64.b64encode(digest).decode(),
        "salt": base64.b64encode(salt).decode(),
        "iterations": _ROUNDS,
    }
