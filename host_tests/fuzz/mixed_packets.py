"""Packets of MQTT 3.1 to 5.0 as mixed_server.py reads and writes them, written from the standard,
without a line of the firmware.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from packets5 import OFTEN, PROPERTIES, frame, length_of

CONNECT, CONNACK, PUBLISH, PUBACK, PUBREC, PUBREL, PUBCOMP = range(1, 8)
SUBSCRIBE, SUBACK, UNSUBSCRIBE, UNSUBACK, PINGREQ, PINGRESP, DISCONNECT = range(8, 15)


class Violation(BaseException):
    """What must not happen. Not an Exception, so that no handler of the firmware can catch it."""


def require(condition: object, text: str, *values: Any) -> None:
    if not condition:
        raise Violation(text % values)


def u16(number: int) -> bytes:
    return number.to_bytes(2, "big")


def text(data: bytes) -> bytes:
    return u16(len(data)) + data


class Body:
    """The unread rest of a packet's body, or of its properties."""

    def __init__(self, left: bytes) -> None:
        self.left = left

    def take(self, count: int) -> bytes:
        require(count <= len(self.left), "%d bytes of %r", count, self.left)
        taken, self.left = self.left[:count], self.left[count:]
        return taken

    def number(self, count: int = 2) -> int:
        return int.from_bytes(self.take(count), "big")

    def text(self) -> bytes:
        return self.take(self.number())

    def length(self) -> int:
        """Reads a variable byte integer."""
        found = shift = 0
        while True:
            byte = self.number(1)
            found |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return found

    def properties(self) -> dict[int, Any]:
        part, found = Body(self.take(self.length())), {}
        while part.left:
            number = part.number(1)
            require(number in PROPERTIES, "property %d", number)
            require(number not in found or number in OFTEN, "property %d twice", number)
            found[number] = _READERS[PROPERTIES[number][1]](part)
        return found


_READERS = {
    "byte": lambda body: body.number(1),
    "u16": Body.number,
    "u32": lambda body: body.number(4),
    "variable": Body.length,
    "text": Body.text,
    "binary": Body.text,
    "pair": lambda body: (body.text(), body.text()),
}


def first_packet(data: bytes) -> tuple[int, bytes, int] | None:
    """Returns (first byte, body, size) of the packet at the start of data; None: it is
    incomplete."""
    end = 1
    while end < len(data) and data[end] > 127:
        end += 1
    if end >= len(data):
        return None
    start = end + 1
    size = start + Body(data[1:start]).length()
    return (data[0], data[start:size], size) if len(data) >= size else None


def acknowledgement(kind: int, packet_id: int, code: int | None = None) -> bytes:
    """code: the reason code of MQTT 5.0; None: omitted."""
    flags = 2 if kind == PUBREL else 0
    return frame(kind << 4 | flags, u16(packet_id) + (b"" if code is None else bytes((code,))))


@dataclass
class Publish:
    topic: bytes
    payload: bytes
    qos: int
    packet_id: int = 0
    is_dup: bool = False
    is_retained: bool = False
    alias: int | None = None

    def packet(self, level: int, properties: bytes = b"") -> bytes:
        head = text(self.topic) + (u16(self.packet_id) if self.qos else b"")
        if level == 5:
            head += length_of(len(properties)) + properties
        return frame(
            0x30 | self.is_dup << 3 | self.qos << 1 | self.is_retained, head + self.payload
        )


def parse_publish(first: int, data: bytes, level: int) -> Publish:
    body, qos = Body(data), first >> 1 & 3
    require(qos < 3 and (qos or not first & 8), "PUBLISH with flags %x", first & 15)
    topic = body.text()
    packet_id = body.number() if qos else 0
    require(packet_id or not qos, "PUBLISH with identifier 0")
    alias = body.properties().get(0x23) if level == 5 else None
    return Publish(topic, body.left, qos, packet_id, first & 8 > 0, first & 1 > 0, alias)
