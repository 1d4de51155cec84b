"""Runs the station on a board for some seconds and observes it: real messages over the real link,
with the watchdog on.

build() of main.py builds it, so the test runs what the board runs afterwards. The messages are
readings, numbered in the board's own stream, so that the collector misses none. An object between
the outbox and the board's block device counts and times the calls to the flash. Only one call is
made for the test itself: the outbox's own erase_ahead(), of its next free block, so that there is
an erase to time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from outpost_tools.boards.port.connection import Board
from outpost_tools.boards.selftest import flash_time

WATCHDOG_MS = 8000  # boards/support/wifi_board.py

_SCRIPT = """
import gc
import time

import main

board = main.board

class Timed:
    def __init__(self, device):
        self.device = device
        self.figures = [0] * 6

    def took(self, at, since):
        us = time.ticks_diff(time.ticks_us(), since)
        figures = self.figures
        figures[at] += 1
        figures[at + 1] += us
        figures[at + 2] = max(figures[at + 2], us)

    def readblocks(self, block, buf, offset=0):
        return self.device.readblocks(block, buf, offset)

    def writeblocks(self, block, buf, offset=0):
        since = time.ticks_us()
        result = self.device.writeblocks(block, buf, offset)
        self.took(0, since)
        return result

    def ioctl(self, op, arg):
        since = time.ticks_us()
        result = self.device.ioctl(op, arg)
        if op == 6:
            self.took(3, since)
        return result

class Live:
    def __init__(self):
        self.longest = self.turns = self.seen = 0

    def start(self, has_link):
        settings = main.load_settings()
        board.open(settings)
        self.timed = board.device = Timed(board.device)
        if not has_link:
            board.link = without_link
        self.station = main.build(settings)
        self.client = self.station.client
        self.now = self.since = self.tick = board.ticks_ms()
        board.started(self.client)
        self.client.session.outbox.erase_ahead()

    def passed(self, since):
        return (self.now - since) & 0x3fffffff

    def turn(self):
        now = board.ticks_ms()
        self.longest = max(self.longest, (now - self.now) & 0x3fffffff)
        self.now = now
        self.turns += 1
        board.keep_time(self.station.clock, now)
        if not self.client.poll(now):
            board.idle(self.client)
        board.feed_watchdog()

    def print_news(self):
        client = self.client
        if client.last_error != self.seen:
            self.seen = client.last_error
            print("E", self.seen)
        if self.passed(self.tick) > 1000:
            self.tick = self.now
            print(".")

    def send(self, count, seconds, limit):
        station, client, done, first = self.station, self.client, 0, -1
        while True:
            self.turn()
            self.print_news()
            passed = self.passed(self.since)
            if first < 0 and client.is_connected():
                first = passed
            if done < count and passed >= done * seconds * 1000 // count:
                done += 1
                station.measure()
                getattr(station, "close_record", int)()  # a firmware from before has none
            is_done = done == count and (client.session.acknowledged >= count or not limit)
            if passed >= seconds * 1000 and (is_done or passed >= limit * 1000):
                break
        print("C", first, int(client.is_connected()))
        session = client.session
        counts = session.sent, session.acknowledged, session.outbox.refused
        print("N", done, station.published, *counts)

    def heap(self):
        found = []
        for _ in range(4):
            gc.collect()
            gc.disable()
            before = gc.mem_alloc()
            for _ in range(100):
                self.turn()
            found.append(gc.mem_alloc() - before)
            gc.enable()
            self.print_news()
        print("A", *found)

def live(count, seconds, limit):
    this = Live()
    try:
        this.start(limit > 0)
        outbox = this.client.session.outbox
        print("H", outbox.next_seq - outbox.oldest_seq, gc.mem_free())
        this.send(count, seconds, limit)
        this.heap()
        print("W", this.longest, this.turns, this.passed(this.since))
        print("F", *this.timed.figures)
        this.client.close()
        board.stopped(this.client)
    except ValueError as error:
        print("X", error)
    finally:
        board.release_watchdog()

def without_link():
    pass
"""


@dataclass(slots=True)
class Operations:
    """Flash operations of one kind. Times are in microseconds."""

    count: int = 0
    total_us: int = 0
    most_us: int = 0

    @property
    def mean_ms(self) -> float:
        return self.total_us / self.count / 1000 if self.count else 0.0

    @property
    def most_ms(self) -> float:
        return self.most_us / 1000


@dataclass(slots=True)
class Run:
    """What the board reported. connected_ms: -1 if it never connected. heap: bytes left by 100
    turns of the loop, measured four times. reason: why the program did not run."""

    held: int = 0
    heap_free: int = 0
    connected_ms: int = -1
    is_connected: bool = False
    measured: int = 0
    stored: int = 0
    sent: int = 0
    acknowledged: int = 0
    refused: int = 0
    longest_turn_ms: int = 0
    turns: int = 0
    took_ms: int = 0
    heap: list[int] = field(default_factory=list)
    programs: Operations = field(default_factory=Operations)
    erases: Operations = field(default_factory=Operations)
    errors: list[int] = field(default_factory=list)
    reason: str = ""
    is_whole: bool = False


def run(board: Board, count: int, seconds: int, limit_s: int, tell: Callable[[], None]) -> Run:
    """Run the station. count: number of messages, spread over `seconds`. limit_s: for the link and
    the last acknowledgement; 0: without a link.

    tell: called at each sign of life. Raises ToolError.
    """
    silence_s = board.answer_s + flash_time.silence_s(0)
    board.renew()
    script = f"{_SCRIPT}\nlive({count}, {seconds}, {limit_s})"
    return parse(board.run(script, lambda line: tell(), silence_s))


def parse(lines: list[str]) -> Run:
    """Parse the script's lines. The board's program may print others in between, which are
    ignored."""
    found = Run()
    for line in lines:
        letter, _, rest = line.partition(" ")
        if letter == "X":
            found.reason = rest
        elif re.fullmatch(r"[EHCNWAF]( -?\d+)+", line):
            _take(found, letter, [int(word) for word in rest.split()])
    return found


def _take(found: Run, letter: str, numbers: list[int]) -> None:
    if letter == "E" and numbers[0]:
        found.errors.append(numbers[0])
    elif letter == "H":
        found.held, found.heap_free = numbers
    elif letter == "C":
        found.connected_ms, found.is_connected = numbers[0], bool(numbers[1])
    elif letter == "N":
        found.measured, found.stored, found.sent, found.acknowledged, found.refused = numbers
    elif letter == "W":
        found.longest_turn_ms, found.turns, found.took_ms = numbers
    elif letter == "A":
        found.heap = numbers
    elif letter == "F":
        found.programs, found.erases = Operations(*numbers[:3]), Operations(*numbers[3:])
        found.is_whole = True
