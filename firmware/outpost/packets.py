"""MQTT control packets, byte for byte. No state, no I/O, no allocation.

The packets are those of MQTT 3.1.1 (OASIS; the functions name its sections) and 3.1 (IBM, the pages
on WebSphere MQ Telemetry Transport). CONNECT is in `connect_packet.py`, SUBSCRIBE in
`subscribing.py`.

The put_…() functions write into the caller's buffer and return the offset after what they wrote.
The caller makes sure that it fits.
"""

from micropython import const

_IDS = const(65535)


def packet_id_of(seq):
    """Packet identifier of an outbox message (1..65535)."""
    return 1 + seq % _IDS


def get_u16(buf, at):
    return buf[at] << 8 | buf[at + 1]


def put_u16(buf, at, value):
    buf[at] = value >> 8
    buf[at + 1] = value & 0xFF
    return at + 2


def put_header(buf, first, length):
    """Put the fixed header at the start of buf: type and flags, then the remaining length.

    7 bits per byte, lowest first (2.2.3).
    """
    buf[0] = first
    at = 1
    while length > 127:
        buf[at] = length & 0x7F | 0x80
        length >>= 7
        at += 1
    buf[at] = length
    return at + 1
