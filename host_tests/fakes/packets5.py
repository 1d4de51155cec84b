"""Packets of MQTT 5.0 as a server sends them, and parsers of what a client sent: written from the
standard, without a line of the firmware. Runs under both Pythons.
"""

# number: (name, kind of its value, packets that a server may send it in)
PROPERTIES = {
    0x01: ("payload format indicator", "byte", ("PUBLISH",)),
    0x02: ("message expiry interval", "u32", ("PUBLISH",)),
    0x03: ("content type", "text", ("PUBLISH",)),
    0x08: ("response topic", "text", ("PUBLISH",)),
    0x09: ("correlation data", "binary", ("PUBLISH",)),
    0x0B: ("subscription identifier", "variable", ("PUBLISH",)),
    0x11: ("session expiry interval", "u32", ("CONNACK",)),
    0x12: ("assigned client identifier", "text", ("CONNACK",)),
    0x13: ("server keep alive", "u16", ("CONNACK",)),
    0x15: ("authentication method", "text", ("CONNACK",)),
    0x16: ("authentication data", "binary", ("CONNACK",)),
    0x17: ("request problem information", "byte", ()),
    0x18: ("will delay interval", "u32", ()),
    0x19: ("request response information", "byte", ()),
    0x1A: ("response information", "text", ("CONNACK",)),
    0x1C: ("server reference", "text", ("CONNACK", "DISCONNECT")),
    0x1F: ("reason string", "text", ("CONNACK", "ACK", "DISCONNECT")),
    0x21: ("receive maximum", "u16", ("CONNACK",)),
    0x22: ("topic alias maximum", "u16", ("CONNACK",)),
    0x23: ("topic alias", "u16", ("PUBLISH",)),
    0x24: ("maximum QoS", "byte", ("CONNACK",)),
    0x25: ("retain available", "byte", ("CONNACK",)),
    0x26: ("user property", "pair", ("CONNACK", "PUBLISH", "ACK", "DISCONNECT")),
    0x27: ("maximum packet size", "u32", ("CONNACK",)),
    0x28: ("wildcard subscription available", "byte", ("CONNACK",)),
    0x29: ("subscription identifiers available", "byte", ("CONNACK",)),
    0x2A: ("shared subscription available", "byte", ("CONNACK",)),
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
    return bytes((number,)) + SAMPLES[PROPERTIES[number][1]]


def length_of(count):
    found = b""
    while count > 127:
        found += bytes((count % 128 + 128,))
        count //= 128
    return found + bytes((count,))


def frame(first, body):
    return bytes((first,)) + length_of(len(body)) + body


def carried(kind, properties):
    """Returns that packet with these properties, unchecked."""
    first, before, after = CARRIERS[kind]
    return frame(first, before + length_of(len(properties)) + properties + after)


def connack(properties=b"", session_present=0, code=0):
    return frame(0x20, bytes((session_present, code)) + length_of(len(properties)) + properties)


def ack(first, packet_id, code=0, properties=None):
    body = bytes((packet_id // 256, packet_id % 256))
    if code or properties is not None:
        body += bytes((code,))
    if properties is not None:
        body += length_of(len(properties)) + properties
    return frame(first, body)


def publish_parts(first, body):
    """Returns (topic, identifier or 0, properties, payload) of a PUBLISH that a client sent."""
    end = 2 + body[0] * 256 + body[1]
    topic, packet_id = body[2:end], 0
    if first & 6:
        packet_id = body[end] * 256 + body[end + 1]
        end += 2
    length, shift = 0, 1
    while True:
        length += body[end] % 128 * shift
        shift *= 128
        end += 1
        if body[end - 1] < 128:
            break
    return topic, packet_id, body[end : end + length], body[end + length :]


def connect_parts(packet):
    """Returns a dictionary of a CONNECT's fields; None for those it leaves out. Fails if bytes are
    left over."""
    at = 2 if packet[1] < 128 else 3
    body = bytes(packet[at:])
    assert len(body) == (packet[1] if at == 2 else packet[1] % 128 + packet[2] * 128)
    name, at = body[2 : 2 + body[1]], 2 + body[1]
    version, flags, keep_alive = body[at], body[at + 1], body[at + 2] * 256 + body[at + 3]
    found = {"name": name, "version": version, "flags": flags, "keep_alive": keep_alive}
    at += 4
    found["properties"], at = body[at + 1 : at + 1 + body[at]], at + 1 + body[at]
    found["client_id"], at = _field(body, at)
    found["will"] = found["user"] = found["password"] = found["will_properties"] = None
    if flags & 4:
        found["will_properties"], at = body[at + 1 : at + 1 + body[at]], at + 1 + body[at]
        topic, at = _field(body, at)
        message, at = _field(body, at)
        found["will"] = topic, message, flags // 8 % 4, flags // 32 % 2 == 1
    if flags & 128:
        found["user"], at = _field(body, at)
    if flags & 64:
        found["password"], at = _field(body, at)
    assert at == len(body), "something is left over"
    return found


def _field(body, at):
    end = at + 2 + body[at] * 256 + body[at + 1]
    return body[at + 2 : end], end
