"""The server of the virtual world: each option and each outage beside an ordinary server, what the
standard forbids, what survives a power cut, and the firmware's own client against it.
"""

import unittest

from faulty_flash import formatted
from outpost.client import Client
from outpost.durable import DurableSession
from outpost.exactly_once import ExactlyOnceSession
from outpost.level5 import over
from outpost.ram_outbox import RamOutbox
from outpost.session import Session
from outpost.state_note import NotedOutbox
from outpost.subscribing import SubscribingSession
from virtual.clock import Clock
from virtual.collector import Collector
from virtual.packets import decode, encode, matches, value_of
from virtual.world import World

FOR_EVER = 0xFFFFFFFF
# of CONNECT, by level: the session stays
LASTS = {4: {}, 5: {"properties": [(0x11, FOR_EVER)]}}


class Peer:
    """A client that sends what it is told, at any level, without a thought of its own."""

    def __init__(self, world, level=4):
        self.world, self.level = world, level
        self.stream = world.broker.accept()
        self._data, self._early = b"", []
        self.is_closed = False

    def write(self, data):
        return self.stream.write(data, 0, len(data))

    def send(self, kind, **fields):
        self.write(encode(kind, level=self.level, **fields))
        return self

    def heard(self, ms=50):
        """[(kind, fields)] of what comes within that time."""
        end_us, buf = self.world.now_us + ms * 1000, bytearray(64)
        found, self._early = self._early, []
        while self.world.now_us < end_us and not self.is_closed:
            count = self.stream.readinto(buf)
            self.is_closed = count == 0
            self._data += bytes(buf[: count or 0])
            if not count:
                self.world.sleep_us(1000)
        while self._data:
            step = decode(self._data, self.level)
            if step is None:
                break
            found.append(step[:2])
            self._data = step[2]
        return found

    def kinds(self, ms=50):
        return [kind for kind, _ in self.heard(ms)]

    def connect(self, client_id=b"board", **fields):
        """Returns the fields of CONNACK; what comes with it is heard next."""
        self.send("CONNECT", client_id=client_id, **fields)
        found = self.heard()
        self._early = found[1:]
        return found[0][1]

    def publish(self, topic, payload=b"x", qos=1, packet_id=1, **fields):
        return self.send(
            "PUBLISH", topic=topic, payload=payload, qos=qos,
            packet_id=packet_id if qos else 0, **fields
        )  # fmt: skip

    def messages(self, ms=50):
        """[(topic, payload, QoS, retain)] of what comes; each is acknowledged."""
        found = []
        for kind, fields in self.heard(ms):
            if kind == "PUBLISH":
                found.append(
                    tuple([fields[name] for name in ("topic", "payload", "qos", "retain")])
                )
                if fields["qos"] == 1:
                    self.send("PUBACK", packet_id=fields["packet_id"])
                elif fields["qos"] == 2:
                    self.send("PUBREC", packet_id=fields["packet_id"])
            elif kind == "PUBREL":
                self.send("PUBCOMP", packet_id=fields["packet_id"])
        return found


def world_with(outages=(), **options):
    return World({"broker": options, "outages": outages})


def connected(level=4, outages=(), options=None, **fields):
    """(world, peer) after CONNACK."""
    world = world_with(outages, **(options or {}))
    peer = Peer(world, level)
    peer.connect(**fields)
    return world, peer


def sleep_until(world, seconds):
    world.sleep_us(int(seconds * 1_000_000) - world.now_us)


def error_of(action, *words):
    """The number of the OSError that it raises; 0: none."""
    try:
        action(*words)
    except OSError as error:
        return error.args[0]
    return 0


def came(world):
    return [one[1:6] for one in world.broker.came]


# --- Packets ---


class TestPackets(unittest.TestCase):
    GOLDEN = (
        (
            "CONNECT",
            {"client_id": b"d", "properties": [(0x11, 9)], "will": (b"w", b"m", 1, False),
             "will_properties": [(0x18, 5)]},
            b"\x10\x1f\x00\x04MQTT\x05\x0c\x00\x00\x05\x11\x00\x00\x00\x09\x00\x01d"
            b"\x05\x18\x00\x00\x00\x05\x00\x01w\x00\x01m",
        ),
        (
            "CONNACK",
            {"session_present": 1, "properties": [(0x21, 5)]},
            b"\x20\x06\x01\x00\x03!\x00\x05",
        ),
        (
            "PUBLISH",
            {"topic": b"", "qos": 1, "packet_id": 7, "payload": b"x", "properties": [(0x23, 1)]},
            b"\x32\x09\x00\x00\x00\x07\x03\x23\x00\x01x",
        ),
        ("PUBACK", {"packet_id": 1, "code": 0}, b"\x40\x02\x00\x01"),
        ("PUBREC", {"packet_id": 1, "code": 0x87}, b"\x50\x03\x00\x01\x87"),
        ("PUBREL", {"packet_id": 1, "code": 0x92}, b"\x62\x03\x00\x01\x92"),
        (
            "PUBCOMP",
            {"packet_id": 1, "code": 0, "properties": [(0x26, (b"n", b"v"))]},
            b"\x70\x0b\x00\x01\x00\x07&\x00\x01n\x00\x01v",
        ),
        (
            "SUBSCRIBE",
            {"packet_id": 1, "filters": [(b"a/#", 0x2D)], "properties": [(0x0B, 300)]},
            b"\x82\x0c\x00\x01\x03\x0b\xac\x02\x00\x03a/#\x2d",
        ),
        ("SUBACK", {"packet_id": 1, "codes": [1, 0x87]}, b"\x90\x05\x00\x01\x00\x01\x87"),
        ("UNSUBSCRIBE", {"packet_id": 1, "filters": [b"a"]}, b"\xa2\x06\x00\x01\x00\x00\x01a"),
        ("UNSUBACK", {"packet_id": 1, "codes": [0x11]}, b"\xb0\x04\x00\x01\x00\x11"),
        (
            "DISCONNECT",
            {"code": 4, "properties": [(0x11, 1)]},
            b"\xe0\x07\x04\x05\x11\x00\x00\x00\x01",
        ),
        ("DISCONNECT", {"code": 0}, b"\xe0\x00"),
        ("AUTH", {"code": 0x18, "properties": [(0x15, b"m")]}, b"\xf0\x06\x18\x04\x15\x00\x01m"),
    )  # fmt: skip
    BAD = (
        b"\x40\x82\x00\x00\x01",  # a length with more bytes than it needs
        b"\x32\x0a\x00\x00\x00\x07\x83\x00\x23\x00\x01x",  # the same of the properties
        b"\x32\x09\x00\x00\x00\x07\x03\x23\x00\x00x",  # alias 0
        b"\x32\x06\x00\x00\x00\x07\x00x",  # neither topic nor alias
        b"\x32\x0a\x00\x01t\x00\x07\x04\x01\x01\x01\x01",  # twice
        b"\x32\x08\x00\x01t\x00\x07\x02\x01\x02",  # a flag of 2
        b"\x32\x08\x00\x01t\x00\x07\x02\x24\x01",  # of CONNACK
        b"\x32\x08\x00\x01t\x00\x07\x02\x7f\x01",  # unknown
        b"\x32\x0a\x00\x01t\x00\x07\x04\x08\x00\x01#",  # response topic with a wildcard
        b"\x32\x08\x00\x01t\x00\x07\x04\x01\x01",  # properties end after the packet
        b"\x40\x03\x00\x01\x01",  # an unknown reason code
        b"\x40\x04\x00\x01\x00\x02",
        b"\x82\x07\x00\x01\x00\x00\x01a\x03",  # QoS 3
        b"\x82\x07\x00\x01\x00\x00\x01a\x30",  # retain handling 3
        b"\x82\x07\x00\x01\x00\x00\x01a\x40",  # reserved bit
        b"\x82\x10\x00\x01\x00\x00\x0a$share/g/a\x04",  # no local, and shared
        b"\x82\x03\x00\x01\x00",  # no filter
        b"\xe0\x01\x01",
        b"\xf1\x00",
        b"\x10\x11\x00\x04MQTT\x05\x00\x00\x00\x03!\x00\x00\x00\x01d",  # receive maximum 0
        b"\x10\x12\x00\x04MQTT\x05\x00\x00\x00\x04\x16\x00\x01x\x00\x01d",  # data, no method
    )

    def test_level_5_both_ways(self):
        for kind, fields, data in self.GOLDEN:
            self.assertEqual(encode(kind, level=5, **fields), data, kind)
            found, decoded, rest = decode(data, 5)
            self.assertEqual((found, rest), (kind, b""))
            for name in fields:
                self.assertEqual(decoded[name], fields[name], (kind, name))

    def test_what_level_5_does_not_allow_is_malformed(self):
        for data in self.BAD:
            with self.subTest(data=data):
                with self.assertRaises(ValueError):
                    print(decode(data, 5))

    def test_level_5_is_no_level_for_a_server_of_3_1_1(self):
        data = encode("CONNECT", level=5, client_id=b"d" * 300)
        self.assertEqual(decode(data, 5)[1]["level"], 5)
        with self.assertRaises(ValueError):
            decode(data)

    def test_filters(self):
        for topic_filter, topic, expected in (
            (b"a/b", b"a/b", True), (b"a/+", b"a/b", True), (b"a/+", b"a/b/c", False),
            (b"a/#", b"a", True), (b"a/#", b"a/b/c", True), (b"#", b"$SYS/x", False),
            (b"+/x", b"$SYS/x", False), (b"$SYS/#", b"$SYS/x", True), (b"+", b"a", True),
            (b"a/+/c", b"a//c", True), (b"a/b", b"a/bc", False),
        ):  # fmt: skip
            self.assertEqual(matches(topic_filter, topic), expected, topic_filter)


# --- Conformance ---


class TestForbidden(unittest.TestCase):
    def check(self, data, level=4, code=None, before=()):
        """The server notes it, and closes; at level 5 with that code."""
        world, peer = connected(level)
        for kind, fields in before:
            peer.send(kind, **fields)
        peer.heard()
        peer.write(data)
        heard = peer.heard()
        self.assertEqual((len(world.broker.violations), peer.is_closed), (1, True), data)
        if code:
            self.assertEqual(heard[-1], ("DISCONNECT", {"code": code, "properties": []}), data)

    def test_at_every_level(self):
        publish = encode("PUBLISH", topic=b"t", qos=2, packet_id=7)
        for data in (
            encode("CONNECT", client_id=b"board"),
            encode("CONNACK"),
            encode("SUBACK", packet_id=1, codes=[0]),
            encode("UNSUBACK", packet_id=1),
            encode("PINGRESP"),
            b"\x36\x05\x00\x01t\x00\x07",
            b"\x82\x02\x00\x01",
            b"\xf0\x00",
            publish + publish,  # in use, and without DUP
            publish + encode("SUBSCRIBE", packet_id=7, filters=[(b"a", 0)]),
        ):
            self.check(data)

    def test_at_level_5(self):
        def five(kind, **fields):
            return encode(kind, level=5, **fields)

        dup = five("PUBLISH", topic=b"t", qos=2, packet_id=7, dup=True)
        self.check(five("CONNECT", client_id=b"board"), 5, 0x82)
        self.check(b"\x40\x03\x00\x01\x01", 5, 0x81)
        self.check(five("PUBLISH", topic=b"t", properties=[(0x0B, 1)]), 5, 0x82)
        self.check(five("PUBLISH", topic=b"t", properties=[(0x23, 1)]), 5, 0x94)
        self.check(five("AUTH"), 5, 0x82)
        self.check(dup + dup, 5, 0x82)  # sent again on one connection
        self.check(five("DISCONNECT", code=0x8B), 5, 0x82)
        self.check(five("DISCONNECT", properties=[(0x11, 9)]), 5, 0x82)

    def test_sent_again_with_dup_is_allowed_at_level_4(self):
        world, peer = connected()
        for dup in (False, True):
            peer.publish(b"t", qos=2, packet_id=7, dup=dup)
        self.assertEqual((peer.kinds(), world.broker.violations), (["PUBREC"] * 2, []))

    def test_one_identifier_for_two_messages(self):
        """DUP repeats a message; it does not rename one."""
        for again in (
            {"payload": b"y"}, {"topic": b"u"}, {"qos": 1},
        ):  # fmt: skip
            for level, is_back in ((4, False), (4, True), (5, True)):
                world, peer = connected(level, **LASTS[level])
                peer.publish(b"t", qos=2, packet_id=7).heard()
                if is_back:
                    peer = Peer(world, level)
                    peer.connect(**LASTS[level])
                given = {"topic": b"t", "payload": b"x", "qos": 2, "packet_id": 7, "dup": True}
                peer.publish(**given).heard()
                self.assertEqual(world.broker.violations, [])
                given.update(again)
                peer.publish(**given).heard()
                (why,) = world.broker.violations
                self.assertTrue(why.endswith("PUBLISH with identifier 7, which is in use"), why)

    def test_dup_in_a_new_exchange(self):
        """At level 5: after a refusal, and where the server has no session."""
        for level in (4, 5):
            world, peer = connected(level, options={"code_on": {"no": 0x97}})
            peer.publish(b"no", packet_id=7).heard()
            peer.publish(b"no", packet_id=7).heard()
            self.assertEqual(world.broker.violations, [])
            peer.publish(b"no", packet_id=7, dup=True).heard()
            told = ["board: DUP after 7 was refused"] if level == 5 else []
            self.assertEqual((world.broker.violations, peer.is_closed), (told, level == 5))
            world, peer = connected(level)
            peer.publish(b"t", packet_id=8, dup=True).heard()
            told = ["board: DUP of 8 without a session"] if level == 5 else []
            self.assertEqual(world.broker.violations, told)

    def test_before_connect(self):
        world = world_with()
        peer = Peer(world).send("PINGREQ")
        self.assertEqual((peer.kinds(), peer.is_closed), ([], True))
        self.assertEqual(world.broker.violations, [": PINGREQ before CONNECT"])

    def test_the_wrong_acknowledgement(self):
        for qos, wrong in ((1, "PUBREC"), (1, "PUBCOMP"), (2, "PUBACK"), (2, "PUBCOMP")):
            world, peer = connected()
            peer.send("SUBSCRIBE", packet_id=9, filters=[(b"t", qos)])
            peer.heard()
            world.broker.publish(b"t", b"x", qos=2)
            (message,) = peer.heard()
            peer.send(wrong, packet_id=message[1]["packet_id"])
            peer.heard()
            self.assertTrue(peer.is_closed and world.broker.violations, wrong)

    def test_an_identifier_is_free_again_with_its_answer(self):
        world, peer = connected()
        for _ in range(3):
            peer.publish(b"t", packet_id=7)
            self.assertEqual(peer.kinds(), ["PUBACK"])
        self.assertEqual((len(came(world)), world.broker.violations), (3, []))

    def test_an_unknown_option_and_an_unknown_outage_are_errors(self):
        for scenario in (
            {"broker": {"latency": 3}}, {"broker": {"denied_by": "magic"}},
            {"outages": [[1, 2, "gone"]]}, {"outages": [[2, 1, "silent"]]},
        ):  # fmt: skip
            with self.assertRaises(ValueError):
                World(scenario)


class TestExchanges(unittest.TestCase):
    def test_each_qos_from_the_board(self):
        world, peer = connected()
        peer.publish(b"a", b"0", 0)
        peer.publish(b"a", b"1", 1, 1)
        peer.publish(b"a", b"2", 2, 2).publish(b"a", b"2", 2, 2, dup=True)
        self.assertEqual(peer.kinds(), ["PUBACK", "PUBREC", "PUBREC"])
        self.assertEqual(peer.send("PUBREL", packet_id=2).kinds(), ["PUBCOMP"])
        peer.publish(b"a", b"2", 2, 2)
        first = [(b"a", b"0", 0, 0, False), (b"a", b"1", 1, 1, False), (b"a", b"2", 2, 2, False)]
        self.assertEqual(came(world), first + first[2:])

    def test_each_qos_to_the_board(self):
        world, peer = connected()
        peer.send("SUBSCRIBE", packet_id=9, filters=[(b"a/+", 2), (b"b", 0)])
        self.assertEqual(peer.heard(), [("SUBACK", {"packet_id": 9, "codes": [2, 0]})])
        for qos in (0, 1, 2):
            world.broker.publish(b"a/b", b"%d" % qos, qos=qos)
        world.broker.publish(b"b", b"x", qos=2)
        world.broker.publish(b"c", b"x", qos=2)
        expected = [(b"a/b", b"%d" % qos, qos, False) for qos in (0, 1, 2)] + [
            (b"b", b"x", 0, False)
        ]
        self.assertEqual(peer.messages(), expected)
        self.assertEqual(peer.messages(), [])
        self.assertEqual([one.queue for one in world.broker.sessions.values()], [[]])

    def test_what_is_not_acknowledged_comes_again_with_dup(self):
        for qos, answer in ((1, None), (2, None), (2, "PUBREC")):
            world, peer = connected()
            peer.send("SUBSCRIBE", packet_id=9, filters=[(b"t", 2)]).heard()
            world.broker.publish(b"t", b"x", qos=qos)
            (first,) = peer.heard()
            if answer:
                peer.send(answer, packet_id=first[1]["packet_id"]).heard()
            again = Peer(world).send("CONNECT", client_id=b"board").heard()
            kind, fields = again[1]
            self.assertEqual(again[0][1]["session_present"], 1)
            self.assertEqual(kind, "PUBREL" if answer else "PUBLISH")
            self.assertEqual(fields["packet_id"], first[1]["packet_id"])
            self.assertEqual(fields.get("dup", True), True)

    def test_a_session_outlives_its_connection_and_a_clean_one_does_not(self):
        for is_clean in (False, True):
            world, peer = connected(clean=is_clean)
            peer.send("SUBSCRIBE", packet_id=9, filters=[(b"t", 1)]).heard()
            peer.send("DISCONNECT").stream.close()
            world.broker.publish(b"t", b"lost", qos=0)
            world.broker.publish(b"t", b"kept")
            peer = Peer(world)
            self.assertEqual(peer.connect()["session_present"], 0 if is_clean else 1)
            self.assertEqual(peer.messages(), [] if is_clean else [(b"t", b"kept", 1, False)])

    def test_a_clean_connect_forgets(self):
        world, peer = connected()
        peer.send("DISCONNECT").stream.close()
        self.assertEqual(Peer(world).connect(clean=True)["session_present"], 0)

    def test_retained(self):
        world, peer = connected()
        for topic, payload in ((b"a/2", b"two"), (b"a/1", b"one"), (b"a/3", b"x"), (b"a/3", b"")):
            peer.publish(topic, payload, 0, retain=True)
        self.assertEqual(world.broker.retained, {b"a/1": b"one", b"a/2": b"two"})
        expected = [(b"a/1", b"one", 0, True), (b"a/2", b"two", 0, True)]
        for packet_id in (8, 9):  # with each SUBSCRIBE
            peer.send("SUBSCRIBE", packet_id=packet_id, filters=[(b"a/#", 1)])
            self.assertEqual(peer.messages(), expected)
        world.broker.publish(b"a/1", b"new", True)
        self.assertEqual(peer.messages(), [(b"a/1", b"new", 1, False)])

    def test_unsubscribe_and_ping(self):
        world, peer = connected()
        peer.send("SUBSCRIBE", packet_id=9, filters=[(b"t", 1), (b"u", 1)]).heard()
        peer.send("UNSUBSCRIBE", packet_id=9, filters=[b"t", b"none"]).send("PINGREQ")
        self.assertEqual(peer.kinds(), ["UNSUBACK", "PINGRESP"])
        world.broker.publish(b"t", b"x")
        world.broker.publish(b"u", b"y")
        self.assertEqual(peer.messages(), [(b"u", b"y", 1, False)])

    def test_a_board_hears_itself(self):
        _, peer = connected()
        peer.send("SUBSCRIBE", packet_id=9, filters=[(b"t", 1)]).heard()
        self.assertEqual(peer.publish(b"t").messages(), [(b"t", b"x", 1, False)])

    def test_3_1_has_no_session_present(self):
        world = world_with()
        for _ in range(2):
            self.assertEqual(Peer(world, 3).connect()["session_present"], 0)
        self.assertEqual(Peer(world, 3).connect(b"d" * 24)["code"], 2)


class TestWill(unittest.TestCase):
    WILL = (b"state", b"gone", 1, True)

    def test_after_close_without_disconnect(self):
        for goodbye, expected in ((False, {b"state": b"gone"}), (True, {})):
            world, peer = connected(will=self.WILL)
            if goodbye:
                peer.send("DISCONNECT")
            peer.stream.close()
            self.assertEqual(world.broker.retained, expected)
            self.assertEqual([], world.broker.came)

    def test_a_board_without_power_is_missed_after_one_and_a_half_keep_alives(self):
        world, peer = connected(will=self.WILL, keep_alive=60)
        world.broker.hang_up()
        self.assertEqual(error_of(peer.write, b"\xc0\x00"), 104)
        sleep_until(world, 89.9)
        self.assertEqual(world.broker.retained, {})
        sleep_until(world, 90.1)
        self.assertEqual(world.broker.retained, {b"state": b"gone"})
        self.assertEqual(world.broker.wills, [(90_000, b"state", b"gone")])

    def test_not_if_it_is_back_before(self):
        world, _ = connected(will=self.WILL, keep_alive=60)
        world.broker.hang_up()
        sleep_until(world, 80)
        Peer(world).connect()
        sleep_until(world, 200)
        self.assertEqual(world.broker.wills, [])

    def test_keep_alive_is_enforced_and_each_packet_counts(self):
        world, peer = connected(keep_alive=10)
        for second in (14, 28):
            sleep_until(world, second)
            self.assertEqual(peer.send("PINGREQ").kinds(), ["PINGRESP"])
        sleep_until(world, 42)
        self.assertFalse(peer.heard() or peer.is_closed)
        sleep_until(world, 44)
        peer.heard()
        self.assertTrue(peer.is_closed)
        self.assertEqual(len(world.broker.refused), 1)

    def test_takeover(self):
        for level in (4, 5):
            world, first = connected(level, properties=[(0x11, 9)] if level == 5 else ())
            second = Peer(world, level)
            self.assertEqual(second.connect()["session_present"], 1)
            heard = first.heard()
            expected = [("DISCONNECT", {"code": 0x8E, "properties": []})] if level == 5 else []
            self.assertEqual((heard, first.is_closed), (expected, True))
            self.assertEqual(second.send("PINGREQ").kinds(), ["PINGRESP"])
            third = Peer(world, level)
            self.assertEqual(third.connect(clean=True)["session_present"], 0)

    def test_disconnect_with_will_and_its_delay(self):
        for delay_s, expiry_s, at_s in ((0, 100, 0), (20, 100, 20), (20, 5, 5)):
            world, peer = connected(
                5, will=self.WILL, will_properties=[(0x18, delay_s)], properties=[(0x11, expiry_s)]
            )
            peer.send("DISCONNECT", code=4)
            start = world.now_us // 1_000_000
            sleep_until(world, 60)
            self.assertEqual([one[0] // 1000 - start for one in world.broker.wills], [at_s])

    def test_a_client_that_is_back_within_the_delay_has_no_will_published(self):
        fields = {"will": self.WILL, "properties": [(0x11, 90)], "will_properties": [(0x18, 20)]}
        world, peer = connected(5, **fields)
        peer.stream.close()
        sleep_until(world, 15)
        Peer(world, 5).connect(**fields)
        sleep_until(world, 60)
        self.assertEqual(world.broker.wills, [])

    def test_a_clean_connect_ends_the_delay_with_the_session(self):
        fields = {"will": self.WILL, "properties": [(0x11, 90)], "will_properties": [(0x18, 20)]}
        world, peer = connected(5, **fields)
        peer.stream.close()
        Peer(world, 5).connect(clean=True)
        self.assertEqual(len(world.broker.wills), 1)

    def test_a_server_that_stops_publishes_the_will_of_a_board_without_power(self):
        world, _ = connected(will=self.WILL, keep_alive=60, outages=[[10, 20, "refuses"]])
        world.broker.hang_up()
        sleep_until(world, 200)
        self.assertEqual(world.broker.wills, [(10_000, b"state", b"gone")])


class TestLevel5(unittest.TestCase):
    def test_session_expiry(self):
        for expiry_s, expected in ((0, 0), (100, 0), (200, 1), (FOR_EVER, 1)):
            world, peer = connected(5, properties=[(0x11, expiry_s)])
            peer.send("DISCONNECT").stream.close()
            sleep_until(world, 150)
            self.assertEqual(Peer(world, 5).connect()["session_present"], expected, expiry_s)

    def test_a_connection_stops_the_expiry(self):
        world, peer = connected(5, properties=[(0x11, 100)])
        peer.send("DISCONNECT").stream.close()
        sleep_until(world, 50)
        Peer(world, 5).connect(properties=[(0x11, 100)])
        sleep_until(world, 150)
        self.assertEqual(Peer(world, 5).connect()["session_present"], 1)

    def test_an_expiry_in_disconnect(self):
        world, peer = connected(5, properties=[(0x11, 100)])
        peer.send("DISCONNECT", properties=[(0x11, 0)]).stream.close()
        self.assertEqual(Peer(world, 5).connect()["session_present"], 0)

    def test_an_identifier_is_assigned(self):
        world = world_with()
        names = []
        for _ in range(2):
            names.append(value_of(Peer(world, 5).connect(b"")["properties"], 0x12))
        self.assertTrue(names[0] and names[1] and names[0] != names[1], names)

    def test_the_clients_receive_maximum_and_packet_size(self):
        world, peer = connected(5, properties=[(0x21, 2), (0x27, 60)])
        peer.send("SUBSCRIBE", packet_id=9, filters=[(b"t", 1)]).heard()
        world.broker.publish(b"t", b"long" * 20)
        for number in range(5):
            world.broker.publish(b"t", b"%d" % number)
        found = [[one[1] for one in peer.messages()] for _ in range(3)]
        self.assertEqual(found, [[b"0", b"1"], [b"2", b"3"], [b"4"]])

    def test_aliases_both_ways(self):
        options = {"topic_alias_maximum": 2}
        world, peer = connected(5, options=options, properties=[(0x22, 1)])
        peer.send("SUBSCRIBE", packet_id=9, filters=[(b"#", 0)]).heard()
        peer.publish(b"a", b"1", properties=[(0x23, 2)]).publish(
            b"", b"2", 1, 2, properties=[(0x23, 2)]
        )
        peer.publish(b"b", b"3", 1, 3)
        told = [
            (one["topic"], value_of(one["properties"], 0x23))
            for kind, one in peer.heard()
            if kind == "PUBLISH"
        ]
        self.assertEqual(told, [(b"a", 1), (b"", 1), (b"b", None)])
        self.assertEqual([one[0] for one in came(world)], [b"a", b"a", b"b"])
        self.assertFalse(world.broker.violations)

    def test_options_of_a_subscription(self):
        world, peer = connected(5)
        world.broker.publish(b"r", b"kept", True)
        for packet_id, topic_filter, options, expected in (
            (1, b"r", 0x21, 0), (2, b"r", 0x11, 0), (3, b"r", 0x01, 1), (4, b"r/#", 0x11, 1),
            (5, b"$share/group/r", 0x01, 0),
        ):  # fmt: skip
            peer.send("SUBSCRIBE", packet_id=packet_id, filters=[(topic_filter, options)])
            self.assertEqual(len(peer.messages()), expected, topic_filter)
        peer.send("UNSUBSCRIBE", packet_id=6, filters=[b"r/#", b"r"]).heard()
        world.broker.publish(b"r", b"shared")
        self.assertEqual(peer.messages(), [(b"r", b"shared", 1, False)])
        peer.send("UNSUBSCRIBE", packet_id=6, filters=[b"$share/group/r"]).heard()
        peer.send(
            "SUBSCRIBE", packet_id=4, filters=[(b"r", 0x2D)], properties=[(0x0B, 300)]
        ).heard()
        peer.publish(b"r", b"own")  # no local
        world.broker.publish(b"r", b"new", True)
        found = [fields for kind, fields in peer.heard() if kind == "PUBLISH"]
        self.assertEqual([(one["payload"], one["retain"]) for one in found], [(b"new", True)])
        self.assertEqual(found[0]["properties"], [(0x0B, 300)])

    def test_message_expiry_and_passed_on_properties(self):
        world, peer = connected(5, properties=[(0x11, FOR_EVER)])
        peer.send("SUBSCRIBE", packet_id=9, filters=[(b"t", 1)]).heard()
        peer.send("DISCONNECT").stream.close()
        other = Peer(world, 5)
        other.connect(b"other")
        pair = (0x26, (b"n", b"v"))
        for packet_id, seconds in ((1, 10), (2, 100)):
            other.publish(b"t", b"x", 1, packet_id, properties=[(2, seconds), pair])
        sleep_until(world, 50.5)
        peer = Peer(world, 5)
        peer.send("CONNECT", client_id=b"board")
        found = [fields["properties"] for kind, fields in peer.heard() if kind == "PUBLISH"]
        self.assertEqual(found, [[(2, 49), pair]])

    def test_unknown_identifiers_are_said(self):
        _, peer = connected(5)
        peer.send("PUBREL", packet_id=5).send("PUBREC", packet_id=6)
        peer.send("UNSUBSCRIBE", packet_id=7, filters=[b"none"])
        told = [(kind, fields.get("code"), fields.get("codes")) for kind, fields in peer.heard()]
        expected = [("PUBCOMP", 0x92, None), ("PUBREL", 0x92, None), ("UNSUBACK", None, [0x11])]
        self.assertEqual(told, expected)


# --- Options ---


class TestOptions(unittest.TestCase):
    def test_level(self):
        for most in (3, 4, 5):
            for level in (3, 4, 5):
                world = world_with(level=most)
                peer = Peer(world, level)
                peer.send("CONNECT", client_id=b"d")
                peer.level = min(level, most)
                expected = 0 if level <= most else 1
                self.assertEqual(peer.heard()[0][1]["code"], expected, (most, level))
                self.assertEqual(peer.is_closed, level > most)
                self.assertEqual(len(world.broker.refused), expected)

    def test_latency(self):
        for latency_ms in (20, 500):
            world = world_with(latency_ms=latency_ms)
            peer = Peer(world).send("CONNECT", client_id=b"d")
            self.assertEqual(peer.heard(latency_ms - 2), [])
            self.assertEqual(len(peer.heard(4)), 1)

    def test_users(self):
        for level, code in ((4, 5), (5, 0x87)):
            for user, password, expected in (
                (b"me", b"word", 0), (b"me", b"wrong", code), (b"you", b"word", code),
                (None, None, code), (b"me", None, code),
            ):  # fmt: skip
                world = world_with(users={"me": "word"})
                peer = Peer(world, level)
                found = peer.connect(user=user, password=password)["code"]
                peer.heard()
                self.assertEqual((found, peer.is_closed), (expected, expected > 0))
                self.assertEqual(len(world.broker.connects), 0 if expected else 1)

    def denied(self, level=4, qos=1, topic=b"no/1", **options):
        """(what the server says, is the connection closed, has the message come)"""
        world, peer = connected(level, options=options)
        peer.publish(topic, b"x", qos)
        heard = [(kind, fields.get("code", 0)) for kind, fields in peer.heard()]
        self.assertEqual(world.broker.violations, [])
        return heard, peer.is_closed, len(came(world)) == 1

    def test_denied(self):
        for way, level, qos, expected in (
            ("drops", 4, 1, ([("PUBACK", 0)], False, False)),
            ("drops", 5, 2, ([("PUBREC", 0)], False, False)),
            ("closes", 4, 1, ([], True, False)),
            ("closes", 5, 0, ([], True, False)),
            ("code", 4, 1, ([("PUBACK", 0)], False, False)),
            ("code", 5, 1, ([("PUBACK", 0x87)], False, False)),
            ("code", 5, 2, ([("PUBREC", 0x87)], False, False)),
        ):
            self.assertEqual(self.denied(level, qos, denied=["no/#"], denied_by=way), expected)
        self.assertEqual(self.denied(denied=["no/#"]), ([("PUBACK", 0)], False, False))
        self.assertEqual(self.denied(denied=["other"]), ([("PUBACK", 0)], False, True))

    def test_closes_on_and_silent_on(self):
        self.assertEqual(self.denied(closes_on=["no/+"]), ([], True, False))
        self.assertEqual(self.denied(silent_on=["no/+"]), ([], False, False))
        self.assertEqual(self.denied(silent_on_payloads=["x"]), ([], False, False))
        other = self.denied(silent_on_payloads=["y"])
        self.assertEqual(other, ([("PUBACK", 0)], False, True))
        for name in ("closes_on", "silent_on"):
            taken = self.denied(topic=b"yes", **{name: ["no/+"]})
            self.assertEqual(taken, ([("PUBACK", 0)], False, True))

    def test_code_on(self):
        codes = {"no/+": 0x97, "few": 0x10}
        taken, dropped = (False, True), (False, False)
        for level, topic, code, expected in (
            (5, b"no/1", 0x97, dropped), (5, b"few", 0x10, taken), (5, b"yes", 0, taken),
            (4, b"no/1", 0, dropped), (4, b"few", 0, taken),
        ):  # fmt: skip
            found = self.denied(level, 1, topic, code_on=codes)
            self.assertEqual(found, ([("PUBACK", code)],) + expected)

    def test_code_on_a_filter(self):
        for level, code in ((3, 1), (4, 0x80), (5, 0x87)):
            _, peer = connected(level, options={"code_on": {"no/#": 0x87}})
            peer.send("SUBSCRIBE", packet_id=9, filters=[(b"no/#", 1), (b"yes", 1)])
            self.assertEqual(peer.heard()[0][1]["codes"], [code, 1])

    def test_loses_session_at(self):
        for options, expected in (({}, 1), ({"loses_session_at": [10, 20]}, 0)):
            world, peer = connected(options=options)
            sleep_until(world, 9.9)
            self.assertEqual(peer.send("PINGREQ").kinds(), ["PINGRESP"])
            for second in (15, 25):
                sleep_until(world, second)
                is_reset = error_of(peer.send, "PINGREQ") == 104
                self.assertEqual(is_reset, expected == 0)
                peer = Peer(world)
                self.assertEqual(peer.connect()["session_present"], expected)

    def limited(self, kind_of_limit, value, *packets):
        """(reason code of DISCONNECT at level 5, refused at level 4)"""
        found = []
        for level in (5, 4):
            world, peer = connected(level, options={kind_of_limit: value})
            for fields in packets:
                peer.publish(b"t", **fields)
            heard = peer.heard()
            codes = [fields["code"] for kind, fields in heard if kind == "DISCONNECT"]
            found.append((codes, len(world.broker.violations), len(world.broker.refused)))
            self.assertEqual(peer.is_closed, found[-1] != ([], 0, 0))
        return found

    def test_limits(self):
        none = [([], 0, 0)] * 2
        for name, value, default, code, packets in (
            ("maximum_packet", 40, 0, 0x95, [{"payload": b"x" * 50}]),
            ("maximum_qos", 1, 2, 0x9B, [{"qos": 2}]),
            ("retain_available", False, True, 0x9A, [{"retain": True}]),
        ):
            self.assertEqual(self.limited(name, value, *packets), [([code], 1, 0), ([], 0, 1)])
            self.assertEqual(self.limited(name, default, *packets), none)
            self.assertEqual(self.limited(name, value, {}), none)
        two = [{"packet_id": 1}, {"packet_id": 2}]
        self.assertEqual(self.limited("receive_maximum", 1, *two), [([0x93], 1, 0), ([], 0, 0)])
        self.assertEqual(self.limited("receive_maximum", 2, *two), none)

    def test_limits_are_said_in_connack(self):
        options = {
            "receive_maximum": 3, "topic_alias_maximum": 4, "maximum_packet": 500, "maximum_qos": 1,
            "retain_available": False,
        }  # fmt: skip
        said = Peer(world_with(**options), 5).connect()["properties"]
        self.assertEqual(said, [(0x21, 3), (0x22, 4), (0x27, 500), (0x24, 1), (0x25, 0)])
        self.assertEqual(Peer(world_with(), 5).connect()["properties"], [])

    def test_receive_maximum_is_free_again_with_the_answer(self):
        world, peer = connected(5, options={"receive_maximum": 1})
        for packet_id in (1, 2, 3):
            peer.publish(b"t", packet_id=packet_id).heard()
        self.assertEqual((len(came(world)), world.broker.violations), (3, []))

    def test_a_will_beyond_the_limits(self):
        for options, will, code in (
            ({"maximum_qos": 1}, (b"w", b"x", 2, False), 0x9B),
            ({"retain_available": False}, (b"w", b"x", 1, True), 0x9A),
        ):
            self.assertEqual(Peer(world_with(**options), 5).connect(will=will)["code"], code)
            self.assertEqual(Peer(world_with(**options), 4).connect(will=will)["code"], 5)
            self.assertEqual(Peer(world_with(), 5).connect(will=will)["code"], 0)

    def test_acknowledges_twice(self):
        for is_on in (False, True):
            _, peer = connected(options={"acknowledges_twice": is_on})
            peer.publish(b"t").publish(b"t", qos=2, packet_id=2).send("PUBREL", packet_id=2)
            kinds = ["PUBACK", "PUBREC", "PUBCOMP"]
            expected = [kind for kind in kinds for _ in range(2)] if is_on else kinds
            self.assertEqual(peer.kinds(), expected)


# --- Outages ---


class TestOutages(unittest.TestCase):
    def out(self, kind, **fields):
        """Connected, and 11 s later in an outage of that kind, of 10 s."""
        world, peer = connected(outages=[[10, 20, kind]], **fields)
        peer.send("SUBSCRIBE", packet_id=9, filters=[(b"said", 1)]).heard()
        for second in (3, 6, 9.9):
            sleep_until(world, second)
            peer.send("PINGREQ").heard()
        sleep_until(world, 11)
        return world, peer

    def accepts(self, world):
        return error_of(world.broker.accept)

    def test_refuses(self):
        world, peer = self.out("refuses", will=(b"w", b"x", 0, True))
        self.assertEqual(error_of(peer.stream.readinto, bytearray(9)), 104)
        self.assertEqual(error_of(peer.send, "PINGREQ"), 104)
        self.assertEqual(self.accepts(world), 111)
        self.assertEqual(world.broker.wills, [(10_000, b"w", b"x")])
        sleep_until(world, 20)
        self.assertEqual(Peer(world).connect()["session_present"], 1)

    def test_silent(self):
        world, peer = self.out("silent")
        peer.publish(b"t")
        world.broker.publish(b"said", b"x")
        self.assertEqual((peer.heard(5000), came(world), self.accepts(world)), ([], [], 110))
        sleep_until(world, 20.1)
        self.assertEqual(len(came(world)), 1)
        self.assertEqual(world.broker.came[0][0], 20_000)
        self.assertEqual(sorted(peer.kinds()), ["PUBACK", "PUBLISH"])
        self.assertEqual(self.accepts(world), 0)

    def test_silent_takes_no_more_than_there_is_room_and_ends_with_the_stream(self):
        world, peer = self.out("silent")
        packet = encode("PUBLISH", topic=b"t", payload=bytes(5000))
        self.assertEqual(peer.write(packet), len(packet))
        self.assertTrue(0 < peer.write(packet) < len(packet))
        self.assertEqual(peer.write(packet), None)
        peer.stream.close()
        sleep_until(world, 21)
        self.assertEqual(came(world), [])

    def test_silent_and_the_server_gives_up(self):
        world, peer = self.out("silent", keep_alive=4)
        self.assertEqual((peer.publish(b"t").heard(8000), peer.is_closed), ([], False))
        self.assertEqual(len(world.broker.refused), 1)
        sleep_until(world, 20.1)
        self.assertEqual((peer.heard(), peer.is_closed, came(world)), ([], True, []))

    def test_half_open(self):
        world, peer = self.out("half_open", keep_alive=6)
        peer.publish(b"t")
        world.broker.publish(b"said", b"x")
        self.assertEqual(peer.kinds(8500), ["PUBLISH"])
        self.assertEqual((peer.is_closed, self.accepts(world)), (False, 110))
        self.assertEqual(len(world.broker.refused), 1)  # the keep alive
        sleep_until(world, 20)
        self.assertEqual(error_of(peer.send, "PINGREQ"), 104)
        self.assertEqual((Peer(world).connect()["code"], came(world)), (0, []))

    def test_half_open_leaves_a_connection_that_said_nothing(self):
        world, peer = self.out("half_open")
        sleep_until(world, 21)
        self.assertEqual(peer.send("PINGREQ").kinds(), ["PINGRESP"])

    def test_slow(self):
        world, peer = self.out("slow")
        self.assertEqual(peer.publish(b"t").heard(2900), [])
        self.assertEqual((peer.kinds(200), len(came(world))), (["PUBACK"], 1))
        sleep_until(world, 19.9)
        peer.publish(b"t", packet_id=2)
        sleep_until(world, 20.1)
        self.assertEqual(peer.send("PINGREQ").heard(1000), [])  # nothing overtakes
        self.assertEqual(peer.kinds(2000), ["PUBACK", "PINGRESP"])
        self.assertEqual(peer.publish(b"t", packet_id=3).kinds(), ["PUBACK"])


# --- The stream ---


class TestStream(unittest.TestCase):
    def test_each_write_is_an_effect_before_it_arrives(self):
        world, peer = connected()
        seen = []
        world.on_effect = lambda at, kind, data: seen.append(
            (kind, bytes(data), len(at.broker.came))
        )
        data = encode("PUBLISH", topic=b"t", payload=b"x")
        self.assertEqual(peer.stream.write(b"--" + data + b"--", 2, len(data)), len(data))
        self.assertEqual((seen, len(came(world))), ([("send", data, 0)], 1))
        for at in range(len(data)):
            self.assertEqual(peer.write(data[at : at + 1]), 1)
        self.assertEqual((len(seen), len(came(world))), (1 + len(data), 2))

    def test_each_call_costs(self):
        world, peer = connected()
        for action in (
            lambda: peer.write(b"\xc0"), lambda: peer.stream.readinto(bytearray(1)),
            world.broker.accept, peer.stream.close,
        ):  # fmt: skip
            start = world.now_us
            action()
            self.assertEqual(world.now_us - start, 100)

    def test_the_end_comes_last_and_then_writing_fails(self):
        world, peer = connected()
        peer.send("PINGREQ").send("PINGRESP")
        self.assertEqual((peer.kinds(), peer.is_closed), (["PINGRESP"], True))
        self.assertEqual(peer.stream.readinto(bytearray(4)), 0)
        self.assertEqual(error_of(peer.send, "PINGREQ"), 0)
        world.sleep_us(30_000)
        self.assertEqual(error_of(peer.send, "PINGREQ"), 104)

    def test_a_closed_stream_is_closed(self):
        _, peer = connected()
        peer.stream.close()
        self.assertEqual(error_of(peer.send, "PINGREQ"), 9)
        self.assertEqual(error_of(peer.stream.readinto, bytearray(1)), 9)
        peer.stream.close()


# --- A power cut ---


class TestCopy(unittest.TestCase):
    def test_the_twin_has_all_but_the_connection_and_shares_nothing(self):
        world, peer = connected(will=(b"w", b"gone", 0, False), keep_alive=60)
        peer.send("SUBSCRIBE", packet_id=9, filters=[(b"t", 2)]).heard()
        peer.publish(b"r", b"kept", 1, 1, retain=True).publish(b"x", b"two", 2, 2)
        world.broker.publish(b"t", b"queued")
        peer.kinds()
        twin = world.copy()
        twin.on()
        # what the twin does is not seen here
        board = Peer(twin)
        board.send("CONNECT", client_id=b"board")
        found = board.heard()
        self.assertEqual(found[0][1]["session_present"], 1)
        self.assertEqual((found[1][1]["payload"], found[1][1]["dup"]), (b"queued", True))
        board.send("PUBACK", packet_id=found[1][1]["packet_id"])
        board.publish(b"x", b"two", 2, 2, dup=True).publish(b"r", b"", 0, retain=True)
        board.send("SUBSCRIBE", packet_id=9, filters=[(b"u", 0)]).heard()
        self.assertEqual((len(came(twin)), twin.broker.retained), (3, {}))
        self.assertEqual((len(came(world)), world.broker.retained), (2, {b"r": b"kept"}))
        (mine,) = world.broker.sessions.values()
        self.assertEqual((len(mine.queue), len(mine.filters), list(mine.received)), (1, 1, [2]))
        # and the other way round
        self.assertEqual(peer.publish(b"t2", packet_id=3).kinds(), ["PUBACK"])
        self.assertEqual((len(came(world)), len(came(twin))), (3, 3))
        self.assertEqual(came(twin)[2][0], b"r")
        sleep_until(twin, 200)
        self.assertEqual((twin.broker.wills, world.broker.wills), ([], []))

    def test_exchanges_of_qos_2_are_the_twins_own(self):
        world, peer = connected()
        peer.send("SUBSCRIBE", packet_id=9, filters=[(b"t", 2)]).heard()
        peer.publish(b"x", qos=2, packet_id=2)
        world.broker.publish(b"t", b"said", qos=2)
        packet_id = peer.heard()[1][1]["packet_id"]
        twin = world.copy()
        board = Peer(twin)
        board.connect()
        board.send("PUBREL", packet_id=2).send("PUBREC", packet_id=packet_id).heard()
        (mine,), (other,) = world.broker.sessions.values(), twin.broker.sessions.values()
        self.assertEqual((list(mine.received), mine.queue[0].is_released), ([2], False))
        self.assertEqual((list(other.received), other.queue[0].is_released), ([], True))

    def test_in_the_twin_the_server_misses_the_board_too(self):
        world, _ = connected(will=(b"w", b"gone", 0, False), keep_alive=60)
        twin = world.copy()
        twin.on()
        sleep_until(twin, 91)
        self.assertEqual(twin.broker.came, [])
        self.assertEqual(twin.broker.wills, [(90_000, b"w", b"gone")])

    def test_a_cut_at_the_effect_is_before_the_arrival(self):
        world, peer = connected()
        twins = []
        world.on_effect = lambda at, kind, data: twins.append(at.copy())
        peer.publish(b"t").publish(b"t", packet_id=2)
        self.assertEqual([len(twin.broker.came) for twin in twins], [0, 1])

    def test_what_was_swallowed_is_gone_with_the_power(self):
        world, peer = connected(outages=[[10, 20, "silent"]])
        sleep_until(world, 11)
        peer.publish(b"t")
        twin = world.copy()
        sleep_until(twin, 21)
        sleep_until(world, 21)
        self.assertEqual((len(came(twin)), len(came(world))), (0, 1))

    def test_plans_go_on_in_the_twin(self):
        world, _ = connected(options={"loses_session_at": [5, 10]})
        sleep_until(world, 6)
        twin = world.copy()
        Peer(twin).connect()
        sleep_until(twin, 9)
        self.assertEqual(Peer(twin).connect()["session_present"], 1)
        sleep_until(twin, 11)
        self.assertEqual(Peer(twin).connect()["session_present"], 0)


# --- The firmware ---


def level_of(kind, level):
    """(the class, its option) with which the firmware speaks that level."""
    return (over(kind), {}) if level == 5 else (kind, {"level": level})


def mounted():
    """An empty outbox in a chip of its own."""
    return formatted(outbox_class=NotedOutbox)[1]


class Board:
    def __init__(self, world, kind=Session, level=4, outbox=None, words=(), **options):
        self.world = world
        kind, more = level_of(kind, level)
        more.update(options)
        self.session = kind(outbox or RamOutbox(8), b"board", *words, **more)
        world.ledger.outbox = self.session.outbox
        self.client = Client(world.broker.accept, self.session)
        self.ticks_ms = Clock(world).ticks_ms

    def run(self, seconds):
        end_us = self.world.now_us + int(seconds * 1_000_000)
        while self.world.now_us < end_us:
            if not self.client.poll(self.ticks_ms()):
                self.world.sleep_us(10_000)
        return self

    def publish(self, payload, qos=1):
        return self.session.publish(b"t", payload, qos)


class TestFirmware(unittest.TestCase):
    def test_publishes_at_each_level_over_outages(self):
        outages = [[5, 9, "refuses"], [15, 40, "silent"], [60, 90, "half_open"], [95, 99, "slow"]]
        for level in (3, 4, 5):
            world = world_with(outages)
            board = Board(world, level=level, keep_alive_s=10)
            taken = []
            for number in range(60):
                if not board.publish(b"%d" % number):  # 0: it had room
                    taken.append(b"%d" % number)
                board.run(2)
            board.run(60)
            self.assertTrue(board.client.is_drained())
            self.assertEqual(board.client.close(), 0)
            self.assertTrue(30 < len(taken) < 60, taken)
            self.assertEqual(sorted(set([one[1] for one in came(world)])), sorted(taken))
            self.assertEqual(world.broker.violations, [])
            self.assertTrue(len(world.broker.connects) >= 3, world.broker.connects)

    def test_subscribes_and_takes_each_qos_at_each_level(self):
        for level in (3, 4, 5):
            world = world_with()
            board, told = Board(world, ExactlyOnceSession, level, mounted()), []
            board.session.on_message = lambda one, told=told: told.append(
                bytes(one.buffer[one.payload_at : one.payload_at + one.payload_length])
            )
            board.session.subscribe(b"c/#", 2)
            board.run(2)
            for qos in (0, 1, 2):
                world.broker.publish(b"c/d", b"%d" % qos, qos=qos)
                board.publish(b"b%d" % qos, qos)
            board.run(5)
            self.assertEqual(told, [b"0", b"1", b"2"])
            self.assertEqual(sorted([one[1] for one in came(world)]), [b"b0", b"b1", b"b2"])
            self.assertEqual([one.queue for one in world.broker.sessions.values()], [[]])
            self.assertEqual((world.broker.violations, board.session.ignored), ([], 0))

    def test_aliases_and_limits_of_level_5(self):
        world = world_with(topic_alias_maximum=4, receive_maximum=2, maximum_packet=100)
        board = Board(world, SubscribingSession, 5, aliases=(b"t",), alias_maximum=4)
        board.session.subscribe(b"t", 1)
        told = []
        board.session.on_message = lambda one: told.append(one.is_on(b"t"))
        for number in range(6):
            board.publish(b"%d" % number)
        board.run(5)
        self.assertEqual(len(came(world)), 6)
        self.assertEqual((told, world.broker.violations), ([True] * 6, []))

    def test_a_server_of_3_1_1_refuses_level_5(self):
        world = world_with(level=4)
        board = Board(world, level=5).run(3)
        self.assertEqual(world.broker.connects, [])
        self.assertFalse(board.client.is_connected())

    def test_acknowledges_twice_is_counted(self):
        board = Board(world_with(acknowledges_twice=True))
        board.publish(b"x")
        board.run(2)
        self.assertEqual((board.session.acknowledged, board.session.ignored), (1, 1))

    def collected(self, level, options, count=6):
        """In collector mode, over a mounted outbox."""
        world = world_with(collector="confirmed/board", **options)
        outbox = mounted()
        board = Board(world, DurableSession, level, outbox, words=(b"confirmed/board",))
        for number in range(count):
            board.publish(b"%d" % number)
        return world, board.run(20)

    def test_the_collector_confirms(self):
        for level in (4, 5):
            world, board = self.collected(level, {})
            self.assertEqual((board.client.is_drained(), board.session.through), (True, 5))
            word = board.session.outbox.stream + b" 5"
            self.assertEqual(world.broker.retained, {b"confirmed/board": word})
            self.assertEqual((board.session.replays, world.broker.violations), (0, []))

    def test_a_twins_collector_knows_what_came_and_shares_nothing(self):
        world, board = self.collected(4, {})
        stream = board.session.outbox.stream
        twin = world.copy()
        self.assertEqual(twin.broker.collector.durable, {stream: [6, set()]})
        twin.broker.collector.take((stream, 6, 9), 7)
        twin.broker.collector.take((stream, 6, 9), 9)
        self.assertEqual(twin.broker.collector.durable, {stream: [7, {8}]})
        self.assertEqual(world.broker.collector.durable, {stream: [6, set()]})

    def test_what_a_collector_says(self):
        collector, stream = Collector(), b"01234567"
        for first, packet_id, expected in (
            (0, 3, [(stream + b" -1 2-2", False)]),
            (0, 4, [(stream + b" -1 2-3", False)]),
            (0, 7, [(stream + b" -1 2-3 6-6", False)]),
            (0, 1, [(stream + b" 0", True), (stream + b" 0 2-3 6-6", False)]),
            (0, 2, [(stream + b" 3", True), (stream + b" 3 6-6", False)]),
            (4, 2, [(stream + b" 3", True), (stream + b" 3 6-6", False)]),  # released, and again
            (6, 7, [(stream + b" 6", True)]),
        ):
            self.assertEqual(collector.take((stream, first, 9), packet_id), expected)
        self.assertEqual(collector.take((b"", 0, 9), 1), [])

    def test_without_a_collector_nothing_is_confirmed(self):
        world = world_with()
        board = Board(world, DurableSession, 4, mounted(), words=(b"confirmed/board",))
        board.publish(b"x")
        board.run(20)
        self.assertEqual((board.client.is_drained(), world.broker.retained), (False, {}))

    def test_a_gap_is_said(self):
        """Number 1 is dropped: the collector has 0, and 2 to 3 beyond."""
        world = world_with(collector="confirmed/board", denied=["no"])
        board = Board(world, DurableSession, 4, mounted(), words=(b"confirmed/board",))
        for topic in (b"t", b"no", b"t", b"t"):
            board.session.publish(topic, b"x")
        board.run(5)
        self.assertEqual(board.session.through, 0)
        board.run(1000)
        self.assertEqual((board.session.not_passed, board.client.is_drained()), (1, True))


if __name__ == "__main__":
    unittest.main()
