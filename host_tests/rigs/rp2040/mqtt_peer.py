"""Broker and collector in one object, for runs without real servers: repeatable, without waiting.

`receive(bytes)` takes what the board sent and returns the answer. Keeps the first occurrence of
each message. With the probabilities of its moods (a seeded random generator) it holds back
confirmations and acknowledgements or ends the connection, so that the board's outbox fills and
messages are repeated. Must not know: the chip, the link, flash.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field

from virtual import packets

CONNECT, PUBLISH, SUBSCRIBE, PINGREQ, DISCONNECT = 1, 3, 8, 12, 14
CONNACK, PUBACK, SUBACK, PINGRESP = b"\x20\2\0\0", 0x40, 0x90, b"\xd0\0"


class Violation(Exception):
    """A message arrived that must not, or out of place."""


@dataclass(slots=True)
class Moods:
    """Probabilities, each time: of no PUBACK, of no confirmation, of closing the connection."""

    no_puback: float = 0.0
    no_confirmation: float = 0.0
    close: float = 0.0


class Closed(Exception):
    """The server ends this connection."""


@dataclass
class Collector:
    """messages: stream -> payloads, by number, each in the order of its first occurrence."""

    random: random.Random
    moods: Moods = field(default_factory=Moods)
    messages: dict[str, list[bytes]] = field(default_factory=dict)
    repeated: int = 0
    _buffer: bytes = b""
    _topic: bytes = b""  # where the board wants its confirmations
    _latest: str = ""

    def open(self) -> None:
        """A new connection."""
        self._buffer = b""
        self._topic = b""

    def receive(self, data: bytes) -> bytes:
        """Raises Closed; Violation."""
        self._buffer += data
        answer = b""
        while (packet := self._take()) is not None:
            answer += self._handle(*packet)
        return answer

    def _take(self) -> tuple[int, bytes] | None:
        found = packets.take_frame(self._buffer)
        if found is None:
            return None
        first, body, self._buffer = found
        return first, body

    def _handle(self, first: int, body: bytes) -> bytes:
        kind = first >> 4
        if kind == CONNECT:
            return CONNACK
        if kind == PINGREQ:
            return PINGRESP
        if kind == SUBSCRIBE:
            self._topic = body[4 : 4 + int.from_bytes(body[2:4], "big")]
            granted = packets.frame(SUBACK, body[:2] + b"\1")
            return granted + (self._confirmation() if self._latest else b"")
        if kind == PUBLISH:
            return self._publish(first, body)
        if kind == DISCONNECT:
            raise Closed
        return b""

    def _publish(self, first: int, body: bytes) -> bytes:
        if self.random.random() < self.moods.close:
            raise Closed
        end = 2 + int.from_bytes(body[:2], "big")
        identifier, payload = body[end : end + 2], body[end + 2 :]
        if first >> 1 & 3 != 1:
            raise Violation(f"a message with QoS {first >> 1 & 3}")
        self._keep(payload)
        answer = b""
        if self.random.random() >= self.moods.no_puback:
            answer = bytes((PUBACK, 2)) + identifier
        if self._topic and self.random.random() >= self.moods.no_confirmation:
            answer += self._confirmation()
        return answer

    def _keep(self, payload: bytes) -> None:
        """Keep the next number of its stream, or check that a repeated one has the same
        contents."""
        head = json.loads(payload)[0]
        stream, number = head["sid"], head["seq"]
        kept = self.messages.setdefault(stream, [])
        self._latest = stream
        if number > len(kept):
            raise Violation(
                f"{stream} {number} came, {len(kept)} was not here yet: lost or out of order"
            )
        if number == len(kept):
            kept.append(payload)
        elif payload != kept[number]:
            raise Violation(f"{stream} {number} came again with other contents")
        else:
            self.repeated += 1

    def _confirmation(self) -> bytes:
        text = f"{self._latest} {len(self.messages[self._latest]) - 1}".encode()
        return packets.encode("PUBLISH", topic=self._topic, payload=text)
