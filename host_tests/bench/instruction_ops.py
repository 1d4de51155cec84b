"""Marks what instruction_count.py counts (MicroPython, under trace). Arguments: the broker's port,
and names of sets.

Each call is made several times before it is counted, so that one-time work (a cached lookup, an
opened sector) is done.
"""

import gc
import sys
import time

from outpost.checksum import crc30
from outpost.client import Client
from outpost.memory import copy
from outpost.outbox import Outbox
from outpost.ram_outbox import RamOutbox
from outpost.session import Session
from peer_chip import RamChip
from socket_link import open_link

TOPIC = b"outpost/rate/0123456/dat"  # 24 bytes
PAYLOAD_BYTES = 64
PAYLOAD = bytearray(16384)
_MARKS = open("/dev/null", "wb")
_END = b"\x01E"
_WARM = 4
PEER_TIMES = 3


def begin(name):
    name = b"\x01B" + name.encode()
    _MARKS.write(name)


def end():
    _MARKS.write(_END)


def flash(blocks=16, record_bytes=512, topic=TOPIC):
    """Returns a mounted outbox that has gone around its ring once."""
    outbox = Outbox(RamChip(blocks), record_bytes=record_bytes)
    outbox.format(b"01234567")
    seq = 0
    while outbox.erases < blocks + 2:
        outbox.append(topic, PAYLOAD, PAYLOAD_BYTES)
        outbox.load(seq)
        outbox.discard(seq)
        seq += 1
    return outbox


def connected(outbox, name, window=1):
    link = open_link({"broker_host": "127.0.0.1", "broker_port": PORT})
    client = Client(link, Session(outbox, name.encode(), clean=True, window=window))
    while not client.is_connected():
        client.poll(time.ticks_ms())
    return client


def drain(client):
    while not client.is_drained():
        client.poll(client.session.now_ms + 1)
        # now the PUBACK has arrived, so that no poll finds nothing by chance
        time.sleep_ms(20)


def message(client, name, topic=TOPIC, length=PAYLOAD_BYTES, warm=_WARM):
    """One QoS 1 message: the call, the poll that sends it, the poll that takes its PUBACK, and a
    poll that finds nothing.
    """
    for _ in range(warm):
        client.publish(topic, PAYLOAD, length=length)
        drain(client)
    before, offset = -1, 0
    # up to a sector's second message, as in stored(): a record across two pages costs more
    while offset > before:
        client.publish(topic, PAYLOAD, length=length)
        drain(client)
        before, offset = offset, getattr(client.session.outbox, "_offset", 0)
    # the first poll that finds nothing erases the next block, which an idle poll does not do
    for _ in range(3):
        client.poll(client.session.now_ms + 1)
    gc.collect()
    now_ms = client.session.now_ms
    begin(name + " publish")
    client.publish(topic, PAYLOAD, length=length)
    end()
    programmed = getattr(client.session.outbox, "_filled", 0)
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
    return programmed


def ours():
    message(connected(RamOutbox(4), "ram"), "RAM")
    chip(message(connected(flash(), "flash"), "flash"))


def chip(length):
    """What storing a message costs in the simulated chip: one program and one read of that many
    bytes. A board's driver is in C.
    """
    device, view = RamChip(1), memoryview(bytearray(length))
    program, read = device.writeblocks, device.readblocks
    for counted in (False, True):
        if counted:
            begin("flash publish, of this the simulated chip")
        program(0, view, 0)
        read(0, view, 0)
        if counted:
            end()


def peers(names):
    import peer_clients

    for name in names:
        client = peer_clients.make(name, PORT)
        for _ in range(5):
            client.publish(1)
        # peers allocate, and the search for free memory varies
        for time_ in range(PEER_TIMES):
            gc.collect()
            begin("%s, time %d" % (name, time_))
            client.publish(1)
            end()


def copies():
    """One copy and one CRC, by their length: what the growth of a message is compared with."""
    buffer = bytearray(512)
    for name, call in (
        ("copy of bytes, 100", lambda: copy(buffer, 0, PAYLOAD, 0, 100)),
        ("copy of bytes, 300", lambda: copy(buffer, 0, PAYLOAD, 0, 300)),
        ("CRC of bytes, 100", lambda: crc30(1, buffer, 0, 100)),
        ("CRC of bytes, 300", lambda: crc30(1, buffer, 0, 300)),
    ):
        for _ in range(3):
            call()
        begin(name)
        call()
        end()


def turn(outbox, topic, length):
    """append, load of the oldest held, discard of it: all that the outbox does for a message."""
    outbox.append(topic, PAYLOAD, length)
    outbox.load(outbox.oldest_seq)
    outbox.discard(outbox.oldest_seq)


def at_a_new_sector(outbox, topic, length):
    """Make turns until one has opened a sector. Returns how many that took."""
    turns, before = 0, 0
    while not turns or outbox._offset > before:
        before = outbox._offset
        turn(outbox, topic, length)
        turns += 1
    return turns


def stored(outbox, name, topic=TOPIC, length=PAYLOAD_BYTES, sectors=0):
    """The second message of a sector, so that all begin at a similar place; the oldest is that many
    sectors' messages before it.
    """
    for _ in range(2):
        at_a_new_sector(outbox, topic, length)
    held = at_a_new_sector(outbox, topic, length) * sectors
    for _ in range(held):
        outbox.append(topic, PAYLOAD, length)
    at_a_new_sector(outbox, topic, length)
    count(outbox, name + (str(held) if sectors else ""), topic, length)


def count(outbox, name, topic, length):
    gc.collect()
    begin(name)
    turn(outbox, topic, length)
    end()


def opening():
    """The first message of a sector."""
    outbox = flash()
    at_a_new_sector(outbox, TOPIC, PAYLOAD_BYTES)
    for _ in range(at_a_new_sector(outbox, TOPIC, PAYLOAD_BYTES) - 1):
        turn(outbox, TOPIC, PAYLOAD_BYTES)
    count(outbox, "flash, opens a sector, payload 64", TOPIC, PAYLOAD_BYTES)


def growth():
    for length in (16, 64, 256, 512, 1024, 1900):
        stored(flash(8, 4000), "flash, payload %d" % length, length=length)
    opening()
    for length in (16, 256, 1024, 4096, 16359):
        stored_in_ram(RamOutbox(2, 16383), "RAM, payload %d" % length, length)
    for length in (16, 256, 1024, 4096, 16359):
        message(
            connected(RamOutbox(2, 16383), "client-%d" % length),
            "client, payload %d" % length,
            length=length,
            warm=4,
        )
    for bytes_ in (8, 64, 200):
        stored(flash(8), "flash, topic %d" % bytes_, b"t" * bytes_)
    for blocks in (4, 16, 64, 250):
        stored(flash(blocks), "flash, blocks %d" % blocks)
    stored(flash(64), "flash, backlog 0")
    for sectors in (1, 10, 50):
        stored(flash(64), "flash, backlog ", sectors=sectors)


def stored_in_ram(outbox, name, length):
    turn(outbox, TOPIC, length)
    begin(name)
    turn(outbox, TOPIC, length)
    end()


def windows():
    """The PUBACK of the oldest message in flight, and of the newest, which is out of order."""
    for window in (1, 4, 16):
        client = connected(RamOutbox(16), "window-%d" % window, window)
        for oldest in (True, False):
            now_ms = client.session.now_ms
            for _ in range(window):
                client.publish(TOPIC, PAYLOAD, length=PAYLOAD_BYTES)
            while client.session.next_send < client.session.outbox.next_seq:
                client.session._start_message()
                # sent, as far as the session knows; the broker does not receive it
                client.session.out_end = 0
            packet_id = (
                1 + (client.session.base if oldest else client.session.outbox.next_seq - 1) % 65535
            )
            begin("window, PUBACK of the %s of %d" % ("oldest" if oldest else "newest", window))
            client.session._on_puback(packet_id)
            end()
            for seq in range(client.session.base, client.session.outbox.next_seq):
                client.session._on_puback(1 + seq % 65535)
            client.session.now_ms = now_ms


PORT = int(sys.argv[1])
SETS = {"ours": ours, "copies": copies, "growth": growth, "windows": windows}
begin("empty")
end()
begin("empty")
end()
for word in sys.argv[2:]:
    if word in SETS:
        SETS[word]()
    else:
        peers([word])
