"""Checks the options of MQTT 5.0, and composes once the bytes that never change. The module is then
unloaded.

Options of `level5.over(Session)`, in addition to the session's. Properties are pairs of number and
value, as in ((0x26, (b"site", b"north")), (0x03, b"application/json")):
    session_expiry_s     0 to 0xFFFFFFFF (never, the default): how long after the connection's end
                         the server keeps the session. With `clean` it is 0
    receive_maximum      1 to 65,535: how many messages of QoS 1 and 2 the server may send without
                         an acknowledgement; default 65,535, and 32 (the room of their note) for
                         exactly-once sessions
    maximum_packet_size  bytes, 16 to 0xFFFFFFF: the server sends no longer packets. Default: none;
                         what the buffer holds, for sessions that do not subscribe
    aliases              topics (bytes), up to 16, sent as numbers once the server knows them
    connect_properties   of CONNECT, except those above
    will_properties      of the will
    publish_properties   of each PUBLISH, up to 400 bytes
    expiry_s             a message expires this long after it was stored, 1 to 0x1FFFFFF s; broker
                         mode only: see `level5_expiry.py`
    alias_maximum        1 to 64: how many topics the server may send as numbers, in messages that
                         fit into the buffer (`level5_aliases.py`); not for streaming
    id_file              path of a file that keeps the client id chosen by the server for the next
                         power-on; for a client id of b""
    keep_unmatched       True: a message without a subscriber is kept, and sent again later
ValueError names what is wrong.

What a session can do (subscribe, confirm, take pieces) is asked once, by the name of a method or
field: an attribute of Session for it would take 134 bytes of every board's heap, because the table
of that class is full.

Must not know a session's state. Allocation: what it returns, and as much again.
"""
# pyright: reportAttributeAccessIssue=false

from micropython import const

from outpost.mqtt5 import properties
from outpost.mqtt5.properties import OFTEN, PAIR, POSITIVE, TABLE, TEXT, VARIABLE
from outpost.topics import is_text

_DEFAULTS = {
    "session_expiry_s": 0xFFFFFFFF, "receive_maximum": 0, "maximum_packet_size": 0, "aliases": (),
    "connect_properties": (), "will_properties": (), "publish_properties": (),
    "keep_unmatched": False, "expiry_s": 0, "id_file": None, "alias_maximum": 0,
}  # fmt: skip
_LEAST_BUFFER = const(128)  # bytes: CONNACK has properties
_LEAST_PACKET = const(16)  # bytes: no CONNACK would fit into less
_MOST_ALIASES = const(16)
_MOST_INBOUND = const(64)
_RX_BYTES = const(256)  # of subscribing.py
_MOST_EXPIRY_S = const(0x1FFFFFF)
_MOST_CONSTANT = const(400)  # bytes
_FIXED_BYTES = const(6)  # of the note of exactly_once.py
_WILL = const(4)
_CLEAN = const(2)
_MOST_ID_BYTES = const(1024)  # bytes of a client id
_PROBLEMS = const(0x17)  # 0: reason strings and user properties come with few packets only


def take_options(session, options):
    """Take the options above out of `options`. ValueError: a wrong level or alias_maximum."""
    own = {name: options.pop(name, value) for name, value in _DEFAULTS.items()}
    if options.pop("level", 5) != 5:
        raise ValueError("session: level must be 5, or take the class without level5.over()")
    if not hasattr(session, "subscribe"):
        options["rx_bytes"] = max(options.get("rx_bytes", 0), _LEAST_BUFFER)
        own["maximum_packet_size"] = own["maximum_packet_size"] or options["rx_bytes"] + 2
    if 0 < own["maximum_packet_size"] < _LEAST_PACKET:
        raise ValueError("session: maximum_packet_size must be 16 or more")
    if own["alias_maximum"]:
        if not 1 <= own["alias_maximum"] <= _MOST_INBOUND or not hasattr(session, "subscribe"):
            raise ValueError("session: alias_maximum is 1 to 64, of a session that subscribes")
        own["maximum_packet_size"] = options.get("rx_bytes", _RX_BYTES) + 2
    own["is_clean"] = bool(options.get("clean"))
    return own


def constant(own):
    """Encode the properties of every PUBLISH, that of the expiry first. ValueError: expiry_s, their
    length, or aliases."""
    found = encoded(own["publish_properties"], properties.IN_PUBLISH)
    if own["expiry_s"]:
        if not 1 <= own["expiry_s"] <= _MOST_EXPIRY_S:
            raise ValueError("session: expiry_s must be 1 to %d" % _MOST_EXPIRY_S)
        found = b"\x02" + own["expiry_s"].to_bytes(4, "big") + found
    if any(not isinstance(topic, (bytes, bytearray)) for topic in own["aliases"]):
        raise ValueError("session: aliases are topics, each of bytes")
    if len(own["aliases"]) > _MOST_ALIASES or len(found) > _MOST_CONSTANT:
        raise ValueError("session: aliases are 16 at most, publish_properties 400 bytes")
    return found


def properties_of_publish(own):
    """Returns the properties of PUBLISH as put_publish() takes them, and an OwnAliases; None
    without `aliases`."""
    found = constant(own)
    plain = _for_put_publish(found)
    if not own["aliases"]:
        return plain, None
    from outpost.mqtt5.level5_own_aliases import OwnAliases

    numbered = _for_put_publish(b"\x23\x00\x01" + found)
    return plain, OwnAliases(own["aliases"], plain, numbered, len(numbered) - len(found) - 1)


def _for_put_publish(found):
    found = length_of(found) + found
    return bytearray(bytes((len(found) & 255, len(found) >> 8, 0)) + found)


def expiry(session, own):
    """None without `expiry_s`. ValueError: 0x02 is given too, or it is not broker mode."""
    if not own["expiry_s"]:
        return None
    if hasattr(session, "confirmations") or 0x02 in dict(own["publish_properties"]):
        raise ValueError("session: expiry_s is for broker mode, and in place of property 0x02")
    from outpost.mqtt5.level5_expiry import Expiry

    return Expiry(session, own["expiry_s"], len(constant(own)) - 1)


def inbound(session, most):
    """None without `alias_maximum`. ValueError: this session takes messages in pieces."""
    if not most:
        return None
    if hasattr(session, "on_piece"):
        raise ValueError("session: alias_maximum is for messages that come whole")
    from outpost.mqtt5.level5_aliases import Aliases

    return Aliases(most, len(session.buffer))


def _is_new(session):
    """True when a session that the server keeps cannot be this board's and may do harm: it may hold
    identifiers of QoS 2, or subscriptions of another board. Messages queued for a board that
    subscribes do no harm, and such a board may never store a message."""
    outbox = session.outbox
    if outbox.renumbers or outbox.next_seq:
        return False
    is_2 = session.highest_qos == 2 and not outbox.note_length
    return is_2 or not hasattr(session, "subscribe")


def remembered(client_id, path):
    """Returns `client_id` if given, else the id in the file at `path`, if there is one."""
    if client_id or not path:
        return client_id
    try:
        with open(path, "rb") as file:
            return file.read(_MOST_ID_BYTES)
    except OSError:
        return client_id


def remember(path, client_id):
    """Store the client id that the server chose, for the next power-on. If the flash refuses it,
    the server chooses another one then."""
    if path:
        try:
            with open(path, "wb") as file:
                file.write(client_id)
        except OSError:
            pass


def connect(session, client_id, own):
    """Encode CONNECT (3.1), from the session's CONNECT of 3.1.1."""
    packet = session.connect_packet
    at = start_of(packet)
    flags = packet[at + 7]
    expiry_s = 0 if own["is_clean"] else own["session_expiry_s"]
    pairs = [(0x11, expiry_s), (_PROBLEMS, 0)]
    receive = own["receive_maximum"]
    if not receive and hasattr(session, "_note"):
        receive = (len(session._note) - _FIXED_BYTES) // 2 - 1
    if receive:
        pairs.append((0x21, receive))
    if own["alias_maximum"]:
        pairs.append((0x22, own["alias_maximum"]))
    if own["maximum_packet_size"]:
        pairs.append((0x27, own["maximum_packet_size"]))
    body = packet[at : at + 6] + b"\x05"
    body += bytes((flags | _CLEAN if _is_new(session) else flags,))
    body += packet[at + 8 : at + 10]
    if _PROBLEMS in dict(own["connect_properties"]):
        pairs.remove((_PROBLEMS, 0))
    connect = encoded(pairs + list(own["connect_properties"]), properties.IN_CONNECT)
    body += length_of(connect) + connect
    rest = packet[at + 10 :]
    end = 2 + (rest[0] << 8 | rest[1])
    body += bytes((len(client_id) >> 8, len(client_id) & 255)) + client_id
    if flags & _WILL:
        will = encoded(own["will_properties"], properties.IN_WILL)
        body += length_of(will) + will
    elif own["will_properties"]:
        raise ValueError("session: will_properties without a will")
    body += rest[end:]
    return bytearray(b"\x10" + length_of(body) + body)


def with_id(packet, client_id):
    """Returns the CONNECT `packet` with another client id."""
    at = start_of(packet)
    place = at + 10
    place = properties.number_end(packet, place, len(packet)) + properties.number(packet, place)
    end = place + 2 + (packet[place] << 8 | packet[place + 1])
    body = bytes(packet[at:place]) + bytes((len(client_id) >> 8, len(client_id) & 255))
    body += client_id + bytes(packet[end:])
    return bytearray(b"\x10" + length_of(body) + body)


def start_of(packet):
    """Offset after the fixed header."""
    return properties.number_end(packet, 1, len(packet))


def length_of(data):
    return _variable(len(data))


def encoded(pairs, where):
    """Encode properties, without their length. ValueError names the first that is wrong."""
    body, seen = b"", []
    for number, value in pairs:
        kind = TABLE[2 * number] if 0 < number < 0x2B else 0
        if not kind or not TABLE[2 * number + 1] & where or (number in (0x0B, 0x23) and where == 4):
            raise ValueError("session: property 0x%02x is unknown, or not of this packet" % number)
        if number in seen and not kind & OFTEN:
            raise ValueError("session: property 0x%02x stands there twice" % number)
        seen.append(number)
        body += bytes((number,)) + _value(number, kind, value)
        if number == 0x08 and (b"+" in value or b"#" in value):
            raise ValueError("session: a response topic (0x08) has no wildcard")
    return body


def _value(number, kind, value):
    kind, is_positive = kind & 7, kind & POSITIVE
    if kind <= VARIABLE:
        most = (0, 1, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFF)[kind]
        if not (1 if is_positive else 0) <= value <= most:
            raise ValueError("session: property 0x%02x cannot be %s" % (number, value))
        if kind == VARIABLE:
            return _variable(value)
        return value.to_bytes(1 << kind - 1, "big")
    if kind == PAIR:
        return _text(number, value[0], True) + _text(number, value[1], True)
    return _text(number, value, kind == TEXT)


def _variable(value):
    """A variable byte integer (1.5.5)."""
    found = b""
    while value > 127:
        found += bytes((value & 127 | 128,))
        value >>= 7
    return found + bytes((value,))


def _text(number, text, is_checked):
    if not isinstance(text, (bytes, bytearray)):
        raise ValueError("session: property 0x%02x must be bytes" % number)
    text = bytes(text)
    if len(text) > 0xFFFF or (is_checked and not is_text(text)):
        raise ValueError("session: property 0x%02x is not UTF-8 without NUL, or too long" % number)
    return bytes((len(text) >> 8, len(text) & 255)) + text


def with_properties(session, first):
    """Returns the requested filters that fit into one packet, and that packet: SUBSCRIBE or
    UNSUBSCRIBE (3.8, 3.10)."""
    from outpost.subscribing import encode_filters

    identifiers = session._identifiers or {}
    requested, identifier = session._requested, 0
    for entry in requested:
        identifier = identifiers.get(entry[0], 0) if first == 0x82 else 0
        if identifier:
            requested = [entry]  # the others go in the next packets
            break
    more = b"\x0b" + _variable(identifier) if identifier else b""
    while True:
        packet = encode_filters(session._request_id, requested)
        at = start_of(packet)
        body = packet[at : at + 2] + length_of(more) + more + packet[at + 2 :]
        packet = bytes((first,)) + length_of(body) + body
        if len(packet) <= session.server.get(0x27, len(packet)) or len(requested) == 1:
            return requested, packet
        requested = requested[:-1]


def disconnect(reason=0, session_expiry_s=None):
    """Encode a DISCONNECT for `session.farewell` (3.14). With reason 0x04 the server publishes the
    will; session_expiry_s=0 ends the session."""
    more = b"" if session_expiry_s is None else b"\x11" + session_expiry_s.to_bytes(4, "big")
    body = bytes((reason,)) + length_of(more) + more
    return b"\xe0" + length_of(body) + body
