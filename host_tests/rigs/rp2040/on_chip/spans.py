# micropython-only: runs on the emulated chip, beside the scripts that import it
"""Spans: what scripts on the chip count cycles with. `counter.py` counts between the markers.

span(name) names what the next BEGIN starts. The stream is a peer of a few lines; what runs inside
it stands between SKIP and RESUME, and is not counted.
"""

from machine import mem32

MARKER = 0x40058018
BEGIN, END, SKIP, RESUME = 1, 2, 3, 4
TOPIC = b"outpost/rate/0123456/dat"
PAYLOAD = bytearray(b"0123456789abcdef" * 4)
TIMES = 12
LAST_LINE = "end of the run"


def span(name):
    print("span " + name)


class Peer:
    """Takes all that is written, remembers the last packet, and returns `reply` once."""

    def __init__(self):
        self.reply = self.sent = None
        self.at = 0

    def write(self, buf, offset=0, length=None):
        mem32[MARKER] = SKIP
        self.sent = buf
        self.at = offset
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


def calibrate():
    """An empty span, and what a peer's call costs outside of its own two markers."""
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


class Plain:
    def readinto(self, buf):
        return None


def exchange(name, client, acknowledge):
    """Messages of QoS 1: publish, the poll that sends, the one that takes the PUBACK, which
    acknowledge() puts into the peer; time stands still."""
    for n in range(TIMES):
        now_ms = 10 + n
        client.poll(now_ms)
        client.poll(now_ms)
        span(name + " publish")
        mem32[MARKER] = BEGIN
        client.publish(TOPIC, PAYLOAD)
        mem32[MARKER] = END
        span(name + " send")
        mem32[MARKER] = BEGIN
        client.poll(now_ms)
        mem32[MARKER] = END
        acknowledge()
        span(name + " PUBACK")
        mem32[MARKER] = BEGIN
        client.poll(now_ms)
        mem32[MARKER] = END
        assert client.is_drained(), name
        client.poll(now_ms)


def connected(client, peer, connack):
    client.poll(1)
    peer.reply = connack
    for now_ms in range(2, 6):
        client.poll(now_ms)
    assert client.is_connected()
