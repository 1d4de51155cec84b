# micropython-only: runs on the emulated chip, as main.py
"""The workloads whose cycles are counted: topic 24 bytes, payload 64."""

import gc
import sys

import spans
from machine import mem32, unique_id
from spans import (
    BEGIN,
    END,
    MARKER,
    PAYLOAD,
    RESUME,
    SKIP,
    TIMES,
    TOPIC,
    Peer,
    calibrate,
    exchange,
    span,
)


class Sock:
    """As Peer, for umqtt.simple, which writes a packet in pieces and reads byte by byte."""

    def __init__(self):
        self.reply = b""
        self.at = 0

    def write(self, buf, length=None):
        mem32[MARKER] = SKIP
        if length is None:
            length = len(buf)
        mem32[MARKER] = RESUME
        return length

    def read(self, length):
        mem32[MARKER] = SKIP
        self.at += length
        part = self.reply[self.at - length : self.at]
        mem32[MARKER] = RESUME
        return part

    def setblocking(self, flag):
        mem32[MARKER] = SKIP
        mem32[MARKER] = RESUME


def imports():
    for module in ("session", "client", "ram_outbox", "outbox"):
        gc.collect()
        before = gc.mem_alloc()
        span("import of outpost." + module)
        mem32[MARKER] = BEGIN
        __import__("outpost." + module)
        mem32[MARKER] = END
        gc.collect()
        print("heap import of outpost." + module, gc.mem_alloc() - before)


def connected(outbox):
    from outpost.client import Client
    from outpost.session import Session

    peer = Peer()
    client = Client(lambda: peer, Session(outbox, b"bench", clean=True))
    spans.connected(client, peer, b"\x20\x02\x00\x00")
    return client, peer


def acknowledge(peer):
    at = peer.at + 2 + 2 + len(TOPIC)  # fixed header with one byte of length: 92 bytes follow
    peer.reply = b"\x40\x02" + bytes(peer.sent[at : at + 2])


def at_most_once(client):
    for _ in range(TIMES):
        span("QoS 0")
        mem32[MARKER] = BEGIN
        client.publish(TOPIC, PAYLOAD, 0)
        client.poll(7)
        mem32[MARKER] = END


def at_least_once(name, client, peer):
    exchange(name, client, lambda: acknowledge(peer))
    idle(name, client, 100)


def idle(name, client, now_ms):
    for _ in range(TIMES):
        client.poll(now_ms)
        span(name + " idle poll, same ms")
        mem32[MARKER] = BEGIN
        client.poll(now_ms)
        mem32[MARKER] = END
        now_ms += 1
        span(name + " idle poll, new ms")
        mem32[MARKER] = BEGIN
        client.poll(now_ms)
        mem32[MARKER] = END


def pieces(outbox):
    """What a stored message is made of."""
    for _ in range(TIMES):
        span("append")
        mem32[MARKER] = BEGIN
        outbox.append(TOPIC, PAYLOAD, 64)
        mem32[MARKER] = END
        span("load of the message just stored")
        mem32[MARKER] = BEGIN
        outbox.load(outbox.next_seq - 1)
        mem32[MARKER] = END
    for n in (2, 5, 9):
        seq = outbox.oldest_seq + n
        outbox.load(outbox.next_seq - 1)
        span("load of an older message")
        mem32[MARKER] = BEGIN
        outbox.load(seq)
        mem32[MARKER] = END
        assert outbox.loaded_seq == seq
    span("load of the next one")
    mem32[MARKER] = BEGIN
    outbox.load(seq + 1)
    mem32[MARKER] = END


def device_calls(device, raw):
    """A program and a read of a page, by the pinned device and by the port's own."""
    page = bytearray(b"\xff" * 256)
    for name, call, block in (("rp2.Flash", raw, device.blocks[0]), ("pinned device", device, 0)):
        for _ in range(3):
            span("program of a page by " + name)
            mem32[MARKER] = BEGIN
            call.writeblocks(block, page, 0)
            mem32[MARKER] = END
            span("read of a page by " + name)
            mem32[MARKER] = BEGIN
            call.readblocks(block, page, 0)
            mem32[MARKER] = END


def stored():
    import rp2

    from outpost.outbox import Outbox
    from support.pinning import create

    span("64 blocks pinned")
    mem32[MARKER] = BEGIN
    device = create(rp2.Flash(), "/outbox", 64, b"12345678", unique_id())
    mem32[MARKER] = END
    outbox = Outbox(device, align=256, page_bytes=256)
    outbox.mount()
    outbox.format(b"01234567")
    client, peer = connected(outbox)
    at_least_once("stored", client, peer)
    pieces(outbox)
    device_calls(device, device.raw)
    opened(device.raw)


def opened(raw):
    """A start: the pinned blocks checked and opened, the outbox mounted."""
    from outpost.outbox import Outbox
    from support.pinned import open_blocks

    gc.collect()
    span("64 pinned blocks opened")
    mem32[MARKER] = BEGIN
    device = open_blocks(raw, "/outbox", unique_id())
    mem32[MARKER] = END
    outbox = Outbox(device, align=256, page_bytes=256)
    span("mount of 64 blocks")
    mem32[MARKER] = BEGIN
    status = outbox.mount()
    mem32[MARKER] = END
    assert status == 0, status
    print("held", outbox.next_seq - outbox.oldest_seq)


def umqtt():
    from umqtt.simple import MQTTClient

    client = MQTTClient(b"bench", "host")
    client.sock = sock = Sock()
    for again in (True, False):  # a collection puts the search for room back to the heap's start
        name = "umqtt.simple QoS 0" + (", just after a collection" if again else "")
        for _ in range(TIMES):
            if again:
                gc.collect()
            span(name)
            mem32[MARKER] = BEGIN
            client.publish(TOPIC, PAYLOAD, False, 0)
            mem32[MARKER] = END
    for _ in range(TIMES):
        sock.reply, sock.at = b"\x40\x02" + (client.pid + 1).to_bytes(2, "big"), 0
        span("umqtt.simple QoS 1")
        mem32[MARKER] = BEGIN
        client.publish(TOPIC, PAYLOAD, False, 1)
        mem32[MARKER] = END


def main():
    calibrate()
    imports()
    from outpost.ram_outbox import RamOutbox

    client, peer = connected(RamOutbox(4))
    at_most_once(client)
    at_least_once("RAM", client, peer)
    stored()
    try:
        umqtt()
    except ImportError:
        print("umqtt.simple is not there")


try:
    main()
except Exception as error:
    sys.print_exception(error)
print(spans.LAST_LINE)
