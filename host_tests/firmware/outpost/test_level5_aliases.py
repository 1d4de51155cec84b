"""Topic aliases that the server uses: the topic is back where a handler looks for it."""

import unittest

from bench_level5 import Bench5, connected
from outpost.level5 import over
from outpost.ram_outbox import RamOutbox
from outpost.session import Session
from packets5 import connack, frame
from virtual.packets import decode

ALIASES = {"alias_maximum": 3}


def message(topic, alias, payload=b"x", qos=0, more=b""):
    body = bytes((0, len(topic))) + topic + (b"\x00\x07" if qos else b"")
    properties = (b"\x23" + bytes((alias >> 8, alias & 255)) if alias is not None else b"") + more
    return frame(0x30 | qos << 1, body + bytes((len(properties),)) + properties + payload)


class TestInbound(unittest.TestCase):
    def bench(self, mode="broker", **options):
        bench, self.found = connected(mode=mode, **dict(ALIASES, **options)), []

        def on_message(one):
            at, count = one.payload_at, one.payload_length
            topic = bytes(one.buffer[2 : 2 + one.topic_length])
            self.found.append((topic, bytes(one.buffer[at : at + count])))

        bench.session.on_message = on_message
        return bench

    def test_offered_and_bounded_in_connect(self):
        packet = Bench5(options=ALIASES).session.connect_packet
        properties = decode(bytes(packet), 5)[1]["properties"]
        self.assertIn((0x22, 3), properties)
        self.assertIn((0x27, 258), properties, "none is longer than the buffer")

    def test_first_with_its_topic_then_without(self):
        """[MQTT-3.3.2-10]"""
        bench = self.bench()
        bench.say(message(b"some/topic", 1, b"1") + message(b"other", 3, b"2"), 8)
        bench.say(message(b"", 1, b"3") + message(b"", 3, b"4") + message(b"", 1, b""), 8)
        topics = [b"some/topic", b"other", b"some/topic", b"other", b"some/topic"]
        self.assertEqual(self.found, list(zip(topics, [b"1", b"2", b"3", b"4", b""])))
        self.assertTrue(bench.client.is_connected())

    def test_qos_1_and_properties(self):
        bench = self.bench("exactly once")
        for qos, answer in ((1, b"\x40\x02\x00\x07"), (2, b"\x50\x02\x00\x07")):
            self.found.clear() if hasattr(self.found, "clear") else None
            bench.say(message(b"a/b", 2)).say(message(b"", 2, b"pay", qos, b"\x01\x01"))
            self.assertEqual((self.found[-1], bench.stream.take()), ((b"a/b", b"pay"), answer))
            session = bench.session
            self.assertEqual(session.buffer[session.property_at(1)], 1)

    def test_a_number_gets_another_topic(self):
        bench = self.bench()
        bench.say(message(b"a", 1)).say(message(b"bb", 1)).say(message(b"", 1))
        self.assertEqual([one[0] for one in self.found], [b"a", b"bb", b"bb"])

    def test_not_beyond_the_connection(self):
        """[MQTT-3.3.2-7]"""
        bench = self.bench()
        bench.say(message(b"a", 1))
        bench.drop()
        bench.connect(connack(session_present=1))
        bench.say(message(b"", 1))
        self.assertEqual((len(self.found), bench.stream.take()), (1, b"\xe0\x01\x82"))

    def test_numbers_that_are_not_known(self):
        """0x82: in our range, but without a topic (3.3.2.3.4), or no number and no topic (3.3.2.1).
        0x94: beyond our range."""
        for data, code in (
            (message(b"", 1), 0x82), (message(b"", None), 0x82), (message(b"", None, qos=1), 0x82),
            (message(b"", 4), 0x94), (message(b"a", 4), 0x94),
        ):  # fmt: skip
            bench = self.bench()
            bench.say(data)
            self.assertEqual((self.found, bench.stream.take()), ([], bytes((0xE0, 1, code))))

    def test_no_topic_where_no_number_was_offered(self):
        for mode in ("broker", "streaming", "exactly once"):
            for data, code in ((message(b"", None), 0x82), (message(b"", 1), 0x94)):
                bench = connected(mode=mode)
                bench.say(data)
                self.assertEqual(bench.stream.take(), bytes((0xE0, 1, code)), mode)
        bench = self.bench()
        bench.say(message(b"a", 0))
        self.assertEqual(bench.stream.take(), b"\xe0\x01\x82")

    def test_broken_ones(self):
        for body in (b"\x00\x00", b"\x00\x00\x05\x23\x00", b"\x00\x00\x03\x04\x00\x01"):
            bench = self.bench()
            bench.say(message(b"a", 1)).say(frame(0x30, body))
            self.assertEqual(bench.stream.take(), b"\xe0\x01\x81")

    def test_without_room_for_the_topic_it_is_skipped_and_acknowledged(self):
        bench = self.bench()
        bench.say(message(b"a" * 100, 1), 8)
        for length, taken in ((256 - 108, 1), (256 - 107, 0)):
            received, skipped = bench.session.received, bench.session.skipped
            bench.say(message(b"", 1, b"p" * length, 1), 12)
            self.assertEqual(bench.session.received - received, taken, length)
            self.assertEqual(bench.session.skipped - skipped, 1 - taken)
            self.assertEqual(bench.stream.take(), b"\x40\x02\x00\x07")

    def test_byte_by_byte(self):
        bench = self.bench()
        for byte in message(b"a", 1) + message(b"", 1, b"y"):
            bench.say(bytes((byte,)), 2)
        self.assertEqual(self.found, [(b"a", b"x"), (b"a", b"y")])

    def test_options_that_cannot_be(self):
        for options in ({"alias_maximum": 65}, {"alias_maximum": -1}):
            with self.assertRaises(ValueError):
                Bench5(options=options)
        with self.assertRaises(ValueError):
            Bench5("streaming", options=ALIASES)
        with self.assertRaises(ValueError):
            over(Session)(RamOutbox(2, 64), b"b", **ALIASES)


if __name__ == "__main__":
    unittest.main()
