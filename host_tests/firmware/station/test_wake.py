"""Which wakes of a board in deep sleep connect, and what time their readings have. Over a link that
counts how often it is asked: `system/test_deep_sleep.py` has the whole.
"""

import unittest

from fake_flash import flash_in_ram
from outpost.client import Client
from outpost.outbox import Outbox
from outpost.session import Session
from station.clock import Clock
from station.deep_sleep import wake
from station.station import Station
from station.telemetry import Pack

SETTINGS = {
    "deep_sleep": True,
    "mode": "broker",
    "connect_every": 4,
    "wake_limit_ms": 1000,
    "interval_ms": 60_000,
}


class Sensor:
    unit, exponent = b"", 0

    def __init__(self, name, settle_ms=0):
        self.name, self.settle_ms, self.reads = name, settle_ms, 0

    def read(self):
        self.reads += 1
        return 42


class Sleeper:
    """The board contract, as far as wake() uses it, and its flash. asked: wakes that connected."""

    def __init__(self, sensors):
        self.flash = flash_in_ram(8)
        Outbox(self.flash).format(b"3fa9c1d2")
        self.sensors = sensors
        self.now_ms, self.wakes, self.asked, self.payloads = 0, 0, [], []

    def wake(self, sensors=None, **settings):
        outbox = Outbox(self.flash)
        outbox.mount()
        client = Client(self._link, Session(outbox, b"board-1"))
        clock = Clock(self.now_ms)
        clock.set(20_500, 0, self.now_ms)
        pack = Pack(b"board-1", 200)
        sensors = sensors or self.sensors
        station = Station(client, pack, clock, sensors, b"t", 60_000, self.now_ms)
        settings = dict(SETTINGS, **settings)
        wake(station, self, settings)
        self.wakes += 1
        return outbox.next_seq

    def _link(self):
        if self.wakes not in self.asked:
            self.asked.append(self.wakes)
        raise OSError(113)

    def ticks_ms(self):
        return self.now_ms

    def idle(self, client):
        self.now_ms += 50

    def published(self, station):
        self.payloads.append(bytes(station.pack.buffer[: station.pack.length]))

    def stopping(self):
        return False

    def sleep(self, ms):
        self.slept_ms = ms

    def started(self, client):
        pass

    stopped = started

    def feed_watchdog(self):
        pass

    def keep_time(self, clock, now_ms):
        pass


TWO_MESSAGES = [Sensor(b"a" * 40), Sensor(b"b" * 40)]  # no room for both in one


class TestWhoConnects(unittest.TestCase):
    def test_a_message_whose_number_is_a_multiple_does(self):
        board = Sleeper([Sensor(b"load")])
        for _ in range(9):
            board.wake()
        self.assertEqual(board.asked, [0, 4, 8])

    def test_also_when_it_is_not_the_first_of_its_wake(self):
        """Two messages a wake, and a number that was odd once: none begins at a multiple of 4."""
        board = Sleeper(TWO_MESSAGES)
        self.assertEqual(board.wake(TWO_MESSAGES[:1]), 1)
        self.assertEqual(board.wake(), 3)
        for _ in range(7):
            board.wake()
        # numbers 0; 1, 2; 3, 4; 5, 6; 7, 8; ...
        self.assertEqual(board.asked, [0, 2, 4, 6, 8])

    def test_each_one_where_each_is_to(self):
        board = Sleeper(TWO_MESSAGES)
        for _ in range(4):
            board.wake(connect_every=1)
        self.assertEqual(board.asked, [0, 1, 2, 3])


class TestTime(unittest.TestCase):
    def test_a_reading_has_the_time_at_which_it_was_taken(self):
        """After its sensor has settled: 0.8 s in steps of 50 ms."""
        board = Sleeper([Sensor(b"load", 800)])
        board.wake()
        board.wake(connect_every=1000)
        self.assertTrue(b'"bt":1771200000.800' in board.payloads[1], board.payloads[1])

    def test_a_sensor_that_need_not_settle_is_read_once(self):
        """A slow one would be left alone at the second reading: `guard.py`."""
        sensors = [Sensor(b"slow"), Sensor(b"settles", 800)]
        Sleeper(sensors).wake()
        self.assertEqual([one.reads for one in sensors], [1, 2])


if __name__ == "__main__":
    unittest.main()
