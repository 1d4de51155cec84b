"""Is this log the newest one of its id? Segment numbers must not be used twice: the pipeline would
skip the second ones.

A disk cannot know that it is an old copy, so the broker remembers: a retained message holds the
highest number whose segment has stored messages. It is published when they are durable, before
their PUBACK, and again at each connection (loop.py). At the start the collector asks for it before
it takes anything, on a separate connection with a clean session: on the collector's own session the
answer would come after the whole backlog. A log that ends below this number is refused.

What remains: a broker that lost its retained messages (or never had this one) remembers nothing.
The collector says so when its log is not new, and goes on; an old disk is then not detected here.
"""

from __future__ import annotations

import os
import ssl
import time
from typing import Any

import paho.mqtt.client as mqtt

from outpost_tools.errors import ToolError
from outpost_tools.mqtt.connection import Limits
from outpost_tools.mqtt.credentials import Credentials
from outpost_tools.mqtt.message_connection import MessageConnection
from outpost_tools.terminal.ending import Ending

ANSWER_S = 10.0
ENOUGH_CONNECTIONS = 2
_LIMITS = Limits(messages=1, seconds=1.0, bytes=1)


_PLACE = ".segments"
_OF_LOGIN = (0x86, 0x87)  # of MQTT 5; paho translates those of 3.1.1
_EARLIER = (
    "refused our second user; a broker of an earlier version has none, and lets others in under "
    "our name: `outpost broker add DIR --collector {name}` mends it"
)


def topic_of(prefix: str, collector: str, place: str = _PLACE) -> str:
    """Below the collectors' own topics; no group name begins with a full stop."""
    return f"{prefix}/collectors/{place}/{collector}"


class Question(MessageConnection[None]):
    """Asks the broker once. We send our own marker to the same topic; it comes back after the
    retained number, so we need not wait for a number that may not exist."""

    keeps_session = False  # a question must leave nothing at the broker
    answer_s = ANSWER_S
    suffix = "place"
    place = _PLACE

    def __init__(
        self,
        address: tuple[str, int],
        collector: str,
        prefix: str,
        *,
        credentials: tuple[str, str | None] | None = None,
        tls: ssl.SSLContext | None = None,
        version: int = mqtt.MQTTv311,
        second: Credentials | None = None,
    ) -> None:
        """second: the user of this connection; None: the collector's."""
        # No collector's id has a "~".
        name = second.client_id if second else f"{collector}~{self.suffix}"
        login = second.login if second else credentials
        super().__init__(address, name, _LIMITS, credentials=login, tls=tls, version=version)
        self._first = credentials if second else None
        self._collector = collector
        self.topic = topic_of(prefix, collector, self.place)
        self._marker = os.urandom(8).hex().encode()
        self._number: int | None = None
        self._is_answered = False
        self._asked_at = 0.0

    def ask(self, ending: Ending) -> int | None:
        """The number; None when the broker has none. Retries until it is connected, or `ending`."""
        while not ending.is_set() and not self._is_answered:
            self.take(0.2)
            is_late = self.connected and time.monotonic() - self._asked_at > self.answer_s
            # a broker that closes the connection on a denied topic (AWS) sends no answer
            if is_late or self._connection > ENOUGH_CONNECTIONS:
                self._complain()
                break
        self.close()
        return self._number

    def _complain(self) -> None:
        self._say(f"no answer on {self.topic}: may this user read and write it? going on without")

    def _refused(self, reason: Any) -> None:
        if self._first and reason.value in _OF_LOGIN:
            self._say(_EARLIER.format(name=self._collector))
            self._client.username_pw_set(*self._first)
            self._first = None
            return
        super()._refused(reason)

    def _accepted(self, client: mqtt.Client, flags: Any) -> None:
        self.connected, self._asked_at = True, time.monotonic()
        self._connection += 1
        self._subscribe(client)

    def _subscribe(self, client: mqtt.Client) -> None:
        client.subscribe(self.topic, qos=0)
        client.publish(self.topic, self._marker)

    def _on_subscribe(self, client, userdata, packet_id, reasons, properties) -> None:
        """A refusal is the same as no answer."""

    def _on_message(self, client: mqtt.Client, userdata, message: mqtt.MQTTMessage) -> None:
        if message.payload == self._marker:
            self._is_answered = True
        elif message.retain and message.payload.isdigit():
            self._number = int(message.payload[:18])


def check(directory: object, stored_through: int, remembered: int | None) -> str | None:
    """A warning, or None when all is well. Raises ToolError when the disk is an older copy."""
    if remembered is None:
        if stored_through < 0:
            return None
        return (
            f"the broker does not remember how far {directory} goes (now it does: segment "
            f"{stored_through});"
            " if this is a restored copy, stop and use a new --id"
        )
    if remembered > stored_through:
        end = f"ends at segment {stored_through}" if stored_through >= 0 else "has no segment"
        raise ToolError(
            f"{directory} {end}, but segment {remembered} was written under this id: an older "
            "copy, or a new disk?"
            " The pipeline would skip numbers used twice. Use a new --id, and leave this folder "
            "to the pipeline"
            " (--new-log when the tables are recreated, too)"
        )
    return None
