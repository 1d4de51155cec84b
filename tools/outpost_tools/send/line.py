"""One connection to the broker for all code that talks to boards: it subscribes to their answers
before anything is sent, and reconnects after a loss."""

from __future__ import annotations

import contextlib
import fcntl
import secrets
import ssl
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import paho.mqtt.client as mqtt

from outpost_tools.common import credentials, refusals
from outpost_tools.common.errors import ToolError

_TURN_S = 0.2
_RECONNECT_S = 1.0, 5.0  # from the first to the second, doubled each time
_REFUSED_CODE = 128


@dataclass(frozen=True, slots=True)
class Access:
    """login: user and password. client_id: to which the broker binds this user; "": to none. own:
    its file, held while we are connected, because two connections under one identifier would end
    each other."""

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
    """Waits until no other command of this machine is connected with these credentials."""
    held = path.open()
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print(f"waiting: another command is connected with {path}", file=sys.stderr, flush=True)
        fcntl.flock(held, fcntl.LOCK_EX)
    return held


class Line:
    """No thread: paho works, and calls back, in turn(). fault: why the broker refuses; "": it does
    not. acknowledged: packet identifiers that the broker has acknowledged."""

    def __init__(
        self,
        access: Access,
        boards: Iterable[str],
        on_ready: Callable[[], None],
        on_message: Callable[[str, mqtt.MQTTMessage], None],
    ) -> None:
        """on_ready: called after each connection, when answers are subscribed to. on_message:
        called with board and message."""
        self._access, self._boards = access, list(boards)
        self._on_ready, self._on_message = on_ready, on_message
        self._reconnect_s = _RECONNECT_S[0]
        self.fault = ""
        self.acknowledged: set[int] = set()
        self.client = mqtt.Client(
            mqtt.CallbackAPIVersion.VERSION2,
            client_id=access.client_id or f"send-{secrets.token_hex(6)}",
        )
        self._held: IO[str] | None = None
        if access.login:
            self.client.username_pw_set(*access.login)
        if access.tls:
            self.client.tls_set_context(access.tls)
        self.client.on_connect = self._connected
        self.client.on_subscribe = self._subscribed
        self.client.on_publish = self._published
        self.client.on_message = self._received

    def open(self) -> None:
        """Raises ToolError."""
        host, port = self._access.address
        self._held = _hold(self._access.own) if self._access.own else None
        try:
            self.client.connect(host, port, keepalive=refusals.SHORT_KEEP_ALIVE_S)
        except OSError as error:
            raise ToolError(f"broker {host}:{port}: {error}; nothing was sent") from None

    def close(self) -> None:
        self.client.disconnect()
        if self._held:
            self._held.close()

    def publish(self, board: str, payload: bytes) -> int:
        """Publish to the board's command topic, QoS 1. Returns the packet identifier."""
        return self.client.publish(f"{self._access.prefix}/{board}/command", payload, 1).mid

    def turn(self) -> None:
        """Send and receive for a moment. Raises ToolError when the broker refuses."""
        if self.fault:
            raise ToolError(self.fault)
        if self.client.loop(_TURN_S) == mqtt.MQTT_ERR_SUCCESS or self.fault:
            return
        time.sleep(self._reconnect_s)
        self._reconnect_s = min(2 * self._reconnect_s, _RECONNECT_S[1])
        with contextlib.suppress(OSError):
            self.client.reconnect()

    # --- Called by paho ---

    def _connected(self, client, _data, _flags, code, _properties) -> None:
        if code.is_failure:
            self.fault = f"the broker refuses this user: {refusals.why(code)}; nothing was sent"
            return
        self._reconnect_s = _RECONNECT_S[0]
        prefix = self._access.prefix
        topics = [
            (f"{prefix}/{name}/{ending}", 1)
            for name in self._boards
            for ending in ("data", "answer")
        ]
        client.subscribe(topics)

    def _subscribed(self, _client, _data, _mid, codes, _properties) -> None:
        if any(code.value >= _REFUSED_CODE for code in codes):
            self.fault = (
                "the broker does not let this user read answers; give it an operator's rights: "
                "`outpost broker add DIR --operator NAME`"
            )
            return
        self._on_ready()

    def _published(self, _client, _data, mid, _code, _properties) -> None:
        self.acknowledged.add(mid)

    def _received(self, _client, _data, message) -> None:
        self._on_message(message.topic.split("/")[-2], message)
