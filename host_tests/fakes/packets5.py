"""Packets of MQTT 5.0 whose properties are bytes, valid or not: what `virtual.packets`, the codec,
does not encode. Runs under both Pythons.
"""

from virtual import packets
from virtual.packets import Cursor, frame, u16
from virtual.packets import variable as length_of

_CARRYING = (("CONNACK", "K"), ("PUBLISH", "P"), ("ACK", "A"), ("DISCONNECT", "D"))


def _of_servers(number, places):
    """The packets that a server may send it in; only clients end a session in DISCONNECT."""
    found = [name for name, letter in _CARRYING if letter in places]
    return [name for name in found if (number, name) != (0x11, "DISCONNECT")]


# number: (kind of its value, packets that a server may send it in)
PROPERTIES = {
    number: (kind.rstrip("+*").replace("flag", "byte"), _of_servers(number, places))
    for number, (kind, places) in packets.PROPERTIES.items()
}
OFTEN = (0x0B, 0x26)
# A value of each kind that a client must accept.
SAMPLES = {
    "byte": b"\x01",
    "u16": b"\x00\x05",
    "u32": b"\x00\x00\x01\x00",
    "variable": b"\xac\x02",
    "text": b"\x00\x03x+y",
    "binary": b"\x00\x02\x00\xff",
    "pair": b"\x00\x01n\x00\x02v#",
}
# Where the packet's properties begin in its body, and the rest of the packet: first byte, body
# before, body after.
CARRIERS = {
    "CONNACK": (0x20, b"\x00\x00", b""),
    "PUBLISH": (0x32, b"\x00\x01a\x00\x07", b"payload"),
    "PUBACK": (0x40, b"\x00\x01\x00", b""),
    "DISCONNECT": (0xE0, b"\x8b", b""),
}


def sample(number):
    return bytes((number,)) + SAMPLES[PROPERTIES[number][0]]


def carried(kind, properties):
    """Returns that packet with these properties, unchecked."""
    first, before, after = CARRIERS[kind]
    return frame(first, before + length_of(len(properties)) + properties + after)


def connack(properties=b"", session_present=0, code=0):
    return frame(0x20, bytes((session_present, code)) + length_of(len(properties)) + properties)


def ack(first, packet_id, code=0, properties=None):
    body = u16(packet_id)
    if code or properties is not None:
        body += bytes((code,))
    if properties is not None:
        body += length_of(len(properties)) + properties
    return frame(first, body)


def publish_parts(first, body):
    """Returns (topic, identifier or 0, properties, payload) of a PUBLISH that a client sent."""
    rest = Cursor(body)
    topic = rest.binary()
    packet_id = rest.number() if first & 6 else 0
    return topic, packet_id, rest.take(rest.variable()), rest.body
