"""Listens to a broker for a while. Subscribes with QoS 0, publishes nothing. The only module here
with a network."""

from __future__ import annotations

import os
import ssl
import sys
import time
from pathlib import Path

import paho.mqtt.client as mqtt

from outpost_tools.errors import ToolError
from outpost_tools.mqtt import causes, refusals
from outpost_tools.mqtt.connection import Limits
from outpost_tools.mqtt.message_connection import MessageConnection
from outpost_tools.readings.sources.heard import Heard, Sample

_POLL_S = 0.2
_LIMITS = Limits(messages=1000, seconds=0.2, bytes=4 << 20)


def is_filter(text: str) -> bool:
    """Whether it is a topic filter, and not one for the broker's own topics."""
    levels = text.split("/")
    is_open = all(level != "#" for level in levels[:-1])
    alone = all(level in ("+", "#") or not {"+", "#"} & set(level) for level in levels)
    return bool(text) and "\0" not in text and not text.startswith("$") and is_open and alone


class Ear(MessageConnection[Sample]):
    """fault: why listening cannot go on; "" while it can."""

    keeps_session = False
    keep_alive_s = refusals.SHORT_KEEP_ALIVE_S

    def __init__(
        self,
        address: tuple[str, int],
        client_id: str,
        filters: list[str],
        credentials: tuple[str, str | None] | None,
        tls: ssl.SSLContext | None,
    ) -> None:
        super().__init__(
            address, client_id, _LIMITS, credentials=credentials, tls=tls, ways=causes.OPTIONS
        )
        self._filters = filters
        self._asked: dict[int | None, str] = {}
        self.fault = ""
        self.seconds = 0.0  # how long it is to listen
        self.heard = Heard()
        self.where = "{}:{}".format(*address)

    @property
    def was_connected(self) -> bool:
        return self._connection > 0

    def _subscribe(self, client: mqtt.Client) -> None:
        for one in self._filters:
            self._asked[client.subscribe(one, 0)[1]] = one

    def _on_subscribe(self, _client, _userdata, mid, reasons, _properties) -> None:
        if any(reason.is_failure for reason in reasons):
            name = self._asked.get(mid, "?")
            self.fault = (
                f"{self.where}: the broker does not let this user read {name}; use another user, "
                "or --topic for what it may read"
            )

    def _greet(self, text: str) -> None:
        where = f"{self.where} to {', '.join(self._filters)}"
        print(f"listening at {where} for {self.seconds:g} s, or until Ctrl-C", file=sys.stderr)

    def _on_no_connection(self, reason: str) -> None:
        if self._connection:
            super()._on_no_connection(reason)
        else:
            self.fault = f"{self.where}: the broker does not answer: {reason}"

    def _on_refused(self, reason: str) -> None:
        if self._connection:
            super()._on_refused(reason)
        else:
            self.fault = f"{self.where}: the broker refused the connection: {reason}"

    def _on_message(self, _client, _userdata, message: mqtt.MQTTMessage) -> None:
        now_ms = time.time_ns() // 1_000_000
        sample = Sample(message._topic, message.payload, now_ms, bool(message.retain))
        self._taken.append(sample)
        self._taken_bytes += len(message.payload)
        self.heard.add(sample)


def listen(ear: Ear, seconds: float) -> Heard:
    """Listens for this long, or until Ctrl-C. Raises ToolError."""
    began, ear.seconds = time.monotonic(), seconds
    try:
        while time.monotonic() - began < seconds and not ear.fault:
            ear.take(_POLL_S)
    except KeyboardInterrupt:
        if not ear.heard.samples:
            raise
    ear.heard.seconds = time.monotonic() - began
    ear.close()
    if not ear.fault and not ear.was_connected:
        ear.fault = f"{ear.where}: the broker has not answered in this time"
    if ear.fault:
        raise ToolError(ear.fault)
    return ear.heard


def machine_zone() -> str | None:
    """The name of this machine's time zone; None if it does not say."""
    given = os.environ.get("TZ", "").lstrip(":")
    if given:
        return given
    path = str(Path("/etc/localtime").resolve())
    _, found, name = path.partition("/zoneinfo/")
    return name if found else None
