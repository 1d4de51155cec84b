"""Splits what an MQTT server sent into control packets, many at a time. Pure: bytes in, packets
out. In MQTT 5.0 a payload begins with its properties, see mqtt_properties.py.

A collector receives almost only PUBLISH, tens of thousands per second. They are returned as tuples,
without an object or a call for each. All other packets are returned as bytes, for a client that
understands them.
"""

from __future__ import annotations

from typing import NamedTuple

# First byte, topic, packet identifier as its two bytes (none with QoS 0), payload.
Publish = tuple[int, bytes, bytes, bytes]

RETAIN = 1
DUP = 8
_PUBLISH = 0x30
_QOS_1 = 2
_MAX_LENGTH_BYTES = 4  # of the remaining length, MQTT 3.1.1 section 2.2.3


class MalformedError(ValueError):
    """The bytes are not MQTT; the connection cannot continue."""


class Packets(NamedTuple):
    """`end` is where the last whole packet ends. `wanted` is the least number of bytes that the
    next packet has from there."""

    publishes: list[Publish]
    others: list[bytes]
    end: int
    wanted: int


def split(data: bytes) -> Packets:
    """The whole packets in `data`: PUBLISH of QoS 0 and 1, and the others. Raises
    MalformedError."""
    publishes: list[Publish] = []
    others: list[bytes] = []
    size, at, wanted = len(data), 0, 2
    while at + 1 < size:
        kind, length, body = data[at], data[at + 1], at + 2
        # usually two bytes: calling a function for them would take a fifth of the whole time
        if length > 127:
            if body < size and data[body] < 128:
                length, body = length - 128 + (data[body] << 7), body + 1
            else:
                length, body = _long(data, at + 1)
        end = body + length
        if end > size:
            wanted = end - at
            break
        if kind & 0xF4 == _PUBLISH and length > 1:
            topic_at = body + 2
            topic_end = topic_at + (data[body] << 8 | data[body + 1])
            payload_at = topic_end + (kind & _QOS_1)  # QoS 1 adds two bytes, the identifier
            if payload_at > end:
                raise MalformedError("a PUBLISH that ends within its topic")
            topic, packet_id = data[topic_at:topic_end], data[topic_end:payload_at]
            publishes.append((kind, topic, packet_id, data[payload_at:end]))
        else:
            others.append(data[at:end])
        at = end
    return Packets(publishes, others, at, wanted)


def _long(data: bytes, at: int) -> tuple[int, int]:
    """(remaining length of 128 or more, where its encoding ends). If the encoding is incomplete,
    the two point beyond the end of `data`. Raises MalformedError."""
    length = 0
    for index, byte in enumerate(data[at : at + _MAX_LENGTH_BYTES]):
        length |= (byte & 127) << 7 * index
        if byte < 128:
            return length, at + index + 1
    if len(data) - at >= _MAX_LENGTH_BYTES:
        raise MalformedError("a remaining length of more than four bytes")
    return 1, len(data)


def publish(topic: bytes, payload: bytes, *, retain: bool) -> bytes:
    """A PUBLISH of QoS 0."""
    body = len(topic).to_bytes(2, "big") + topic + payload
    length, rest = bytearray(), len(body)
    while rest > 127:
        length.append(rest & 127 | 128)
        rest >>= 7
    length.append(rest)
    return bytes((_PUBLISH | (RETAIN if retain else 0),)) + length + body


def pubacks(packet_ids: list[bytes]) -> bytes:
    """A PUBACK for each packet identifier (its two bytes)."""
    return b"".join([b"\x40\x02" + packet_id for packet_id in packet_ids])
