"""An MQTT connection that delivers one message at a time, as paho reads it. Knows no message."""

from __future__ import annotations

import time
from typing import Generic, TypeVar

import paho.mqtt.client as mqtt

from outpost_tools.mqtt.connection import Connection

T = TypeVar("T")


class MessageConnection(Connection, Generic[T]):
    """Takes one message at a time; a subclass defines _on_message(), which appends to `_taken` and
    counts `_taken_bytes`."""

    _taken: list[T]
    _taken_bytes = 0

    def take(self, wait_s: float) -> list[T]:
        """Returns what has arrived, after at most `wait_s` or one connection attempt; empty if
        nothing has."""
        self._taken, self._taken_bytes = [], 0
        self._serve(wait_s)
        return self._taken

    def _read(self) -> None:
        """Reads packets until the socket is empty (a read brought no message) or a limit is
        reached."""
        limits, client, until = self._limits, self._client, time.monotonic() + self._limits.seconds
        while (
            len(self._taken) < limits.messages
            and self._taken_bytes < limits.bytes
            and time.monotonic() < until
        ):
            before = len(self._taken)
            if client.loop_read() != mqtt.MQTT_ERR_SUCCESS or (
                len(self._taken) == before and not client.has_read_ahead
            ):
                return
