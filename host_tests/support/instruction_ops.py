"""Marks what instruction_count.py is to count (MicroPython, under trace). Arguments: the broker's port, and names of sets.

Each call is made several times before it is counted, so that what happens once (a lookup cached, a sector opened) is behind it.
"""

import gc
import sys
import time

import board
from outpost.client import Client
from outpost.crc import crc30
from outpost.memory import copy, fill
from outpost.outbox import Outbox
from outpost.ram import RamOutbox
from peer_chip import RamChip

TOPIC = b"outpost/rate/0123456/dat"  # 24 bytes
PAYLOAD_BYTES = 64
PAYLOAD = bytearray(16384)
_MARKS = open("/dev/null", "wb")
_END = b"\x01E"
_WARM = 40


def begin(name):
    name = b"\x01B" + name.encode()
    _MARKS.write(name)


def end():
    _MARKS.write(_END)


def flash(blocks=16, record_bytes=512, held=0, topic=TOPIC):
    """A mounted outbox that went round its ring once, with so many messages held."""
    outbox = Outbox(RamChip(blocks), record_bytes=record_bytes)
    outbox.format(b"01234567")
    seq = 0
    while outbox.erases < blocks + 2:
        outbox.append(topic, PAYLOAD, PAYLOAD_BYTES)
        outbox.load(seq)
        outbox.discard(seq)
        seq += 1
    for _ in range(held):
        outbox.append(topic, PAYLOAD, PAYLOAD_BYTES)
    return outbox


def connected(outbox, name, window=1):
    link = board.link({"broker_host": "127.0.0.1", "broker_port": PORT})
    client = Client(link, outbox, name.encode(), clean=True, window=window)
    while not client.is_connected():
        client.poll(time.ticks_ms())
    return client


def drain(client):
    while not client.is_drained():
        client.poll(client.now_ms + 1)
        time.sleep_ms(1)


def message(client, name, topic=TOPIC, length=PAYLOAD_BYTES, warm=_WARM):
    """One QoS 1 message: the call, the poll that sends it, the poll that takes its PUBACK, and one that finds nothing."""
    for _ in range(warm):
        client.publish(topic, PAYLOAD, length)
        drain(client)
    gc.collect()
    now_ms = client.now_ms
    begin(name + " publish")
    client.publish(topic, PAYLOAD, length)
    end()
    begin(name + " send")
    client.poll(now_ms)
    end()
    time.sleep_ms(100)
    begin(name + " PUBACK")
    client.poll(now_ms)
    end()
    assert client.is_drained(), name
    begin(name + " idle")
    client.poll(now_ms)
    end()
    begin(name + " idle, a millisecond later")
    client.poll(now_ms + 1)
    end()


def ours():
    message(connected(RamOutbox(4), "ram"), "RAM")
    message(connected(flash(), "flash"), "flash")


def peers(names):
    import peer_clients

    for name in names:
        client = peer_clients.make(name, PORT)
        for _ in range(5):
            client.publish(1)
        gc.collect()
        begin(name)
        client.publish(1)
        end()


def parts():
    """What a stored message is made of. The private calls are those of outbox.py and sectors.py, in their order."""
    outbox = flash()
    size = len(TOPIC) + PAYLOAD_BYTES + 16
    outbox._topic_length, outbox._length = len(TOPIC), PAYLOAD_BYTES
    buffer = outbox.buffer
    for name, call in (
        ("append", lambda: outbox.append(TOPIC, PAYLOAD, PAYLOAD_BYTES)),
        ("load, just appended", lambda: outbox.load(outbox.next_seq - 1)),
        ("discard", lambda: outbox.discard(outbox.next_seq - 1)),
        ("in append: room in the sector", lambda: outbox._make_room(size)),
        ("in append: erased pages", lambda: fill(buffer, 256)),
        ("in append: record composed", lambda: outbox._compose(16, 1)),
        ("in append: program", lambda: outbox._device.writeblocks(0, outbox._views[1], 256)),
        ("in append: read back", lambda: outbox._read(0, 300)),
        ("CRC of 100 bytes", lambda: crc30(buffer, 0, 100, 1)),
        ("a call of nothing", lambda: None),
        ("copy of 100 bytes", lambda: copy(buffer, 0, PAYLOAD, 0, 100)),
        ("copy of 200 bytes", lambda: copy(buffer, 0, PAYLOAD, 0, 200)),
        ("CRC of 200 bytes", lambda: crc30(buffer, 0, 200, 1)),
    ):
        for _ in range(3):
            call()
        begin(name)
        call()
        end()


def mount():
    """The newest sector is as full each time, so that the difference is the blocks'."""
    for blocks in (4, 16):
        again = Outbox(flash(blocks)._device)
        again.mount()
        gc.collect()
        begin("mount, %d blocks" % blocks)
        again.mount()
        end()


def stored(outbox, name, topic=TOPIC, length=PAYLOAD_BYTES):
    """append, load of the oldest held, discard of it: the outbox's whole part of a message."""
    for _ in range(5):
        outbox.append(topic, PAYLOAD, length)
        outbox.load(outbox.oldest_seq)
        outbox.discard(outbox.oldest_seq)
    while not outbox._offset % 256 < 100:  # at a like place in the sector, so that a like number of pages is touched
        outbox.append(topic, PAYLOAD, length)
        outbox.load(outbox.oldest_seq)
        outbox.discard(outbox.oldest_seq)
    gc.collect()
    begin(name)
    outbox.append(topic, PAYLOAD, length)
    outbox.load(outbox.oldest_seq)
    outbox.discard(outbox.oldest_seq)
    end()


def growth():
    for length in (16, 256, 1024, 2048):
        stored(flash(8, 4000), "flash, payload %d" % length, length=length)
    for length in (16, 256, 4096, 16000):
        outbox = RamOutbox(2, 16100)
        stored_in_ram(outbox, "RAM, payload %d" % length, length)
    for count in (8, 64, 200):
        stored(flash(8), "flash, topic %d" % count, b"t" * count)
    for blocks in (4, 16, 64, 250):
        stored(flash(blocks), "flash, blocks %d" % blocks)
    for held in (0, 40, 400, 2000):
        stored(flash(64, held=held), "flash, backlog %d" % held)


def stored_in_ram(outbox, name, length):
    for counted in (False, True):
        if counted:
            begin(name)
        outbox.append(TOPIC, PAYLOAD, length)
        outbox.load(outbox.oldest_seq)
        outbox.discard(outbox.oldest_seq)
        if counted:
            end()


def windows():
    """The PUBACK of the oldest of so many in flight, and that of the newest, which is out of order."""
    for window in (1, 4, 16):
        client = connected(RamOutbox(16), "window-%d" % window, window)
        for oldest in (True, False):
            now_ms = client.now_ms
            for _ in range(window):
                client.publish(TOPIC, PAYLOAD, PAYLOAD_BYTES)
            while client.next_send < client.outbox.next_seq:
                client._next()
                client.out_end = 0  # sent, as far as the session knows; the broker does not see it
            packet_id = 1 + (client.base if oldest else client.outbox.next_seq - 1) % 65535
            begin("window %d, PUBACK of the %s" % (window, "oldest" if oldest else "newest"))
            client._puback(packet_id)
            end()
            for seq in range(client.base, client.outbox.next_seq):
                client._puback(1 + seq % 65535)
            client.now_ms = now_ms


PORT = int(sys.argv[1])
SETS = {"ours": ours, "parts": parts, "mount": mount, "growth": growth, "windows": windows}
begin("empty")
end()
begin("empty")
end()
for word in sys.argv[2:]:
    if word in SETS:
        SETS[word]()
    else:
        peers([word])
