# micropython-only: CPython has no heap_lock
"""No heap in the steady state: the promise holds on a 32-bit build, where integers of 2^30 and above would show.

net: garbage left per call (gc.mem_alloc). gross: every byte asked of the heap, given back at once or not (mem_total)."""

import gc
import sys
import unittest

import micropython

from bench_client import TOPIC, Bench, confirmation
from outpost.clock import Clock
from outpost.telemetry import Pack

MESSAGES = 1000
PAYLOAD = bytes(64)


class Loop:
    """Publishes and acknowledges without taking heap itself."""

    def __init__(self, mode):
        self.bench = Bench(mode, blocks=64).connect(word=0) if mode == "collector" else Bench(blocks=64).connect()
        self.stream, self.client = self.bench.stream, self.bench.client
        self.ack = bytearray(b"\x40\x02\x00\x00")
        self.now_ms = self.bench.now_ms + 5000

    def turn(self):
        """One QoS 1 publish, stored, sent, acknowledged."""
        client = self.client
        if client.publish(TOPIC, PAYLOAD, 64) != 0:
            return False
        self.poll()
        packet_id = 1 + (client.session.next_send - 1) % 65535
        self.ack[2] = packet_id >> 8
        self.ack[3] = packet_id & 255
        self.stream.say(self.ack)
        self.poll()
        self.poll()
        self.stream.length = 0
        return client.session.base == client.outbox.next_seq

    def poll(self):
        self.now_ms += 1
        self.client.poll(self.now_ms)


def measure(function, times):
    """(net bytes a call, gross bytes a call, calls that succeeded) under heap_lock."""
    function()
    gc.collect()
    gc.disable()
    good = 0
    net, gross = gc.mem_alloc(), micropython.mem_total()
    micropython.heap_lock()
    try:
        for _ in range(times):
            good += function()
    finally:
        micropython.heap_unlock()
    net, gross = gc.mem_alloc() - net, micropython.mem_total() - gross
    gc.enable()
    return net, gross, good


class TestHeap(unittest.TestCase):
    def check(self, name, function, times=MESSAGES):
        net, gross, good = measure(function, times)
        bits = 32 if sys.maxsize < 1 << 32 else 64
        print("%s: %d times, net %d B, gross %.1f B each, %d-bit" % (name, times, net, gross / times, bits))
        self.assertEqual((net, gross, good), (0, 0, times))

    def test_qos_1_publish_with_outbox_and_puback_broker_mode(self):
        self.check("publish, broker mode", Loop("broker").turn)

    def test_qos_1_publish_with_outbox_and_puback_collector_mode(self):
        loop = Loop("collector")
        word = bytearray(confirmation("0000000000"))

        def turn():
            if not loop.turn():
                return False
            seq = loop.client.outbox.next_seq - 1
            for place in range(10):
                word[len(word) - 1 - place] = 0x30 + seq % 10
                seq //= 10
            loop.stream.say(word)
            loop.poll()
            return loop.client.is_drained

        self.check("publish, collector mode", turn)

    def test_collectors_word(self):
        loop = Loop("collector")
        loop.bench.publish(*[b"x"] * 40)
        while loop.client.session.base < 40:
            loop.bench.sent(1)
            loop.stream.say(b"\x40\x02\x00" + bytes([1 + loop.client.session.base]))
            loop.poll()
        words = [confirmation(seq) for seq in range(40)]
        state = [0]

        def word():
            loop.stream.say(words[state[0]])
            loop.poll()
            state[0] += 1
            return loop.client.outbox.oldest_seq == state[0]

        self.check("confirmation", word, 38)

    def test_idle_poll_and_ping(self):
        loop = Loop("broker")
        self.check("idle", lambda: loop.poll() or True)
        pings = [0]

        def ping():
            loop.now_ms += 50_000
            loop.poll()
            loop.stream.say(b"\xd0\x00")
            loop.poll()
            pings[0] += loop.stream.length == 2
            loop.stream.length = 0
            return loop.client.is_connected

        self.check("ping", ping, 200)
        self.assertTrue(pings[0] >= 200)

    def test_inbound_qos_1(self):
        loop = Loop("broker")
        loop.client.on_message = lambda inbound: None
        message = b"\x32\x0b\x00\x03a/b\x00\x0atext"

        def inbound():
            loop.stream.say(message)
            loop.poll()
            loop.poll()
            acknowledged = loop.stream.length == 4
            loop.stream.length = 0
            return acknowledged

        self.check("inbound QoS 1", inbound)

    def test_partial_writes(self):
        loop = Loop("broker")
        loop.stream.room = 7

        def turn():
            loop.client.publish(TOPIC, PAYLOAD, 64)
            for _ in range(20):
                loop.poll()
            packet_id = 1 + (loop.client.session.next_send - 1) % 65535
            loop.ack[2] = packet_id >> 8
            loop.ack[3] = packet_id & 255
            loop.stream.say(loop.ack)
            loop.poll()
            loop.stream.length = 0
            return loop.client.is_drained

        self.check("partial writes", turn, 200)

    def test_encoding_a_message(self):
        outbox = Loop("broker").client.outbox
        clock, pack = Clock(0), Pack(b"board-1")
        clock.set(20_413, 5, 0)
        ticks = [0]

        def encode():
            ticks[0] += 97
            clock.now(ticks[0])
            pack.begin(outbox, clock)
            pack.add(b"load", b"", 1234, -2)
            pack.add(b"memory", b"KiB", 24_000_000)
            return pack.end() > 0

        self.check("message", encode)


if __name__ == "__main__":
    unittest.main()
