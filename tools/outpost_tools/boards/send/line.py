"""One connection to the broker for all code that talks to boards: it subscribes to their answers
before anything is sent, and reconnects after a loss."""

from __future__ import annotations

import fcntl
import secrets
import ssl
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import paho.mqtt.client as mqtt
from paho.mqtt.subscribeoptions import SubscribeOptions

from outpost_tools.errors import ToolError
from outpost_tools.mqtt import credentials, refusals
from outpost_tools.mqtt.connection import Limits
from outpost_tools.mqtt.message_connection import MessageConnection

_TURN_S = 0.2
_LIMITS = Limits(messages=200, seconds=0.2, bytes=1 << 20)
_REFUSED_CODE = 128


@dataclass(frozen=True, slots=True)
class Access:
    """login: user and password. client_id: the client identifier that the broker requires of this
    user; "" if it requires none. own: the user's credentials file, locked while we are connected,
    because two connections with the same identifier would end each other."""

    address: tuple[str, int]
    prefix: str = "outpost"
    login: tuple[str, str | None] | None = None
    tls: ssl.SSLContext | None = None
    client_id: str = ""
    own: Path | None = None


def operators_access(path: Path) -> Access:
    """path: the folder of `outpost broker init`, or an operator's file in it. Raises ToolError."""
    found = credentials.find(path, "operator")
    own = credentials.place(path, "operator", found.user) if path.is_dir() else path
    where = found.address, found.topic_prefix
    return Access(*where, found.login, found.tls(), found.client_id, own)


def _hold(path: Path) -> IO[str]:
    """Lock the credentials file; first wait until no other command on this machine uses it."""
    held = path.open()
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print(f"waiting: another command is connected with {path}", file=sys.stderr, flush=True)
        fcntl.flock(held, fcntl.LOCK_EX)
    return held


class Line(MessageConnection[mqtt.MQTTMessage]):
    """Has no thread: turn() does the work and calls the callbacks. acknowledged: packet identifiers
    that the broker has acknowledged."""

    keeps_session = False
    keep_alive_s = refusals.SHORT_KEEP_ALIVE_S

    def __init__(
        self,
        access: Access,
        boards: Iterable[str],
        on_ready: Callable[[], None],
        on_message: Callable[[str, mqtt.MQTTMessage], None],
    ) -> None:
        """on_ready: called after each connection, once the answers are subscribed to. on_message:
        called with the board's name and the message."""
        name = access.client_id or f"send-{secrets.token_hex(6)}"
        super().__init__(access.address, name, _LIMITS, credentials=access.login, tls=access.tls)
        self._access, self._boards = access, list(boards)
        self._on_ready, self._on_received = on_ready, on_message
        self._fault = ""
        self.acknowledged: set[int] = set()
        self._held: IO[str] | None = None
        self._client.on_publish = self._on_publish

    def open(self) -> None:
        """Raises ToolError."""
        self._held = _hold(self._access.own) if self._access.own else None
        self.turn()

    def close(self) -> None:
        super().close()
        if self._held:
            self._held.close()

    def publish(self, board: str, payload: bytes) -> int:
        """Publish to the board's command topic, QoS 1. Returns the packet identifier."""
        return self._client.publish(f"{self._access.prefix}/{board}/command", payload, 1).mid

    def turn(self) -> None:
        """Send and receive for a moment. Raises ToolError if the broker refuses, or if the first
        connection fails."""
        for message in self.take(_TURN_S):
            self._on_received(message.topic.split("/")[-2], message)
        if self.connected:
            self._client.ack_all([one.mid.to_bytes(2, "big") for one in self._taken if one.qos])
        if self._fault:
            raise ToolError(self._fault)

    # --- Called by the connection ---

    def _greet(self, text: str) -> None:
        """Print nothing: the answers show that we are connected."""

    def _on_no_connection(self, reason: str) -> None:
        if self._connection:
            super()._on_no_connection(reason)
        else:
            host, port = self._address
            self._fault = f"broker {host}:{port}: {reason}; nothing was sent"

    def _on_refused(self, reason: str) -> None:
        self._fault = f"the broker refuses this user: {reason}; nothing was sent"

    def _on_limit(self, kind: str, topic: str = "", found: int = 0) -> None:
        super()._on_limit(kind, topic, found)
        if kind == "size":
            self._fault = "the broker's maximum packet size is too small for this; nothing was sent"

    def _subscribe(self, client: mqtt.Client) -> None:
        prefix = self._access.prefix
        client.subscribe(
            [
                (f"{prefix}/{name}/{ending}", SubscribeOptions(qos=1) if self._client.is_5 else 1)
                for name in self._boards
                for ending in ("data", "answer")
            ]
        )

    def _on_subscribe(self, _client, _data, _mid, codes, _properties) -> None:
        if any(code.value >= _REFUSED_CODE for code in codes):
            self._fault = (
                "the broker does not let this user read answers; give it an operator's rights: "
                "`outpost broker add DIR --operator NAME`"
            )
            return
        self._on_ready()

    def _on_publish(self, _client, _data, mid, _code, _properties) -> None:
        self.acknowledged.add(mid)

    def _on_message(self, _client, _data, message: mqtt.MQTTMessage) -> None:
        self._taken_bytes += len(message.payload)
        self._taken.append(message)
