"""Run by bench/loopback.py under MicroPython: QoS 1 publishes/s against a broker, by a raw
one-write socket loop and by Outpost.

Arguments: port, messages, rounds. Prints a line per measurement, "<what> <publishes/s>", with the
kinds interleaved; before that, "writes <calls of write()> <packets>" of a run that counts them.
"""

import socket
import sys
import time

from outpost.client import Client
from outpost.ram_outbox import RamOutbox
from outpost.session import Session
from peer_chip import flash_outbox
from socket_link import open_link

TOPIC = b"outpost/rate/0123456/dat"  # 24 bytes, and 64 of payload: as in the peers' figures
PAYLOAD = bytes(64)
CONNECT = b"\x10\x10\x00\x04MQTT\x04\x02\x00\x3c\x00\x04raw"  # a digit follows

port, messages, rounds = [int(argument) for argument in sys.argv[1:4]]


def per_second(count, start_us):
    return count * 1_000_000 // time.ticks_diff(time.ticks_us(), start_us)


class Raw:
    """The limit: one write, one read, nothing kept. It waits in read(), or polls repeatedly like a
    client that never blocks.
    """

    def __init__(self, polls):
        self.socket = socket.socket()
        self.socket.connect(socket.getaddrinfo("127.0.0.1", port)[0][-1])
        self.socket.setsockopt(6, 1, 1)
        self.socket.write(CONNECT + (b"1" if polls else b"0"))
        self.socket.read(4)
        body = bytes([0, len(TOPIC)]) + TOPIC + b"\x00\x01" + PAYLOAD
        self.packet = bytearray(bytes([0x32, len(body)]) + body)
        self.answer = bytearray(4)
        self.socket.setblocking(not polls)

    def run(self, count):
        start = time.ticks_us()
        at = 4 + len(TOPIC)
        answer, readinto = self.answer, self.socket.readinto
        for i in range(count):
            self.packet[at] = i >> 8 & 0xFF
            self.packet[at + 1] = i & 0xFF or 1
            self.socket.write(self.packet)
            got = readinto(answer)
            while got is None:
                got = readinto(answer)
            if got != 4:
                raise OSError("the broker closed the connection")
        return per_second(count, start)


class Ours:
    def __init__(self, name, outbox, window, wrap=lambda stream: stream):
        link = open_link({"broker_host": "127.0.0.1", "broker_port": port})
        self.window = window
        self.session = Session(outbox, name, clean=True, window=window)
        self.client = Client(lambda: wrap(link()), self.session)
        while not self.client.is_connected():
            self.client.poll(time.ticks_ms())

    def run(self, count):
        client, outbox = self.client, self.session.outbox
        window = self.window
        start = time.ticks_us()
        for _ in range(count):
            while outbox.next_seq - outbox.oldest_seq >= window:
                client.poll(time.ticks_ms())
            client.publish(TOPIC, PAYLOAD)
            client.poll(time.ticks_ms())
        while not client.is_drained():
            client.poll(time.ticks_ms())
        return per_second(count, start)


class Counting:
    """A stream that counts its writes."""

    writes = 0

    def __init__(self, stream):
        self.readinto, self.close, self._write = stream.readinto, stream.close, stream.write

    def write(self, buf, offset, length):
        Counting.writes += 1
        return self._write(buf, offset, length)


def count_writes(count):
    """As Ours.run(): CONNECT, then PUBLISH `count` times."""
    one = Ours(b"count", RamOutbox(16), 16, Counting)
    one.run(count)
    print("writes", Counting.writes, one.session.sent + one.session.connects)


count_writes(200)
KINDS = (
    ("raw", Raw(False)),
    ("raw_polling", Raw(True)),
    ("ram_window_1", Ours(b"rate-1", RamOutbox(16), 1)),
    ("ram_window_16", Ours(b"rate-2", RamOutbox(16), 16)),
    ("flash_window_1", Ours(b"rate-3", flash_outbox(64), 1)),
    ("flash_window_16", Ours(b"rate-4", flash_outbox(64), 16)),
)
for _ in range(rounds):
    for name, kind in KINDS:
        print(name, kind.run(messages))
