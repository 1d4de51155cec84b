# micropython-only: runs on the emulated chip, as main.py
"""Cycles of a QoS 1 message of MQTT 5.0 beside 3.1.1: topic 24 bytes, payload 64, in RAM and in
flash. `make bench-level5` runs it.
"""

import gc

import spans
from machine import unique_id
from spans import TOPIC, Peer, calibrate, exchange

CONNACK = b"\x20\x06\x00\x00\x03\x22\x00\x0a"


def in_ram():
    from outpost.ram_outbox import RamOutbox

    return RamOutbox(4, 128)


def in_flash():
    import rp2

    from outpost.outbox import Outbox
    from support.pinning import create

    device = create(rp2.Flash(), "/outbox", 8, b"12345678", unique_id())
    outbox = Outbox(device, align=256, page_bytes=256)
    outbox.mount()
    outbox.format(b"01234567")
    return outbox


def connected(kind, outbox, connack, options):
    from outpost.client import Client

    peer = Peer()
    client = Client(lambda: peer, kind(outbox, b"bench", clean=True, **options))
    spans.connected(client, peer, connack)
    return client, peer


def messages(name, client, peer, reason):
    def acknowledge():
        packet_id = 1 + (client.session.next_send - 1) % 65535
        peer.reply = b"\x40" + bytes((2 + len(reason), packet_id >> 8, packet_id & 255)) + reason

    exchange(name, client, acknowledge)


def main():
    from outpost.level5 import over
    from outpost.session import Session

    calibrate()
    aliases = {"aliases": (TOPIC,)}
    more = {"aliases": (TOPIC,), "publish_properties": ((0x26, (b"site", b"north")),)}
    for name, kind, connack, options, reason in (
        ("3.1.1", Session, b"\x20\x02\x00\x00", {}, b""),
        ("5.0", over(Session), CONNACK, {}, b""),
        ("5.0 code 0x10", over(Session), CONNACK, {}, b"\x10"),
        ("5.0 alias", over(Session), CONNACK, aliases, b""),
        ("5.0 alias, property", over(Session), CONNACK, more, b""),
        ("5.0 expiry", over(Session), CONNACK, {"expiry_s": 3600}, b""),
    ):
        client, peer = connected(kind, in_ram(), connack, options)
        messages(name, client, peer, reason)
        gc.collect()
    outbox = in_flash()
    for name, kind, connack in (
        ("stored 3.1.1", Session, b"\x20\x02\x00\x00"), ("stored 5.0", over(Session), CONNACK)
    ):  # fmt: skip
        client, peer = connected(kind, outbox, connack, {})
        messages(name, client, peer, b"")
        gc.collect()


main()
print(spans.LAST_LINE)
