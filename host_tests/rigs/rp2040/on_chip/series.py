# micropython-only: runs on the emulated chip, as main.py
"""Cycles of a series: 60 samples of three values, each stored when add() returns, closed, sent and
acknowledged; beside a message of its own for each sample, which a Pack writes. Part of `make bench`
(chip_cycles.py), which makes a figure a value of it.

The outbox is the station's: pinned blocks, whole pages, records of 1,024 bytes. The clock is the
station's, and is moved outside of the spans. Values walk as those of a BME280, the loop's time
jitters by 15 ms; both by a generator of their own, so that each run has the same.
"""

import gc
import sys

import spans
from machine import mem32, unique_id
from spans import BEGIN, END, MARKER, Peer, calibrate, span

TOPIC = b"outpost/board-1/data"
COLUMNS = ((b"temperature", b"Cel", -2), (b"humidity", b"%RH", -2), (b"pressure", b"Pa", 0))
SAMPLES = 60
MESSAGES = 3
PERIOD_MS = 10_000
BLOCKS = 16
TICK_MS = 20


class Weather:
    """Values of a sensor, and the jitter of the loop that reads it."""

    def __init__(self, clock):
        self.clock = clock
        self.values = [2150, 4512, 101_325]
        self._dice = 1
        self._ms = 0

    def roll(self, most):
        self._dice = (self._dice * 75 + 74) % 65_537
        return self._dice % most

    def move(self):
        """To the next sample."""
        self._ms += PERIOD_MS
        self.clock.now(self._ms + self.roll(15))
        for i, spread in enumerate((1, 6, 2)):
            self.values[i] += self.roll(2 * spread + 1) - spread


def connected(outbox):
    from outpost.client import Client
    from outpost.session import Session

    peer = Peer()
    client = Client(lambda: peer, Session(outbox, b"bench", clean=True))
    spans.connected(client, peer, b"\x20\x02\x00\x00")
    return client, peer


def stored():
    """An outbox that holds series, formatted."""
    import rp2

    from outpost.outbox import Outbox
    from outpost.series_outbox import over
    from support.pinning import create

    device = create(rp2.Flash(), "/outbox", BLOCKS, b"12345678", unique_id())
    outbox = over(Outbox, True)(device, record_bytes=1024, align=256, page_bytes=256)
    outbox.mount()
    outbox.format(b"01234567")
    return outbox


def deliver(name, client, peer, now_ms):
    """The poll that sends, and the one that takes the PUBACK. now_ms: when it is due; close() tells
    the session nothing, so the poll is the next one in a new tick."""
    span(name + " send")
    mem32[MARKER] = BEGIN
    client.poll(now_ms)
    mem32[MARKER] = END
    at = 1
    while peer.sent[at] > 127:
        at += 1
    at += 3 + len(TOPIC)
    peer.reply = b"\x40\x02" + bytes(peer.sent[at : at + 2])
    span(name + " PUBACK")
    mem32[MARKER] = BEGIN
    client.poll(now_ms)
    mem32[MARKER] = END
    assert client.is_drained(), name
    client.poll(now_ms)


def samples(client, peer, weather, columns):
    from outpost.series import Series

    series = Series(
        client.session.outbox, TOPIC, b"board-1", columns, step_ms=100, max_age_s=86_400
    )
    for message in range(MESSAGES):
        now_ms = 10 + message * 2 * TICK_MS
        client.poll(now_ms)
        client.poll(now_ms)
        for _ in range(SAMPLES):
            weather.move()
            name = "add" if series.is_open() else "add, which begins a record"
            span("series " + name)
            mem32[MARKER] = BEGIN
            status = series.add(weather.clock, weather.values)
            mem32[MARKER] = END
            assert status == 0, status
        span("series close")
        mem32[MARKER] = BEGIN
        series.close()
        mem32[MARKER] = END
        deliver("series", client, peer, now_ms + TICK_MS)


def messages(client, peer, weather):
    """The same samples one by one."""
    from station.telemetry import Pack

    pack = Pack(b"board-1")
    for message in range(12):
        now_ms = 1000 + message * 2 * TICK_MS
        client.poll(now_ms)
        client.poll(now_ms)
        weather.move()
        span("message publish")
        mem32[MARKER] = BEGIN
        pack.begin(client.session.outbox, weather.clock)
        for (name, unit, exponent), value in zip(COLUMNS, weather.values):
            pack.add(name, unit, value, exponent)
        status = client.publish(TOPIC, pack.buffer, length=pack.end())
        mem32[MARKER] = END
        assert status == 0, status
        deliver("message", client, peer, now_ms)


def main():
    from station.clock import Clock

    calibrate()
    client, peer = connected(stored())
    clock = Clock(0)
    clock.set(20_413, 36_000_000, 0)
    weather = Weather(clock)
    samples(client, peer, weather, COLUMNS)
    gc.collect()
    messages(client, peer, weather)


try:
    main()
except Exception as error:
    sys.print_exception(error)
print(spans.LAST_LINE)
