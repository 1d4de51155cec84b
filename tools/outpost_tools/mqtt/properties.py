"""The properties of a PUBLISH of MQTT 5.0 (3.3.2.3), as bytes from a server. Pure.

Most messages have no properties, which a single comparison shows. Those of the others are parsed
only when they are needed. paho's own class makes and checks an object for each packet, which is too
slow if thousands of packets per second have an expiry.
"""

from __future__ import annotations

from outpost_tools.mqtt.packets import MalformedError

Value = int | bytes | tuple[bytes, bytes]

EXPIRY = 0x02
CONTENT_TYPE = 0x03
USER = 0x26
# The properties allowed in PUBLISH: how the value of each is encoded (2.2.2.2). A positive number
# is the size of an integer in bytes.
_TEXT, _PAIR, _VARIABLE = 0, -1, -2
_KINDS = {
    0x01: 1, EXPIRY: 4, CONTENT_TYPE: _TEXT, 0x08: _TEXT, 0x09: _TEXT, 0x0B: _VARIABLE, 0x23: 2,
    USER: _PAIR,
}  # fmt: skip
_MOST_LENGTH_BYTES = 4


def cut(data: bytes) -> tuple[bytes, bytes]:
    """(properties, payload) of the bytes after topic and identifier. Raises MalformedError."""
    if data[:1] == b"\0":
        return b"", data[1:]
    length, at = _variable(data, 0)
    if at + length > len(data):
        raise MalformedError("a PUBLISH that ends within its properties")
    return data[at : at + length], data[at + length :]


def listed(properties: bytes) -> list[tuple[int, Value]]:
    """(number, value) of each, in order. Raises MalformedError if a PUBLISH may not have it."""
    found: list[tuple[int, Value]] = []
    at = 0
    while at < len(properties):
        number = properties[at]
        if number not in _KINDS:
            raise MalformedError(f"property 0x{number:02x} in a PUBLISH")
        value, at = _value(properties, at + 1, _KINDS[number])
        found.append((number, value))
    return found


def _value(data: bytes, at: int, kind: int) -> tuple[Value, int]:
    if kind == _VARIABLE:
        return _variable(data, at)
    if kind == _PAIR:
        name, at = _text(data, at)
        value, at = _text(data, at)
        return (name, value), at
    if kind == _TEXT:
        return _text(data, at)
    if at + kind > len(data):
        raise MalformedError("a property that is cut off")
    return int.from_bytes(data[at : at + kind], "big"), at + kind


def _text(data: bytes, at: int) -> tuple[bytes, int]:
    end = at + 2 + int.from_bytes(data[at : at + 2], "big")
    if at + 2 > len(data) or end > len(data):
        raise MalformedError("a property that is cut off")
    return data[at + 2 : end], end


def _variable(data: bytes, at: int) -> tuple[int, int]:
    """A variable byte integer (1.5.5), and where it ends."""
    value = 0
    for index, byte in enumerate(data[at : at + _MOST_LENGTH_BYTES]):
        value |= (byte & 127) << 7 * index
        if byte < 128:
            return value, at + index + 1
    raise MalformedError("a length that is cut off, or has more than four bytes")
