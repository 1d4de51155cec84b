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
from outpost.memory import copy, unload
from outpost.mqtt5.level5_refusals import Refusals
from outpost.mqtt5.properties import TABLE, check_start, number_end, room, value_end

_OK = const(0)
_TOO_BIG = const(-2)
_BUSY = const(-3)
_OFFLINE = const(-4)
_BAD_QOS = const(-8)
_BAD_RETAIN = const(-14)
_PROTOCOL_ERROR = const(-20)
_TAKEN_OVER = const(-26)
_SERVER_LEFT = const(-28)
_MOVED = const(-29)
_CONNECTING = const(1)
_CONNECTED = const(2)
_MOST_CONNACK = const(4096)  # bytes of it that are looked at
_IDS = const(65535)
_IN_CONNACK = const(16)
_IN_ACK = const(32)
_IN_DISCONNECT = const(64)
_PROPERTIES_AT = const(3)  # in `_properties`: before them is what put_publish() looks at
_ALIAS_BYTES = const(4)  # at most: another byte of the properties' length comes with it
_HEADER_BYTES = const(5)
_ID_BYTES = const(2)  # of a packet identifier, which QoS 0 has not
_NO_LIMIT = const(0xFFFFFFF)
_UNMATCHED = const(0x10)
# known packet types other than PUBLISH
_FIRSTS = const(b"\x20\x40\x50\x62\x70\x90\xb0\xd0\xe0\xf0")
# Reason codes:
_OF_PUBACK = const(b"\x00\x10\x80\x83\x87\x90\x91\x97\x99")
_OF_PUBREL = const(b"\x00\x92")
# of DISCONNECT: the next attempts wait longer
_COME_LATER = const(b"\x88\x89\x8b\x8e\x97\x9c\x9d\x9f")


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
    _two = 0  # bit seq & 15 of a message in flight: it is QoS 2 (`exactly_once.py`)
    _short = None  # the session's buffer, while a longer one takes CONNACK
    farewell = b"\xe0\x00"
    on_refused = None

    def __init__(self, outbox, client_id, *words, **options):
        from outpost.mqtt5 import level5_setup as setup

        own = setup.take_options(self, options)
        client_id = setup.remembered(client_id, own["id_file"])
        self._base.__init__(self, outbox, client_id or b"-", *words, **options)
        Refusals.__init__(self, own["keep_unmatched"])
        self.server, self.assigned_id = {}, b""
        self._why = 0  # reason code of the fault that a hook reports as PROTOCOL_ERROR
        self.id_file, self.expiry = own["id_file"], setup.expiry(self, own)
        self._inbound = setup.inbound(self, own["alias_maximum"])
        self._properties, self._own_aliases = setup.properties_of_publish(own)
        self._prepares = True  # _prepare() has something to decide
        self._varies = False  # so the properties: they are chosen for each message
        self._is_limited = False  # the server does not take all that the outbox does
        # of the remaining length of a PUBLISH with an identifier, besides topic and payload
        self._overhead = 4 + len(self._properties) - _PROPERTIES_AT
        longest = outbox.record_bytes + self._overhead + _ALIAS_BYTES + _HEADER_BYTES
        self.out = self.tx = bytearray(longest)
        # What the server refuses: topic and payload of more bytes; QoS and RETAIN bits
        self._most_bytes, self._barred = _NO_LIMIT, 0
        self._store = outbox.append
        if self.expiry:
            self._append = self._append_within
        self._given = self.window, self.keep_alive_s, own["is_clean"]
        self.connect_packet = setup.connect(self, client_id, own)
        self._flags_at = setup.start_of(self.connect_packet) + 7
        unload("outpost.mqtt5.level5_setup")

    # --- Connection ---

    def open(self):
        self._fault = self._left = 0
        self._is_said = False
        self._shorten()
        if self.expiry:
            self.expiry.look(self.now_ms)
        self._base.open(self)

    def has_progress(self):
        """False also when the server asks to come later: the next attempt then waits longer."""
        return not (self._left and self._left in _COME_LATER) and self._base.has_progress(self)

    def lost(self, error):
        """The clocks are read here too, because without a network nothing else reads them."""
        if self.expiry:
            self.expiry.look(self.now_ms)
        if self._pause_ms >= 0:
            self._pauses()
        self._base.lost(self, error)

    def leave(self):
        if not self.state or self.out_end:
            return False
        self._start(self.farewell, len(self.farewell))
        return True

    def _on_rest(self, data, at, count):
        """A CONNACK that the buffer does not hold gets a longer one: connecting may allocate."""
        if self.state == _CONNECTING and self.first == 0x20 and self._lengthen():
            self._keep(data, at, count)
        else:
            self._base._on_rest(self, data, at, count)

    def _lengthen(self):
        """False: it was done, or there is no memory. The rest is then passed over."""
        if self._short:
            return False
        try:
            longer = bytearray(min(self.length, _MOST_CONNACK))
        except MemoryError:
            return False
        copy(longer, 0, self.buffer, 0, min(self.have, len(self.buffer)))
        self._short, self.buffer = self.buffer, longer
        return True

    def _shorten(self):
        if self._short:
            self.buffer, self._short = self._short, None

    def _on_connack(self):
        status = self._take_connack()
        self._shorten()
        return status

    def _take_connack(self):
        """CONNACK (3.2). A server of MQTT 3.1.1 sends a CONNACK of 3.1.1 that refuses. A session
        present after a clean start is a protocol error [MQTT-3.2.2-4]."""
        if self.length == 2 and self.buffer[1]:
            return self._base._on_connack(self)
        code = self.buffer[1]
        is_clean = self.connect_packet[self._flags_at] & 2
        if 0 < code < 0x80 or (is_clean and self.buffer[0] & 1):
            return _PROTOCOL_ERROR
        end = self._sound_end(2, _IN_CONNACK)
        if end < 0:
            return _PROTOCOL_ERROR
        self._learn(2, end)
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

    def _learn(self, at, end):
        """Copy the properties in buffer[at:end], which _sound_end() has passed, into `server`."""
        buffer, known = self.buffer, {}
        at = number_end(buffer, at, end)
        while 0 <= at < end:
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
        window, keep_alive_s, is_always_clean = self._given
        self.window = min(window, get(0x21, _IDS))
        if self.suspects:
            self.suspects.set_window(self.window)
        self._most_bytes = room(get(0x27, _NO_LIMIT)) - self._overhead
        self._barred = (6, 4, 0)[get(0x24, 2)] | (not get(0x25, 1))
        self._is_limited = self._barred > 0 or self._most_bytes < self.outbox.record_bytes
        self._append = self._append_within if self._is_limited or self.expiry else self._store
        self.keep_alive_s = get(0x13, keep_alive_s)
        self._denied = 0
        self._anew_seq = -1
        self._varies = bool(self.expiry)
        if self._own_aliases:
            self._properties = self._own_aliases.plain
            self._varies = self._own_aliases.connected(get(0x22, 0)) or self._varies
        self._prepares = self._is_limited or self._varies or self._anew > 0
        if 0x12 in self.server:
            self._take_id(self.server[0x12])
        if not is_always_clean:
            self.connect_packet[self._flags_at] &= ~2

    def _take_id(self, client_id):
        """From now on, use the client id that the server chose."""
        from outpost.mqtt5.level5_setup import remember, with_id

        self.connect_packet, self.assigned_id = with_id(self.connect_packet, client_id), client_id
        remember(self.id_file, client_id)
        self._flags_at = number_end(self.connect_packet, 1, 5) + 7
        unload("outpost.mqtt5.level5_setup")

    # --- Publish ---

    def _append_within(self, topic, payload, length, flags):
        """Replaces the outbox's append(): a message that the server would refuse is not stored."""
        if self._barred and self._is_barred(flags):
            return self._is_barred(flags)
        if len(topic) + length > self._most_bytes:
            return _TOO_BIG
        flags = self._store(topic, payload, length, flags)
        if self.expiry and not flags:
            self.expiry.stored(self.outbox.next_seq - 1, self.now_ms)
        return flags

    def _is_barred(self, flags):
        """By its QoS or RETAIN: a status. flags: as for append()."""
        if flags >> 3 & 6 & self._barred:
            return _BAD_QOS
        return _BAD_RETAIN if flags >> 6 & self._barred else _OK

    def _is_busy(self):
        """True while no message of QoS 0 can begin."""
        return self.out_end or (self.suspects and self.suspects.is_testing())

    def _publish_now(self, topic, payload, length):
        if self.state == _CONNECTED and not self._is_busy():
            spare = self._most_bytes + _ID_BYTES - len(topic) - length
            if spare < 0 or len(topic) + length > self.outbox.record_bytes:
                return _TOO_BIG
            if self._retain and self._barred & 1:
                return _BAD_RETAIN
            if self._own_aliases:
                self._properties = self._own_aliases.plain
                if spare >= _ALIAS_BYTES:
                    self._properties = self._own_aliases.choose(topic, 0, len(topic))
            if self.expiry:
                self.expiry.put(self._properties, self.expiry.whole_s)
        return self._base._publish_now(self, topic, payload, length)

    def _prepare(self, seq):
        """Message seq is loaded, and its PUBLISH is due; -1: it is on the shelf. False: it does not
        go out now."""
        if seq >= 0 and self._fault:
            return False
        outbox = self.outbox
        spare = self._most_bytes - outbox.topic_length - outbox.payload_length
        if spare < 0 or (self._barred and self._is_barred(outbox.flags)):
            if seq >= 0:
                self._withdraw(seq, spare < 0)
            return False
        if self._anew:
            self._begin_anew(seq)
        if self._varies:
            return self._vary(seq, spare)
        if seq >= 0:
            self._prepares = self._is_limited or self._anew  # else there is nothing to decide
        return True

    def _vary(self, seq, spare):
        """Give PUBLISH its alias, for which there are `spare` bytes, and what is left of its
        expiry. False: it has expired."""
        outbox, left_s = self.outbox, 0
        if self.expiry:
            left_s = self.expiry.left_at(seq, self.now_ms)
            if left_s <= 0 and outbox.flags & 0x20 == 0 and not self._is_repeat(seq):
                return self._expire(seq)
            left_s = max(left_s, 1)
        if self._own_aliases:
            self._properties = self._own_aliases.plain
            if spare >= _ALIAS_BYTES:
                self._properties = self._own_aliases.choose(
                    outbox.buffer, outbox.topic_at, outbox.topic_length
                )
        if left_s:
            self.expiry.put(self._properties, left_s)
        return True

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
        if self.length > 3 and self._sound_end(3, _IN_ACK) < 0:
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

    def _sound_end(self, at, where):
        """Valid properties at buffer[at] fill the rest of the packet, as far as the buffer holds
        it. Returns the offset after those that it holds whole; negative: they are not valid."""
        at = check_start(self.buffer, at, self.length, where)
        self._why = -at if at < 0 else 0
        return at

    def _on_disconnect(self):
        """DISCONNECT (3.14)."""
        length = self.length
        if length > 1:
            end = self._sound_end(1, _IN_DISCONNECT)
            if end < 0:
                return _PROTOCOL_ERROR
            self._learn(1, end)
        code = self.buffer[0] if length else 0
        self._left = self.reason = code
        if code == 0x8E:
            return _TAKEN_OVER
        return _MOVED if code == 0x9C or code == 0x9D else _SERVER_LEFT

    def _overdue(self):
        if self._is_said and not self.out_end:
            return _PROTOCOL_ERROR
        return self._base._overdue(self)
