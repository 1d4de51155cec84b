"""What MQTT 5.0 adds for inbound messages; `level5.over()` uses it for sessions that subscribe.

In the handler, `property_at(number)` returns where in `buffer` a property of the message begins:
0x01 payload format, 0x02 expiry, 0x03 content type, 0x08 response topic, 0x09 correlation data,
0x0B subscription identifier, 0x26 user property. Must not know a stream or a clock. Allocation: as
`subscribing.py`.
"""
# pyright: reportAttributeAccessIssue=false

from micropython import const

from outpost import packets
from outpost.memory import copy
from outpost.mqtt5.level5_session import Level5
from outpost.mqtt5.properties import TABLE, check, find, number, number_end, value_end

_OK = const(0)
_BAD_TOPIC = const(-6)
_PROTOCOL_ERROR = const(-20)
_IN_PUBLISH = const(4)
_IN_ACK = const(32)
_GIVEN_UP = const(255)
_REFUSED_CODE = const(128)
_NOT_AVAILABLE = const(0xA2)
_ALIAS_INVALID = const(0x94)
_WRONG = const(-0x82)  # protocol error
_REQUEST_BYTES = const(16)  # at most, of a SUBSCRIBE besides its one filter
_NO_LIMIT = const(0xFFFFFFF)
_OF_SUBACK = const(b"\x00\x01\x02\x80\x83\x87\x8f\x91\x97\x9e\xa1\xa2")
_OF_UNSUBACK = const(b"\x00\x11\x80\x83\x87\x8f\x91")


class SubscribingLevel5(Level5):
    """In `filters`, the second number holds the QoS and the other options of SUBSCRIBE. The third
    is the reason code of SUBACK; 0x80 and above: refused."""

    properties_at = 0  # of the PUBLISH in `buffer`: offset of its properties, and after them
    properties_end = 0
    _inbound = None  # an Aliases, of the topics that the server numbers
    _before_codes = 3
    _codes_at = -0x81  # where the codes of a SUBACK are that the buffer does not hold
    _identifiers = None  # a dictionary: subscription identifiers by their filters

    def subscribe(self, topic_filter, qos=0, no_local=False, as_published=False, retained=0,
                  identifier=0):  # fmt: skip
        """As in `subscribing.py`, with the options of 5.0 (3.8.3.1). no_local: do not receive this
        client's own messages. as_published: RETAIN stays as the publisher set it. retained: when
        retained messages are sent: 0: always, 1: if the subscription is new, 2: never. identifier:
        1 to 268,435,455, comes with each message (0x0B). BAD_TOPIC also where the server has said
        that it refuses such a filter, for shared subscriptions that the standard forbids, and for
        another `retained` or `identifier`."""
        topic_filter = bytes(topic_filter)
        if retained not in (0, 1, 2) or not 0 <= identifier <= _NO_LIMIT:
            return _BAD_TOPIC
        if qos >= 0 and self._is_unavailable(topic_filter, identifier, no_local):
            return _BAD_TOPIC
        status = self._base.subscribe(self, topic_filter, qos)
        if status == _OK and qos >= 0:
            for entry in self.filters:
                if entry[0] == topic_filter:
                    entry[1] = qos | bool(no_local) << 2 | bool(as_published) << 3 | retained << 4
            if identifier:
                self._identifiers = self._identifiers or {}
                self._identifiers[topic_filter] = identifier
            elif self._identifiers:
                self._identifiers.pop(topic_filter, None)
        return status

    def _is_unavailable(self, topic_filter, identifier, no_local=False):
        """By the last CONNACK. A shared subscription may not set no_local [MQTT-3.8.3-4]."""
        get = self.server.get
        is_wild = b"+" in topic_filter or b"#" in topic_filter
        if topic_filter[:7] == b"$share/":
            if no_local or not get(0x2A, 1):
                return True
        return (
            (is_wild and not get(0x28, 1))
            or (identifier and not get(0x29, 1))
            or len(topic_filter) + _REQUEST_BYTES > get(0x27, _NO_LIMIT)
        )

    def _on_connected(self):
        """Filters that this server does not accept are refused here, as if by SUBACK."""
        if self._inbound:
            self._inbound.forget()
        for entry in self.filters:
            if entry[2] != _GIVEN_UP:
                entry[2] = min(entry[2], _REFUSED_CODE)  # the base knows no other code
        self._base._on_connected(self)
        identifiers = self._identifiers or {}
        for entry in self.filters:
            is_new = entry[1] >= 0 and entry[2] < 0
            if is_new and self._is_unavailable(entry[0], identifiers.get(entry[0], 0)):
                self.refused += 1
                entry[2] = _NOT_AVAILABLE

    def _start(self, data, length):
        """SUBSCRIBE and UNSUBSCRIBE have properties after their packet identifier. A subscription
        identifier applies to all filters of a packet, so a filter that has one is sent alone."""
        if data[0] & 0xDF == 0x82:
            from outpost.memory import unload
            from outpost.mqtt5.level5_setup import with_properties

            self._requested, data = with_properties(self, data[0])
            length = len(data)
            unload("outpost.mqtt5.level5_setup")
        self._base._start(self, data, length)

    def _on_rest(self, data, at, count):
        if self.first & 0xDF == 0x90:
            self._keep_codes(data, at, count)
        else:
            Level5._on_rest(self, data, at, count)

    def _keep_codes(self, data, at, count):
        """SUBACK or UNSUBACK is longer than the buffer, by its properties. Its codes, which end it,
        go to the end of the buffer, over the properties."""
        buffer, size, have = self.buffer, len(self.buffer), self.have
        first = self.length - len(self._requested)  # place of the first code in the packet
        back = self.length - size  # from a place to the offset in the buffer
        if have <= size:  # it is full for the first time
            end = number_end(buffer, 2, size)
            is_whole = end >= 0 and end + number(buffer, 2) == first
            self._codes_at = first - back if is_whole else -0x81
            if first < size:
                copy(buffer, first - back, buffer, first, size - first)
        start, end = max(first, have, size), have + count
        if self._codes_at >= 0 and start < end:
            copy(buffer, start - back, data, at + start - have, end - start)

    def _on_packet(self, first):
        """SUBACK, UNSUBACK: remove the properties, so that the codes are where 3.1.1 has them."""
        if first == 0x90 or first == 0xB0:
            self._why = 0
            at = -0x81
            if self.length > len(self.buffer):
                at, self.length = self._codes_at, len(self.buffer)
                self._codes_at = at if at < 0 else -0x81
            elif self.length > 2:
                at = check(self.buffer, 2, self.length, _IN_ACK)
            if at < 0:
                return self._fail(-at)
            copy(self.buffer, 2, self.buffer, at, self.length - at)
            self.length += 2 - at
        return Level5._on_packet(self, first)

    def _has_codes(self, count):
        return self.first == 0x90 and self._are_codes(count, _OF_SUBACK)

    def _has_none(self):
        return self.first == 0xB0 and self._are_codes(len(self._requested), _OF_UNSUBACK)

    def _are_codes(self, count, known):
        if self.length != 2 + count:
            return False
        for place in range(2, self.length):
            if self.buffer[place] not in known:
                self._why = 0x81
                return False
        return True

    def _on_code(self, entry, at):
        code = self.buffer[at]
        if code > 0x7F:
            self.reason = code
            if entry[1] < 0:  # not removed: the server keeps it
                entry[2] = code
                return
        self._base._on_code(self, entry, at)
        self.refused += code > 0x80

    # --- Messages ---

    def _parse(self, id_bytes):
        """As in the base, but the payload begins after the properties."""
        if self.length > 2 and not self.buffer[0] | self.buffer[1]:
            packet_id = self._restore(2 + id_bytes)
            if packet_id < 0 or self.length > len(self.buffer):
                return packet_id
        packet_id = self._base._parse(self, id_bytes)
        at, room = self.payload_at, len(self.buffer)
        if packet_id < 0 or at > room:
            return packet_id
        if self.length > room:
            return packet_id if self._pass_properties(at, room) else -1
        self.properties_at = at
        at = check(self.buffer, at, self.length, _IN_PUBLISH)
        return packet_id if self._take_properties(at) else -1

    def _restore(self, at):
        """Put back the topic of a message that has a number instead. Returns its identifier; -1: a
        fault."""
        end = _WRONG  # longer than our maximum packet size, if we offered numbers
        if self.length <= len(self.buffer):
            end = check(self.buffer, at, self.length, _IN_PUBLISH)
        self.properties_at, self.properties_end = at, end
        packet_id = packets.get_u16(self.buffer, 2) or -1 if at > 2 else 0
        if end >= 0:
            end = self._restored()
        if end < 0:
            self._why = -end
            return -1
        self._why = 0
        self.length = end
        return packet_id

    def _restored(self):
        """As Aliases.restore()."""
        if self._inbound:
            return self._inbound.restore(self)
        return -_ALIAS_INVALID if self.property_at(0x23) >= 0 else _WRONG

    def _pass_properties(self, at, room):
        """Handle a message that the buffer does not hold, and perhaps not even its properties."""
        end = number_end(self.buffer, at, room)
        if end < 0 and at + 4 <= room:
            self._why = 0x81
            return False
        end = end + number(self.buffer, at) if end > 0 else room + 1
        if end > self.length:
            self._why = 0x81
            return False
        if end > room:  # the piece in the buffer ends within them
            self.payload_at = end
            self.payload_length = self.length - end
            return True
        self.properties_at = at
        return self._take_properties(check(self.buffer, at, end, _IN_PUBLISH))

    def _take_properties(self, end):
        if end < 0:
            self._why = -end
            return False
        self.properties_end = self.payload_at = end
        self.payload_length = self.length - end
        if self.property_at(0x23) >= 0:
            self._why = self._inbound.learn(self) if self._inbound else _ALIAS_INVALID
        return not self._why

    def property_at(self, wanted, after=0):
        """Returns the offset in `buffer` of this property's value; -1: the message has none. after:
        for a property that may occur more than once, the offset of the previous value."""
        at = self.properties_at
        at = number_end(self.buffer, at, self.length)
        while True:
            at = find(self.buffer, at, self.properties_end, wanted)
            if at < 0 or at > after:
                return at
            at = value_end(self.buffer, at, self.properties_end, TABLE[2 * wanted])
