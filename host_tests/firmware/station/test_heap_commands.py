# micropython-only: CPython has no mem_total
"""A board with commands enabled takes no heap while none comes; taking one takes a bounded amount,
and leaves nothing behind."""

import gc
import json
import os
import sys
import unittest

import micropython

from bench_client import Bench
from station.clock import Clock
from station.command_note import NOTE_PATH, SETTINGS_PATH, TRIAL_PATH
from station.commanded_station import over as commanded
from station.commands import Commands
from station.settings import check
from station.station import Station
from station.telemetry import Pack
from virtual.packets import encode

BASE = b"outpost/board-1"
TURNS = 400
COMMANDS = (
    {"do": "report"},
    {"do": "dance"},
    {"do": "set", "settings": {"interval_ms": 86_000_000}},
)
# asked of the heap for one command, most of it garbage at once; words of 64 bits take twice as much
MOST_BYTES = 24_000 << (sys.maxsize > 1 << 32)
SETTINGS = {"device_id": "board-1", "broker_host": "broker", "interval_ms": 86_400_000}


class Sensor:
    name, unit, exponent = b"load", b"", -2

    def read(self):
        return 42


class Board:
    """What Commands asks of a board."""

    def __init__(self, bench):
        self._bench = bench

    def ticks_ms(self):
        return self._bench.now_ms

    def published(self, station):
        pass

    def feed_watchdog(self):
        pass


class HeapRig(unittest.TestCase):
    """A connected board that has measured once."""

    def setUp(self):
        self.tearDown()
        settings = dict(SETTINGS, mode="broker", commands=True)
        with open(SETTINGS_PATH, "w") as file:
            json.dump(settings, file)
        options = {"rx_bytes": 600, "unacknowledged": 16}
        self.bench = bench = Bench("broker", options=options)
        self.commands = self.make(Board(bench))
        sensors = [Sensor(), self.commands]
        pack, clock = Pack(b"board-1"), Clock(0)
        self.station = commanded(Station)(
            bench.client, pack, clock, sensors, BASE + b"/data", 86_400_000, 0
        )
        self.commands.attach(self.station, check(settings))
        bench.connect()
        bench.poll(4)
        bench.say(b"\x90\x03" + self.request_id() + b"\x01")
        self.station.step(bench.now_ms)
        bench.poll(10)
        self.assertTrue(self.commands.is_granted())

    def make(self, board):
        return Commands(board, BASE)

    def tearDown(self):
        for path in (NOTE_PATH, SETTINGS_PATH, TRIAL_PATH):
            try:
                os.remove(path)
            except OSError:
                pass

    def request_id(self):
        number = self.bench.session._request_id
        return bytes((number >> 8, number & 255))

    def turns(self, count):
        """(gross, net) bytes that so many turns of main.py's loop take."""
        station, client, now_ms = self.station, self.bench.client, self.bench.now_ms
        gc.collect()
        gc.disable()
        net, gross = gc.mem_alloc(), micropython.mem_total()
        for _ in range(count):
            now_ms += 5
            station.step(now_ms)
            client.poll(now_ms)
        gross = micropython.mem_total() - gross
        net = gc.mem_alloc() - net
        gc.enable()
        self.bench.now_ms = now_ms
        return gross, net

    def send(self, number, command):
        payload = json.dumps(dict(command, id="c-%d" % number)).encode()
        topic = BASE + b"/command"
        packet_id = 256 + number
        self.bench.stream.say(
            encode("PUBLISH", topic=topic, payload=payload, qos=1, packet_id=packet_id)
        )


class TestHeapOfCommands(HeapRig):
    def test_idle_takes_nothing(self):
        self.turns(10)
        self.assertEqual(self.turns(TURNS), (0, 0))

    def test_a_command_takes_a_bounded_amount_and_the_loop_after_it_nothing(self):
        for number, command in enumerate(COMMANDS):
            held = self.bench.outbox.next_seq
            self.send(number + 1, command)
            gross, _ = self.turns(40)
            print("%s: gross %d B" % (command["do"], gross))
            self.assertEqual(self.bench.outbox.next_seq, held + 1)
            self.assertTrue(0 < gross <= MOST_BYTES, (command, gross))
            self.bench.stream.take()
            self.turns(10)
            self.assertEqual(self.turns(TURNS), (0, 0), command)

    def test_many_commands_leave_no_heap_behind(self):
        self.send(1, COMMANDS[0])
        self.turns(40)
        gc.collect()
        before = gc.mem_alloc()
        for number in range(2, 60):
            self.send(number, COMMANDS[number % 3])
            self.turns(20)
            self.bench.stream.take()
            while self.bench.outbox.oldest_seq < self.bench.outbox.next_seq:
                self.bench.outbox.discard_through(self.bench.outbox.next_seq)
        gc.collect()
        self.assertTrue(gc.mem_alloc() - before < 2048, gc.mem_alloc() - before)


if __name__ == "__main__":
    unittest.main()
