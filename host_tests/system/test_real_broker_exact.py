# cpython-only: starts mosquitto, with paho as the other end
"""QoS 2 over a real broker in both protocol levels: the link breaks at the packet after which a
repetition would show, three times, in either direction.
"""

import socket
import time

import pytest

from fake_flash import flash_in_ram
from outpost.client import Client
from outpost.exactly_once import ExactlyOnceSession
from outpost.state_note import NotedOutbox
from outpost_tools.loopback.broker import Broker
from real_broker import Message, Observer, need_mosquitto

BREAKS = 3
PUBREL, PUBREC = 0x62, 0x50


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    need_mosquitto()
    with Broker("mosquitto", tmp_path_factory.mktemp("broker")) as broker:
        yield broker


class Stream:
    """A socket to the broker. It breaks when a packet with that first byte goes out: before it, or
    after it without an answer."""

    def __init__(self, port: int, board: "Board") -> None:
        self.socket, self.board = socket.create_connection(("127.0.0.1", port)), board
        self.socket.setblocking(False)
        self.is_deaf = False

    def write(self, buf, offset, length):
        if buf[offset] == self.board.breaks_at and self.board.breaks:
            self.board.breaks -= 1
            if self.board.breaks_before:
                raise OSError(104)
            self.is_deaf = True
        return self.socket.send(bytes(buf[offset : offset + length]))

    def readinto(self, buf):
        if self.is_deaf:
            time.sleep(0.05)  # for the broker to take what was written
            raise OSError(104)
        try:
            return self.socket.recv_into(buf)
        except BlockingIOError:
            return None

    def close(self):
        self.socket.close()


class Board:
    """A client with QoS 2; each break may be a power cut as well."""

    def __init__(self, port, name, level, is_cut):
        self.port, self.name, self.level, self.is_cut = port, name.encode(), level, is_cut
        self.flash, self.got = flash_in_ram(4, 256), []
        NotedOutbox(self.flash).format(b"3fa9c1d2")
        self.breaks_at, self.breaks, self.breaks_before = 0, 0, False
        self.boot()

    def boot(self):
        outbox = NotedOutbox(self.flash)
        assert outbox.mount() == 0
        self.session = ExactlyOnceSession(outbox, self.name, level=self.level)
        self.session.on_message = self.handle
        self.client = Client(lambda: Stream(self.port, self), self.session)

    def handle(self, one):
        self.got.append(bytes(one.buffer[one.payload_at : one.length]))

    def until(self, is_done):
        end = time.monotonic() + 60
        while not is_done(self):
            assert time.monotonic() < end
            failures = self.client.failures
            self.client.poll(int(time.monotonic() * 1000) & 0x3FFFFFFF)
            if self.client.failures > failures and self.is_cut:
                self.boot()
            time.sleep(0.001)


@pytest.fixture(params=[(3, False), (3, True), (4, False), (4, True)])
def board(request, broker):
    level, is_cut = request.param
    return Board(broker.port, f"exact-{level}-{is_cut}", level, is_cut)


def test_published_once_however_often_the_answer_to_pubrel_is_lost(broker, board):
    name = board.name.decode()
    board.breaks_at, board.breaks = PUBREL, BREAKS
    with Observer(broker.port, f"{name}-o", (name, 2)) as observer:
        for number in range(3):
            assert board.client.publish(board.name, b"%d" % number, 2) == 0
        board.until(lambda one: one.client.is_drained())
        observer.wait(3)
        time.sleep(0.2)
    assert board.breaks == 0
    assert observer.messages == [Message(name, str(number), 2, False) for number in range(3)]


def test_handed_over_once_however_often_the_pubrec_is_lost(broker, board):
    topic = board.name + b"/down"
    board.until(lambda one: one.client.is_connected())
    board.session.subscribe(topic, 2)
    board.until(lambda one: one.session.filters[0][2] == 2)
    board.breaks_at, board.breaks, board.breaks_before = PUBREC, BREAKS, True
    with Observer(broker.port, f"{topic.decode()}-o") as other:
        other.publish(topic.decode(), ["0", "1", "2"], 2)
        board.until(lambda one: len(one.got) > 2 and one.session._note_end == 6)
    assert (board.breaks, board.got) == (0, [b"0", b"1", b"2"])
