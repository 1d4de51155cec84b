# micropython-only: runs on the emulated chip, as main.py
"""Cycles of a QoS 1 message of MQTT 5.0 beside 3.1.1: topic 24 bytes, payload 64, in RAM. `make
bench-level5` runs it.
"""

import gc

import spans
from spans import TOPIC, Peer, calibrate, exchange

CONNACK = b"\x20\x06\x00\x00\x03\x22\x00\x0a"


def connected(kind, connack, options):
    from outpost.client import Client
    from outpost.ram_outbox import RamOutbox

    peer = Peer()
    client = Client(lambda: peer, kind(RamOutbox(4, 128), b"bench", clean=True, **options))
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
        client, peer = connected(kind, connack, options)
        messages(name, client, peer, reason)
        gc.collect()


main()
print(spans.LAST_LINE)
