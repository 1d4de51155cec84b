"""The board contract of boards/PORTING.md, held by every board over fakes of its port, and by UNIX.

Nothing depends on the order of calls after open(); Board() alone does no I/O; begin(), give_up()
and crashed() work without open(); a settings key that is missing has its default.
"""

import builtins
import os
import sys
import unittest

import socket_link
from fake_flash import flash_in_ram
from fake_machine import PORTS, REPOSITORY, Bench, Filesystem, Reset
from fake_network import RP2
from outpost import plain_link, status
from outpost.client import Client
from outpost.outbox import Outbox
from outpost.session import Session
from own_folder import OwnFolder
from station.clock import Clock
from station.settings import check
from station.station import Station
from station.telemetry import Pack

IS_MICROPYTHON = sys.implementation.name == "micropython"
DAY = 20_500
NEEDED = {"device_id": "board-1", "broker_host": "broker.test", "wifi_ssid": "home"}
GIVEN = {"broker_host": "broker.test", "wifi_ssid": "home", "outbox_blocks": 4}
LAST = ("crashed", "give_up", "restart", "sleep")  # end the program


class FakedBoard:
    """A board of PORTS, its chip just woken from a sleep that ended on day DAY."""

    def __init__(self, name, blocks=128):
        self.name = name
        is_rp2 = PORTS[name] is RP2
        self.flash = flash_in_ram(blocks, 256) if is_rp2 else flash_in_ram(8)
        self._filesystem = Filesystem(name, self.flash)

    def __enter__(self):
        self._filesystem.__enter__()
        return self

    def __exit__(self, *error):
        self._filesystem.__exit__()

    def board(self):
        """A new one; not open."""
        self.desk = desk = Bench(self.name, self.flash)
        board, chip = desk.board, desk.chip
        desk.ticks.ms = 1000  # since the reset
        if PORTS[self.name] is RP2:
            chip.words[board._watchdog + 0x10], chip.words[board._watchdog + 0x14] = (
                0x0F550000 | DAY,
                5,
            )
        else:
            chip.cause, chip.seconds = 4, (DAY - 10_957) * 86400
        return board

    def isolate(self):
        """From now on the port's modules and files fail whoever touches them."""
        module = self.desk.module
        for name in ("machine", "network", "rp2", "esp32"):
            if hasattr(module, name):
                setattr(module, name, Untouchable())
        module.time = StandingClock()
        return module.Board

    def expected_day(self):
        return DAY


class UnixBoard:
    """The desktop's, in a folder of its own."""

    name = "UNIX"

    def __enter__(self):
        self._kept = os.getcwd()
        self._folder = OwnFolder()
        os.chdir(self._folder.__enter__())
        return self

    def __exit__(self, *error):
        os.chdir(self._kept)
        self._folder.__exit__()

    def board(self):
        import board

        return board.Board()

    def isolate(self):
        import board

        return board.Board

    def expected_day(self):
        import time

        return int(time.time() // 86400)


class Untouchable:
    def __getattr__(self, name):
        raise AssertionError(name)


class StandingClock:
    """time, for who takes its functions and does not call them."""

    def ticks_ms(self):
        raise AssertionError("ticks_ms")

    def sleep_ms(self, ms):
        raise AssertionError("sleep_ms")


def boards(blocks=128):
    """All that can be opened under this interpreter: CPython has no littlefs to pin blocks in."""
    names = [name for name in sorted(PORTS) if IS_MICROPYTHON or PORTS[name] is not RP2]
    return [FakedBoard(name, blocks) for name in names] + [UnixBoard()]


def table():
    """(name, when) of each row of the contract's table."""
    with open(REPOSITORY + "/boards/PORTING.md") as file:
        text = file.read()
    rows = text.split("## The board contract")[1].split("\n## ")[0].split("\n")
    found = []
    for row in rows:
        cells = row.split("|")
        if len(cells) == 6 and cells[1].startswith(" `"):
            for name in cells[1].split("`")[1::2]:
                found.append((name.split("(")[0], cells[2].strip()))
    return found


class Program:
    """What a program makes of a board that is open, and every call of the contract on it."""

    def __init__(self, board):
        outbox = Outbox(board.device, align=board.align, page_bytes=board.page_bytes)
        if outbox.mount():
            outbox.format(board.random_hex())
        self.board = board
        session = Session(outbox, b"board-1", in_flight_bytes=board.in_flight_bytes)
        self.client = Client(board.link, session, board.random_bits)
        now_ms = board.ticks_ms()
        self.clock = Clock(now_ms)
        pack = Pack(b"board-1", 200)
        self.station = Station(self.client, pack, self.clock, board.sensors, b"t", 1000, now_ms)

    def call(self, name):
        """What it returned."""
        board, now_ms = self.board, self.board.ticks_ms()
        if name in ("set_clock", "keep_time"):
            return getattr(board, name)(self.clock, now_ms)
        if name in ("idle", "started", "stopped"):
            return getattr(board, name)(self.client)
        if name == "published":
            self.station.measure()
            return board.published(self.station)
        return getattr(board, name)()

    def facts(self):
        """What may not depend on what was called before."""
        board = self.board
        return (
            board.align,
            board.page_bytes,
            board.in_flight_bytes,
            board.device.ioctl(4, 0),
            [(one.name, one.unit, one.exponent) for one in board.sensors],
            len(board.random_hex()),
            0 <= board.random_bits() <= 0xFFFF,
            bool(board.stopping()),
        )


def forbidden(*arguments):
    raise AssertionError("I/O")


class TestContract(unittest.TestCase):
    def test_the_table_is_read(self):
        names = [name for name, _ in table()]
        self.assertEqual(len(names), len(set(names)))
        self.assertEqual(len(names), 29, names)

    def test_after_open_each_name_of_the_table_is_there(self):
        for kind in boards():
            with kind:
                board = kind.board()
                self.assertTrue(board.open(GIVEN) is board, kind.name)
                missing = [name for name, _ in table() if not hasattr(board, name)]
                self.assertEqual(missing, [], kind.name)
                self.attributes(board, kind.name)

    def attributes(self, board, name):
        device = board.device
        self.assertTrue(device.ioctl(4, 0) >= 2 and device.ioctl(5, 0) == 4096, name)
        head = bytearray(16)
        device.readblocks(0, head, 0)
        self.assertTrue(board.align in (4, 32, 256) and board.page_bytes % board.align == 0, name)
        self.assertTrue(board.in_flight_bytes >= 0 and callable(board.link), name)
        self.assertTrue(board.sensors, name)
        for sensor in board.sensors + board.about:
            self.assertTrue(isinstance(sensor.name, bytes) and isinstance(sensor.unit, bytes), name)
            self.assertTrue(isinstance(sensor.exponent, int), name)
            self.assertTrue(isinstance(sensor.read(), (int, type(None))), name)

    def test_no_call_depends_on_one_before_it(self):
        """In the table's order, against it, each one first, and every one twice."""
        for kind in boards():
            with kind:
                for order in self.orders():
                    program = Program(kind.board().open(GIVEN))
                    before = program.facts()
                    for name in order:
                        program.call(name)
                    self.assertEqual(program.facts(), before, (kind.name, order))
                    program.clock.now(program.board.ticks_ms())
                    self.assertTrue(
                        0 <= program.clock.day - kind.expected_day() <= 1, (kind.name, order)
                    )

    def orders(self):
        names = [name for name, when in table() if when != "end" and name not in ATTRIBUTES]
        self.assertEqual(len(names), 15, names)
        yield names
        yield names[::-1]
        yield names + names[::-1]
        for first in range(1, len(names)):
            yield names[first:] + names[:first]

    def test_what_ends_the_program_works_at_any_time(self):
        for kind in boards():
            for name in LAST:
                for is_open in (False, True) if name != "sleep" else (True,):
                    with kind:
                        board = kind.board()
                        if is_open:
                            board.open(GIVEN)
                        self.end(board, name)
        if "crash.txt" in os.listdir("."):
            os.remove("crash.txt")

    def end(self, board, name):
        """A chip's give_up() returns, to the prompt."""
        arguments = {"crashed": (ValueError("as an example"),), "give_up": (), "sleep": (1,)}.get(
            name, ()
        )
        try:
            getattr(board, name)(*arguments)
            self.assertEqual(name, "give_up")
        except (Reset, SystemExit):
            pass

    def test_a_board_that_is_not_open_has_done_nothing(self):
        for kind in boards():
            with kind:
                kind.board()
                there = os.listdir(".")
                make = kind.isolate()
                kept = builtins.open, plain_link.socket
                builtins.open, plain_link.socket = forbidden, Untouchable()
                try:
                    board = make()
                finally:
                    builtins.open, plain_link.socket = kept
                self.assertEqual(os.listdir("."), there, kind.name)
                self.assertTrue(board.device is None and board.link is None, kind.name)

    def test_begin_needs_no_settings(self):
        for kind in boards():
            with kind:
                kind.board().begin()

    def test_a_key_that_is_missing_has_the_default_of_the_ready_program(self):
        """station/settings.py has them all; a program of one's own may give fewer."""
        for kind in boards():
            with kind:
                few = kind.board().open({"broker_host": "broker.test", "wifi_ssid": "home"})
                found = [Program(few).facts(), self.reached(kind, few)]
                full = kind.board().open(check(NEEDED))
                self.assertEqual(
                    [Program(full).facts(), self.reached(kind, full)], found, kind.name
                )
                if kind.name == "UNIX" or PORTS[kind.name] is RP2:
                    self.assertEqual(
                        few.device.ioctl(4, 0), check(NEEDED)["outbox_blocks"], kind.name
                    )

    def reached(self, kind, board):
        """Names and addresses that the link asks for, and the clock."""
        if kind.name == "UNIX":
            return None
        desk, clock = kind.desk, Clock(board.ticks_ms())
        for _ in range(100):
            board.link()
            board.keep_time(clock, board.ticks_ms())
            desk.ticks.ms += 50
        self.assertTrue(desk.net.servers and desk.net.questions, kind.name)
        return desk.net.servers[0], [where for where, _ in desk.net.questions]

    def test_the_port_follows_from_tls(self):
        for tls, port in ((False, 1883), (True, 8883)):
            asked = []

            class Sockets:
                SOCK_STREAM = 1

                def getaddrinfo(self, host, where, family, kind, asked=asked):
                    asked.append((host, where))
                    raise OSError(2)

            kept, plain_link.socket = plain_link.socket, Sockets()
            secure = socket_link._secure
            socket_link._secure = lambda settings, name, connect, is_set: connect
            try:
                with self.assertRaises(OSError):
                    socket_link.open_link({"broker_host": "broker.test", "tls": tls})()
            finally:
                plain_link.socket, socket_link._secure = kept, secure
            self.assertEqual(asked, [("broker.test", port)])

    def test_on_a_desktop_a_name_without_an_address_is_dns_failed(self):
        """getaddrinfo()'s own numbers are small and negative, as the statuses of publish() are."""

        class Sockets:
            SOCK_STREAM = 1

            def getaddrinfo(self, *arguments):
                raise OSError(-2)

        kept, plain_link.socket = plain_link.socket, Sockets()
        try:
            with self.assertRaises(OSError) as caught:
                socket_link.open_link({"broker_host": "broker.test"})()
        finally:
            plain_link.socket = kept
        self.assertEqual(caught.exception.args[0], status.DNS_FAILED)

    def test_a_fault_in_the_settings_is_found_before_the_flash_is_touched(self):
        faults = (("broker_host", {"broker_host": ""}), ("sensors", {"sensors": ["no-such"]}))
        for kind in boards():
            with kind:
                for key, more in faults:
                    settings = dict(GIVEN)
                    settings.update(more)
                    board = kind.board()
                    with self.assertRaises(ValueError) as caught:
                        board.open(settings)
                    said = str(caught.exception)
                    self.assertTrue(key in said and "\n" not in said, said)
                    self.assertTrue(board.device is None, kind.name)


ATTRIBUTES = (
    "device",
    "align",
    "page_bytes",
    "in_flight_bytes",
    "reprograms",
    "about",
    "link",
    "sensors",
    "open",
    "begin",
)


if __name__ == "__main__":
    unittest.main()
