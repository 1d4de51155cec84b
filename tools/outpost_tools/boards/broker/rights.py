"""Who may do what, as roles of mosquitto's dynamic-security plugin. Pure.

An ACL file is not enough: with one, mosquitto 2.0 grants every SUBSCRIBE and drops at delivery, so
a board on the collectors' shared subscription takes away a part of the fleet's messages: 10 of 20
in `test_under_an_acl_file_the_same_rogue_takes_half_of_the_messages`. The plugin answers 0x80.
Whatever no role allows is denied, including delivery.

Law: every user is bound to one client identifier, its own name, so none can take over another's
session. Who needs a second connection beside the permanent one has a second user for it, with the
same password and rights (`Credentials.second`).
"""

from __future__ import annotations

import base64
import hashlib
import os
from typing import Any

from outpost_tools.mqtt.credentials import second_name

SEND, RECEIVE, SUBSCRIBE = "publishClientSend", "publishClientReceive", "subscribePattern"
DENIED = {SEND: False, RECEIVE: False, "subscribe": False, "unsubscribe": True}
CONTROL = "$CONTROL/dynamic-security/#"
# For a random password of 160 bits; more rounds would only slow down reconnecting boards.
_ROUNDS = 101
DISCOVERY = "homeassistant"  # Home Assistant's default prefix


def board_role(name: str) -> str:
    return f"board {name}"


def role_of(role: str, name: str) -> str:
    """Each board has its own role, because the plugin of 2.0 supports no patterns with %u."""
    return board_role(name) if role == "board" else role


def _acls(*allowed: tuple[str, str]) -> list[dict[str, Any]]:
    return [
        {"acltype": kind, "topic": topic, "priority": 0, "allow": True} for kind, topic in allowed
    ]


def board(name: str, prefix: str) -> dict[str, Any]:
    """Publishes its own messages, answers and state, reads its own confirmations and commands,
    nothing else."""
    sent = ((SEND, f"{prefix}/{name}/{ending}") for ending in ("data", "state", "answer"))
    read = (
        (kind, f"{prefix}/{name}/{ending}")
        for ending in ("durable", "command")
        for kind in (SUBSCRIBE, RECEIVE)
    )
    allowed = (*sent, *read)
    return {"rolename": board_role(name), "acls": _acls(*allowed)}


def operator(prefix: str) -> dict[str, Any]:
    """Publishes commands to any board, reads their answers."""
    answers = (f"{prefix}/+/data", f"{prefix}/+/answer")
    read = ((kind, topic) for topic in answers for kind in (SUBSCRIBE, RECEIVE))
    return {"rolename": "operator", "acls": _acls((SEND, f"{prefix}/+/command"), *read)}


def common(prefix: str, share: str) -> list[dict[str, Any]]:
    """The roles that exist from the start: collector, monitor, admin."""
    data, durable = f"{prefix}/+/data", f"{prefix}/+/durable"
    between = f"{prefix}/collectors/#"
    collector = _acls(
        (SEND, durable),
        (SEND, between),
        (SUBSCRIBE, data),
        (SUBSCRIBE, f"$share/{share}/{data}"),
        (SUBSCRIBE, durable),  # at the start it tests whether it can publish confirmations
        (SUBSCRIBE, between),
        # at the start it tests whether the broker has shared subscriptions
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
    """The roles of operators, of `outpost republish` and of the readers of its values. Made when
    the first of them is added, because the broker of an earlier version has none."""
    latest, each = f"{prefix}/+/latest", f"{prefix}/+/latest/+"
    state, available = f"{prefix}/+/state", f"{prefix}/+/available"
    config, ours = f"{DISCOVERY}/device/+/config", f"{prefix}/collectors/.latest"
    read = (f"{prefix}/+/data", state, available, config)
    republisher = _acls(
        # a board's state, to remove it together with the board
        *((SEND, topic) for topic in (latest, each, available, config, ours, state)),
        *((kind, topic) for kind in (SUBSCRIBE, RECEIVE) for topic in (*read, each)),
    )
    read = (latest, each, state, available, ours, f"{DISCOVERY}/#")
    reader = _acls(
        (SEND, f"{DISCOVERY}/status"),  # Home Assistant reports that it is running
        *((kind, topic) for kind in (SUBSCRIBE, RECEIVE) for topic in read),
    )
    return [
        operator(prefix),
        {"rolename": "republisher", "acls": republisher},
        {"rolename": "reader", "acls": reader},
    ]


def made_with(role: str, name: str, prefix: str) -> list[dict[str, Any]]:
    """The roles that a member needs and that do not exist from the start."""
    if role == "board":
        return [board(name, prefix)]
    return [one for one in roles_on_demand(prefix) if one["rolename"] == role]


def users(role: str, name: str) -> list[str]:
    """The users of a member: the collector asks the broker on a connection of its own whether it
    may start; `republish --retire` runs beside the permanent one."""
    return [name, second_name(name)] if role in ("collector", "republisher") else [name]


def clients(role: str, name: str) -> list[dict[str, Any]]:
    """The member's clients, without a password."""
    roles = [{"rolename": role_of(role, name)}]
    return [{"username": user, "clientid": user, "roles": roles} for user in users(role, name)]


def hashed(password: str) -> dict[str, Any]:
    """What the plugin stores for a password: PBKDF2 with SHA-512."""
    salt = os.urandom(12)
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, _ROUNDS)
    return {
        "password": base64.b64encode(digest).decode(),
        "salt": base64.b64encode(salt).decode(),
        "iterations": _ROUNDS,
    }
