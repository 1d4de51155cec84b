"""The server's side of MQTT 3.1.1, written from the standard and without a line of the firmware: a
codec of all 14 control packets, and under CPython a server on a real socket that follows a script,
faults included.

encode() takes and decode() returns (kind, fields), where fields is a dict of bytes, integers and
lists. decode() is strict, as a server must be: what a client may not send raises Malformed. Runs
under both Pythons; the sockets are for CPython only.
"""

KINDS = (
    "", "CONNECT", "CONNACK", "PUBLISH", "PUBACK", "PUBREC", "PUBREL", "PUBCOMP", "SUBSCRIBE",
    "SUBACK", "UNSUBSCRIBE", "UNSUBACK", "PINGREQ", "PINGRESP", "DISCONNECT",
)  # fmt: skip
# Flags of the fixed header; PUBLISH has its own, all others have 0.
_FLAGS = {"PUBREL": 2, "SUBSCRIBE": 2, "UNSUBSCRIBE": 2}
_ID_ALONE = ("PUBACK", "PUBREC", "PUBREL", "PUBCOMP", "UNSUBACK")
_BARE = ("PINGREQ", "PINGRESP", "DISCONNECT")


class Malformed(ValueError):
    """What MQTT 3.1.1 does not allow."""


def u16(value):
    return bytes([value // 256, value % 256])


def text(data):
    return u16(len(data)) + data


def frame(first, body):
    """Returns the first byte, the remaining length, and the body."""
    head, length = [first], len(body)
    while True:
        head.append(length % 128 + (128 if length >= 128 else 0))
        length //= 128
        if not length:
            return bytes(head) + body


# --- Encode ---


def encode(kind, **fields):
    """Returns the packet. Fields as decode() returns them; those left out are 0, False or empty."""
    first = KINDS.index(kind) * 16 + _FLAGS.get(kind, 0)
    if kind == "PUBLISH":
        return _encode_publish(first, **fields)
    if kind == "CONNECT":
        return frame(first, _connect_body(**fields))
    if kind == "CONNACK":
        return frame(first, bytes([fields.get("session_present", 0), fields.get("code", 0)]))
    body = b"" if kind in _BARE else u16(fields["packet_id"])
    if kind == "SUBSCRIBE":
        body += b"".join(
            [text(topic_filter) + bytes([qos]) for topic_filter, qos in fields["filters"]]
        )
    elif kind == "UNSUBSCRIBE":
        body += b"".join([text(topic_filter) for topic_filter in fields["filters"]])
    elif kind == "SUBACK":
        body += bytes(fields["codes"])
    return frame(first, body)


def _encode_publish(first, topic, payload=b"", qos=0, packet_id=0, dup=False, retain=False):
    first += (8 if dup else 0) + qos * 2 + (1 if retain else 0)
    return frame(first, text(topic) + (u16(packet_id) if qos else b"") + payload)


def _connect_body(
    client_id, keep_alive=0, clean=False, will=None, user=None, password=None, name=b"MQTT", level=4
):
    """will: (topic, message, qos, retain)."""
    flags, fields = (2 if clean else 0), text(client_id)
    if will is not None:
        flags += 4 + will[2] * 8 + (32 if will[3] else 0)
        fields += text(will[0]) + text(will[1])
    if user is not None:
        flags += 128
        fields += text(user)
    if password is not None:
        flags += 64
        fields += text(password)
    return text(name) + bytes([level, flags]) + u16(keep_alive) + fields


# --- Decode ---


class _Cursor:
    """Takes fields off the front of a body."""

    def __init__(self, body):
        self.body = body

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
            raise Malformed("packet identifier 0")
        return found

    def binary(self):
        return self.take(self.number())

    def string(self):
        found = self.binary()
        if not is_topic(found):
            raise Malformed("no UTF-8, or with NUL")
        return found


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


def decode(data):
    """(kind, fields, rest of data) of the first packet; None while it is not whole. Raises
    Malformed.
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
    if len(data) < size + length:
        return None
    kind, fields = _decode_whole(data[0], data[size : size + length])
    return kind, fields, data[size + length :]


def _decode_whole(first, body):
    if not 1 <= first // 16 <= 14:
        raise Malformed("reserved type %d" % (first // 16))
    kind, flags, cursor = KINDS[first // 16], first % 16, _Cursor(body)
    if kind == "PUBLISH":
        return kind, _decode_publish(flags, cursor)
    if flags != _FLAGS.get(kind, 0):
        raise Malformed("flags %d of %s" % (flags, kind))
    fields = {}
    if kind == "CONNECT":
        fields = _decode_connect(cursor)
    elif kind == "CONNACK":
        fields = _decode_connack(cursor)
    elif kind not in _BARE:
        fields["packet_id"] = cursor.packet_id()
        _decode_list(kind, fields, cursor)
    if cursor.body:
        raise Malformed("%d bytes too many in %s" % (len(cursor.body), kind))
    return kind, fields


def _decode_connack(cursor):
    present, code = cursor.take(2)
    if present > 1 or code > 5 or (code and present):
        raise Malformed("CONNACK flags %d code %d" % (present, code))
    return {"session_present": present, "code": code}


def _decode_list(kind, fields, cursor):
    """The payload of SUBSCRIBE, UNSUBSCRIBE and SUBACK: at least one entry."""
    if kind in _ID_ALONE:
        return
    found = []
    while cursor.body or not found:
        if kind == "SUBACK":
            found.append(cursor.take(1)[0])
            if found[-1] not in (0, 1, 2, 128):
                raise Malformed("SUBACK code %d" % found[-1])
            continue
        entry = cursor.string()
        if not is_filter(entry):
            raise Malformed("topic filter")
        if kind == "SUBSCRIBE":
            entry = (entry, cursor.take(1)[0])
            if entry[1] > 2:
                raise Malformed("requested QoS %d" % entry[1])
        found.append(entry)
    fields["codes" if kind == "SUBACK" else "filters"] = found


def is_filter(data):
    """True when each wildcard fills its level and # is the last level (4.7.1)."""
    levels = data.split(b"/")
    for number, level in enumerate(levels):
        if (len(level) > 1 and (b"+" in level or b"#" in level)) or (
            level == b"#" and number + 1 < len(levels)
        ):
            return False
    return len(data) > 0


def _decode_publish(flags, cursor):
    fields = {
        "qos": flags // 2 % 4,
        "dup": flags >= 8,
        "retain": flags % 2 == 1,
        "topic": cursor.string(),
    }
    if fields["qos"] == 3 or (not fields["qos"] and fields["dup"]):
        raise Malformed("PUBLISH flags %d" % flags)
    if not fields["topic"] or b"#" in fields["topic"] or b"+" in fields["topic"]:
        raise Malformed("topic name")
    fields["packet_id"] = cursor.packet_id() if fields["qos"] else 0
    fields["payload"], cursor.body = cursor.body, b""
    return fields


def _decode_connect(cursor):
    fields = {"name": cursor.string(), "will": None, "user": None, "password": None}
    fields["level"], flags = cursor.take(2)
    if (fields["name"], fields["level"]) not in ((b"MQTT", 4), (b"MQIsdp", 3)):
        raise Malformed("protocol %r level %d" % (fields["name"], fields["level"]))
    if (
        flags % 2
        or (not flags & 4 and flags & 0x38)
        or flags & 0x18 == 0x18
        or (flags & 0x40 and not flags & 0x80)
    ):
        raise Malformed("CONNECT flags %d" % flags)
    fields["keep_alive"], fields["clean"] = cursor.number(), flags & 2 > 0
    fields["client_id"] = cursor.string()
    if not fields["client_id"] and not fields["clean"]:
        raise Malformed("a session without a client identifier")
    if flags & 4:
        topic = cursor.string()
        if not topic or b"#" in topic or b"+" in topic:
            raise Malformed("will topic")
        fields["will"] = (topic, cursor.binary(), flags // 8 % 4, flags & 0x20 > 0)
    if flags & 0x80:
        fields["user"] = cursor.string()
    if flags & 0x40:
        fields["password"] = cursor.binary()
    return fields


def decode_all(data):
    """Returns [(kind, fields)] of whole packets. Raises Malformed, also when the last packet is cut
    off."""
    found = []
    while data:
        step = decode(data)
        if step is None:
            raise Malformed("the last packet is not whole")
        found.append(step[:2])
        data = step[2]
    return found


def answer(kind, fields):
    """Returns the answer of an ordinary server, in bytes; the session is always present."""
    if kind == "CONNECT":
        return encode("CONNACK", session_present=0 if fields["clean"] else 1)
    if kind == "PUBLISH" and fields["qos"]:
        return encode("PUBACK" if fields["qos"] == 1 else "PUBREC", packet_id=fields["packet_id"])
    if kind == "SUBSCRIBE":
        return encode(
            "SUBACK", packet_id=fields["packet_id"], codes=[qos for _, qos in fields["filters"]]
        )
    if kind in ("PUBREC", "PUBREL", "UNSUBSCRIBE"):
        other = {"PUBREC": "PUBREL", "PUBREL": "PUBCOMP", "UNSUBSCRIBE": "UNSUBACK"}[kind]
        return encode(other, packet_id=fields["packet_id"])
    return encode("PINGRESP") if kind == "PINGREQ" else b""


# --- A server on a real socket (CPython) ---

try:
    import select
    import socket
    import struct
    import threading
    import time
except ImportError:  # MicroPython has no threading: the codec is all that runs there
    threading = None


class Gone(Exception):
    """The client has closed the connection, or sent nothing in time."""


class Connection:
    """One client's connection, as a script sees it."""

    def __init__(self, sock, server, number):
        self.socket, self.server, self.number = sock, server, number
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._data = b""

    def receive(self, timeout_s=60):
        """Returns the next packet, (kind, fields), and adds it to server.seen. Raises Gone."""
        self.socket.settimeout(timeout_s)
        while True:
            step = decode(self._data)
            if step is not None:
                self._data = step[2]
                self.server.seen.append((self.number, step[0], step[1]))
                return step[:2]
            try:
                chunk = self.socket.recv(4096)
            except OSError as error:
                raise Gone(str(error)) from error
            if not chunk:
                raise Gone("closed")
            self._data += chunk

    def expect(self, kind):
        found, fields = self.receive()
        if found != kind:
            raise AssertionError("expected %s, got %s %r" % (kind, found, fields))
        return fields

    def send(self, data):
        try:
            self.socket.sendall(data)
        except OSError as error:
            raise Gone(str(error)) from error

    def send_byte_by_byte(self, data, pause_s=0.001):
        """Send one segment per byte: Nagle is off, and the pause lets the previous one leave."""
        for i in range(len(data)):
            self.send(data[i : i + 1])
            time.sleep(pause_s)

    def accept(self, session_present=0):
        """Expect CONNECT, and answer with CONNACK."""
        fields = self.expect("CONNECT")
        self.send(encode("CONNACK", session_present=session_present))
        return fields

    def serve(self):
        """Act as an ordinary server until the client closes."""
        while True:
            self.send(answer(*self.receive()))

    def say_no_more(self):
        """Send FIN, and continue reading."""
        self.socket.shutdown(socket.SHUT_WR)

    def reset(self):
        """Send RST: what is in transit is lost."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def wait_for_end(self, timeout_s=60):
        """Read and discard until the client closes. Raises AssertionError if it does not."""
        self.socket.settimeout(timeout_s)
        try:
            while self.socket.recv(65536):
                pass
        except TimeoutError:
            raise AssertionError("the client did not close the connection in %s s" % timeout_s)
        except OSError:
            pass  # closed the hard way


class ScriptedServer:
    """`with ScriptedServer(script, script, ...) as server`: connection n runs scripts[n], later
    ones the last script.

    A script is a function of a Connection. When it returns, the connection is closed; Gone ends it.
    Other exceptions are added to `faults`. `seen`: (connection, kind, fields) of each packet
    received.
    """

    def __init__(self, *scripts, receive_bytes=0):
        self.scripts = scripts
        self.seen, self.faults = [], []
        self.connections = 0
        self._listener = socket.socket()
        if receive_bytes:
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen()
        self.port = self._listener.getsockname()[1]
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._is_stopping = True
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()  # wakes accept()
        except OSError:
            pass
        self._listener.close()
        self._thread.join(120)

    def _run(self):
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            if self._is_stopping:
                sock.close()
                return
            self._follow(sock)

    def _follow(self, sock):
        script = self.scripts[min(self.connections, len(self.scripts) - 1)]
        self.connections += 1
        try:
            script(Connection(sock, self, self.connections - 1))
        except Gone:
            pass
        except Exception as error:  # it must reach the test, whatever it is
            self.faults.append(repr(error))
        finally:
            sock.close()

    def wait_for_next(self, timeout_s=60):
        """Wait until the next connection waits for its turn."""
        select.select([self._listener], [], [], timeout_s)

    def kinds(self, connection):
        """Returns the kinds of packets received on that connection."""
        return [kind for number, kind, _ in self.seen if number == connection]

    def published(self, connection):
        """Returns [(packet identifier, dup, payload)] received on that connection."""
        found = [
            fields
            for number, kind, fields in self.seen
            if number == connection and kind == "PUBLISH"
        ]
        return [(fields["packet_id"], fields["dup"], fields["payload"]) for fields in found]
