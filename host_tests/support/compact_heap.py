"""Run by test_firmware_build.py under MicroPython, over a compact build: what messages take of the heap, and how many came.

Uses public names only. Prints the bytes that 200 QoS 1 messages and their acknowledgements took, and the count.
"""

import gc

import micropython

from outpost.client import Client
from outpost.outbox import Outbox
from peer_chip import RamChip

TOPIC = b"outpost/board-1/data"
PAYLOAD = bytearray(64)


class Broker:
    """The stream too: takes whole packets, answers each."""

    def __init__(self):
        self.answer = bytearray(b"\x20\x02\x00\x00")  # CONNACK
        self.waiting = False

    def write(self, buf, offset, length):
        if buf[offset] & 0xF0 == 0x30:
            self._puback(buf, 4 + len(TOPIC))
        self.waiting = True
        return length

    def _puback(self, buf, at):
        """In small functions: a frame of more than 11 words would come from the heap."""
        self.answer[0] = 0x40
        self.answer[2] = buf[at]
        self.answer[3] = buf[at + 1]

    def readinto(self, buf):
        if not self.waiting:
            return None
        self.waiting = False
        for i in range(4):
            buf[i] = self.answer[i]
        return 4

    def close(self):
        pass


def work(client, count):
    for _ in range(count):
        client.publish(TOPIC, PAYLOAD, 64)
        while client.poll(1):
            pass


chip = RamChip(4)
outbox = Outbox(chip)
outbox.format(b"3fa9c1d2")
client = Client(Broker, outbox, b"board-1")
while not client.is_connected():
    client.poll(0)
work(client, 100)
gc.collect()
before = micropython.mem_total()
micropython.heap_lock()
work(client, 200)
micropython.heap_unlock()
print(micropython.mem_total() - before, client.acknowledged)
