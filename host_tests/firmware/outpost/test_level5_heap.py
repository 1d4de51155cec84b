# micropython-only: CPython has no heap_lock
"""MQTT 5.0 takes no heap either: every path that runs for each message, with properties, an alias,
a limit, a reason code."""

import gc
import unittest

import micropython

from bench_client import TOPIC
from bench_level5 import connected

PAYLOAD = bytes(64)
LONG = bytes(256)
LIMITS = b"\x21\x00\x08\x22\x00\x01\x27\x00\x00\x01\x00"
OPTIONS = {
    "aliases": (TOPIC,),
    "publish_properties": ((0x03, b"json"), (0x26, (b"site", b"north"))),
}
INBOUND = (
    b"\x30\x0f\x00\x01a\x09\x01\x01\x03\x00\x04jsonxy",
    b"\x32\x0a\x00\x01a\x00\x07\x02\x0b\x05xy",
)


WITH_ALIAS = b"\x30\x09\x00\x01a\x03\x23\x00\x02xy"
ALIAS_ALONE = (b"\x30\x08\x00\x00\x03\x23\x00\x02xy", b"\x32\x0a\x00\x00\x00\x07\x03\x23\x00\x02xy")


class Loop5:
    """Publishes and acknowledges without taking heap itself."""

    def __init__(self, mode="broker", **options):
        self.bench = connected(LIMITS, mode, **options)
        self.bench.say(b"\xd0\x00")
        self.session, self.client = self.bench.session, self.bench.client
        self.stream = self.bench.stream
        self.now_ms = self.bench.now_ms + 5000
        self.ack = bytearray(b"\x40\x03\x00\x00\x10")
        self.seen = 0

    def poll(self, times=2):
        for _ in range(times):
            self.now_ms += 20
            self.client.poll(self.now_ms)

    def answer(self, first):
        packet_id = 1 + (self.session.next_send - 1) % 65535
        self.ack[0], self.ack[2], self.ack[3] = first, packet_id >> 8, packet_id & 255
        self.stream.say(self.ack)
        self.poll(3)
        self.stream.length = 0

    def turn(self):
        """PUBLISH with properties; PUBACK with reason code 0x10."""
        self.client.publish(TOPIC, PAYLOAD)
        self.poll()
        self.answer(0x40)

    def outbox_left(self):
        outbox = self.session.outbox
        return outbox.next_seq - outbox.oldest_seq

    def turn_2(self):
        self.client.publish(TOPIC, PAYLOAD, 2)
        self.poll()
        self.ack[4] = 0x10
        self.answer(0x50)
        self.ack[4] = 0x92
        self.answer(0x70)

    def turn_0(self):
        self.client.publish(TOPIC, PAYLOAD, 0)
        self.poll()
        self.stream.length = 0

    def too_long(self):
        self.seen += self.client.publish(TOPIC, LONG, length=256)

    def busy(self):
        """Refused for now, and sent again after the pause."""
        self.client.publish(TOPIC, PAYLOAD)
        self.poll()
        self.ack[4] = 0x97
        self.answer(0x40)
        self.poll(60)
        self.ack[4] = 0
        self.answer(0x40)

    def inbound(self):
        for packet in INBOUND:
            self.stream.say(packet)
            self.poll(3)
        self.stream.length = 0

    def inbound_by_alias(self):
        self.stream.say(WITH_ALIAS)
        self.poll(3)
        for packet in ALIAS_ALONE:
            self.stream.say(packet)
            self.poll(3)
        self.stream.length = 0

    def on_message(self, session):
        self.seen += session.property_at(1) + session.property_at(0x0B) + session.property_at(0x26)


class TestHeap(unittest.TestCase):
    def measure(self, turn, count):
        """(net, gross) bytes of `count` turns, under heap_lock, after two of them."""
        turn()
        turn()
        gc.collect()
        gc.disable()
        micropython.heap_lock()
        try:
            for _ in range(count):
                turn()
        finally:
            micropython.heap_unlock()
        net, gross = gc.mem_alloc(), micropython.mem_total()
        for _ in range(count):
            turn()
        gross, net = micropython.mem_total() - gross, gc.mem_alloc() - net
        gc.enable()
        return net, gross

    def check(self, loop, turn, count=200):
        self.assertEqual(self.measure(turn, count), (0, 0))
        self.assertEqual(loop.client.failures, 0)

    def test_publish_and_acknowledge(self):
        for mode in ("broker", "streaming"):
            loop = Loop5(mode, **OPTIONS)
            self.check(loop, loop.turn)
            self.assertEqual((loop.session.unmatched, loop.outbox_left()), (402, 0))

    def test_qos_0(self):
        loop = Loop5(**OPTIONS)
        self.check(loop, loop.turn_0)

    def test_qos_2(self):
        loop = Loop5("exactly once", **OPTIONS)
        self.check(loop, loop.turn_2, 50)

    def test_too_long_for_the_server(self):
        loop = Loop5(**OPTIONS)
        self.check(loop, loop.too_long)
        self.assertEqual(loop.seen, -2 * 402)

    def test_busy(self):
        loop = Loop5(keep_alive_s=0, **OPTIONS)
        self.check(loop, loop.busy, 10)
        self.assertEqual(loop.session.denied, 22)

    def test_what_remains_of_an_expiry(self):
        """Marks that are thinned out, too: the clock moves on by a second a message."""
        loop = Loop5(expiry_s=100_000, **OPTIONS)

        def turn():
            loop.now_ms += 1000
            loop.turn()

        self.check(loop, turn)
        self.assertEqual((loop.session.unmatched, loop.session.expiry.expired), (402, 0))

    def test_aliases_of_the_server(self):
        loop = Loop5(alias_maximum=2)
        loop.session.on_message = loop.on_message
        self.check(loop, loop.inbound_by_alias)
        self.assertEqual(loop.session.received, 3 * 402)

    def test_inbound_with_properties(self):
        loop = Loop5()
        loop.session.on_message = loop.on_message
        self.check(loop, loop.inbound)
        self.assertEqual(loop.session.received, 804)


if __name__ == "__main__":
    unittest.main()
