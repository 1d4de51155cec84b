"""The republisher's MQTT connection. It uses a clean session and QoS 0, because the collector
stores what the republisher misses, and the next message brings current values. So the broker keeps
nothing for it.
"""

from __future__ import annotations

import ssl
import sys
import time
from typing import ClassVar

import paho.mqtt.client as mqtt

from outpost_tools.mqtt.connection import Connection, Limits
from outpost_tools.mqtt.packets import RETAIN
from outpost_tools.servers.republish.topics import OFFLINE, Topics

_LIMITS = Limits(messages=2000, seconds=0.1, bytes=1 << 20)
# After CONNACK, wait this long for what the broker remembers before a board is described again.
LEARN_S = 2.0

Arrived = tuple[str, bytes, bool]  # topic, payload, retained


class Link(Connection):
    """Connects by itself. is_fresh: the connection is new, so everything must be published again;
    the loop in run.py clears it."""

    keeps_session = False
    limit_hints: ClassVar[dict[str, str]] = {
        "retain": "A program that connects later sees a value when it changes next, and Home "
        "Assistant forgets the boards at its restart: allow RETAIN there",
    }

    def __init__(
        self,
        address: tuple[str, int],
        client_id: str,
        topics: Topics,
        discovery: str | None,
        *,
        login: tuple[str, str | None] | None = None,
        tls: ssl.SSLContext | None = None,
        has_will: bool = True,
    ) -> None:
        """discovery: the prefix of Home Assistant's discovery; None: no discovery. has_will: the
        broker publishes that we are offline when the connection breaks."""
        super().__init__(address, client_id, _LIMITS, credentials=login, tls=tls)
        self._filters = [topics.of("+", last) for last in ("data", "state", "available")]
        self._filters += [f"{discovery}/device/+/config"] if discovery else []
        self._user = f"user {login[0]!r}" if login else "a client without --user"
        self._asked: dict[int, str] = {}
        self._arrived: list[Arrived] = []
        if has_will:
            self.set_will(topics.ours, OFFLINE, qos=1, retain=True)
        self.is_fresh = False

    def want(self, name: str) -> None:
        """Adds a topic filter. Call it before the first take()."""
        self._filters.append(name)

    def take(self, wait_s: float) -> list[Arrived]:
        """Returns what has arrived, after at most `wait_s`, or after one connection attempt."""
        self._arrived = []
        self._serve(wait_s)
        return self._arrived

    @property
    def has_learned(self) -> bool:
        """True if what the broker remembers has had time to arrive."""
        waited_s = time.monotonic() - self._connected_at
        return self.connected and not self._asked and waited_s >= LEARN_S

    @property
    def can_write(self) -> bool:
        """True if no data waits to be written. Publish only then, so that data for a slow broker
        does not pile up."""
        return self.connected and not self._client.want_write()

    def publish(self, messages: list[tuple[str, bytes]]) -> None:
        """Publishes (topic, payload) pairs with QoS 0, retained."""
        self._client.publish_all([(topic.encode(), payload) for topic, payload in messages])

    def _subscribe(self, client: mqtt.Client) -> None:
        self.is_fresh = True
        self._asked.clear()  # requests on an earlier connection will never be answered
        for name in self._filters:
            packet_id = client.subscribe(name, qos=0)[1]
            if packet_id is not None:
                self._asked[packet_id] = name

    def _on_subscribe(self, _client, _userdata, packet_id, reasons, _properties) -> None:
        name = self._asked.pop(packet_id, "?")
        if any(reason.is_failure for reason in reasons):
            self._say(
                f"refused to let us subscribe to {name}: {self._user} may not read it. Use "
                "credentials of `outpost broker add DIR --republisher NAME`, or grant it"
            )

    def _read(self) -> None:
        until = time.monotonic() + _LIMITS.seconds
        while len(self._arrived) < _LIMITS.messages and time.monotonic() < until:
            publishes = self._client.read_publishes()
            if publishes is None:
                return
            for kind, topic, _, payload in publishes:
                name = topic.decode("utf-8", "replace")
                self._arrived.append((name, payload, bool(kind & RETAIN)))

    def _on_message(self, _client, _userdata, message: mqtt.MQTTMessage) -> None:
        self._arrived.append((message.topic, message.payload, message.retain))  # unrequested QoS 2

    def _say(self, text: str) -> None:
        print(f"republish: broker {self._address[0]}:{self._address[1]}: {text}", file=sys.stderr,
              flush=True)  # fmt: skip
