"""Checks a session's options and encodes CONNECT (3.1), once, when a session is constructed. The
module is then unloaded, until publish() gets an argument that it does not take.

Must not know a session. What it imports is already loaded, or is unloaded with it. Allocation: the
packet, and as much again while it is put together.
"""

import builtins

from micropython import const

from outpost.memory import unload
from outpost.topics import is_text

_BAD_QOS = const(-8)
_FIELDS = const(60)  # one more than 59 places hold


def widen(one):
    """Grow the table of a session's fields to 73 places, as `flash/setup.py` does. Without it,
    55 fields would share 59 places, and each access would take longer."""
    # startswith, as an interpreter keeps each letter that name[0] returns
    names = [name for name in builtins.__dict__ if not name.startswith("_")][:_FIELDS]
    for name in names:
        setattr(one, name, None)
    for name in reversed(list(one.__dict__)):  # from the last place, so that most become free again
        if name in names:
            delattr(one, name)


def check_options(*values):
    """values: the options, in the order below. ValueError names the first that is out of range."""
    limits = (
        ("keep_alive_s", 0, 65_535),
        ("window", 1, 16),
        ("rx_bytes", 4, 0xFFFFFFF),
        ("in_flight_bytes", 0, 0x1FFFFFFF),
        ("response_ms", 1, 14_000_000),
        ("level", 3, 4),
    )
    for (name, least, most), value in zip(limits, values):
        if not isinstance(value, int) or not least <= value <= most:
            raise ValueError("session: %s must be %d to %d, not %r" % (name, least, most, value))


def check(topic, payload, qos):
    """Arguments that publish() does not take: TypeError says what to write. Or returns BAD_QOS."""
    for name, value in ("topic", topic), ("payload", payload):
        if isinstance(value, str):
            raise TypeError("publish: %s must be bytes: write text.encode()" % name)
    if qos is True or qos is False or not isinstance(qos, int):
        raise TypeError("publish: qos must be 0, 1 or 2, not %r; RETAIN is retain=True" % qos)
    return _BAD_QOS


def _check_texts(client_id, will, user, password):
    """ValueError names the first text for which a server would close every connection."""
    if will and len(will) != 4:
        raise ValueError("session: a will is (topic, message, QoS, retain)")
    topic, message = will[:2] if will else (b"-", b"")
    texts = ("client_id", client_id), ("user", user), ("will's topic", topic)
    for name, data in texts + (("password", password), ("will's message", message)):
        if not isinstance(data or b"", (bytes, bytearray)):
            raise ValueError("session: %s must be bytes" % name)
    for name, text in texts:
        if text and not is_text(bytes(text)):
            raise ValueError("session: %s is not UTF-8 without NUL, or too long" % name)
    if not topic or b"+" in topic or b"#" in topic:
        raise ValueError("session: a will's topic is not empty and has no wildcard")
    unload("outpost.topics")


def _field(data):
    """UTF-8 string or binary field: two bytes of length, then the bytes (1.5.3)."""
    if len(data) > 65535:
        raise ValueError("mqtt: a text is longer than 65,535 bytes")
    return bytes((len(data) >> 8, len(data) & 255)) + data


def _packet(first, body):
    """Fixed header (2.2.3: remaining length, 7 bits per byte, lowest first), then body (bytes)."""
    header, length = bytes((first,)), len(body)
    while length > 127:
        header += bytes((length & 127 | 128,))
        length >>= 7
    return header + bytes((length,)) + body


def encode_connect(
    client_id, keep_alive_s=60, clean=False, will=None, user=None, password=None, level=4
):  # fmt: skip
    """CONNECT (3.1). All texts are bytes.

    clean: True: the server forgets the session when the connection ends; False: it keeps it. will:
    (topic, message, QoS 0 to 2, retain), which the server publishes when the connection breaks.
    user, password: None: not sent. level: 4 for MQTT 3.1.1, 3 for 3.1.
    ValueError: a text longer than 65,535 bytes, or one that is not UTF-8; a password without a user
    name [MQTT-3.1.2-22]; a will with another QoS, or whose topic is empty or has a wildcard; a
    session to be kept but no client id [MQTT-3.1.3-8].
    """
    _check_texts(client_id, will, user, password)
    if password is not None and user is None:
        raise ValueError("mqtt: a password needs a user name")
    if will and will[2] not in (0, 1, 2):
        raise ValueError("mqtt: will QoS must be 0..2")
    if not client_id and not (clean and level == 4):
        raise ValueError("mqtt: without a client id the session cannot be kept")
    flags = 2 if clean else 0
    fields = [client_id]
    if will:
        flags |= 4 | will[2] << 3 | bool(will[3]) << 5
        fields += will[:2]
    for text, flag in ((user, 128), (password, 64)):
        if text is not None:
            flags |= flag
            fields.append(text)
    body = _field(b"MQTT" if level == 4 else b"MQIsdp")
    body += bytes((level, flags, keep_alive_s >> 8, keep_alive_s & 255))
    for text in fields:
        body += _field(text)
    return _packet(0x10, body)
