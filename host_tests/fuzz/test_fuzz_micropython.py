# micropython-only: CPython has no heap_lock
"""Random bytes from the server under heap_lock: the only outcomes are an event or a closed
connection, and the heap stays flat.

The short form of `fuzz_client.py` for the heap: inputs are made beforehand, and connecting may
allocate, but what the server sends afterwards may not. The exceptions: SUBACK and UNSUBACK, and
what no server should send, which closes the connection.
"""

import gc
import random
import unittest

import micropython

from bench_client import TOPIC, Bench
from golden_packets import GOLDEN
from outpost.memory import unload

_INPUTS = 400
_POLLS = 12
_SEEDS = [packet for _, packet, _ in GOLDEN] + [
    b"\x34\x08\x00\x01a\x00\x07xyz",
    b"\x62\x02\x00\x07",
    b"\x50\x02\x00\x01",
    b"\x70\x02\x00\x01",
    b"\x40\x02\x00\x02",
    b"\x30\x80\x80\x80\x80\x01",
    b"\x32\xe8\x07\x00\x03a/b\x00\x0b" + bytes(600),
]


def mutated(chance):
    """Returns one to three packets with some of their bytes changed."""
    found = bytearray()
    for _ in range(1 + chance.getrandbits(1)):
        found += _SEEDS[chance.randrange(len(_SEEDS))]
    for _ in range(chance.getrandbits(2)):
        at = chance.randrange(len(found))
        found[at] = chance.choice(
            (found[at] ^ 1 << chance.getrandbits(3), 0, 2, 255, chance.getrandbits(8))
        )
    return bytes(found)


class Heap:
    """A client of one mode, connected when an input begins."""

    def __init__(self, mode):
        self.bench = Bench(mode, blocks=4).connect()
        self.bench.session.on_message = lambda message: None
        self.bench.session.on_piece = lambda message, data, at, count: None
        self.errors = self.answers = 0
        self.bench.session._load_suspects()  # the names in it stay
        self.held()

    def connect(self):
        """Connect; this may allocate: a new stream, and what the board's link needs."""
        bench = self.bench
        # the rest of a long packet would swallow the following inputs
        if not bench.session.is_between:
            bench.drop()
        if not bench.client.is_connected():
            self.errors += 1
            bench.stream = None
            bench.now_ms += 61_000
            bench.connect()
        for _ in range(2):
            bench.client.publish(TOPIC, b"x")
        bench.now_ms += 2000  # collector mode waits this long for the confirmation
        bench.poll(4)
        bench.stream.length = 0

    def is_steady(self):
        """True when the last packet belongs to a connection in good order."""
        session = self.bench.session
        acks = (0x40, 0x50, 0x62, 0x70) if self.bench.mode == "exactly once" else (0x40,)
        return (
            session.first & 0xF0 == 0x30
            or (session.length == 2 and session.first in acks)
            or (session.first == 0xD0 and not session.length)
        )

    def locked(self, data):
        """Returns the bytes that the input allocated in all. A MemoryError passes, because the heap
        is locked."""
        client, now_ms = self.bench.client, self.bench.now_ms
        self.bench.stream.say(data)
        gc.collect()
        gc.disable()
        gross = micropython.mem_total()
        micropython.heap_lock()
        try:
            for _ in range(_POLLS):
                if client.is_connected():
                    client.poll(now_ms)
        finally:
            micropython.heap_unlock()
        gross = micropython.mem_total() - gross
        gc.enable()
        self.answers += self.bench.stream.length
        return gross

    def held(self):
        """Returns the bytes in use, without what is loaded while messages are suspected or set
        aside."""
        session, outbox = self.bench.session, self.bench.outbox
        while outbox.aside:
            outbox.shelf().release(0)
        if session.suspects:
            session.window, session.suspects = session.suspects._full, None
            unload("outpost.retry")
            unload("outpost.suspects")
        gc.collect()
        return gc.mem_alloc()


class TestFuzz(unittest.TestCase):
    def run_mode(self, mode):
        chance = random
        chance.seed(7)
        heap = Heap(mode)
        sizes = len(heap.bench.session.tx), len(heap.bench.session.buffer)
        # The least of several, because a word of the stack may look like a pointer to what was
        # unloaded.
        least = [1 << 29, 1 << 29]
        for number in range(_INPUTS):
            data = mutated(chance)
            heap.connect()
            try:
                gross = heap.locked(data)
                if heap.bench.client.is_connected():  # the end of a connection may be judged
                    self.assertEqual((gross, number, data), (0, number, data))
            except MemoryError:
                self.assertFalse(heap.is_steady(), (number, data))
                heap.bench.drop()
            if number % 25 == 24:
                half = 2 * number // _INPUTS
                least[half] = min(least[half], heap.held())
        grown = least[1] - least[0]
        client = heap.bench.client
        print(
            "%s: %d inputs, %d closed connections, %d B written, heap %+d B"
            % (mode, _INPUTS, heap.errors, heap.answers, grown)
        )
        self.assertEqual((len(client.session.tx), len(client.session.buffer)), sizes)
        self.assertTrue(grown < 512, grown)
        self.assertTrue(heap.errors > 20 and heap.answers > 50, (heap.errors, heap.answers))

    def test_broker_mode(self):
        self.run_mode("broker")

    def test_collector_mode(self):
        self.run_mode("collector")

    def test_streaming(self):
        self.run_mode("streaming")

    def test_exactly_once(self):
        self.run_mode("exactly once")


if __name__ == "__main__":
    unittest.main()
