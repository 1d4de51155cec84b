"""The peers and Outpost with one interface, for the benchmarks: connect, publish and wait, idle,
reconnect.

make(name, port) returns a connected client:
    publish(qos)   one message of TOPIC and PAYLOAD; QoS 1: returns when the server has it
    idle()         what an application calls while nothing happens
    reconnect()    closes the connection, connects again
    wrap(factory)  puts factory(socket) in the place of the socket
The peers' modules are imported from the path as they came from their archives.
"""

import socket

from fake_flash import flash_in_ram
from host_clock import ticks_ms
from outpost.client import Client
from outpost.ram_outbox import RamOutbox
from outpost.session import Session
from peer_chip import RamChip, flash_outbox
from socket_link import open_link

TOPIC = b"outpost/rate/0123456/dat"  # 24 bytes
PAYLOAD = bytes(64)


class Peer:
    """umqtt: a class of blocking calls. For a name that ends in +, Nagle is switched off."""

    def __init__(self, name, port):
        self.nodelay = name[-1] == "+"
        name = name.rstrip("+")
        module = getattr(__import__("umqtt." + name), name)
        self.client = module.MQTTClient(
            ("bench-" + name + "+" * self.nodelay).encode(), "127.0.0.1", port
        )
        self.client.DELAY = 0
        self.connect()

    def connect(self):
        self.client.connect(True)
        if self.nodelay:
            self.client.sock.setsockopt(6, 1, 1)

    def publish(self, qos):
        self.client.publish(TOPIC, PAYLOAD, False, qos)

    def idle(self):
        self.client.check_msg()

    def reconnect(self):
        self.client.sock.close()
        self.client.sock = None
        self.connect()

    def wrap(self, factory):
        self.client.sock = factory(self.client.sock)


class Ours:
    """window > 1: publish(1) returns when the window has room; drain() waits for the rest."""

    def __init__(self, name, port):
        outbox = RamOutbox(16)
        if "nor" in name:  # the chip that takes no heap of its own
            outbox = flash_outbox(16, flash_in_ram(16, 256))
        elif "flash" in name:
            outbox = flash_outbox(64, RamChip(64))
        self.link = open_link({"broker_host": "127.0.0.1", "broker_port": port})
        self.window = 16 if name[-2:] == "16" else 1
        self.session = Session(outbox, name.encode(), clean=True, window=self.window)
        self.client = Client(self.open, self.session)
        self.factory = None
        self.connect()

    def open(self):
        stream = self.link()
        return self.factory(stream) if self.factory and stream else stream

    def connect(self):
        while not self.client.is_connected():
            self.client.poll(ticks_ms())

    def publish(self, qos):
        client, outbox = self.client, self.session.outbox
        if qos:
            if client.publish(TOPIC, PAYLOAD):
                raise OSError("the outbox refuses: nothing to measure")
            client.poll(ticks_ms())
            while outbox.next_seq - outbox.oldest_seq >= self.window:
                client.poll(ticks_ms())
            return
        while client.publish(TOPIC, PAYLOAD, 0):
            client.poll(ticks_ms())
        client.poll(ticks_ms())

    def drain(self):
        while not self.client.is_drained():
            self.client.poll(ticks_ms())

    def idle(self):
        self.client.poll(ticks_ms())

    def reconnect(self):
        """Omits the wait before the attempt, which is the client's politeness, not its cost."""
        self.client.close()
        self.client._wait_ms = 0
        self.connect()

    def wrap(self, factory):
        self.factory = factory
        self.reconnect()


class Raw:
    """The limit: one write, one read, nothing kept. It waits in read(), or polls repeatedly like a
    client that never blocks.
    """

    def __init__(self, name, port):
        self.polls = name == "raw_polling"
        self.address = socket.getaddrinfo("127.0.0.1", port)[0][-1]
        self.connect()
        body = bytes([0, len(TOPIC)]) + TOPIC
        self.packet = b"\x32" + bytes([len(body) + 66]) + body + b"\x00\x01" + PAYLOAD
        self.packet0 = b"\x30" + bytes([len(body) + 64]) + body + PAYLOAD
        self.answer = bytearray(4)

    def connect(self):
        self.socket = socket.socket()
        self.socket.connect(self.address)
        self.socket.setsockopt(6, 1, 1)
        self.socket.write(
            b"\x10\x10\x00\x04MQTT\x04\x02\x00\x3c\x00\x04raw" + (b"1" if self.polls else b"0")
        )
        self.socket.read(4)
        self.socket.setblocking(not self.polls)

    def reconnect(self):
        self.socket.close()
        self.connect()

    def publish(self, qos):
        if not qos:
            self.socket.write(self.packet0)
            return
        self.socket.write(self.packet)
        got = self.socket.readinto(self.answer)
        while got is None:
            got = self.socket.readinto(self.answer)
        if got != 4:
            raise OSError("the broker closed the connection")


def kind_of(name):
    if name[:3] == "raw":
        return Raw
    if name[:7] == "outpost":
        return Ours
    return Peer


def make(name, port):
    return kind_of(name)(name, port)
