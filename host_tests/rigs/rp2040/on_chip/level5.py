# micropython-only: runs on the emulated chip, as main.py
"""Cycles of a QoS 1 message of MQTT 5.0 beside 3.1.1: topic 24 bytes, payload 64, in RAM. As
cycles.py, whose markers these are; `make bench-level5` runs it.
"""

import gc

from machine import mem32

MARKER = 0x40058018
BEGIN, END, SKIP, RESUME = 1, 2, 3, 4
TOPIC = b"outpost/rate/0123456/dat"
PAYLOAD = bytearray(b"0123456789abcdef" * 4)
TIMES = 12
CONNACK = b"\x20\x06\x00\x00\x03\x22\x00\x0a"
LAST_LINE = "end of the run"


def span(name):
    print("span " + name)


class Peer:
    """Takes all that is written, and returns `reply` once."""

    reply = None

    def write(self, buf, offset=0, length=None):
        mem32[MARKER] = SKIP
        if length is None:
            length = len(buf)
        mem32[MARKER] = RESUME
        return length

    def readinto(self, buf):
        mem32[MARKER] = SKIP
        reply = self.reply
        if reply is None:
            mem32[MARKER] = RESUME
            return None
        buf[: len(reply)] = reply
        self.reply = None
        mem32[MARKER] = RESUME
        return len(reply)

    def close(self):
        pass


class Plain:
    def readinto(self, buf):
        return None


def calibrate():
    peer, plain = Peer(), Plain()
    for name, call in (
        ("empty", None),
        ("call of the peer", peer.readinto),
        ("call of nothing", plain.readinto),
    ):
        for _ in range(3):
            span(name)
            if call is None:
                mem32[MARKER] = BEGIN
                mem32[MARKER] = END
            else:
                mem32[MARKER] = BEGIN
                call(PAYLOAD)
                mem32[MARKER] = END


def connected(kind, connack, options):
    from outpost.client import Client
    from outpost.ram_outbox import RamOutbox

    peer = Peer()
    client = Client(lambda: peer, kind(RamOutbox(4, 128), b"bench", clean=True, **options))
    client.poll(1)
    peer.reply = connack
    for now_ms in range(2, 6):
        client.poll(now_ms)
    assert client.is_connected()
    return client, peer


def messages(name, client, peer, reason):
    """publish, the poll that sends, the one that takes the PUBACK; time stands still."""
    for n in range(TIMES):
        now_ms = 10 + n
        client.poll(now_ms)
        client.poll(now_ms)
        span(name + " publish")
        mem32[MARKER] = BEGIN
        client.publish(TOPIC, PAYLOAD, 64)
        mem32[MARKER] = END
        span(name + " send")
        mem32[MARKER] = BEGIN
        client.poll(now_ms)
        mem32[MARKER] = END
        packet_id = 1 + (client.session.next_send - 1) % 65535
        peer.reply = b"\x40" + bytes((2 + len(reason), packet_id >> 8, packet_id & 255)) + reason
        span(name + " PUBACK")
        mem32[MARKER] = BEGIN
        client.poll(now_ms)
        mem32[MARKER] = END
        assert client.is_drained(), name
        client.poll(now_ms)


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
print(LAST_LINE)
