# micropython-only: CPython has no heap_lock
# long: 32-bit integers are the narrow case; 64-bit has nothing that they lack
"""No heap in the steady state: the promise holds on a 32-bit build, where integers of 2^30 and
above would show.

net: garbage left per call (gc.mem_alloc). gross: every byte asked of the heap, given back at once
or not (mem_total).
"""

import gc
import sys
import unittest

import micropython

from bench_client import TOPIC, Bench, confirmation, queued
from fake_stream import FakeStream
from outpost.client import Client
from outpost.outbox import Outbox
from outpost.ram_outbox import RamOutbox
from outpost.series import Series
from outpost.series_outbox import over
from outpost.session import Session
from station.clock import Clock
from station.telemetry import Pack

MESSAGES = 10_000
PAYLOAD = bytes(64)


class Loop:
    """Publishes and acknowledges without taking heap itself."""

    def __init__(self, mode, outbox_class=None):
        self.bench = Bench(mode, blocks=64, outbox_class=outbox_class)
        self.bench.connect(word=0 if mode == "collector" else None)
        self.stream, self.client = self.bench.stream, self.bench.client
        self.session = self.bench.session
        self.ack = bytearray(b"\x40\x02\x00\x00")
        self.now_ms = self.bench.now_ms + 5000

    def turn(self):
        """One QoS 1 publish, stored, sent, acknowledged."""
        return self.client.publish(TOPIC, PAYLOAD) == 0 and self.acknowledge()

    def acknowledge(self):
        """The newest message, once it was sent."""
        client = self.client
        self.poll()
        packet_id = 1 + (client.session.next_send - 1) % 65535
        self.ack[2] = packet_id >> 8
        self.ack[3] = packet_id & 255
        self.stream.say(self.ack)
        self.poll()
        self.poll()
        self.stream.length = 0
        return client.session.base == client.session.outbox.next_seq

    def answer(self, first):
        packet_id = 1 + (self.session.next_send - 1) % 65535
        self.ack[0] = first
        self.ack[2] = packet_id >> 8
        self.ack[3] = packet_id & 255
        self.stream.say(self.ack)
        self.poll()
        self.poll()

    def poll(self):
        self.now_ms += 1
        self.client.poll(self.now_ms)


class SeriesLoop(Loop):
    """Samples with every kind of change; each record that is full is sent and acknowledged."""

    def __init__(self):
        Loop.__init__(self, "broker", over(Outbox))
        self.clock = Clock(0)
        self.clock.set(20_413, 5, 0)
        self.values = [0, 0, 0]
        self.ticks_ms = 0
        columns = ((b"t", b"Cel", -2), (b"h", b"%RH", -2), (b"p", b"Pa", 0))
        self.series = Series(self.session.outbox, TOPIC, b"board-1", columns)

    def add(self):
        self.ticks_ms += 10_000
        self.clock.now(self.ticks_ms)
        ticks = self.ticks_ms // 10_000
        self.values[0] = 2150 + ticks % 7
        self.values[1] = None if ticks % 5 == 0 else 4500 - ticks % 13
        self.values[2] = -(1 << 29) if ticks % 37 == 0 else 101_325
        before = self.session.outbox.next_seq
        if self.series.add(self.clock, self.values) != 0:
            return False
        if before == self.session.outbox.next_seq:
            return True
        self.now_ms += 16  # the session looks at its next tick
        return self.acknowledge()


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
        print(
            "%s: %d times, net %d B, gross %.1f B each, %d-bit"
            % (name, times, net, gross / times, bits)
        )
        self.assertEqual((net, gross, good), (0, 0, times))

    def test_qos_1_publish_with_outbox_and_puback_broker_mode(self):
        self.check("publish, broker mode", Loop("broker").turn)

    def test_qos_1_publish_with_outbox_and_puback_collector_mode(self):
        word = bytearray(confirmation("0000000000"))
        self.check("publish, collector mode", self.confirmed_turn(Loop("collector"), word))

    def test_qos_1_publish_with_outbox_and_puback_queued_confirmations(self):
        """Each confirmation gets its PUBACK."""
        word = bytearray(queued("0000000000", 7))
        self.check("publish, queued confirmations", self.confirmed_turn(Loop("queued"), word))

    def confirmed_turn(self, loop, word):
        """Loop.turn() until the outbox is empty. word: with ten digits for the number."""

        def turn():
            if not loop.turn():
                return False
            seq = loop.session.outbox.next_seq - 1
            for place in range(10):
                word[len(word) - 1 - place] = 0x30 + seq % 10
                seq //= 10
            loop.stream.say(word)
            loop.poll()
            return loop.client.is_drained()

        return turn

    def test_collectors_word(self):
        loop = Loop("collector")
        loop.bench.publish(*[b"x"] * 40)
        while loop.session.base < 40:
            loop.bench.sent(1)
            loop.stream.say(b"\x40\x02\x00" + bytes([1 + loop.session.base]))
            loop.poll()
        words = [confirmation(seq) for seq in range(40)]
        state = [0]

        def word():
            loop.stream.say(words[state[0]])
            loop.poll()
            state[0] += 1
            return loop.session.outbox.oldest_seq == state[0]

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
            return loop.client.is_connected()

        self.check("ping", ping)
        self.assertTrue(pings[0] >= MESSAGES)

    def test_qos_0_publish(self):
        loop = Loop("broker")

        def turn():
            status = loop.client.publish(TOPIC, PAYLOAD, 0)
            loop.poll()
            sent = loop.stream.length
            loop.stream.length = 0
            return status == 0 and sent == 2 + 2 + len(TOPIC) + 64

        self.check("publish QoS 0", turn)

    def test_qos_1_publish_from_ram(self):
        stream = FakeStream()
        outbox = RamOutbox(16)
        client = Client(lambda: stream, Session(outbox, b"board-1"))
        client.poll(1)
        stream.say(b"\x20\x02\x00\x00")
        client.poll(2)
        ack = bytearray(b"\x40\x02\x00\x00")

        def turn():
            status = client.publish(TOPIC, PAYLOAD)
            client.poll(3)
            packet_id = 1 + (client.session.next_send - 1) % 65535
            ack[2] = packet_id >> 8
            ack[3] = packet_id & 255
            stream.say(ack)
            client.poll(3)
            stream.length = 0
            return status == 0 and outbox.oldest_seq == outbox.next_seq

        self.check("publish QoS 1, RAM", turn)

    def test_qos_2_publish_with_outbox_pubrec_pubrel_pubcomp(self):
        loop = Loop("exactly once")

        def turn():
            if loop.client.publish(TOPIC, PAYLOAD, 2) != 0:
                return False
            loop.poll()
            loop.answer(0x50)
            loop.answer(0x70)
            loop.stream.length = 0
            return loop.client.is_drained()

        self.check("publish QoS 2", turn)

    def inbound(self, name, message, answer_bytes, mode="broker"):
        loop = Loop(mode)
        loop.session.on_message = lambda message: None

        def turn():
            loop.stream.say(message)
            loop.poll()
            loop.poll()
            answered = loop.stream.length == answer_bytes
            loop.stream.length = 0
            return answered

        self.check(name, turn)

    def test_inbound_qos_0_and_1(self):
        self.inbound("inbound QoS 0", b"\x30\x09\x00\x03a/btext", 0)
        self.inbound("inbound QoS 1", b"\x32\x0b\x00\x03a/b\x00\x0atext", 4)

    def test_inbound_qos_2(self):
        self.inbound(
            "inbound QoS 2",
            b"\x34\x0b\x00\x03a/b\x00\x0atext" + b"\x62\x02\x00\x0a",
            8,
            "exactly once",
        )

    def test_inbound_too_long_skipped_and_streamed(self):
        message = b"\x32\xe8\x07\x00\x03a/b\x00\x0b" + bytes(993)
        for mode in ("broker", "streaming"):
            loop = Loop(mode)
            loop.session.on_piece = lambda message, data, at, count: None

            def turn(loop=loop):
                loop.stream.say(message)
                for _ in range(20):
                    loop.poll()
                answered = loop.stream.length == 4
                loop.stream.length = 0
                return answered

            self.check("inbound, longer than the buffer, " + mode, turn, 1000)

    def test_partial_writes(self):
        loop = Loop("broker")
        loop.stream.room = 30

        def turn():
            loop.client.publish(TOPIC, PAYLOAD)
            for _ in range(5):
                loop.poll()
            packet_id = 1 + (loop.session.next_send - 1) % 65535
            loop.ack[2] = packet_id >> 8
            loop.ack[3] = packet_id & 255
            loop.stream.say(loop.ack)
            loop.poll()
            loop.stream.length = 0
            return loop.client.is_drained()

        self.check("partial writes", turn)

    def test_a_series_sample_by_sample_sent_and_acknowledged(self):
        loop = SeriesLoop()
        while not loop.session.acknowledged:
            loop.add()
        self.check("series", loop.add)
        self.assertTrue(loop.session.acknowledged > 100)

    def test_encoding_a_message(self):
        outbox = Loop("broker").session.outbox
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
