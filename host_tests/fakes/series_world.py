"""A SeriesStation with all that main.py gives it, over flash in RAM: for its tests and heap
tests."""

import json

from fake_flash import flash_in_ram
from outpost.client import Client
from outpost.outbox import Outbox
from outpost.session import Session
from series_samples import read
from station import flash_wear
from station.clock import Clock
from station.guard import guarded
from station.health import Health
from station.sensor_notices import SensorNotices
from station.series_station import RECORD_BYTES, SeriesStation, over
from station.telemetry import Pack

TOPIC = b"outpost/board-1/data"
INTERVAL_MS = 10_000
DAY, DAY_MS = 20_413, 86_400_000


class Thermometer:
    """value: what it reads; an exception is raised."""

    def __init__(self, name=b"t", exponent=-2, value=2150):
        self.name, self.unit, self.exponent, self.value = name, b"Cel", exponent, value

    def read(self):
        if isinstance(self.value, Exception):
            raise self.value
        return self.value


def nothing():
    return 0


class World:
    """turn() is one interval. flash: formatted in an earlier life."""

    record_bytes = RECORD_BYTES

    def __init__(self, sensors, flash=None, align=4, reprograms=False, base=Outbox, **settings):
        self.flash = flash or flash_in_ram(8, 256)
        kind = over(base, reprograms)
        self.outbox = kind(self.flash, record_bytes=self.record_bytes, align=align)
        if self.outbox.mount():
            self.outbox.format(b"3fa9c1d2")
        self.clock, self.now_ms, self.interval_ms = Clock(0), 0, INTERVAL_MS
        self.clock.set(DAY, 0, 0)
        self.client = Client(nothing, Session(self.outbox, b"board-1", keep_alive_s=0))
        health = Health(self.outbox, nothing)
        self.guards, channels = guarded(sensors, self.ticks_ms, nothing)
        self.notices = SensorNotices(self.outbox, self.guards, health)
        more = flash_wear.sensors(self.outbox) + [self.notices]
        pack = Pack(b"board-1")
        self.station = SeriesStation(
            self.client, pack, self.clock, channels + more, TOPIC, INTERVAL_MS, 0
        )
        self.station.interval_ms = self.interval_ms
        health.station = self.station
        given = {"device_id": "board-1", "series_age_s": 600, "alarms": None}
        given.update(settings)
        self.station.start(given, len(channels), self.guards, health)

    def ticks_ms(self):
        return self.now_ms

    def turn(self, count=1):
        while count:
            count -= 1
            self.station.step(self.now_ms)
            while self.station.publish_rest():
                pass
            self.now_ms = (self.now_ms + INTERVAL_MS) & 0x3FFFFFFF

    def messages(self):
        """Returns (number, whether it is a series, rows) of the held messages that may be sent; a
        row is (time in ms, {name: value})."""
        return [rows_of(payload) for payload in self.payloads()]

    def payloads(self):
        found = []
        seq = self.outbox.oldest_seq
        while self.outbox.load(seq) == 0:
            seq = self.outbox.loaded_seq + 1
            at = self.outbox.topic_at + self.outbox.topic_length
            found.append(bytes(self.outbox.buffer[at : at + self.outbox.payload_length]))
        return found


def rows_of(payload):
    if payload[0] == 0xF5:
        message = read(payload)
        names = [name for name, _, _ in message["columns"]]
        rows = []
        for time_ms, values in message["samples"]:
            pairs = [(n, v) for n, v in zip(names, values) if v is not None]
            rows.append((time_ms, dict(pairs)))
        return message["seq"], True, rows
    pack = json.loads(payload.decode())
    time_s = pack[0].get("bt", pack[0].get("up"))
    values = {one["n"]: one["v"] for one in pack}
    return pack[0]["seq"], False, [(round(time_s * 1000), values)]
