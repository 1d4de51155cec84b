"""Which wakes of a board in deep sleep connect, what time their readings have, and that a message
which the server does not take stops no others. `system/test_deep_sleep.py` has the whole.
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
        client = self.client(outbox)
        clock = Clock(self.now_ms)
        clock.set(20_500, 0, self.now_ms)
        pack = Pack(b"board-1", 200)
        sensors = sensors or self.sensors
        station = Station(client, pack, clock, sensors, b"t", 60_000, self.now_ms)
        settings = dict(SETTINGS, **settings)
        wake(station, self, settings)
        self.wakes += 1
        return outbox.next_seq

    def client(self, outbox):
        return Client(self._link, Session(outbox, b"board-1"))

    def random_hex(self):
        return b"%08x" % self.wakes

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


class Served(Sleeper):
    """With a server for a while: answers(payload) is what it says to a message; None: the end.
    Each wake has a client and a session of its own, and the flash."""

    def __init__(self, answers, blocks=8):
        Sleeper.__init__(self, [Sensor(b"load")])
        self.flash = flash_in_ram(blocks)
        self.outbox = Outbox(self.flash)
        self.outbox.format(b"3fa9c1d2")
        self.answers, self.taken, self.lasted_ms = answers, [], []
        self.takes_connect = True

    def client(self, outbox):
        self.outbox, self.from_ms, self.coming = outbox, self.now_ms, []
        return Client(self._link, Session(outbox, b"board-1"))

    def sleep(self, ms):
        self.lasted_ms.append(self.now_ms - self.from_ms)
        self.now_ms += ms

    def random_hex(self):
        return b"%x0000000" % (self.wakes & 15)

    def _link(self):
        self.now_ms += 2000
        self.coming = []
        return self

    def write(self, buf, offset, length):
        first = buf[offset]
        if first == 0x10 and self.takes_connect:
            self.coming.append(b"\x20\x02\x01\x00")
        elif first & 0xF0 == 0x30:
            topic_end = offset + (3 if buf[offset + 1] < 128 else 4) + 2
            payload = bytes(buf[topic_end + 2 : offset + length])
            answer = self.answers(payload)
            if answer:
                self.taken.append(payload)
                answer += bytes(buf[topic_end : topic_end + 2])
            self.coming.append(answer)
        elif first == 0xC0:
            self.coming.append(b"\xd0\x00")
        return length

    def readinto(self, buf):
        if not self.coming:
            return None
        data = self.coming.pop(0)
        if data:
            buf[: len(data)] = data
        return 0 if data is None else len(data) or None

    def close(self):
        pass

    def store(self, *payloads):
        outbox = Outbox(self.flash)
        outbox.mount()
        for payload in payloads:
            outbox.append(b"t", payload, len(payload), 0x10)


class TestProgress(unittest.TestCase):
    """RAM, and with it what speaks against a message, is gone after each wake."""

    def wakes(self, answer, count, bad=1, **options):
        """Wake `count` times with messages in front that the server answers so."""
        board = Served(lambda payload: answer if b"bad" in payload else b"\x40\x02", **options)
        board.store(*([b"bad"] * bad))
        for _ in range(count):
            board.wake(connect_every=1, wake_limit_ms=5000)
        return board

    def test_one_on_which_the_server_closes(self):
        board = self.wakes(None, 40)
        self.assertEqual((board.outbox.aside, len(set(board.taken))), (1, 40))
        self.assertEqual(board.outbox.oldest_seq, board.outbox.next_seq)
        long = [ms for ms in board.lasted_ms if ms > 10_000]
        self.assertTrue(len(long) == 1 and long[0] < 120_000, long)

    def test_one_that_it_does_not_answer(self):
        board = self.wakes(b"", 60)
        self.assertEqual((board.outbox.aside, len(set(board.taken))), (1, 60))
        self.assertEqual(board.outbox.oldest_seq, board.outbox.next_seq)

    def test_several(self):
        board = self.wakes(None, 100, bad=9)
        self.assertEqual((board.outbox.aside, len(set(board.taken))), (9, 100))

    def test_a_server_that_takes_nothing_costs_one_long_wake_in_16(self):
        board = Served(lambda payload: b"")
        for _ in range(64):
            board.wake(connect_every=1, wake_limit_ms=5000)
        long = [ms for ms in board.lasted_ms if ms > 10_000]
        self.assertEqual((len(long), board.outbox.aside), (3, 0))
        self.assertTrue(max(long) < 603_000, max(long))

    def test_no_network_and_no_connack_cost_none(self):
        board = Served(lambda payload: b"\x40\x02")
        board.takes_connect = False
        for _ in range(64):
            board.wake(connect_every=1, wake_limit_ms=5000)
        self.assertTrue(max(board.lasted_ms) < 10_000)
        board.takes_connect = True
        board.wake(connect_every=1, wake_limit_ms=5000)
        self.assertEqual(len(board.taken), 65)


if __name__ == "__main__":
    unittest.main()
