"""The part of MQTT 5.0 that every session needs: a mixin that `level5.over()` puts in front of the
session's class.

It turns each inbound packet into its MQTT 3.1.1 equivalent, and gives each PUBLISH its properties.
So the classes of 3.1.1 stay as they are, and boards that speak it do not pay.
`level5_subscribing.py` has what subscribing needs in addition, and `level5_setup.py` what is needed
once.

What the server refuses, and what happens to it:
    at publish(), by CONNACK's limits   a status; if stored before: set aside, never sent
    PUBACK or PUBREC, permanent         set aside (`suspects.py`)
    any other failure                   sent again, as a new exchange, after 1 s doubled up to 64 s
    0x10, nobody has subscribed         acknowledged; kept and sent again with keep_unmatched
    DISCONNECT                          a status; `reason` and `server` say more

Must not know a stream or a clock. Allocation: construction, CONNACK, DISCONNECT; a message that is
set aside.
"""
# pyright: reportAttributeAccessIssue=false

from micropython import const

from outpost import packets
from outpost.level5_refusals import Refusals
from outpost.memory import copy, put_publish, unload
from outpost.properties import TABLE, check, number, number_end, room, value_end

_OK = const(0)
_TOO_BIG = const(-2)
_BUSY = const(-3)
_OFFLINE = const(-4)
_BAD_QOS = const(-8)
_BAD_RETAIN = const(-14)
_PROTOCOL_ERROR = const(-20)
_LINK_LOST = const(-23)
_TAKEN_OVER = const(-26)
_SERVER_LEFT = const(-28)
_MOVED = const(-29)
_CONNECTED = const(2)
_IDS = const(65535)
_IN_CONNACK = const(16)
_IN_ACK = const(32)
_IN_DISCONNECT = const(64)
_PROPERTIES_AT = const(4)  # in _extra: room for the identifier and two bytes of length before it
_ALIAS_BYTES = const(3)
_NO_LIMIT = const(0xFFFFFFF)
_UNMATCHED = const(0x10)
_FIRSTS = b"\x20\x40\x50\x62\x70\x90\xb0\xd0\xe0\xf0"  # known packet types other than PUBLISH
# Reason codes:
_OF_PUBACK = b"\x00\x10\x80\x83\x87\x90\x91\x97\x99"
_OF_PUBREL = b"\x00\x92"
_FOR_GOOD = b"\x83\x87\x90\x95\x99\x9a\x9b"  # these refuse one message permanently
_COME_LATER = b"\x88\x89\x8b\x8e\x97\x9c\x9d\x9f"  # of DISCONNECT: the next attempts wait longer


class Level5(Refusals):
    """Options in addition to those of the session: see `level5_setup.py`.

    server: properties of the last CONNACK or DISCONNECT, by number: integers, or bytes. reason: the
    last reason code that was not 0. farewell: the DISCONNECT that close() sends; `disconnect()` in
    `level5_setup.py` encodes others. on_refused: called with the number of a message and the reason
    code that refused it.
    """

    # Class attributes, because they rarely change, and fewer fields are found faster.
    _fault = 0  # reason code of the DISCONNECT that ends this connection
    _is_said = False  # that DISCONNECT was started
    _left = 0  # reason code of the server's DISCONNECT
    farewell = b"\xe0\x00"
    on_refused = None

    def __init__(self, outbox, client_id, *words, **options):
        from outpost import level5_setup as setup

        own = setup.take_options(self, options)
        client_id = setup.remembered(client_id, own["id_file"])
        self._base.__init__(self, outbox, client_id or b"-", *words, **options)
        setup.widen(self)
        Refusals.__init__(self, own["keep_unmatched"])
        self.server, self.assigned_id = {}, b""
        self._why = 0  # reason code of the fault that a hook reports as PROTOCOL_ERROR
        self._constant = setup.constant(own)
        self.id_file, self.expiry = own["id_file"], setup.expiry(self, own)
        self._inbound = setup.inbound(self, own["alias_maximum"])
        self._aliases = [bytes(topic) for topic in own["aliases"]]
        self._scratches = [bytearray(len(topic)) for topic in self._aliases]
        self._alias_most = self._known = 0  # the server's limit; bit n: it knows alias n
        most = len(self._constant) + (_ALIAS_BYTES if self._aliases else 0)
        self._extra = bytearray(_PROPERTIES_AT + most)  # what PUBLISH has before its payload
        self._extra_at = self._extra_end = self._topic_bytes = self._source_at = 0
        self._source = b""
        # of the remaining length of a PUBLISH, besides topic and payload
        self._overhead = 4 + most + (1 if most < 128 else 2)
        self.out = self.tx = bytearray(outbox.record_bytes + self._overhead + 5)
        self._most_bytes, self._barred = _NO_LIMIT, 0  # QoS and RETAIN bits that the server refuses
        self._store, self._append = outbox.append, self._append_within
        self._most_window, self._keep_alive_s = self.window, self.keep_alive_s
        self._is_always_clean = own["is_clean"]
        self.connect_packet = setup.connect(self, client_id, own)
        self._flags_at = setup.start_of(self.connect_packet) + 7
        unload("outpost.level5_setup")

    # --- Connection ---

    def open(self):
        self._fault = self._left = 0
        self._is_said = False
        if self.expiry:
            self.expiry.look(self.now_ms)
        self._base.open(self)

    def has_progress(self):
        """False also when the server asks to come later: the next attempt then waits longer."""
        return not (self._left and self._left in _COME_LATER) and self._base.has_progress(self)

    def lost(self, error):
        """If DISCONNECT names a message's fault, `suspects.py` finds out which message it is. The
        clocks are read here too, because without a network nothing else reads them."""
        if self.expiry:
            self.expiry.look(self.now_ms)
        if self._pause_ms >= 0:
            self._pauses()
        if error == _SERVER_LEFT and self._left in _FOR_GOOD:
            error = _LINK_LOST
        self._base.lost(self, error)

    def leave(self):
        if self.state != _CONNECTED or self.out_end:
            return False
        self._start(self.farewell, len(self.farewell))
        return True

    def _on_connack(self):
        """CONNACK (3.2). A server of MQTT 3.1.1 sends a CONNACK of 3.1.1 that refuses. A session
        present after a clean start is a protocol error [MQTT-3.2.2-4]."""
        if self.length == 2 and self.buffer[1]:
            return self._base._on_connack(self)
        code = self.buffer[1]
        is_clean = self.connect_packet[self._flags_at] & 2
        if self.length > len(self.buffer) or 0 < code < 0x80 or (is_clean and self.buffer[0] & 1):
            return _PROTOCOL_ERROR
        if check(self.buffer, 2, self.length, _IN_CONNACK) != self.length:
            return _PROTOCOL_ERROR
        self._learn(2)
        self.length = 2
        if code:
            self.reason = code
            return self._base._on_connack(self)
        self._obey(self.server.get)
        code = self._base._on_connack(self)
        if not code and not self.session_present:
            # Nothing was ever sent in this session: no DUP [MQTT-3.2.2-5].
            self._exchanged = max(self._exchanged, self.high, self.maybe_sent)
            self.high = self.base
            if is_clean and self.highest_qos == 2:
                self._save()  # the note shows the next power-on that there is a session
        return code

    def _learn(self, at):
        """Copy the properties at buffer[at:], which check() has passed, into `server`."""
        buffer, known = self.buffer, {}
        end = number_end(buffer, at, self.length) + number(buffer, at)
        at = number_end(buffer, at, self.length)
        while at < end:
            kind = TABLE[2 * buffer[at]] & 7
            stop = value_end(buffer, at + 1, end, TABLE[2 * buffer[at]])
            if kind < 4:
                known[buffer[at]] = int.from_bytes(buffer[at + 1 : stop], "big")
            elif kind < 7:
                known[buffer[at]] = bytes(buffer[at + 3 : stop])
            at = stop
        self.server = known

    def _obey(self, get):
        """Apply the limits of CONNACK. get: that of `server`."""
        self.window = min(self._most_window, get(0x21, _IDS))
        if self.suspects:
            self.suspects.set_window(self.window)
        self._most_bytes = room(get(0x27, _NO_LIMIT)) - self._overhead
        self._barred = (6, 4, 0)[get(0x24, 2)] | (not get(0x25, 1))
        self.keep_alive_s = get(0x13, self._keep_alive_s)
        self._alias_most = min(get(0x22, 0), len(self._aliases))
        self._known = self._denied = 0
        if 0x12 in self.server:
            self._take_id(self.server[0x12])
        if not self._is_always_clean:
            self.connect_packet[self._flags_at] &= ~2

    def _take_id(self, client_id):
        """From now on, use the client id that the server chose."""
        from outpost.level5_setup import remember, with_id

        self.connect_packet, self.assigned_id = with_id(self.connect_packet, client_id), client_id
        remember(self.id_file, client_id)
        self._flags_at = number_end(self.connect_packet, 1, 5) + 7
        unload("outpost.level5_setup")

    # --- Publish ---

    def _append_within(self, topic, payload, length, flags):
        """Replaces the outbox's append(): a message that the server would refuse is not stored."""
        if self._barred:
            if flags >> 3 & 6 & self._barred:
                return _BAD_QOS
            if flags >> 6 & self._barred:
                return _BAD_RETAIN
        if len(topic) + length > self._most_bytes:
            return _TOO_BIG
        flags = self._store(topic, payload, length, flags)
        if self.expiry and not flags:
            self.expiry.stored(self.outbox.next_seq - 1, self.now_ms)
        return flags

    def _publish_now(self, topic, payload, length):
        if self.state != _CONNECTED:
            return _OFFLINE
        if self.out_end:
            return _BUSY
        if len(topic) + length > min(self.outbox.record_bytes, self._most_bytes):
            return _TOO_BIG
        if self._retain and self._barred & 1:
            return _BAD_RETAIN
        if self.expiry:
            self.expiry.renew()
        self._source, self._source_at = topic, 0
        self._compose(len(topic))
        topic = self._put_head(0x31 if self._retain else 0x30, length)
        length = copy(self.tx, topic, payload, 0, length)
        self._base._start(self, self.tx, length)
        if self.in_flight:
            self.in_flight.add(length)
        return _OK

    def _start_message(self):
        """The base composes PUBLISH as for 3.1.1, which has its flags and identifier."""
        if self._fault or (self._pause_ms >= 0 and self._pauses()):
            return False
        if not self._base._start_message(self):
            return False
        if self.out is self.tx and self.tx[0] >> 4 == 3:
            outbox = self.outbox
            length = outbox.topic_length + outbox.payload_length
            if self.tx[0] & self._barred or length > self._most_bytes:
                return self._withdraw(length > self._most_bytes)
            if self.expiry and self.expiry.is_over(self):
                return self._expire(self.next_send - 1)
            if self._anew:
                self._begin_anew(self.next_send - 1)
            self.out_end = self._finish()
        return True

    def _start(self, data, length):
        """A message of the shelf is sent through here, if this server accepts it."""
        if data is self.tx and data[0] >> 4 == 3:
            length = self.outbox.topic_length + self.outbox.payload_length
            if data[0] & self._barred or length > self._most_bytes:
                self.suspects.denies(self.suspects._packet_id)
                return
            if self.expiry:
                self.expiry.renew()
            length = self._finish()
        self._base._start(self, data, length)

    def _finish(self):
        """Turn the PUBLISH of 3.1.1 in `tx`, of the loaded message, into 5.0. Returns its size."""
        outbox = self.outbox
        at = 2
        while self.tx[at - 1] > 127:
            at += 1
        at += 2 + outbox.topic_length
        at = self.tx[at] << 8 | self.tx[at + 1]  # the identifier
        self._source, self._source_at = outbox.buffer, outbox.topic_at
        self._compose(outbox.topic_length)
        packets.put_u16(self._extra, self._extra_at, at)
        at = self._put_head(self.tx[0], outbox.payload_length)
        self._source_at += outbox.topic_length
        return copy(self.tx, at, self._source, self._source_at, outbox.payload_length)

    def _put_head(self, first, count):
        """PUBLISH up to its payload of `count` bytes. Returns the offset after it."""
        at = self._extra_at if first & 6 else self._extra_at + 2  # QoS 0 has no identifier
        count += self._extra_end - at
        count = put_publish(self.tx, first, self._source, self._source_at, self._topic_bytes, count)
        return copy(self.tx, count, self._extra, at, self._extra_end - at)

    def _compose(self, length):
        """Put the properties of PUBLISH into _extra, and into _topic_bytes how much of the topic
        goes with them. The topic is the `length` bytes of _source at _source_at."""
        extra, at = self._extra, _PROPERTIES_AT
        self._topic_bytes = length
        length = self._alias_of(length) if self._alias_most else 0
        if length:
            extra[at] = 0x23
            at = packets.put_u16(extra, at + 1, length)
            if self._known >> length & 1:
                self._topic_bytes = 0
            self._known |= 1 << length
        at = copy(extra, at, self._constant, 0, len(self._constant))
        self._extra_end = at
        at -= _PROPERTIES_AT
        extra[3] = at if at < 128 else at >> 7
        extra[2] = at & 127 | 128  # or the identifier's last byte, if the length takes one byte
        self._extra_at = 1 if at < 128 else 0

    def _alias_of(self, length):
        """Returns the topic's alias, 1 to _alias_most; 0: it has none."""
        place = 0
        while place < self._alias_most:
            scratch = self._scratches[place]
            if len(scratch) == length:
                copy(scratch, 0, self._source, self._source_at, length)
                if scratch == self._aliases[place]:
                    return place + 1
            place += 1
        return 0

    # --- Packets ---

    def _on_tick(self):
        if self._fault:
            return self._say_fault()
        if self._denied:
            self._resend_denied()
        return self._base._on_tick(self)

    def _on_packet(self, first):
        status = _PROTOCOL_ERROR
        self._why = 0
        if first == 0xE0:
            status = self._on_disconnect()
        elif 0x40 <= first < 0x80:
            status = self._on_ack(first)
        elif first != 0xF0:  # AUTH was not asked for
            status = self._base._on_packet(self, first)
        if status == _PROTOCOL_ERROR:
            return self._fail(self._why or (0x82 if first in _FIRSTS else 0x81))
        return status

    def _on_ack(self, first):
        """PUBACK, PUBREC, PUBREL and PUBCOMP with a reason code (3.4 to 3.7), or without one."""
        code = self.buffer[2] if self.length > 2 else 0
        if not self._is_code(first, code):
            self._why = 0x81
            return _PROTOCOL_ERROR
        if 3 < self.length <= len(self.buffer) and not self._is_sound(3, _IN_ACK):
            return _PROTOCOL_ERROR
        self.length = 2
        if not code:
            return self._on_success(first)
        self.reason = code
        is_kept = code == _UNMATCHED and first == 0x40 and self._keeps_unmatched
        self.unmatched += code == _UNMATCHED
        if first < 0x60 and (code > 0x7F or is_kept):
            self._on_denied(first, packets.get_u16(self.buffer, 0), code)
            return _OK
        return self._on_success(first)

    def _is_code(self, first, code):
        """True when this packet may carry this reason code."""
        if self.length < 2 or first not in _FIRSTS:
            return False
        return code in (_OF_PUBACK if first < 0x60 else _OF_PUBREL)

    def _on_success(self, first):
        if first == 0x40:
            return self._on_puback(packets.get_u16(self.buffer, 0))
        return self._base._on_packet(self, first)

    def _is_sound(self, at, where):
        """True when valid properties at buffer[at] fill the rest of the packet."""
        at = check(self.buffer, at, self.length, where)
        self._why = -at if at < 0 else 0x81
        return at == self.length

    def _on_disconnect(self):
        """DISCONNECT (3.14)."""
        length = self.length
        if 1 < length <= len(self.buffer):
            if not self._is_sound(1, _IN_DISCONNECT):
                return _PROTOCOL_ERROR
            self._learn(1)
        code = self.buffer[0] if length else 0
        self._left = self.reason = code
        if code == 0x8E:
            return _TAKEN_OVER
        return _MOVED if code == 0x9C or code == 0x9D else _SERVER_LEFT

    def _overdue(self):
        if self._is_said and not self.out_end:
            return _PROTOCOL_ERROR
        return self._base._overdue(self)
