"""Sends commands and waits for their answers, over broker restarts too.

Answers are subscribed to before a command goes out. What is unanswered is sent again with the same
id, after a lost connection and at growing distances: a broker that was killed may have forgotten
the board's session, and takes a command for nobody. A board that knows it does nothing, and tells
its result.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import ssl
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import paho.mqtt.client as mqtt

from outpost_tools.common.errors import ToolError
from outpost_tools.common.words import number

RESULTS = {0: "done", 1: "refused", 2: "taken back", 3: "in progress"}
_IN_PROGRESS = 3
_CONNECT_S = 20.0
_TURN_S = 0.2
_RECONNECT_S = 1.0, 5.0  # doubled from the one to the other
_FIRST_REPEAT_S = 10.0  # doubled each time: the copies wait with the broker for a board that sleeps
_REFUSED_CODE = 128


@dataclass(frozen=True, slots=True)
class Access:
    """login: user and password."""

    address: tuple[str, int]
    prefix: str = "outpost"
    login: tuple[str, str | None] | None = None
    tls: ssl.SSLContext | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """result: key of RESULTS. readings: of a report. is_repeat: the command was known already."""

    result: int
    what: str = ""
    why: str = ""
    readings: tuple[tuple[str, Any], ...] = ()
    is_repeat: bool = False

    def __str__(self) -> str:
        text = RESULTS.get(self.result, f"result {self.result}")
        if self.why:
            text += f": {self.why}"
        if self.is_repeat:
            text += " (it was answered before)"
        return text + "".join(f" {name}={number(value)}" for name, value in self.readings)


def answer_in(payload: bytes) -> tuple[str, Answer] | None:
    """(id, answer) of a message of a board; None where it is none."""
    try:
        found = json.loads(payload)
        head = found[0] if isinstance(found, list) else found
        command_id, result = head["cmd"], head["v"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    if not isinstance(command_id, str) or not isinstance(result, int):
        return None
    readings = [
        (one["n"], one["v"])
        for one in (found[1:] if isinstance(found, list) else [])
        if isinstance(one, dict) and "n" in one and _is_number(one.get("v"))
    ]
    what, why = str(head.get("what", "")), str(head.get("why", ""))
    return command_id, Answer(result, what, why, tuple(readings), "again" in head)


def _is_number(value: Any) -> bool:
    """That a float can hold."""
    return isinstance(value, int | float) and abs(value) <= sys.float_info.max


class Delivery:
    """One connection, and no thread: paho works, and calls back, in run(). `answers`: by board."""

    def __init__(self, access: Access, commands: dict[str, tuple[str, bytes]]) -> None:
        """commands: board -> (id, payload)."""
        self.address = access.address
        self.answers: dict[str, Answer] = {}
        self._commands, self._access = commands, access
        self._fault = ""
        self._published: dict[int, str] = {}  # by packet identifier
        self._acknowledged: set[int] = set()  # of those, or before they are there
        self._reconnect_s = _RECONNECT_S[0]
        self._client = mqtt.Client(
            mqtt.CallbackAPIVersion.VERSION2, client_id=f"send-{secrets.token_hex(6)}"
        )
        if access.login:
            self._client.username_pw_set(*access.login)
        if access.tls:
            self._client.tls_set_context(access.tls)
        self._client.on_connect = self._on_connect
        self._client.on_subscribe = self._on_subscribe
        self._client.on_publish = self._on_publish
        self._client.on_message = self._on_message

    @property
    def sent(self) -> set[str]:
        """Boards whose command the broker has."""
        return {self._published[mid] for mid in self._acknowledged & self._published.keys()}

    def run(self, timeout_s: float, *, is_waiting: bool, tell: Callable[[str, Answer], None]):
        """Ends when all are answered (or only sent, without is_waiting), or with the time. Raises
        ToolError when the broker refuses."""
        host, port = self._access.address
        try:
            self._client.connect(host, port, keepalive=30)
        except OSError as error:
            raise ToolError(f"broker {host}:{port}: {error}; nothing was sent") from None
        try:
            self._wait(time.monotonic() + timeout_s, is_waiting, tell)
        finally:
            self._client.disconnect()

    def _wait(self, until: float, is_waiting: bool, tell: Callable[[str, Answer], None]) -> None:
        told: set[str] = set()
        connect_until = time.monotonic() + _CONNECT_S
        repeat_at, repeat_s = time.monotonic() + _FIRST_REPEAT_S, _FIRST_REPEAT_S
        while True:
            if self._fault:
                raise ToolError(self._fault)
            for name in [name for name in self.answers if name not in told]:
                tell(name, self.answers[name])
                told.add(name)
            done = self.answers if is_waiting else self.sent
            now = time.monotonic()
            is_sent = len(self.sent) == len(self._commands)
            is_late = now >= (until if is_sent else max(until, connect_until))
            if len(done) == len(self._commands) or is_late:
                return
            if is_sent and now >= repeat_at:
                repeat_s *= 2
                repeat_at = now + repeat_s
                self._publish()
            self._turn()

    def _turn(self) -> None:
        """What goes in and out in a moment. A connection that was lost is opened again."""
        if self._client.loop(_TURN_S) == mqtt.MQTT_ERR_SUCCESS or self._fault:
            return
        time.sleep(self._reconnect_s)
        self._reconnect_s = min(2 * self._reconnect_s, _RECONNECT_S[1])
        with contextlib.suppress(OSError):
            self._client.reconnect()

    # --- What paho calls ---

    def _on_connect(self, client, _data, _flags, code, _properties) -> None:
        if code.is_failure:
            self._fault = f"the broker refuses this user: {code}; nothing was sent"
            return
        self._reconnect_s = _RECONNECT_S[0]
        prefix = self._access.prefix
        topics = [
            (f"{prefix}/{name}/{ending}", 1)
            for name in self._commands
            for ending in ("data", "answer")
        ]
        client.subscribe(topics)

    def _on_subscribe(self, _client, _data, _mid, codes, _properties) -> None:
        if any(code.value >= _REFUSED_CODE for code in codes):
            self._fault = (
                "the broker does not let this user read answers; give it an operator's rights: "
                "`outpost broker add DIR --operator NAME`"
            )
            return
        self._publish()

    def _publish(self) -> None:
        """Each command without an answer."""
        for name in [name for name in self._commands if name not in self.answers]:
            topic = f"{self._access.prefix}/{name}/command"
            self._published[self._client.publish(topic, self._commands[name][1], 1).mid] = name

    def _on_publish(self, _client, _data, mid, _code, _properties) -> None:
        self._acknowledged.add(mid)

    def _on_message(self, _client, _data, message) -> None:
        found = None if message.retain else answer_in(message.payload)
        name = message.topic.split("/")[-2]
        if found is None or name not in self._commands or found[0] != self._commands[name][0]:
            return
        if found[1].result != _IN_PROGRESS:
            self.answers.setdefault(name, found[1])
