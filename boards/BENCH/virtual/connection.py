"""The server's side of one connection: what each packet of the client does, and what answers it.

**The law.** What the standard forbids a client is noted in the broker's `violations` and ends the
connection; nothing is raised into the program. What the server merely does not want (rights,
limits, silence) is in `refused`.

Must not know what the world is, nor how bytes travel (stream.py).
"""

from virtual.packets import PROTOCOL_ERROR, Malformed, decode, encode, value_of
from virtual.sessions import NEVER_US, Message, is_shared, plain

_ALL_IDS = 65_535
_MOST_IN_FLIGHT = 20  # to a client that says no number of its own (below 5.0), as mosquitto does
TAKEN_OVER, KEEP_ALIVE = 0x8E, 0x8D
_UNKNOWN_ID, _TOO_MANY, _TOO_LONG, _NO_RETAIN, _QOS = 0x92, 0x93, 0x95, 0x9A, 0x9B
_ALIAS_INVALID = 0x94
_FAILURE = 0x80
_WITH_WILL = 0x04
_ONLY_HERE = (0x0B, 0x23)  # properties of a PUBLISH that are not passed on
# of DISCONNECT; the others are a server's (table 2-6 of 5.0)
_OF_CLIENT = b"\x00\x04\x80\x81\x82\x83\x90\x93\x94\x95\x96\x97\x98\x99"
# CONNACK's reason codes at the levels below; all others are 5, not authorized
_RETURN_CODES = {0x84: 1, 0x85: 2, 0x88: 3}


class Connection:
    """stream: where it says its answers; its owner sets it."""

    def __init__(self, broker):
        self.broker = broker
        self.stream = self.session = None
        self.level = 0  # until CONNECT
        self.client_id = b""
        self.is_over = False
        self._data = b""
        # Identifiers that the client uses: when it has the answer that frees them
        self._publishing, self._requesting = {}, {}
        self._contents = {}  # (topic, payload, QoS) of those that it published with here
        self._refused = {}  # identifiers of exchanges that failed here
        self._is_resumed = False  # the session is one that went on
        self._topics, self._aliases = {}, {}  # by number: the client's, ours
        self._sent = []  # identifiers of what was sent here, and is not acknowledged
        self._receive_maximum, self._maximum_packet, self._alias_maximum = _MOST_IN_FLIGHT, 0, 0

    # --- The bytes ---

    def receive(self, data):
        self._data += data
        while not self.is_over:
            try:
                step = decode(self._data, self.level or 5)
            except Malformed as error:
                return self.forbid(str(error), error.code)
            if step is None:
                return None
            size = len(self._data) - len(step[2])
            self._data = step[2]
            self._take(step[0], step[1], size)
        return None

    def lost(self):
        """The client has closed, without a word."""
        self._end(True)

    def close(self, code=0):
        """The server closes; at level 5 it says why."""
        if self.is_over:
            return
        if code and self.level == 5 and self.session:
            self.say("DISCONNECT", code=code)
        self.stream.end()
        self._end(True)

    def reset(self):
        if not self.is_over:
            self.stream.break_()
            self._end(True)

    def forbid(self, why, code=PROTOCOL_ERROR):
        """What the standard does not allow."""
        self.broker.blame("%s: %s" % (self.client_id.decode(), why))
        self.close(code)

    def say(self, kind, **fields):
        """Returns when it arrives, in us."""
        return self.stream.say(encode(kind, level=self.level, **fields))

    def _end(self, with_will):
        self.is_over = True
        self.broker.ended(self, with_will)

    def _exceed(self, why, code):
        """A limit of the server: at level 5 it was said in CONNACK, so the standard forbids it."""
        if self.level == 5:
            self.forbid(why, code)
        else:
            self.broker.refuse(why)
            self.close()

    def _take(self, kind, fields, size):
        limit = self.broker.options["maximum_packet"]
        if (kind == "CONNECT") == (self.session is not None):
            self.forbid("a second CONNECT" if self.session else "%s before CONNECT" % kind)
        elif limit and size > limit and self.session:
            self._exceed("%s of %d bytes" % (kind, size), _TOO_LONG)
        elif kind not in _HANDLERS:
            self.forbid("%s is a server's" % kind)
        else:
            if self.session:
                self.session.silent_us = self.broker.now_us + self.session.keep_us
            _HANDLERS[kind](self, fields)
            if self.session and not self.is_over:
                self.pump()
        self.broker.due_us = 0

    # --- CONNECT, DISCONNECT, PINGREQ ---

    def _on_connect(self, fields):
        broker = self.broker
        self.level, self.client_id = fields["level"], fields["client_id"]
        code, why = broker.judge(fields)
        if code:
            broker.refuse("CONNECT: " + why)
            self.level = min(self.level, broker.options["level"])
            self.say("CONNACK", code=code if self.level == 5 else _RETURN_CODES.get(code, 5))
            self.close()
            return
        self._is_resumed = broker.open(self, fields)
        properties = []
        if self.level == 5:
            properties = broker.connack_properties()
            if not fields["client_id"]:
                properties.append((0x12, self.client_id))
            given = fields["properties"]
            self._receive_maximum = value_of(given, 0x21, _ALL_IDS)
            self._maximum_packet = value_of(given, 0x27, 0)
            self._alias_maximum = value_of(given, 0x22, 0)
        present = self._is_resumed and self.level > 3  # 3.1 has no such flag
        self.say("CONNACK", session_present=int(present), properties=properties)

    def _on_disconnect(self, fields):
        code = fields.get("code", 0)
        expiry_s = value_of(fields.get("properties", ()), 0x11)
        if code not in _OF_CLIENT:
            self.forbid("DISCONNECT 0x%02x is a server's" % code)
        elif expiry_s and not self.session.expiry_us:
            self.forbid("a session expiry in DISCONNECT, and none in CONNECT")
        else:
            if expiry_s is not None:
                self.session.expiry_us = self.broker.expiry_us(expiry_s)
            self.stream.end()
            self._end(code == _WITH_WILL)

    def _on_pingreq(self, _):
        self.say("PINGRESP")

    # --- What the client publishes ---

    def _on_publish(self, fields):
        topic = self._topic(fields)
        if topic is None or not self._is_allowed(topic, fields):
            return
        packet_id, qos = fields["packet_id"], fields["qos"]
        if qos == 2 and packet_id in self.session.received:
            self._answer("PUBREC", packet_id)
            return
        what, code = self._fate(topic, fields)
        if what == "closes":
            self.close()
        elif what == "silent":
            self._publishing[packet_id] = NEVER_US
        else:
            self._acknowledge(packet_id, qos, code)
            if what == "takes":
                self._pass_on(topic, fields)

    def _fate(self, topic, fields):
        return self.broker.fate(topic, fields["payload"])

    def _topic(self, fields):
        """Returns the topic; None: it is a number that the client may not use."""
        number = value_of(fields.get("properties", ()), 0x23)
        if number is None:
            return fields["topic"]
        if number > self.broker.options["topic_alias_maximum"]:
            return self.forbid("topic alias %d" % number, _ALIAS_INVALID)
        if fields["topic"]:
            self._topics[number] = fields["topic"]
        elif number not in self._topics:
            return self.forbid("topic alias %d stands for nothing" % number)
        return self._topics[number]

    def _is_allowed(self, topic, fields):
        options = self.broker.options
        if value_of(fields.get("properties", ()), 0x0B):
            self.forbid("a subscription identifier in a client's PUBLISH")
        elif fields["qos"] > options["maximum_qos"]:
            self._exceed("PUBLISH of QoS %d" % fields["qos"], _QOS)
        elif fields["retain"] and not options["retain_available"]:
            self._exceed("PUBLISH with RETAIN", _NO_RETAIN)
        elif fields["qos"] and self._may_be_dup(fields):
            content = topic, fields["payload"], fields["qos"]
            self._check_id(fields["packet_id"], content, fields["dup"])
            self._contents[fields["packet_id"]] = content
        return not self.is_over

    def _may_be_dup(self, fields):
        """At level 5 an exchange that was refused, or whose session is gone, is over: what follows
        is a new one [MQTT-4.3.2-2] [MQTT-4.3.3-2]."""
        packet_id = fields["packet_id"]
        if fields["dup"] and self.level == 5:
            if packet_id in self._refused:
                self.forbid("DUP after %d was refused" % packet_id)
            elif not self._is_resumed:
                self.forbid("DUP of %d without a session" % packet_id)
        return not self.is_over

    def _check_id(self, packet_id, content, is_dup):
        """Is the identifier free for this message, and is there room for one more?"""
        now_us = self.broker.now_us
        for one in list(self._publishing):
            if self._publishing[one] <= now_us:
                del self._publishing[one]
                self._contents.pop(one, None)
        most, is_used = self.broker.options["receive_maximum"], packet_id in self._publishing
        known = self._contents if is_used else self.session.received
        is_again = is_used and self.level < 5 and is_dup
        if known.get(packet_id, content) != content or (is_used and not is_again):
            self.forbid("PUBLISH with identifier %d, which is in use" % packet_id)
        elif is_again:
            return
        elif self._requesting.get(packet_id, 0) > now_us:
            self.forbid("PUBLISH with identifier %d of a request" % packet_id)
        elif most and self.level == 5 and len(self._contents) >= most:
            self.forbid("more than %d messages unacknowledged" % most, _TOO_MANY)

    def _acknowledge(self, packet_id, qos, code):
        code = code if self.level == 5 else 0
        if qos == 1:
            self._publishing[packet_id] = self._answer("PUBACK", packet_id, code)
        elif qos == 2:
            at_us = self._answer("PUBREC", packet_id, code)
            if code < _FAILURE:
                self.session.received[packet_id] = self._contents[packet_id]
                at_us = NEVER_US
            self._publishing[packet_id] = at_us
        if code >= _FAILURE:
            self._refused[packet_id] = True

    def _pass_on(self, topic, fields):
        broker, payload = self.broker, fields["payload"]
        broker.note_arrival(topic, fields, self.session)
        properties = [one for one in fields.get("properties", ()) if one[0] not in _ONLY_HERE]
        broker.route(topic, payload, fields["qos"], fields["retain"], properties, self.session)
        if fields["qos"]:
            broker.confirm(fields["packet_id"])

    def _answer(self, kind, packet_id, code=0):
        """Returns when the first one arrives."""
        at_us = self.say(kind, packet_id=packet_id, code=code)
        if self.broker.options["acknowledges_twice"]:
            self.say(kind, packet_id=packet_id, code=code)
        return at_us

    def _on_pubrel(self, fields):
        packet_id = fields["packet_id"]
        is_known = self.session.received.pop(packet_id, None) is not None
        at_us = self._answer("PUBCOMP", packet_id, 0 if is_known else self._code_of_unknown())
        if is_known:
            self._publishing[packet_id] = at_us

    def _code_of_unknown(self):
        return _UNKNOWN_ID if self.level == 5 else 0

    # --- What the client takes ---

    def pump(self):
        """Send what waits, as much as the client takes at a time."""
        for message in self.session.queue[:]:
            if message.packet_id not in self._sent:
                if len(self._sent) >= self._receive_maximum:
                    return
                if not self._send(message):
                    self.session.queue.remove(message)

    def send_at_once(self, message):
        self._say_publish(message)

    def _send(self, message):
        """False: it expired, or is longer than the client takes."""
        if message.is_released:
            self._sent.append(message.packet_id)
            self.say("PUBREL", packet_id=message.packet_id)
            return True
        is_again = message.packet_id > 0
        if not is_again:
            message.packet_id = self.session.new_id()
        if not self._say_publish(message, is_again):
            return False
        self._sent.append(message.packet_id)
        return True

    def _say_publish(self, message, is_again=False):
        left_us = message.until_us - self.broker.now_us
        if left_us <= 0:
            return False
        properties = message.properties
        if message.until_us < NEVER_US:
            properties = [
                (one[0], max(left_us // 1_000_000, 1)) if one[0] == 2 else one for one in properties
            ]
        topic, alias = self._short_topic(message.topic)
        data = encode(
            "PUBLISH", level=self.level, topic=topic, payload=message.payload, qos=message.qos,
            packet_id=message.packet_id, dup=is_again, retain=message.retain,
            properties=alias + list(properties),
        )  # fmt: skip
        if self._maximum_packet and len(data) > self._maximum_packet:
            return False
        if alias and topic:
            self._aliases[alias[0][1]] = topic
        self.stream.say(data)
        return True

    def _short_topic(self, topic):
        """Returns the topic, or b"" if the client knows its number, and the property with that."""
        for number in self._aliases:
            if self._aliases[number] == topic:
                return b"", [(0x23, number)]
        if self.level == 5 and len(self._aliases) < self._alias_maximum:
            return topic, [(0x23, len(self._aliases) + 1)]
        return topic, []

    def _on_puback(self, fields):
        self._on_taken(fields, 1)

    def _on_pubcomp(self, fields):
        self._on_taken(fields, 2)

    def _on_taken(self, fields, qos):
        message = self.session.find(fields["packet_id"])
        if message is None:
            return
        if message.qos != qos or (qos == 2 and not message.is_released):
            self.forbid("the wrong acknowledgement of message %d" % message.packet_id)
            return
        self._drop(message)

    def _on_pubrec(self, fields):
        message, packet_id = self.session.find(fields["packet_id"]), fields["packet_id"]
        if message is not None and message.qos != 2:
            self.forbid("PUBREC of message %d, which is of QoS 1" % packet_id)
        elif message is not None and fields.get("code", 0) >= _FAILURE:
            self._drop(message)
        else:
            if message is not None:
                message.is_released = True
            code = 0 if message is not None else self._code_of_unknown()
            self.say("PUBREL", packet_id=packet_id, code=code)

    def _drop(self, message):
        self.session.queue.remove(message)
        if message.packet_id in self._sent:
            self._sent.remove(message.packet_id)

    # --- SUBSCRIBE, UNSUBSCRIBE ---

    def _request(self, packet_id, kind, codes):
        """Answer a request. False: its identifier is in use."""
        now_us = self.broker.now_us
        if max(self._publishing.get(packet_id, 0), self._requesting.get(packet_id, 0)) > now_us:
            self.forbid("a request with identifier %d, which is in use" % packet_id)
            return False
        self._requesting[packet_id] = self.say(kind, packet_id=packet_id, codes=codes)
        return True

    def _on_subscribe(self, fields):
        broker, granted = self.broker, []
        codes = [self._granted(one[0], one[1] & 3) for one in fields["filters"]]
        if not self._request(fields["packet_id"], "SUBACK", codes):
            return
        identifier = value_of(fields.get("properties", ()), 0x0B, 0)
        for (topic_filter, options), code in zip(fields["filters"], codes):
            if code >= _FAILURE:
                broker.refuse("SUBSCRIBE %s" % topic_filter.decode())
                continue
            is_new = self.session.subscribe(topic_filter, options & 0xFC | code, identifier)
            handling = options >> 4
            if not is_shared(topic_filter) and (not handling or (handling == 1 and is_new)):
                granted.append((plain(topic_filter), code, identifier))
        for one in granted:
            self._send_retained(*one)

    def _granted(self, topic_filter, qos):
        code = self.broker.options["code_on"].get(topic_filter, 0)
        if code >= _FAILURE and self.level > 3:
            return code if self.level == 5 else _FAILURE
        return min(qos, self.broker.options["maximum_qos"])

    def _send_retained(self, topic_filter, most, identifier):
        for topic, payload, qos, properties, until_us in self.broker.kept(topic_filter):
            if identifier:
                properties = list(properties) + [(0x0B, identifier)]
            self.broker.give(
                self.session,
                Message(topic, payload, min(qos, most), True, properties, until_us),
            )

    def _on_unsubscribe(self, fields):
        known = [one[0] for one in self.session.filters]
        found = [one for one in fields["filters"] if one in known]
        codes = [0 if one in found else 0x11 for one in fields["filters"]]
        if self._request(fields["packet_id"], "UNSUBACK", codes):
            for topic_filter in found:
                self.session.unsubscribe(topic_filter)


_HANDLERS = {
    "CONNECT": Connection._on_connect,
    "DISCONNECT": Connection._on_disconnect,
    "PINGREQ": Connection._on_pingreq,
    "PUBLISH": Connection._on_publish,
    "PUBREL": Connection._on_pubrel,
    "PUBACK": Connection._on_puback,
    "PUBREC": Connection._on_pubrec,
    "PUBCOMP": Connection._on_pubcomp,
    "SUBSCRIBE": Connection._on_subscribe,
    "UNSUBSCRIBE": Connection._on_unsubscribe,
}
