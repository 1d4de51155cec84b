"""The MQTT server of the virtual world: 3.1, 3.1.1 and 5.0, in virtual time, with faults.

**The law.** What a real server keeps survives the power cut of the board: sessions, retained
messages, wills that are due. Connections do not: the server notices their end when 1.5 times the
keep alive has passed, and takes the client back before. What is due at the server happens at its
time, whenever somebody looks: look() comes first in each call.

Must not know a packet's bytes (packets.py), nor what a client may do when (connection.py).

Options, all of plain data; texts are UTF-8, as str or bytes. A filter may have wildcards:
    level               the highest that it speaks: 3, 4, 5
    latency_ms          until an answer is at the board
    users               {user: password}; others are refused. Empty: everybody may
    denied, denied_by   topics on which the board may not publish, and what happens then: "drops"
                        (acknowledged and dropped, as mosquitto does), "closes", "code" (0x87 at
                        level 5, and below it "drops", because there is none)
    closes_on           topics whose messages end the connection, always
    silent_on           topics whose messages are not taken and never acknowledged
    silent_on_payloads  as silent_on, by payload
    code_on             {filter: reason code of PUBACK or PUBREC}, from 0x80 on the message is
                        dropped; and of SUBACK, for exactly that filter
    loses_session_at    [second]: the server restarts and has forgotten all sessions
    receive_maximum, maximum_packet, maximum_qos, retain_available, topic_alias_maximum
                        limits; below level 5, where a client cannot know them, exceeding one is in
                        `refused` and no violation
    collector           topic of the confirmations; empty: no collector
    acknowledges_twice  each acknowledgement of a message is sent twice
"""

from virtual.collector import Collector
from virtual.connection import KEEP_ALIVE, TAKEN_OVER, Connection
from virtual.outages import Outages
from virtual.packets import matches, value_of
from virtual.sessions import AS_PUBLISHED, NEVER_US, Message, Session
from virtual.stream import NET_US, Stream

_DEFAULTS = {
    "level": 5, "latency_ms": 20, "users": {}, "denied": (), "denied_by": "drops", "closes_on": (),
    "silent_on": (), "silent_on_payloads": (), "code_on": {}, "loses_session_at": (),
    "receive_maximum": 0, "maximum_packet": 0, "maximum_qos": 2, "retain_available": True,
    "topic_alias_maximum": 0, "collector": "", "acknowledges_twice": False,
}  # fmt: skip
_DENIALS = {"drops": ("drops", 0), "closes": ("closes", 0), "code": ("drops", 0x87)}
_SLOW_US = 3_000_000
_ECONNREFUSED, _ETIMEDOUT = 111, 110
_FOR_EVER_S = 0xFFFFFFFF
_LONGEST_ID_OF_3 = 23
_FAILURE = 0x80


class Broker:
    """What tests read:

    came        (ms, topic, payload, QoS, packet identifier, DUP, stream): what the board published
                and the server took; a repeated QoS 2 message is there once. stream: world.ledger's
    retained    {topic: payload}
    connects    [ms] of each accepted CONNECT
    wills       [(ms, topic, payload)] that were published; they are not in `came`
    refused     [(ms, why)]: what the server did not take, and connections that it gave up
    violations  [text]: what the standard forbids a client
    """

    connection_kind, stream_kind = Connection, Stream

    def __init__(self, world, options):
        self.world = world
        self.options = _checked(options)
        self.outages = Outages(world.scenario["outages"])
        self.now_us = world.now_us
        self.due_us = 0  # nothing is due before; 0: look for what is
        self.connects = []
        self.sessions = {}
        self.collector = Collector()
        self._came, self._wills, self._refused, self._violations = [], [], [], []
        self._retained = {}
        self._kept = {}  # topic: (QoS, properties, until us) of the retained message
        self._streams = []  # that the board may still use
        self._plan = sorted(
            self.outages.edges()
            + [(int(at * 1_000_000), "forget") for at in self.options["loses_session_at"]]
        )
        self._planned = self._named = 0

    def copy(self, world):
        """As the board's power cut leaves it. Nothing in it is shared that changes."""
        self.look()
        twin = Broker(world, {})
        twin.options, twin.outages, twin.now_us = self.options, self.outages, self.now_us
        twin.connects, twin._came, twin._wills = self.connects[:], self._came[:], self._wills[:]
        twin._refused, twin._violations = self._refused[:], self._violations[:]
        for client_id, session in self.sessions.items():
            twin.sessions[client_id] = session.copy()
        twin.collector = self.collector.copy()
        twin._retained, twin._kept = self._retained.copy(), self._kept.copy()
        twin._plan, twin._planned, twin._named = self._plan, self._planned, self._named
        return twin

    @property
    def came(self):
        self.look()
        return self._came

    @property
    def retained(self):
        self.look()
        return self._retained

    @property
    def wills(self):
        self.look()
        return self._wills

    @property
    def refused(self):
        self.look()
        return self._refused

    @property
    def violations(self):
        self.look()
        return self._violations

    # --- The board's side ---

    def accept(self):
        """Returns a connected Stream. Raises OSError."""
        self.world.pass_us(NET_US)
        self.look()
        kind = self.outages.kind(self.now_us)
        if kind == "refuses":
            raise OSError(_ECONNREFUSED)
        if kind in ("silent", "half_open"):
            raise OSError(_ETIMEDOUT)
        connection = self.connection_kind(self)
        connection.stream = self.stream_kind(self, connection)
        self._streams = [one for one in self._streams if not one.is_broken()]
        self._streams.append(connection.stream)
        return connection.stream

    def hang_up(self):
        """The board has no power: its streams are gone, and the server does not know."""
        self.look()
        for stream in self._streams:
            stream.break_()
            stream.server.is_over = True
        for session in self.sessions.values():
            session.connection = None
        self._streams = []

    def publish(self, topic, payload, retain=False, qos=1):
        """Another client publishes."""
        self.look()
        self.route(bytes(topic), bytes(payload), qos, retain)

    def arrives_us(self):
        """Returns when what the server sends now is at the board."""
        after_us = self.options["latency_ms"] * 1000
        if self.outages.kind(self.now_us) == "slow":
            after_us = max(after_us, _SLOW_US)
        return self.outages.arrives_us(self.now_us + after_us)

    # --- Time ---

    def look(self):
        """Let all happen that is due, each at its time."""
        now_us = self.world.now_us
        while self.due_us <= now_us:
            self.due_us = self._next_us()
            if self.due_us <= now_us:
                self.now_us = self.due_us
                self._run()
                self.due_us = 0
        self.now_us = now_us

    def _next_us(self):
        found = self._plan[self._planned][0] if self._planned < len(self._plan) else NEVER_US
        for session in self.sessions.values():
            found = min(found, session.due_us())
        return found

    def _run(self):
        """The first that is due at now_us."""
        if self._planned < len(self._plan) and self._plan[self._planned][0] <= self.now_us:
            self._planned += 1
            self._run_plan(self._plan[self._planned - 1][1])
            return
        for client_id in sorted(self.sessions):
            if self.sessions[client_id].due_us() <= self.now_us:
                self._run_session(self.sessions[client_id])
                return

    def _run_plan(self, what):
        if what == "resume":
            for stream in self._streams:
                stream.resume()
            return
        for stream in self._streams:
            stream.server.reset()
        for client_id in sorted(self.sessions):
            if client_id in self.sessions and self.sessions[client_id].is_up:
                self._ended(self.sessions[client_id], True)
        if what == "forget":
            self.sessions = {}

    def _run_session(self, session):
        if session.silent_us <= self.now_us:
            self.refuse("keep alive: nothing came for %d ms" % (session.keep_us // 1000))
            if session.connection:
                session.connection.close(KEEP_ALIVE)
            else:
                self._ended(session, True)
        elif session.will_us <= self.now_us:
            self._publish_will(session)
        else:
            self._forget(session)

    # --- Sessions ---

    def judge(self, fields):
        """Returns the reason code with which to refuse a CONNECT, and why; (0, "")."""
        level, users, will = fields["level"], self.options["users"], fields["will"]
        if level > self.options["level"]:
            return 0x84, "level %d" % level
        if level == 3 and not 1 <= len(fields["client_id"]) <= _LONGEST_ID_OF_3:
            return 0x85, "a client identifier of %d bytes" % len(fields["client_id"])
        if users and (fields["user"] is None or users.get(fields["user"]) != fields["password"]):
            return 0x87, "user %s" % (fields["user"] or b"").decode()
        if value_of(fields.get("properties", ()), 0x15) is not None:
            return 0x8C, "authentication method"
        if will and will[2] > self.options["maximum_qos"]:
            return 0x9B, "a will of QoS %d" % will[2]
        if will and will[3] and not self.options["retain_available"]:
            return 0x9A, "a will with RETAIN"
        return 0, ""

    def open(self, connection, fields):
        """Find or make the session of a CONNECT. True when there was one that goes on."""
        if not connection.client_id:
            self._named += 1
            connection.client_id = b"auto-%d" % self._named
        client_id, is_clean = connection.client_id, fields["clean"]
        old = self.sessions.get(client_id)
        if old and old.is_up:
            self._take_over(old, is_clean)
        elif old and is_clean:
            self._forget(old)
        old = self.sessions.get(client_id)
        session = old or Session(client_id)
        self.sessions[client_id] = session
        session.connection, session.is_up = connection, True
        connection.session = session
        session.will_us = session.end_us = NEVER_US
        self._set_terms(session, fields)
        self.connects.append(self.now_us // 1000)
        return old is not None

    def _set_terms(self, session, fields):
        """Keep alive, expiry and will, as this CONNECT wants them."""
        session.keep_us = fields["keep_alive"] * 1_500_000 or NEVER_US
        session.silent_us = self.now_us + session.keep_us
        session.expiry_us = 0 if fields["clean"] else NEVER_US
        if fields["level"] == 5:
            session.expiry_us = self.expiry_us(value_of(fields["properties"], 0x11, 0))
        session.will = None
        if fields["will"]:
            more = fields.get("will_properties", ())
            delay_us = min(value_of(more, 0x18, 0) * 1_000_000, session.expiry_us)
            passed = [one for one in more if one[0] != 0x18]
            session.will = fields["will"] + (passed, delay_us)

    def _take_over(self, old, is_clean):
        """The client is back before the server knew that it was gone. Its will is published only if
        its session ends, as mosquitto does."""
        ends = is_clean or not old.expiry_us
        if not ends:
            old.will = None
        connection = old.connection
        if connection:
            connection.close(TAKEN_OVER)
        else:
            self._ended(old, True)
        if ends:
            self._forget(old)

    def expiry_us(self, seconds):
        return NEVER_US if seconds == _FOR_EVER_S else seconds * 1_000_000

    def ended(self, connection, with_will):
        session = connection.session
        if session and session.connection is connection:
            self._ended(session, with_will)

    def _ended(self, session, with_will):
        session.connection, session.is_up, session.silent_us = None, False, NEVER_US
        if not with_will:
            session.will = None
        if session.will and session.will[5]:
            session.will_us = self.now_us + session.will[5]
        else:
            self._publish_will(session)
        session.end_us = min(self.now_us + session.expiry_us, NEVER_US)
        if not session.expiry_us:
            self._forget(session)
        self.due_us = 0

    def _forget(self, session):
        """A will that waits for its delay does not wait longer than the session."""
        self._publish_will(session)
        if self.sessions.get(session.client_id) is session:
            del self.sessions[session.client_id]

    def _publish_will(self, session):
        will, session.will, session.will_us = session.will, None, NEVER_US
        if will:
            self._wills.append((self.now_us // 1000, will[0], will[1]))
            self.route(will[0], will[1], will[2], will[3], will[4], session)

    # --- Messages ---

    def fate(self, topic, payload):
        """Returns what happens to a message of the board ("takes", "drops", "closes", "silent"),
        and its reason code."""
        options, found = self.options, ("takes", 0)
        if _is_in(options["closes_on"], topic):
            found = ("closes", 0)
        elif _is_in(options["silent_on"], topic) or payload in options["silent_on_payloads"]:
            found = ("silent", 0)
        elif _is_in(options["denied"], topic):
            found = _DENIALS[options["denied_by"]]
        else:
            for topic_filter in sorted(options["code_on"]):
                if matches(topic_filter, topic):
                    code = options["code_on"][topic_filter]
                    found = ("drops" if code >= _FAILURE else "takes", code)
        if found[0] != "takes":
            self.refuse("PUBLISH %s: %s" % (topic.decode(), found[0]))
        return found

    def note_arrival(self, topic, fields, session):
        arrival = self.now_us // 1000, topic, fields["payload"], fields["qos"]
        stream = self.world.ledger.stream()
        self._came.append(arrival + (fields["packet_id"], fields["dup"], stream))
        self.world.hurry()

    def confirm(self, packet_id):
        topic = self.options["collector"]
        if topic:
            for said, is_retained in self.collector.take(self.world.ledger.held(), packet_id):
                is_kept = is_retained and self.options["retain_available"]
                self.route(topic, said, 1 if is_retained else 0, is_kept)

    def route(self, topic, payload, qos, retain, properties=(), origin=None):
        """origin: the session of the client that published; None: another one."""
        seconds = value_of(properties, 2)
        until_us = NEVER_US if seconds is None else self.now_us + seconds * 1_000_000
        if retain:
            self._keep(topic, payload, qos, properties, until_us)
        for client_id in sorted(self.sessions):
            session = self.sessions[client_id]
            entries = session.grants(topic, session is origin)
            if entries:
                shown = retain and any([one[2] & AS_PUBLISHED for one in entries])
                more = list(properties) + [(0x0B, one[3]) for one in entries if one[3]]
                granted = min(qos, max([one[1] for one in entries]))
                self.give(session, Message(topic, payload, granted, shown, more, until_us))

    def give(self, session, message):
        """QoS 0 is for who is there."""
        if message.qos:
            session.queue.append(message)
            if session.connection:
                session.connection.pump()
        elif session.connection:
            session.connection.send_at_once(message)

    def _keep(self, topic, payload, qos, properties, until_us):
        if payload:
            self._retained[topic] = payload
            self._kept[topic] = qos, properties, until_us
        else:
            self._retained.pop(topic, None)

    def kept(self, topic_filter):
        """[(topic, payload, QoS, properties, until us)] of the retained messages that match."""
        return [
            (topic, self._retained[topic]) + self._kept.get(topic, (0, (), NEVER_US))
            for topic in sorted(self._retained)
            if matches(topic_filter, topic)
        ]

    # --- What it says of itself ---

    def refuse(self, why):
        self._refused.append((self.now_us // 1000, why))

    def blame(self, why):
        self._violations.append(why)

    def connack_properties(self):
        options = self.options
        found = [
            (number, options[name])
            for number, name in (
                (0x21, "receive_maximum"), (0x22, "topic_alias_maximum"), (0x27, "maximum_packet"),
            )
            if options[name]
        ]  # fmt: skip
        if options["maximum_qos"] < 2:
            found.append((0x24, options["maximum_qos"]))
        if not options["retain_available"]:
            found.append((0x25, 0))
        return found


def _is_in(filters, topic):
    return any([matches(one, topic) for one in filters])


def _bytes(text):
    return text.encode() if isinstance(text, str) else bytes(text)


def _checked(given):
    """The options, with bytes for texts. ValueError: one that is unknown."""
    for name in given:
        if name not in _DEFAULTS:
            raise ValueError("the broker has no option %r" % (name,))
    found = _DEFAULTS.copy()
    found.update(given)
    if found["denied_by"] not in _DENIALS or found["level"] not in (3, 4, 5):
        raise ValueError("the broker's denied_by or level")
    for name in ("denied", "closes_on", "silent_on", "silent_on_payloads"):
        found[name] = [_bytes(one) for one in found[name]]
    found["users"] = {_bytes(one): _bytes(word) for one, word in found["users"].items()}
    found["code_on"] = {_bytes(one): code for one, code in found["code_on"].items()}
    found["collector"] = _bytes(found["collector"])
    return found
