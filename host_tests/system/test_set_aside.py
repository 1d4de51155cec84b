# cpython-only: a real broker, and paho as the other end
"""Set aside, never stuck, never lost, over a real mosquitto: it rejects two messages of 202, which
are set aside; a network that dies every 3 s has nothing set aside."""

import time

import pytest

from fake_flash import flash_in_ram
from host_clock import ticks_ms
from outpost import status
from outpost.client import Client
from outpost.outbox import Outbox
from outpost.session import Session
from outpost_tools.loopback.broker import Broker
from real_broker import Link, Observer, need_mosquitto
from socket_link import open_link

TOPIC = b"outpost/aside"
GOOD = 200
LIMIT_S = 180
BAD_TOPIC = b"room/21\xb0C"


@pytest.fixture
def board():
    """make(port): a client with an outbox in flash. What it published before, it will send."""
    clients = []

    def make(port, outbox):
        link = open_link({"broker_host": "127.0.0.1", "broker_port": port})
        clients.append(Client(link, Session(outbox, b"aside-board")))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


def new_outbox():
    outbox = Outbox(flash_in_ram(32, 256))
    assert outbox.format(b"01234567") == status.OK
    return outbox


def run(client, seconds, is_done):
    """The seconds until it was done."""
    start = time.monotonic()
    while not is_done():
        assert time.monotonic() - start < seconds, (
            f"{client.session.connects} connects, {client.session.acknowledged} acknowledged, "
            f"{client.session.outbox.aside} aside, last error {client.last_error}"
        )
        if not client.poll(ticks_ms()):
            time.sleep(0.002)
    return time.monotonic() - start


def shelf(outbox):
    found = []
    for index in range(outbox.aside):
        assert outbox.shelf().load(index) == status.OK
        at, middle = outbox.topic_at, outbox.topic_at + outbox.topic_length
        found.append((bytes(outbox.buffer[at:middle]), outbox.payload_length))
    return found


def test_two_that_the_broker_rejects_are_set_aside_and_two_hundred_arrive(board, tmp_path):
    need_mosquitto()
    with Broker("mosquitto", tmp_path, more_listeners="max_packet_size 200\n") as broker:
        outbox = new_outbox()
        client = board(broker.port, outbox)
        with Observer(broker.port, "aside-observer", ("#", 1)) as observer:
            for number in range(GOOD):
                if number == 50:
                    assert client.publish(TOPIC, bytes(300)) == status.OK
                if number == 120:  # as an older firmware might have
                    assert outbox.append(BAD_TOPIC, b"21", 2) == status.OK
                payload = b"%d" % number
                assert client.publish(TOPIC, payload) == status.OK
            run(client, LIMIT_S, client.is_drained)
            observer.wait_numbers(GOOD)
            assert sorted(set(observer.numbers())) == list(range(GOOD))
            assert shelf(outbox) == [(TOPIC, 300), (BAD_TOPIC, 2)]
            assert client.session.connects <= 10
            # A reset later they are there yet, and nothing of them is in the ring.
            client.close()
            again = Outbox(outbox._device)
            assert again.mount() == status.OK
            assert (shelf(again), again.oldest_seq) == (shelf(outbox), again.next_seq)


def test_an_observer_waits_for_other_numbers_than_those_that_came_twice(tmp_path):
    need_mosquitto()
    with Broker("mosquitto", tmp_path) as broker:
        with Observer(broker.port, "aside-observer", ("#", 1)) as observer:
            observer.publish("t", ["0", "0"], 1)
            observer.wait(2)
            with pytest.raises(AssertionError, match="1 of 2 numbers"):
                observer.wait_numbers(2, 0.1)
            observer.publish("t", ["1"], 1)
            observer.wait_numbers(2)


def test_over_a_network_that_dies_every_three_seconds_nothing_is_set_aside(board, tmp_path):
    need_mosquitto()
    with Broker("mosquitto", tmp_path) as broker, Link(broker.port) as link:
        outbox = new_outbox()
        client = board(link.port, outbox)
        with Observer(broker.port, "aside-observer", ("#", 1)) as observer:
            start, cuts = time.monotonic(), []
            for number in range(GOOD):
                payload = b"%d" % number
                assert client.publish(TOPIC, payload) == status.OK
                while time.monotonic() - start < number * 0.06:
                    client.poll(ticks_ms())
                    is_due = time.monotonic() - (cuts or [start])[-1] > 3
                    if is_due and client.is_connected():
                        link.cut()  # with messages on their way
                        link.restore()
                        cuts.append(time.monotonic())
            run(client, LIMIT_S, client.is_drained)
            observer.wait_numbers(GOOD)
            assert sorted(set(observer.numbers())) == list(range(GOOD))
            assert outbox.aside == 0
            assert client.session.connects >= len(cuts) >= 2
