"""Simulated years of one board in minutes (MicroPython, CPython): run by host_tests/fuzz/soak.py.

Arguments: days, seconds between messages, seed, mode (broker, collector). A board with a flash
outbox of 16 blocks measures and sends; the server in RAM answers at once. About every third day the
link is down for up to four hours (the outbox may fill, and then refuses), once a week the board
loses its power, once a day the connection breaks. Ticks wrap every 12 days.

Checked at every message: the server receives the numbers in order, and none is missing. Checked
each day: the heap is not fuller than on the first day, and no message allocated, gross (if the
interpreter counts it), except for reconnecting; the blocks are erased evenly; the counters agree.
Prints a line of JSON every 30 days, and one at the end. AssertionError: what does not hold.
"""

import gc
import json
import sys

import micropython

from outpost.client import Client
from outpost.durable import DurableSession
from outpost.memory import copy
from outpost.outbox import Outbox
from outpost.session import Session
from peer_chip import RamChip

TOPIC = b"outpost/board-1/data"
WORD = b"outpost/board-1/durable"
PAYLOAD_BYTES = 64
BLOCKS = 16
_DAY_S = 86_400
_TICKS = 0x3FFFFFFF
_OUTAGE_S = 4 * 3600


class Chip(RamChip):
    """Counts the erases of each block."""

    def __init__(self, blocks):
        RamChip.__init__(self, blocks)
        self.erases = [0] * blocks

    def ioctl(self, op, arg):
        if op == 6:
            self.erases[arg] += 1
        return RamChip.ioctl(self, op, arg)


class Server:
    """The stream and the broker behind it, without allocation: it answers what a write() holds,
    which is one whole packet.
    """

    def __init__(self, confirms):
        self.confirms = confirms
        self.expected = self.published = self.repeated = self.pings = 0
        self._out = bytearray(4096)
        self._out_end = 0
        self.is_up = True
        body = b"\x00" + bytes([len(WORD)]) + WORD
        self._word = bytearray(b"\x31" + bytes([len(body) + 17]) + body + b"3fa9c1d2 00000000")

    # Small functions: a frame of more than 11 words would come from the heap, and would be counted
    # as the firmware's.

    def write(self, buf, offset, length):
        if not self.is_up:
            raise OSError(104)
        if buf[offset] & 0xF0 == 0x30:
            # always from the start of the buffer, and below 128 bytes
            self._publish(buf, 4 + len(TOPIC))
        else:
            self._other(buf[offset] & 0xF0, buf)
        return length

    def _other(self, kind, buf):
        if kind == 0x10:
            self._say(0x20)
            self._say(2)
            self._identifier(b"\0\0", 0)
        elif kind == 0x80:
            self._say(0x90)
            self._say(3)
            self._identifier(buf, 2)
            self._say(0)
            self._tell()
        elif kind == 0xC0:
            self.pings += 1
            self._say(0xD0)
            self._say(0)

    def _publish(self, buf, at):
        number = self._number(buf, at + 2)
        if number > self.expected:
            self._fail(number)
        self.published += 1
        if number < self.expected:
            self.repeated += 1
        else:
            self.expected += 1
        self._say(0x40)
        self._say(2)
        self._identifier(buf, at)
        if self.confirms:
            self._tell()

    def _fail(self, number):
        raise AssertionError("message %d is missing, %d came" % (self.expected, number))

    def _number(self, buf, at):
        number = buf[at] << 8 | buf[at + 1]
        number = number << 7 | buf[at + 2]
        return number << 7 | buf[at + 3]

    def _tell(self):
        """The collector's confirmation: all that arrived is durable."""
        if self.expected and self.confirms:
            self._write_number(self.expected - 1, len(self._word))
            self._say_word(0)

    def _write_number(self, number, at):
        end = at - 8
        while at > end:
            at -= 1
            self._word[at] = 0x30 + number % 10
            number //= 10

    def _say_word(self, at):
        while at < len(self._word):
            self._say(self._word[at])
            at += 1

    def _identifier(self, buf, at):
        self._say(buf[at])
        self._say(buf[at + 1])

    def _say(self, byte):
        self._out[self._out_end] = byte
        self._out_end += 1

    def readinto(self, buf):
        if not self.is_up:
            raise OSError(104)
        count = min(len(buf), self._out_end)
        if not count:
            return None
        copy(buf, 0, self._out, 0, count)
        self._out_end -= count
        copy(self._out, 0, self._out, count, self._out_end)
        return count

    def close(self):
        self._out_end = 0


class Board:
    def __init__(self, seed, confirms):
        self.chip = Chip(BLOCKS)
        Outbox(self.chip).format(b"3fa9c1d2")
        self.server = Server(confirms)
        self.link_is_up = True
        self.now_ms = seed % 1000
        self.boots = self.refused = self.sent = self.redelivered = self.stored = self.connects = 0
        self.client = None
        self._bits = seed & 0x7FFFF or 1
        self.payload = bytearray(PAYLOAD_BYTES)
        self.boot()

    def boot(self):
        if self.client:
            self.sent += self.session.sent
            self.redelivered += self.session.redelivered
            self.connects += self.session.connects
        self.boots += 1
        self.client = self.session = None
        gc.collect()
        outbox = Outbox(self.chip)
        assert outbox.mount() == 0
        if self.server.confirms:
            self.session = DurableSession(outbox, b"board-1", WORD, keep_alive_s=60)
        else:
            self.session = Session(outbox, b"board-1", keep_alive_s=60)
        self.client = Client(self._open, self.session, self.random)
        self.server.close()

    def _open(self):
        if not self.link_is_up:
            raise OSError(113)
        self.server.close()
        self.server.is_up = True
        return self.server

    def random(self):
        """Returns 16 bits; every intermediate number stays below 2^30."""
        self._bits = (self._bits * 1103 + 12345) & 0x7FFFF
        return self._bits >> 3

    def wait(self, ms):
        now_ms = self.now_ms
        self.now_ms = now_ms + ms if now_ms <= _TICKS - ms else now_ms - (_TICKS - ms) - 1

    def measure(self):
        """Publish one message, whose content is the number that it will have."""
        outbox = self.session.outbox
        seq = outbox.next_seq
        self.payload[0], self.payload[1] = seq >> 22, seq >> 14 & 255
        self.payload[2], self.payload[3] = seq >> 7 & 127, seq & 127
        status = self.client.publish(TOPIC, self.payload)
        self.stored += status == 0
        assert status in (0, -1), status
        self.refused -= status

    def work(self, interval_s):
        """From one message to the next: do what is due now, then let time pass, polling every 30
        s."""
        self.measure()
        while self.client.poll(self.now_ms):
            pass
        left_ms = interval_s * 1000
        while left_ms > 0:
            step = min(left_ms, 30_000)
            self.wait(step)
            left_ms -= step
            while self.client.poll(self.now_ms):
                pass


def gross():
    return micropython.mem_total() if hasattr(micropython, "mem_total") else 0


class Soak:
    def __init__(self, days, interval_s, seed, mode):
        self.days, self.interval_s = days, interval_s
        self.board = Board(seed, mode == "collector")
        self.outages = self.drops = 0
        self.most_gross = self.heap = self.first_heap = 0

    def run(self):
        for day in range(self.days):
            self._day(day)
            self._check(day)
            if day % 30 == 29:
                print(json.dumps(self.report(day + 1)))
        self.board.link_is_up = True
        while not self.board.client.is_drained():
            self.board.work(60)
        print(json.dumps(self.report(self.days)))

    def _day(self, day):
        board = self.board
        if day % 7 == 6:
            board.boot()
        outage_at = board.random() * (_DAY_S - _OUTAGE_S) >> 16 if day % 3 == 1 else -1
        outage_s = board.random() * _OUTAGE_S >> 16
        drop_at = board.random() * _DAY_S >> 16
        at = 0
        while at < _DAY_S:
            if board.link_is_up and outage_at >= 0 and outage_at <= at < outage_at + outage_s:
                board.link_is_up = board.server.is_up = False
                self.outages += 1
            elif not board.link_is_up and at >= outage_at + outage_s:
                board.link_is_up = True
            if drop_at <= at < drop_at + self.interval_s:
                board.server.is_up = False
                self.drops += 1
            connects, before = board.session.connects, gross()
            board.work(self.interval_s)
            if board.session.connects == connects and board.link_is_up and board.server.is_up:
                self.most_gross = max(self.most_gross, gross() - before)
            at += self.interval_s

    def _check(self, day):
        board, client = self.board, self.board.client
        gc.collect()
        self.heap = gc.mem_alloc() if hasattr(gc, "mem_alloc") else 0
        if day == 7:  # after the first restart
            self.first_heap = self.heap
        assert day < 8 or self.heap <= self.first_heap + 256, "the heap grows: %d, %d" % (
            self.first_heap,
            self.heap,
        )
        assert self.most_gross == 0, "%d bytes of heap for a message" % self.most_gross
        # The power cut loses what was erased ahead, so it is erased again: one block per start,
        # whichever it is.
        assert max(board.chip.erases) - min(board.chip.erases) <= 4 + board.boots // 4, (
            board.chip.erases
        )
        outbox = client.session.outbox
        assert board.stored == outbox.next_seq
        assert outbox.next_seq >= board.server.expected >= outbox.oldest_seq, "freed before it came"
        assert board.sent + client.session.sent >= board.server.published >= board.server.expected
        assert client.last_error in (0, -23, 113) and outbox.storage_errors == outbox.damaged == 0

    def report(self, days):
        board, client = self.board, self.board.client
        erases = board.chip.erases
        return {
            "days": days,
            "messages": client.session.outbox.next_seq,
            "arrived": board.server.expected,
            "twice": board.server.repeated,
            "refused when full": board.refused,
            "connections": board.connects + client.session.connects,
            "outages": self.outages,
            "power cuts": board.boots - 1,
            "pings": board.server.pings,
            "heap": self.heap,
            "heap for a message, gross": self.most_gross,
            "erases of a block": [min(erases), max(erases)],
            "erases a message": sum(erases) / max(1, client.session.outbox.next_seq),
        }


days, interval_s, seed = [int(word) for word in sys.argv[1:4]]
Soak(days, interval_s, seed, sys.argv[4]).run()
