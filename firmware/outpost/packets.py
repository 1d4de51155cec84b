"""MQTT control packets, byte for byte: encode into the caller's buffer, parse from one. No state, no I/O, no heap.

MQTT 3.1.1 (OASIS, section numbers beside the functions) and 3.1 (IBM: WebSphere MQ Telemetry Transport, `../shared/seeds`).
Encoders take the offset to write at and give the offset behind what they wrote; the caller has made sure that it fits.
"""

from micropython import const

try:
    from outpost.viper import copy
except (ImportError, AttributeError, SyntaxError, ValueError):
    from outpost.bytecode import copy

CONNECT = const(0x10)
CONNACK = const(0x20)
PUBLISH = const(0x30)
PUBACK = const(0x40)
PUBREC = const(0x50)
PUBREL = const(0x62)
PUBCOMP = const(0x70)
SUBSCRIBE = const(0x82)
SUBACK = const(0x90)
UNSUBSCRIBE = const(0xA2)
UNSUBACK = const(0xB0)
PINGREQ = const(0xC0)
PINGRESP = const(0xD0)
DISCONNECT = const(0xE0)

DUP = const(0x08)
RETAIN = const(0x01)
MAX_REMAINING_LENGTH = const(268435455)

_CONNECT = const(0x10)
_PUBACK = const(0x40)
_SUBSCRIBE = const(0x82)


def put_u16(buf, at, value):
    buf[at] = value >> 8
    buf[at + 1] = value & 0xFF
    return at + 2


def get_u16(buf, at):
    return buf[at] << 8 | buf[at + 1]


def put_string(buf, at, data):
    """UTF-8 string or binary field: two bytes of length, then the bytes (1.5.3)."""
    return copy(buf, put_u16(buf, at, len(data)), data, 0, len(data))


def put_fixed_header(buf, at, first, remaining_length):
    """Packet type and flags, then the remaining length, 7 bits a byte, least significant first (2.2.3)."""
    buf[at] = first
    at += 1
    while remaining_length > 127:
        buf[at] = remaining_length & 0x7F | 0x80
        remaining_length >>= 7
        at += 1
    buf[at] = remaining_length
    return at + 1


def publish_length(topic_length, payload_length, qos):
    """Remaining length of a PUBLISH (3.3)."""
    return 2 + topic_length + (2 if qos else 0) + payload_length


def encode_connect(buf, client_id, keep_alive_s, clean, will=None, user=None, password=None, level=4):
    """CONNECT (3.1). will: (topic, message, qos, retain). All strings are bytes. May take heap: it is sent once a connection."""
    name = b"MQTT" if level == 4 else b"MQIsdp"
    flags = 0x02 if clean else 0
    fields = [client_id]
    if will:
        flags |= 0x04 | will[2] << 3 | (0x20 if will[3] else 0)
        fields += [will[0], will[1]]
    if user is not None:
        flags |= 0x80
        fields.append(user)
    if password is not None:
        flags |= 0x40
        fields.append(password)
    at = put_fixed_header(buf, 0, _CONNECT, len(name) + 6 + sum([len(field) + 2 for field in fields]))
    at = put_string(buf, at, name)
    buf[at] = level
    buf[at + 1] = flags
    at = put_u16(buf, at + 2, keep_alive_s)
    for field in fields:
        at = put_string(buf, at, field)
    return at


def connect_length(client_id, will=None, user=None, password=None):
    """An upper bound of the bytes that encode_connect() writes."""
    fields = [client_id, user or b"", password or b""] + ([will[0], will[1]] if will else [])
    return 17 + sum([len(field) + 2 for field in fields])


def encode_acknowledgement(buf, at, first, packet_id):
    """PUBACK, PUBREC, PUBREL, PUBCOMP, UNSUBACK: two bytes of packet identifier (3.4 and following)."""
    buf[at] = first
    buf[at + 1] = 2
    return put_u16(buf, at + 2, packet_id)


def encode_subscribe(buf, at, packet_id, topic_filter, qos):
    """SUBSCRIBE with one topic filter (3.8)."""
    at = put_fixed_header(buf, at, _SUBSCRIBE, 5 + len(topic_filter))
    at = put_string(buf, put_u16(buf, at, packet_id), topic_filter)
    buf[at] = qos
    return at + 1


def encode_empty(buf, at, first):
    """PINGREQ, PINGRESP, DISCONNECT (3.12 and following)."""
    buf[at] = first
    buf[at + 1] = 0
    return at + 2
