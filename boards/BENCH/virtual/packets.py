"""The server's side of MQTT 3.1, 3.1.1 and 5.0, written from the standards and without a line of
the firmware: a codec of all control packets, and what topics match a filter.

**The law.** encode() takes and decode() returns (kind, fields), where fields is a dict of bytes,
integers and lists. decode() is strict, as a server must be: what a client may not send raises
Malformed. At level 5 each packet that can have properties has them in `properties`, a list of
(number, value) in their order; below it has none. Both Pythons.

Must not know a connection: what is right in itself and wrong at its time is connection.py's.
"""

KINDS = (
    "", "CONNECT", "CONNACK", "PUBLISH", "PUBACK", "PUBREC", "PUBREL", "PUBCOMP", "SUBSCRIBE",
    "SUBACK", "UNSUBSCRIBE", "UNSUBACK", "PINGREQ", "PINGRESP", "DISCONNECT", "AUTH",
)  # fmt: skip
# Flags of the fixed header; PUBLISH has its own, all others have 0.
_FLAGS = {"PUBREL": 2, "SUBSCRIBE": 2, "UNSUBSCRIBE": 2}
_ACKS = ("PUBACK", "PUBREC", "PUBREL", "PUBCOMP")
_ID_ALONE = _ACKS + ("UNSUBACK",)
_BARE = ("PINGREQ", "PINGRESP", "DISCONNECT")
_NAMES = {3: b"MQIsdp", 4: b"MQTT", 5: b"MQTT"}

MALFORMED, PROTOCOL_ERROR, ALIAS_INVALID = 0x81, 0x82, 0x94

# Where a property may stand: its packet's letter here, or "W" for the will.
_LETTERS = {
    "CONNECT": "C", "CONNACK": "K", "PUBLISH": "P", "PUBACK": "A", "PUBREC": "A", "PUBREL": "A",
    "PUBCOMP": "A", "SUBSCRIBE": "S", "SUBACK": "T", "UNSUBSCRIBE": "U", "UNSUBACK": "V",
    "DISCONNECT": "D", "AUTH": "H",
}  # fmt: skip
# number: (kind of its value, where); table 2-4 of the standard. "flag": a byte that is 0 or 1; "+":
# not 0; "*": may stand there repeatedly
PROPERTIES = {
    0x01: ("flag", "PW"),  # payload format indicator
    0x02: ("u32", "PW"),  # message expiry interval
    0x03: ("text", "PW"),  # content type
    0x08: ("text", "PW"),  # response topic
    0x09: ("binary", "PW"),  # correlation data
    0x0B: ("variable+*", "PS"),  # subscription identifier
    0x11: ("u32", "CKD"),  # session expiry interval
    0x12: ("text", "K"),  # assigned client identifier
    0x13: ("u16", "K"),  # server keep alive
    0x15: ("text", "CKH"),  # authentication method
    0x16: ("binary", "CKH"),  # authentication data
    0x17: ("flag", "C"),  # request problem information
    0x18: ("u32", "W"),  # will delay interval
    0x19: ("flag", "C"),  # request response information
    0x1A: ("text", "K"),  # response information
    0x1C: ("text", "KD"),  # server reference
    0x1F: ("text", "KATVDH"),  # reason string
    0x21: ("u16+", "CK"),  # receive maximum
    0x22: ("u16", "CK"),  # topic alias maximum
    0x23: ("u16+", "P"),  # topic alias
    0x24: ("flag", "K"),  # maximum QoS
    0x25: ("flag", "K"),  # retain available
    0x26: ("pair*", "CKPWASTUVDH"),  # user property
    0x27: ("u32+", "CK"),  # maximum packet size
    0x28: ("flag", "K"),  # wildcard subscription available
    0x29: ("flag", "K"),  # subscription identifiers available
    0x2A: ("flag", "K"),  # shared subscription available
}
_BYTES = {"flag": 1, "u16": 2, "u32": 4}
# Reason codes that a packet may have at level 5
_OF_PUBACK = b"\x00\x10\x80\x83\x87\x90\x91\x97\x99"
_OF_PUBREL = b"\x00\x92"
_CODES = {
    "CONNACK": b"\x00\x80\x81\x82\x83\x84\x85\x86\x87\x88\x89\x8a\x8c\x90\x95\x97\x99\x9a\x9b\x9c"
    b"\x9d\x9f",
    "PUBACK": _OF_PUBACK,
    "PUBREC": _OF_PUBACK,
    "PUBREL": _OF_PUBREL,
    "PUBCOMP": _OF_PUBREL,
    "SUBACK": b"\x00\x01\x02\x80\x83\x87\x8f\x91\x97\x9e\xa1\xa2",
    "UNSUBACK": b"\x00\x11\x80\x83\x87\x8f\x91",
    "DISCONNECT": b"\x00\x04\x80\x81\x82\x83\x87\x89\x8b\x8d\x8e\x8f\x90\x93\x94\x95\x96\x97\x98"
    b"\x99\x9a\x9b\x9c\x9d\x9e\x9f\xa0\xa1\xa2",
    "AUTH": b"\x00\x18\x19",
}


class Malformed(ValueError):
    """What MQTT does not allow. code: the reason code of the DISCONNECT that says so at level 5."""

    def __init__(self, why, code=MALFORMED):
        super().__init__(why)
        self.code = code


def u16(value):
    return bytes([value // 256, value % 256])


def text(data):
    return u16(len(data)) + data


def variable(value):
    """A variable byte integer (1.5.5 of 5.0): 7 bits per byte, lowest first."""
    found = []
    while True:
        found.append(value % 128 + (128 if value >= 128 else 0))
        value //= 128
        if not value:
            return bytes(found)


def frame(first, body):
    """Returns the first byte, the remaining length, and the body."""
    return bytes([first]) + variable(len(body)) + body


# --- Encode ---


def encode(kind, level=4, **fields):
    """Returns the packet. Fields as decode() returns them; those left out are 0, False or empty."""
    first = KINDS.index(kind) * 16 + _FLAGS.get(kind, 0)
    if kind == "PUBLISH":
        return _encode_publish(first, level, **fields)
    if kind == "CONNECT":
        return frame(first, _connect_body(level=level, **fields))
    if kind == "CONNACK":
        body = bytes([fields.get("session_present", 0), fields.get("code", 0)])
        return frame(first, body + _properties_at(level, fields))
    if level == 5 and kind in ("DISCONNECT", "AUTH"):
        return frame(first, _code_body(fields))
    body = b"" if kind in _BARE else u16(fields["packet_id"])
    if level == 5 and kind in _ACKS:
        return frame(first, body + _code_body(fields))
    return frame(first, body + _list_body(kind, level, fields))


def _properties_at(level, fields):
    return encode_properties(fields.get("properties", ())) if level == 5 else b""


def _code_body(fields):
    """A reason code and properties, of which the end is left out when it says nothing."""
    properties, code = fields.get("properties", ()), fields.get("code", 0)
    if properties:
        return bytes([code]) + encode_properties(properties)
    return bytes([code]) if code else b""


def _list_body(kind, level, fields):
    body = _properties_at(level, fields) if kind in _LETTERS else b""
    if kind == "SUBSCRIBE":
        body += b"".join(
            [text(topic_filter) + bytes([qos]) for topic_filter, qos in fields["filters"]]
        )
    elif kind == "UNSUBSCRIBE":
        body += b"".join([text(topic_filter) for topic_filter in fields["filters"]])
    elif kind == "SUBACK" or (kind == "UNSUBACK" and level == 5):
        body += bytes(fields["codes"])
    return body


def _encode_publish(
    first, level, topic, payload=b"", qos=0, packet_id=0, dup=False, retain=False, properties=()
):
    first += (8 if dup else 0) + qos * 2 + (1 if retain else 0)
    body = text(topic) + (u16(packet_id) if qos else b"")
    if level == 5:
        body += encode_properties(properties)
    return frame(first, body + payload)


def _connect_body(
    client_id, keep_alive=0, clean=False, will=None, user=None, password=None, name=None, level=4,
    properties=(), will_properties=(),
):  # fmt: skip
    """will: (topic, message, qos, retain)."""
    flags, fields = (2 if clean else 0), text(client_id)
    if will is not None:
        flags += 4 + will[2] * 8 + (32 if will[3] else 0)
        fields += encode_properties(will_properties) if level == 5 else b""
        fields += text(will[0]) + text(will[1])
    if user is not None:
        flags += 128
        fields += text(user)
    if password is not None:
        flags += 64
        fields += text(password)
    head = text(_NAMES[level] if name is None else name) + bytes([level, flags]) + u16(keep_alive)
    return head + (encode_properties(properties) if level == 5 else b"") + fields


def encode_properties(properties):
    """Returns their length and the properties, [(number, value)]."""
    body = b""
    for number, value in properties:
        body += bytes([number]) + _value(PROPERTIES[number][0].rstrip("+*"), value)
    return variable(len(body)) + body


def _value(kind, value):
    if kind in _BYTES:
        return value.to_bytes(_BYTES[kind], "big")
    if kind == "variable":
        return variable(value)
    return text(value[0]) + text(value[1]) if kind == "pair" else text(value)


# --- Decode ---


class Cursor:
    """Takes fields off the front of a body."""

    def __init__(self, body, level=4):
        self.body, self.level = body, level

    def take(self, count):
        if count > len(self.body):
            raise Malformed("a field ends after the packet")
        found, self.body = self.body[:count], self.body[count:]
        return found

    def number(self):
        high, low = self.take(2)
        return high * 256 + low

    def packet_id(self):
        found = self.number()
        if not found:
            raise Malformed("packet identifier 0", PROTOCOL_ERROR)
        return found

    def binary(self):
        return self.take(self.number())

    def string(self):
        found = self.binary()
        if not is_topic(found):
            raise Malformed("no UTF-8, or with NUL")
        return found

    def variable(self):
        found = shift = 0
        while True:
            byte = self.take(1)[0]
            found += byte % 128 << shift
            shift += 7
            if byte < 128:
                break
            if shift == 28:
                raise Malformed("a variable byte integer of more than four bytes")
        if not byte and shift > 7:
            raise Malformed("a variable byte integer with more bytes than it needs")
        return found

    def properties(self, where):
        """Returns [(number, value)]. where: the letter of _LETTERS, or "W"."""
        if self.level != 5:
            return []
        rest, found = Cursor(self.take(self.variable()), 5), []
        while rest.body:
            number = rest.variable()
            kind, places = PROPERTIES.get(number, ("", ""))
            if where not in places:
                raise Malformed("property 0x%02x in this packet" % number, PROTOCOL_ERROR)
            if not kind.endswith("*") and value_of(found, number) is not None:
                raise Malformed("property 0x%02x twice" % number, PROTOCOL_ERROR)
            found.append((number, rest.value(number, kind)))
        return found

    def value(self, number, kind):
        found = self._plain(kind.rstrip("+*"))
        if ("+" in kind and not found) or (kind == "flag" and found > 1):
            code = ALIAS_INVALID if number == 0x23 else PROTOCOL_ERROR
            raise Malformed("property 0x%02x is %d" % (number, found), code)
        if number == 0x08 and not is_name(found):
            raise Malformed("response topic with a wildcard", PROTOCOL_ERROR)
        return found

    def _plain(self, kind):
        if kind in _BYTES:
            return int.from_bytes(self.take(_BYTES[kind]), "big")
        if kind == "pair":
            name = self.string()
            return name, self.string()
        if kind == "variable":
            return self.variable()
        return self.string() if kind == "text" else self.binary()


def value_of(properties, number, default=None):
    """Returns the value of the first property with that number."""
    for one, value in properties:
        if one == number:
            return value
    return default


def is_topic(data):
    """True when data is well-formed and without NUL: each code point is decoded and encoded again,
    which reproduces only the shortest form.
    """
    at = 0
    while at < len(data):
        first = data[at]
        count = (
            1 if first < 0x80 else 2 if 0xC0 <= first < 0xE0 else 3 if 0xE0 <= first < 0xF0 else 4
        )
        rest = data[at + 1 : at + count]
        if first == 0 or 0x80 <= first < 0xC0 or first >= 0xF8 or len(rest) != count - 1:
            return False
        code = first if count == 1 else first & (0x3F >> (count - 1))
        for byte in rest:
            if byte // 64 != 2:
                return False
            code = code * 64 + byte % 64
        if (
            0xD800 <= code <= 0xDFFF
            or code > 0x10FFFF
            or count != 1 + (code > 0x7F) + (code > 0x7FF) + (code > 0xFFFF)
        ):
            return False
        at += count
    return True


def is_name(topic):
    """True when it is a topic name: not empty, and without wildcards."""
    return len(topic) > 0 and b"#" not in topic and b"+" not in topic


def take_frame(data, level=4):
    """(first byte, body, rest of data) of the first packet, unchecked; None while it is not whole.
    Raises Malformed.
    """
    length, size = 0, 1
    while True:
        if size >= len(data):
            return None
        byte = data[size]
        length += byte % 128 * 128 ** (size - 1)
        size += 1
        if byte < 128:
            break
        if size == 5:
            raise Malformed("a remaining length of more than four bytes")
    if level == 5 and size > 2 and not byte:
        raise Malformed("a remaining length with more bytes than it needs")
    length += size
    return (data[0], data[size:length], data[length:]) if len(data) >= length else None


def decode(data, level=4):
    """(kind, fields, rest of data) of the first packet; None while it is not whole. Raises
    Malformed. level: of the connection; 5 before CONNECT, which is then taken at any level.
    """
    found = take_frame(data, level)
    if found is None:
        return None
    kind, fields = _decode_whole(found[0], found[1], level)
    return kind, fields, found[2]


def _decode_whole(first, body, level):
    if not 1 <= first // 16 <= (15 if level == 5 else 14):
        raise Malformed("reserved type %d" % (first // 16))
    kind, flags, cursor = KINDS[first // 16], first % 16, Cursor(body, level)
    if kind == "PUBLISH":
        return kind, _decode_publish(flags, cursor)
    if flags != _FLAGS.get(kind, 0):
        raise Malformed("flags %d of %s" % (flags, kind))
    fields = _decode_body(kind, cursor)
    if cursor.body:
        raise Malformed("%d bytes too many in %s" % (len(cursor.body), kind))
    return kind, fields


def _decode_body(kind, cursor):
    fields = {}
    if kind == "CONNECT":
        fields = _decode_connect(cursor)
    elif kind == "CONNACK":
        fields = _decode_connack(cursor)
    elif cursor.level == 5 and kind in ("DISCONNECT", "AUTH"):
        _decode_code(kind, fields, cursor)
    elif kind not in _BARE:
        _decode_with_id(kind, fields, cursor)
    return fields


def _decode_with_id(kind, fields, cursor):
    fields["packet_id"] = cursor.packet_id()
    if cursor.level == 5 and kind in _ACKS:
        _decode_code(kind, fields, cursor)
        return
    if cursor.level == 5:
        fields["properties"] = cursor.properties(_LETTERS[kind])
    if kind in _ID_ALONE and (kind != "UNSUBACK" or cursor.level != 5):
        return
    _decode_list(kind, fields, cursor)


def _decode_code(kind, fields, cursor):
    """The reason code and the properties, each of which may be left out (3.4.2, 3.14.2)."""
    fields["code"] = cursor.take(1)[0] if cursor.body else 0
    if fields["code"] not in _CODES[kind]:
        raise Malformed("reason code 0x%02x of %s" % (fields["code"], kind))
    fields["properties"] = cursor.properties(_LETTERS[kind]) if cursor.body else []


def _decode_connack(cursor):
    present, code = cursor.take(2)
    is_known = code in _CODES["CONNACK"] if cursor.level == 5 else code <= 5
    if present > 1 or not is_known or (code and present):
        raise Malformed("CONNACK flags %d code %d" % (present, code))
    fields = {"session_present": present, "code": code}
    if cursor.level == 5:
        fields["properties"] = cursor.properties("K")
    return fields


def _decode_list(kind, fields, cursor):
    """The payload of SUBSCRIBE, UNSUBSCRIBE, SUBACK and UNSUBACK: at least one entry."""
    found, is_codes = [], kind in ("SUBACK", "UNSUBACK")
    if not cursor.body and cursor.level == 5:
        raise Malformed("%s without an entry" % kind, PROTOCOL_ERROR)
    while cursor.body or not found:
        if is_codes:
            found.append(_list_code(kind, cursor))
            continue
        entry = cursor.string()
        if not is_filter(entry):
            raise Malformed("topic filter")
        if kind == "SUBSCRIBE":
            entry = (entry, _subscription(entry, cursor))
        found.append(entry)
    fields["codes" if is_codes else "filters"] = found


def _list_code(kind, cursor):
    code = cursor.take(1)[0]
    if code not in (_CODES[kind] if cursor.level == 5 else (0, 1, 2, 128)):
        raise Malformed("%s code %d" % (kind, code))
    return code


def _subscription(topic_filter, cursor):
    """The requested QoS; at level 5 all options (3.8.3.1)."""
    found = cursor.take(1)[0]
    most = 0x2E if cursor.level == 5 else 2
    if found > most or found % 4 == 3:
        raise Malformed("requested QoS %d" % found if most == 2 else "options 0x%02x" % found)
    if found & 4 and topic_filter.startswith(b"$share/"):
        raise Malformed("no local, of a shared subscription", PROTOCOL_ERROR)
    return found


def is_filter(data):
    """True when each wildcard fills its level and # is the last level (4.7.1)."""
    levels = data.split(b"/")
    for number, level in enumerate(levels):
        if (len(level) > 1 and (b"+" in level or b"#" in level)) or (
            level == b"#" and number + 1 < len(levels)
        ):
            return False
    return len(data) > 0


def matches(topic_filter, topic):
    """Topic matching (4.7); no wildcard at the start matches a topic that begins with $."""
    if topic_filter == topic:
        return True
    if topic[:1] == b"$" and topic_filter[:1] in (b"#", b"+"):
        return False
    want, have = topic_filter.split(b"/"), topic.split(b"/")
    for number, level in enumerate(want):
        if level == b"#":
            return True
        if number >= len(have) or level not in (b"+", have[number]):
            return False
    return len(want) == len(have)


def _decode_publish(flags, cursor):
    fields = {
        "qos": flags // 2 % 4,
        "dup": flags >= 8,
        "retain": flags % 2 == 1,
        "topic": cursor.string(),
    }
    if fields["qos"] == 3 or (not fields["qos"] and fields["dup"]):
        raise Malformed("PUBLISH flags %d" % flags)
    if (fields["topic"] or cursor.level != 5) and not is_name(fields["topic"]):
        raise Malformed("topic name")
    fields["packet_id"] = cursor.packet_id() if fields["qos"] else 0
    if cursor.level == 5:
        fields["properties"] = cursor.properties("P")
        if not fields["topic"] and not value_of(fields["properties"], 0x23):
            raise Malformed("neither topic nor alias", PROTOCOL_ERROR)
    fields["payload"], cursor.body = cursor.body, b""
    return fields


def _decode_connect(cursor):
    fields = {"name": cursor.string(), "will": None, "user": None, "password": None}
    fields["level"], flags = cursor.take(2)
    is_new = fields["level"] == 5 and cursor.level == 5
    if fields["level"] not in ((3, 4, 5) if is_new else (3, 4)) or (
        fields["name"] != _NAMES[fields["level"]]
    ):
        raise Malformed("protocol %r level %d" % (fields["name"], fields["level"]), 0x84)
    if (
        flags % 2
        or (not flags & 4 and flags & 0x38)
        or flags & 0x18 == 0x18
        or (flags & 0x40 and not flags & 0x80 and not is_new)
    ):
        raise Malformed("CONNECT flags %d" % flags)
    cursor.level = fields["level"]
    fields["keep_alive"], fields["clean"] = cursor.number(), flags & 2 > 0
    if is_new:
        fields["properties"] = cursor.properties("C")
        if value_of(fields["properties"], 0x16) is not None and (
            value_of(fields["properties"], 0x15) is None
        ):
            raise Malformed("authentication data without a method", PROTOCOL_ERROR)
    fields["client_id"] = cursor.string()
    if not fields["client_id"] and not fields["clean"] and not is_new:
        raise Malformed("a session without a client identifier")
    _decode_end_of_connect(fields, flags, cursor)
    return fields


def _decode_end_of_connect(fields, flags, cursor):
    if flags & 4:
        if cursor.level == 5:
            fields["will_properties"] = cursor.properties("W")
        topic = cursor.string()
        if not is_name(topic):
            raise Malformed("will topic")
        fields["will"] = (topic, cursor.binary(), flags // 8 % 4, flags & 0x20 > 0)
    if flags & 0x80:
        fields["user"] = cursor.string()
    if flags & 0x40:
        fields["password"] = cursor.binary()


def decode_all(data, level=4):
    """Returns [(kind, fields)] of whole packets. Raises Malformed, also when the last packet is cut
    off."""
    found = []
    while data:
        step = decode(data, level)
        if step is None:
            raise Malformed("the last packet is not whole")
        found.append(step[:2])
        data = step[2]
    return found
