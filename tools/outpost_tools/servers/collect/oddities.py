"""Odd properties that messages of MQTT 5.0 carry besides their payload.

User properties of a message that has no number, and so will not reach silver: they become a note
for quarantine. A message expiry: the broker may delete the message while it waits there, which a
gap in the board's numbers will show. It is counted, and reported once for each device.
"""

from __future__ import annotations

import sys

from outpost_tools.log import collector_notes
from outpost_tools.messages.message import key_of
from outpost_tools.mqtt import properties as mqtt_properties

TOLD_DEVICES = 100
_EXPIRES = (
    "{topic}: messages expire, this one in {seconds} s: the broker deletes what waits longer. In "
    "broker mode it is lost (not said again)"
)


class Oddities:
    """For one collector; add() is called before the messages are taken, take() after them."""

    def __init__(self, prefix: str, collector: str) -> None:
        self.expiring = 0  # messages that had an expiry
        self._begin, self._end = f"{prefix}/".encode(), b"/data"
        self._place = collector_notes.topic(prefix, collector)
        self._collector = collector
        self._notes: list[tuple[bytes, bytes]] = []
        self._told: set[bytes] = set()

    def add(self, topic: bytes, payload: bytes, properties: bytes) -> None:
        """Raises MalformedError: the connection cannot continue."""
        found = mqtt_properties.listed(properties)
        if not (topic.startswith(self._begin) and topic.endswith(self._end)):
            return  # it is not from a board, so it is not stored either
        expiry_s = dict(found).get(mqtt_properties.EXPIRY)
        if expiry_s is not None:
            self.expiring += 1
            self._tell(topic, expiry_s)
        if key_of(topic, payload) is None:
            data = collector_notes.properties_payload(topic, found)
            self._notes.append((self._place, data))

    def take(self) -> list[tuple[bytes, bytes]]:
        """(topic, payload) of the notes since the last call."""
        notes, self._notes = self._notes, []
        return notes

    def _tell(self, topic: bytes, expiry_s: object) -> None:
        if topic in self._told or len(self._told) >= TOLD_DEVICES:
            return
        self._told.add(topic)
        shown = topic.decode("utf-8", "replace")
        text = _EXPIRES.format(topic=shown, seconds=expiry_s)
        print(f"{self._collector}: {text}", file=sys.stderr, flush=True)
