# long: thousands of cases
"""Golden packets of MQTT 5.0, both ways, with every property: whole, byte by byte, cut at each
byte, each property twice and where it must not be. Each has a stated outcome.

Outcome: "taken", or the reason code of the DISCONNECT that this side ends the connection with; of a
CONNACK "closed", since there is no session to end yet."""

import unittest

from bench_client import TOPIC, split
from bench_level5 import Bench5, connected, sent
from outpost import status
from outpost.level5 import over
from outpost.mqtt5.level5_setup import disconnect
from outpost.outbox import Outbox
from outpost.ram_outbox import RamOutbox
from outpost.session import Session
from packets5 import OFTEN, PROPERTIES, SAMPLES, frame, length_of, sample

# kind: first byte, body before the properties, after them, the carrier's name in PROPERTIES
SERVERS = {
    "CONNACK": (0x20, b"\x00\x00", b"", "CONNACK"),
    "PUBLISH": (0x32, b"\x00\x01a\x00\x07", b"payload", "PUBLISH"),
    "PUBACK": (0x40, b"\x00\x01\x00", b"", "ACK"),
    "PUBREC": (0x50, b"\x00\x01\x00", b"", "ACK"),
    "PUBREL": (0x62, b"\x00\x09\x00", b"", "ACK"),
    "PUBCOMP": (0x70, b"\x00\x01\x00", b"", "ACK"),
    "SUBACK": (0x90, b"\x80\x00", b"\x01", "ACK"),
    "UNSUBACK": (0xB0, b"\x80\x00", b"\x00", "ACK"),
    "DISCONNECT": (0xE0, b"\x8b", b"", "DISCONNECT"),
}
ALIAS = 0x23  # none was offered: 0x94 wherever else it would be sound
TAKEN, CLOSED = "taken", "closed"


def properties_of(kind):
    """Numbers that a server may send in it."""
    return [one for one in sorted(PROPERTIES) if SERVERS[kind][3] in PROPERTIES[one][1]]


def body_of(kind, properties):
    _, before, after, _ = SERVERS[kind]
    return before + length_of(len(properties)) + properties + after


def packet(kind, properties=b""):
    return frame(SERVERS[kind][0], body_of(kind, properties))


def everything(kind):
    return b"".join([sample(one) for one in properties_of(kind) if one != ALIAS])


def ready(kind):
    """A bench that waits for such a packet."""
    if kind == "CONNACK":
        bench = Bench5("exactly once", blocks=4)
        bench.poll(4)
        return bench
    bench = connected(mode="broker" if kind == "PUBACK" else "exactly once")
    if kind in ("PUBACK", "PUBREC", "PUBCOMP"):
        bench.client.publish(TOPIC, b"x", 1 if kind == "PUBACK" else 2)
        sent(bench)
    if kind == "PUBCOMP":
        bench.say(b"\x50\x02\x00\x01")
    if kind in ("SUBACK", "UNSUBACK"):
        bench.session.subscribe(b"a", 1)
        if kind == "UNSUBACK":
            bench.poll(3)
            bench.say(packet("SUBACK"))
            bench.session.unsubscribe(b"a")
    bench.poll(3).stream.take()
    return bench


def is_done(bench, kind):
    """The packet had its effect."""
    session = bench.session
    if kind == "CONNACK":
        return bench.client.is_connected()
    if kind == "PUBLISH":
        return session.received == 1
    if kind == "PUBREC":
        return session._released == 1
    if kind in ("PUBACK", "PUBCOMP"):
        return bench.outbox.oldest_seq == 1
    if kind == "SUBACK":
        return session.filters[0][2] == 1
    if kind == "UNSUBACK":
        return session.filters == []
    if kind == "DISCONNECT":
        return bench.client.last_error == status.SERVER_LEFT
    return True


def outcome(kind, data, step=0):
    """What becomes of it; step: bytes that come at a time, 0: all."""
    bench = ready(kind)
    first = bench.stream
    for at in range(0, len(data), step or len(data)):
        bench.say(data[at : at + (step or len(data))], 2)
        if first.closed:
            break
    bench.poll(6)
    written = first.take()
    if written[:2] == b"\xe0\x01":
        assert first.closed and bench.client.last_error == status.PROTOCOL_ERROR
        return written[2]
    if kind == "CONNACK" and first.closed:
        assert bench.client.last_error in (status.PROTOCOL_ERROR, status.REFUSED)
        return CLOSED
    return TAKEN if is_done(bench, kind) else "nothing"


def ends(kind, code):
    return CLOSED if kind == "CONNACK" else code


class TestWhole(unittest.TestCase):
    def test_each_packet_with_each_property_and_with_all(self):
        for kind in SERVERS:
            self.assertEqual(outcome(kind, packet(kind)), TAKEN, kind)
            for one in properties_of(kind):
                wanted = 0x94 if one == ALIAS else TAKEN
                self.assertEqual(outcome(kind, packet(kind, sample(one))), wanted, (kind, one))
            self.assertEqual(outcome(kind, packet(kind, everything(kind))), TAKEN, kind)

    def test_byte_by_byte(self):
        for kind in SERVERS:
            self.assertEqual(outcome(kind, packet(kind, everything(kind)), 1), TAKEN, kind)

    def test_pingresp_and_auth(self):
        bench = connected()
        bench.session.start_ping()
        bench.poll(2).say(b"\xd0\x00")
        self.assertTrue(bench.client.is_connected())
        for body in (b"", b"\x18\x00", b"\x18\x06\x15\x00\x03x+y", b"\x00", b"\x19\x00"):
            bench = connected()
            bench.say(frame(0xF0, body))
            self.assertEqual(bench.stream.take(), b"\xe0\x01\x82")


class TestCut(unittest.TestCase):
    def wanted(self, kind, length, body):
        """Of a body that ends after `length` bytes, its remaining length saying so."""
        after = SERVERS[kind][2]
        if kind in ("PUBACK", "PUBREC", "PUBREL", "PUBCOMP") and length in (2, 3):
            return TAKEN  # reason code and properties may be left out (3.4.2)
        if kind == "DISCONNECT" and length < 2:
            return TAKEN
        if kind == "PUBLISH" and length >= len(body) - len(after):
            return TAKEN  # a shorter payload
        if kind == "CONNACK":
            return CLOSED
        if kind in ("SUBACK", "UNSUBACK") and length == len(body) - 1:
            return 0x82  # no code for the filter
        return 0x81

    def test_at_each_byte(self):
        for kind in SERVERS:
            body = body_of(kind, everything(kind))
            for length in range(len(body)):
                found = outcome(kind, frame(SERVERS[kind][0], body[:length]))
                self.assertEqual(found, self.wanted(kind, length, body), (kind, length))

    def test_a_stream_that_stops_there_waits_for_the_rest(self):
        for kind in SERVERS:
            data = packet(kind, everything(kind))
            for length in range(1, len(data), 7):
                bench = ready(kind)
                first = bench.stream
                bench.say(data[:length], 4)
                is_known = kind not in ("DISCONNECT", "PUBREL")
                self.assertFalse(first.closed or (is_known and is_done(bench, kind)))


class TestDoubled(unittest.TestCase):
    def test_each_property_twice(self):
        for kind in SERVERS:
            for one in properties_of(kind):
                wanted = TAKEN if one in OFTEN else ends(kind, 0x82)
                found = outcome(kind, packet(kind, 2 * sample(one)))
                self.assertEqual(found, wanted, (kind, one))


class TestMisplaced(unittest.TestCase):
    def test_each_property_in_each_packet_where_it_must_not_be(self):
        """2.2.2.2: "an Identifier which is not valid for its packet type" is malformed, 0x81."""
        for kind in SERVERS:
            for one in sorted(PROPERTIES):
                if one not in properties_of(kind):
                    found = outcome(kind, packet(kind, sample(one)))
                    self.assertEqual(found, ends(kind, 0x81), (kind, one))

    def test_numbers_that_are_no_property(self):
        for kind in SERVERS:
            for one in (0x00, 0x04, 0x0A, 0x2B, 0x7F, 0x80, 0xFF):
                found = outcome(kind, packet(kind, bytes((one, 0, 0))))
                self.assertEqual(found, ends(kind, 0x81), (kind, one))

    def test_values_that_a_property_must_not_have(self):
        for kind, data in (
            ("CONNACK", b"\x21\x00\x00"), ("CONNACK", b"\x27\x00\x00\x00\x00"),
            ("CONNACK", b"\x24\x02"), ("CONNACK", b"\x25\x02"), ("PUBLISH", b"\x01\x02"),
            ("PUBLISH", b"\x0b\x00"), ("PUBLISH", b"\x23\x00\x00"),
        ):  # fmt: skip
            self.assertEqual(outcome(kind, packet(kind, data)), ends(kind, 0x82), data)


VALUES = {
    "byte": 1, "u16": 5, "u32": 256, "variable": 300, "text": b"xy", "binary": b"\x00\xff",
    "pair": (b"n", b"v#"),
}  # fmt: skip
BYTES = dict(SAMPLES, text=b"\x00\x02xy")
CONNECTS = (0x11, 0x17, 0x19, 0x21, 0x22, 0x26, 0x27)
WILLS = (0x01, 0x02, 0x03, 0x08, 0x09, 0x18, 0x26)
PUBLISHES = (0x01, 0x02, 0x03, 0x08, 0x09, 0x26)


def given(numbers):
    return tuple([(one, VALUES[PROPERTIES[one][0]]) for one in numbers])


def written(numbers):
    return b"".join([bytes((one,)) + BYTES[PROPERTIES[one][0]] for one in numbers])


class TestSent(unittest.TestCase):
    """What a client sends, byte by byte: the first properties are those of the options."""

    def test_connect_with_every_property(self):
        own = (0x17, 0x19, 0x22, 0x26)
        session = over(Session)(
            RamOutbox(2, 64), b"b", session_expiry_s=256, receive_maximum=5,
            maximum_packet_size=256, connect_properties=given(own), will=(b"w", b"m", 1, True),
            will_properties=given(WILLS), user=b"u", password=b"p",
        )  # fmt: skip
        properties = written((0x11, 0x21, 0x27)) + written(own)
        self.assertEqual(set(own) | {0x11, 0x21, 0x27}, set(CONNECTS))
        will = written(WILLS)
        body = b"\x00\x04MQTT\x05\xec\x00<" + length_of(len(properties)) + properties
        body += b"\x00\x01b" + length_of(len(will)) + will
        body += b"\x00\x01w\x00\x01m\x00\x01u\x00\x01p"
        self.assertEqual(bytes(session.connect_packet), frame(0x10, body))

    def test_publish_with_every_property(self):
        bench = connected(b"\x22\x00\x01", aliases=(TOPIC,), publish_properties=given(PUBLISHES))
        properties = b"\x23\x00\x01" + written(PUBLISHES)
        bench.publish(b"one", b"two")
        bench.poll(4)
        topic = bytes((0, len(TOPIC))) + TOPIC
        rest = length_of(len(properties)) + properties
        wanted = frame(0x32, topic + b"\x00\x01" + rest + b"one")
        wanted += frame(0x32, b"\x00\x00\x00\x02" + rest + b"two")
        self.assertEqual(bench.stream.take(), wanted)

    def test_subscribe_unsubscribe_and_their_property(self):
        bench = connected()
        bench.session.subscribe(b"a/#", 1, True, True, 2, 300)
        bench.poll(3)
        self.assertEqual(bench.stream.take(), b"\x82\x0c\x80\x00\x03\x0b\xac\x02\x00\x03a/#\x2d")
        bench.say(b"\x90\x04\x80\x00\x00\x01")
        bench.session.unsubscribe(b"a/#")
        bench.poll(3)
        self.assertEqual(bench.stream.take(), b"\xa2\x08\x80\x00\x00\x00\x03a/#")

    def test_answers_ping_and_disconnect(self):
        bench = connected(mode="exactly once")
        bench.client.publish(TOPIC, b"x", 2)
        sent(bench)
        for came, wanted in (
            (b"\x32\x07\x00\x01a\x00\x07\x00x", b"\x40\x02\x00\x07"),
            (b"\x34\x07\x00\x01a\x00\x08\x00x", b"\x50\x02\x00\x08"),
            (b"\x62\x02\x00\x08", b"\x70\x02\x00\x08"),
            (b"\x50\x02\x00\x01", b"\x62\x02\x00\x01"),
        ):
            bench.say(came)
            self.assertEqual(bench.stream.take(), wanted)
        bench.session.start_ping()
        bench.poll(2)
        self.assertEqual(bench.stream.take(), b"\xc0\x00")
        self.assertEqual(disconnect(), b"\xe0\x02\x00\x00")
        self.assertEqual(disconnect(4, 256), b"\xe0\x07\x04\x05\x11\x00\x00\x01\x00")

    def test_a_table_of_another_outbox_sends_the_same(self):
        plain = over(Session)(Outbox(Bench5(blocks=4).flash), b"b")
        self.assertEqual(plain.connect_packet[:8], b"\x10\x1a\x00\x04MQTT")


class TestEveryProperty(unittest.TestCase):
    def test_all_27_are_among_the_golden_ones(self):
        shown = set(CONNECTS + WILLS + PUBLISHES + (0x0B, ALIAS))
        for kind in SERVERS:
            shown.update(properties_of(kind))
        self.assertEqual(shown, set(PROPERTIES))
        self.assertEqual(len(shown), 27)
        self.assertEqual(len(split(packet("PUBLISH"))), 1)


if __name__ == "__main__":
    unittest.main()
