# micropython-only: CPython has no mem_total
"""While the time server, the name server, the broker or the network do not answer, the loop of
main.py takes no heap.

gross: every byte asked of the heap, given back at once or not (micropython.mem_total), over 400
turns between two questions. net: what is left of them as garbage (gc.mem_alloc). What questions and
new connections leave in 60 s is printed, and bounded. Over the fakes of the ports, and over real
sockets.
"""

import binascii
import gc
import os
import socket
import sys
import time
import unittest

import micropython
import tls

from fake_flash import flash_in_ram
from fake_machine import Bench
from outpost.client import Client
from outpost.outbox import Outbox
from outpost.session import Session
from quiet_sockets import RealSelect, RealSockets, bound, resolved
from station.clock import Clock
from station.settings import check
from station.state import State
from station.station import Station
from station.telemetry import Pack
from support import tls_link, wifi_board

TURN_MS = 4
TURNS = 400
LONG_TURN_MS = 40  # nothing is taken in a turn: fewer of them will do
LONG_TURNS = 60_000 // LONG_TURN_MS
BOARDS = ("RPI_PICO_W", "ESP32_GENERIC")  # the others run the same modules: test_boards.py
WORD_BYTES = 4 if sys.maxsize < 1 << 32 else 8
BYTES_PER_S = 100 * WORD_BYTES  # of garbage at most, questions and connections included
FRAME_BYTES = 0  # a turn that connects: no frame of the client is longer than 11 words
CLIENT_ID = b"board-" + binascii.hexlify(os.urandom(4))
GIVEN = {
    "device_id": "board-1",
    "broker_host": "broker.test",
    "mode": "broker",
    "wifi_ssid": "home",
    "interval_ms": 86_400_000,
}
CONNACK, PUBACK = b"\x20\x02\0\0", b"\x40\x02\0\1"
SECURE = {"broker_host": "10.0.0.7", "tls": True, "ca_file": "ca.der", "broker_port": 1883}
BY_ADDRESS = {"ntp_host": "10.0.0.8", "broker_host": "10.0.0.7"}  # no question to a name server


class Enough(Exception):
    pass


class Context:
    """mbedTLS over the real socket. No certificate to read: no server shows one."""

    def __init__(self):
        self._context = tls.SSLContext(tls.PROTOCOL_TLS_CLIENT)
        self._context.verify_mode = tls.CERT_NONE

    def wrap_socket(self, sock, **options):
        return self._context.wrap_socket(sock.raw, **options)


class World:
    """A board with everything faked below board.py, and main.py's loop; the clock moves TURN_MS a
    turn."""

    def __init__(self, name, **more):
        self.name = name
        self.desk = desk = Bench(name, flash_in_ram(8, 256))
        desk.ticks.ms = 1000  # the fake's own sums would take heap above 2^30
        settings = dict(GIVEN)
        settings.update(more)
        self.settings = check(settings)
        self.turn_ms = TURN_MS

    def start(self):
        desk, settings = self.desk, self.settings
        board = self.board = desk.open(settings)
        outbox = Outbox(flash_in_ram(8, 256), align=256, page_bytes=256)
        outbox.format(b"01234567")
        now_ms = board.ticks_ms()
        self.session = Session(outbox, CLIENT_ID)
        self.client = Client(board.link, self.session, board.random_bits)
        clock = Clock(now_ms)
        sensors, pack = board.sensors, Pack(b"board-1")
        interval_ms = settings["interval_ms"]
        self.station = Station(self.client, pack, clock, sensors, b"t", interval_ms, now_ms)
        self.station.state = State(self.client, b"s")
        board.idle = self._idle
        self._run = desk.main().run
        return self

    def _idle(self, client):
        self.desk.ticks.ms += self.turn_ms

    def loop(self, turns):
        """That many turns of main.run()."""
        left = [turns]

        def stopping():
            if not left[0]:
                raise Enough
            left[0] -= 1
            return False

        self._loop(stopping)

    def measured(self, turns):
        """As loop(). What the turns took of the heap: gross, net."""
        marks, enough = [turns, 0, 0], Enough()

        def stopping():
            if marks[0] == turns:
                marks[1] = micropython.mem_total()
                marks[2] = gc.mem_alloc()
            if not marks[0]:
                marks[1] = micropython.mem_total() - marks[1]
                marks[2] = gc.mem_alloc() - marks[2]
                raise enough
            marks[0] -= 1
            return False

        gc.collect()
        gc.disable()
        self._loop(stopping)
        gc.enable()
        return marks[1], marks[2]

    def _loop(self, stopping):
        self.board.stopping = stopping
        self.board.started = _nothing
        try:
            self._run(self.station)
        except Enough:
            pass

    def served(self, say, pause_ms=0):
        """The broker lets it in, and acknowledges its first message."""
        client = self.client
        say(CONNACK)
        self.until(lambda: client.session.sent, pause_ms)
        say(PUBACK)
        self.until(client.is_drained, pause_ms)

    def until(self, is_reached, pause_ms=0):
        """pause_ms: what a turn takes, on both clocks, where a real peer must have its time."""
        self.turn_ms = pause_ms or TURN_MS
        for _ in range(10_000):
            if is_reached():
                break
            self.loop(1)
            time.sleep_ms(pause_ms)
        else:
            at = (self.name, self.desk.ticks.ms, self.client.state, self.client.last_error)
            raise AssertionError("board %s: not reached; ticks %d, state %d, last_error %d" % at)
        self.turn_ms = TURN_MS


def _nothing(client):
    pass


class Checks(unittest.TestCase):
    def check(self, world, what, sent=None, connects=False):
        """sent: callable, counts the questions that went out; the turns to look at begin after
        one.

        connects: the client does all along.
        """
        world.loop(20)
        if sent:
            self.settle(world, sent)
        gross, net = world.measured(TURNS)
        world.turn_ms = LONG_TURN_MS
        garbage = world.measured(LONG_TURNS)[1]
        where = "%s, %s, %d-bit" % (world.name, what, 8 * WORD_BYTES)
        print(
            "%s: %d turns, gross %d B, net %d B; 60 s, net %d B"
            % (where, TURNS, gross, net, garbage)
        )
        self.assertEqual(net, 0, where)
        self.assertTrue(
            gross == 0 or (connects and gross <= FRAME_BYTES * TURNS),
            where + ": gross %d B" % gross,
        )
        self.assertTrue(garbage < 60 * BYTES_PER_S, where + ": %d B in 60 s" % garbage)

    def settle(self, world, sent):
        """Until a question went out and no other followed it at once."""
        before = sent()
        world.until(lambda: sent() != before)
        while sent() != before:
            before = sent()
            world.loop(3)


class TestOverFakes(Checks):
    def each(self, what, prepare, sent=None, connects=False, is_served=False):
        for name in BOARDS:
            world = World(name)
            prepare(world)
            world.start()
            if is_served:
                world.served(world.desk.net.stream.say)
            self.check(world, what, sent and (lambda world=world: sent(world)), connects)

    def questions(self, world):
        return len(world.desk.net.questions)

    def silent_ntp(self, world):
        world.desk.net.ntp_answers = False

    def test_the_time_server_does_not_answer_and_the_broker_does(self):
        self.each("time server silent", self.silent_ntp, self.questions, is_served=True)

    def test_the_name_server_does_not_answer(self):
        def prepare(world):
            world.desk.net.dns_answers = False

        self.each("name server silent", prepare, self.questions, True)

    def test_tcp_is_not_answered(self):
        def prepare(world):
            self.silent_ntp(world)
            world.desk.net.tcp_answers = []

        self.each("TCP not answered", prepare, self.questions, True)

    def test_the_broker_says_nothing(self):
        self.each("broker silent", self.silent_ntp, self.questions)

    def test_there_is_no_address(self):
        def prepare(world):
            world.desk.radio.fate = "no_address"

        self.each("no address", prepare, None, True)


class TestOverRealSockets(Checks):
    """A board of each port over the sockets of this machine; the network itself is joined."""

    def worlds(self, time_port_is_open=True, **more):
        for name in BOARDS:
            world = World(name, **more)
            silent, udp = bound(socket.SOCK_DGRAM)
            self.server, self.tcp = bound(socket.SOCK_STREAM)
            self.server.listen(1)
            self.server.setblocking(False)
            if not time_port_is_open:
                silent.close()
            net = wifi_board.socket = RealSockets({53: udp, 123: udp, 1883: self.tcp})
            wifi_board.select = RealSelect()
            world.sent = lambda net=net: net.sent
            world.desk.radio.after_ms = 0
            yield world.start()
            if time_port_is_open:
                silent.close()
            self.server.close()

    def accepted(self, world):
        """The broker's end of the connection that sent this client's CONNECT. Another process's
        client may still be looking for a server at the port that this one was given."""
        peers, found = [], []
        world.until(lambda: self.accept(peers, found), 1)
        for peer in peers:
            if peer is not found[0]:
                peer.close()
        found[0].setblocking(True)
        return found[0]

    def accept(self, peers, found):
        try:
            peers.append(self.server.accept()[0])
            peers[-1].setblocking(False)
        except OSError:
            pass
        for peer in peers:
            if CLIENT_ID in (peer.read(64) or b""):
                found.append(peer)
        return found

    def test_the_name_server_does_not_answer(self):
        for world in self.worlds():
            self.check(world, "name server silent, real sockets", world.sent, True)

    def test_the_time_server_does_not_answer_and_the_broker_does(self):
        for world in self.worlds(**BY_ADDRESS):
            peer = self.accepted(world)
            world.served(peer.write, 1)
            self.check(world, "time server silent, real sockets", world.sent)
            peer.close()

    def test_nothing_listens_where_the_time_server_should_be(self):
        for world in self.worlds(time_port_is_open=False, **BY_ADDRESS):
            peer = self.accepted(world)
            world.served(peer.write, 1)
            self.check(world, "time server's port closed, real sockets", world.sent)
            peer.close()

    def test_the_broker_says_nothing(self):
        for world in self.worlds(**BY_ADDRESS):
            peer = self.accepted(world)
            self.check(world, "broker silent, real sockets", world.sent)
            peer.close()

    def test_tcp_is_not_answered(self):
        for world in self.worlds(**BY_ADDRESS):
            full = [self.connecting() for _ in range(6)]  # it takes two, and no more
            self.check(world, "TCP not answered, real sockets", world.sent, True)
            for one in full:
                one.close()

    def test_the_link_to_a_silent_host_takes_nothing(self):
        """The link's own turns, without the client's: TCP waits, or the TLS handshake."""
        tls_link.client_context = lambda settings: Context()
        for waiting, what in ((6, "TCP"), (0, "TLS")):
            for world in self.worlds(**SECURE):
                full = [self.connecting() for _ in range(waiting)]
                self.check_link(world, what + " not answered", what == "TLS")
                for one in full:
                    one.close()

    def check_link(self, world, what, shakes_hands):
        call, ticks = world.client._link, world.desk.ticks
        while not world.desk.board._wifi_link:  # made by its first calls
            call()
        link = world.desk.board._wifi_link
        link._time.is_set = True  # TLS waits for it
        for _ in range(20):  # the network is joined, TCP begun or over, the handshake begun
            call()
            ticks.ms += TURN_MS
            time.sleep_ms(1)
        gc.collect()
        gc.disable()
        before = micropython.mem_total()
        for _ in range(TURNS):
            call()
            ticks.ms += TURN_MS
        gross = micropython.mem_total() - before
        gc.enable()
        secure = link._tls._stream
        self.assertEqual(secure is not None, shakes_hands)
        (secure or link._tcp).close()  # it would connect to the next test's server
        where = "%s, link alone, %s, %d-bit" % (world.name, what, 8 * WORD_BYTES)
        print("%s: %d turns, gross %d B" % (where, TURNS, gross))
        self.assertEqual(gross, 0, where)

    def connecting(self):
        one = socket.socket()
        one.setblocking(False)
        try:
            one.connect(resolved(self.tcp))
        except OSError:
            pass
        time.sleep_ms(20)
        return one


if __name__ == "__main__":
    unittest.main()
