"""What is sent without proof of arrival is bounded: on a path that goes silent no write waits for
the network stack, and on one that works nothing stalls. The stack is a model of lwIP
(fakes/lwip_model.py); test_rp2_lwip.py has the real one.
"""

import unittest

import lwip_model
from fake_flash import flash_in_ram
from lwip_model import BLOCKED_MS, PINGREQ, PUBACK, PUBLISH, TLS_RECORD_BYTES, Stack
from outpost.client import Client
from outpost.durable import DurableSession
from outpost.exactly_once import ExactlyOnceSession
from outpost.in_flight import cost_of
from outpost.outbox import Outbox
from outpost.ram_outbox import RamOutbox
from outpost.session import Session
from outpost.state_note import NotedOutbox
from outpost.subscribing import SubscribingSession
from support.rp2_board import Rp2Board

BOUND = Rp2Board.in_flight_bytes
SIZES = (20, 104, 300, 388, 450, 521, 700, 1200)
STEP_MS = 10
PUBLISH_OVERHEAD = 9  # of one with two bytes of length, a topic of one byte aside
KEEP_ALIVE_S = 20


def backlog(client, size, count=40):
    """Packets of `size` bytes each, QoS 1, as far as the outbox takes them."""
    payload = bytes(size - 1 - PUBLISH_OVERHEAD + (size < 130) + 1)
    for _ in range(count):
        client.publish(b"t", payload)


class World:
    """A client over the model. kind: of its session, with its arguments and options."""

    def __init__(
        self, kind=Session, outbox=None, bound=BOUND, record_bytes=0, arguments=(), **options
    ):
        self.stack = Stack(record_bytes)
        self.longest_poll_ms = 0
        self.every_step = None
        outbox = outbox or RamOutbox(16, 1300)
        options = dict({"keep_alive_s": KEEP_ALIVE_S, "in_flight_bytes": bound}, **options)
        self.session = kind(outbox, b"board-1", *arguments, **options)
        self.client = Client(self.stack.connect, self.session)

    def run(self, seconds, is_done=None):
        end_ms = self.stack.now_ms + seconds * 1000
        while self.stack.now_ms < end_ms and not (is_done and is_done()):
            if self.every_step:
                self.every_step()
            before_ms = self.stack.now_ms
            self.client.poll(before_ms)
            self.longest_poll_ms = max(self.longest_poll_ms, self.stack.now_ms - before_ms)
            self.stack.now_ms += STEP_MS
            self.stack.move()
        return self

    def connect(self):
        self.run(5, self.client.is_connected)
        assert self.client.is_connected()
        return self.run(1)

    def silent(self):
        self.stack.has_path = False
        return self

    def found(self):
        return self.stack.longest_write_ms, self.longest_poll_ms


def flash_outbox(kind=Outbox, record_bytes=1300):
    outbox = kind(flash_in_ram(16, 256), record_bytes)
    assert outbox.format(b"01234567") == 0
    return outbox


def silent_backlog(size, bound, record_bytes=0):
    world = World(bound=bound, record_bytes=record_bytes).connect().silent()
    backlog(world.client, size)
    return world.run(2)


def collector_backlog(size, bound):
    outbox = flash_outbox()
    options = {"arguments": (b"durable",), "record_bytes": TLS_RECORD_BYTES}
    world = World(DurableSession, outbox, bound, **options).connect()
    world.run(3).silent()
    backlog(world.client, size)
    return world.run(2)


def two_silent_links(size, bound, record_bytes=0):
    """The second connection stands when the path goes silent again; the first one's memory is not
    free yet.
    """
    world = World(bound=bound, record_bytes=record_bytes).connect().silent()
    client, stack = world.client, world.stack
    backlog(client, size)
    world.run(60, lambda: client.failures or stack.longest_write_ms)
    stack.has_path = True
    world.run(5, lambda: client.session.connects == 2 or stack.longest_write_ms)
    assert client.session.connects == 2 or stack.longest_write_ms
    return world.silent().run(2)


def publisher_of_qos_0(size, bound):
    """Each second a reading, as long as the connection is not found dead."""
    world = World(bound=bound, keep_alive_s=200).connect().silent()
    payload = bytes(size - 1 - PUBLISH_OVERHEAD + 3)
    for _ in range(60):
        world.client.publish(b"t", payload, 0)
        world.run(1)
    return world


def inbound(count, qos=1):
    """Messages that the server sends: each wants an answer."""
    return b"".join(
        bytes((0x30 | qos << 1, 6, 0, 1, 0x61, 0, number + 1, 0x78)) for number in range(count)
    )


def answering(bound, count=60, size=300):
    """The server's messages are here when the path goes silent, while a backlog goes out."""
    world = World(SubscribingSession, bound=bound).connect()
    world.stack.broker.to_say = inbound(count)
    world.stack.move()
    backlog(world.client, size)
    return world.silent().run(2)


def blocked_sizes(scenario, bound, **options):
    """The sizes of packets with which a write took 10 s; all others took no time at all."""
    found = {size: scenario(size, bound, **options).found() for size in SIZES}
    assert set(found.values()) <= {(0, 0), (BLOCKED_MS, BLOCKED_MS)}, found
    return [size for size in SIZES if found[size] != (0, 0)]


class TestSilentPath(unittest.TestCase):
    def both(self, scenario, blocked, **options):
        """With the board's bound no size blocks; without it, those do."""
        self.assertEqual(blocked_sizes(scenario, 0, **options), blocked)
        self.assertEqual(blocked_sizes(scenario, BOUND, **options), [])

    def test_a_backlog_goes_out(self):
        self.both(silent_backlog, [388, 450, 521, 700])  # 1,200: the send buffer is full first

    def test_a_backlog_goes_out_over_tls(self):
        self.both(silent_backlog, [388, 450, 521], record_bytes=TLS_RECORD_BYTES)

    def test_a_backlog_goes_out_in_collector_mode_over_tls(self):
        self.both(collector_backlog, [388, 450, 521])

    def test_a_second_path_goes_silent_while_the_first_connection_still_holds_memory(self):
        self.both(two_silent_links, list(SIZES), record_bytes=TLS_RECORD_BYTES)

    def test_a_publisher_of_qos_0_goes_on(self):
        self.both(publisher_of_qos_0, [20, 104, 300, 388, 450, 521, 700])

    def test_a_subscriber_answers_what_had_come_before(self):
        self.assertEqual(answering(0).found(), (BLOCKED_MS, BLOCKED_MS))
        self.assertEqual(answering(0, size=20).found(), (BLOCKED_MS, BLOCKED_MS))
        for size in SIZES:
            self.assertEqual(answering(BOUND, size=size).found(), (0, 0), size)
            self.assertEqual(answering(BOUND, count=200, size=size).found(), (0, 0), size)

    def test_half_of_the_heap_and_of_the_segments_stays_free(self):
        """For the connection that comes next."""
        for size in SIZES:
            stack = silent_backlog(size, BOUND, record_bytes=TLS_RECORD_BYTES).stack
            self.assertTrue(
                stack.most_segments <= 16 and stack.most_bytes <= BOUND + cost_of(2), size
            )
            self.assertTrue(stack.most_bytes > BOUND // 2 or size < 300, size)


class TestWorkingPath(unittest.TestCase):
    def test_a_backlog_of_every_size_goes_through(self):
        for size in SIZES:
            world = World().connect()
            for _ in range(5):
                backlog(world.client, size)
                world.run(20, world.client.is_drained)
                self.assertTrue(world.client.is_drained(), size)
            self.assertEqual((world.stack.broker.came[PUBLISH], world.stack.lost_bytes), (80, 0))
            self.assertEqual(world.client.failures, 0)

    def test_messages_of_qos_0_alone_are_proved_by_pings(self):
        world = World(keep_alive_s=0).connect()
        for number in range(50):
            payload = b"%03d" % number + bytes(300)
            world.run(1, lambda payload=payload: world.client.publish(b"t", payload, 0) == 0)
        world.run(1)
        self.assertEqual(
            [payload[:3] for payload in world.stack.broker.payloads],
            [b"%03d" % number for number in range(50)],
        )
        self.assertEqual(world.client.failures, 0)
        pings = world.stack.broker.came[PINGREQ]
        self.assertTrue(50 // 7 <= pings <= 50 // 3, pings)

    def test_a_message_longer_than_what_is_left_of_the_bound_waits_for_a_ping_alone(self):
        """Less than half of the bound is taken, so nothing but the message itself asks for the
        proof.
        """
        world = World(outbox=RamOutbox(4, 2900), keep_alive_s=0).connect()
        world.client.publish(b"t", b"small", 0)
        world.run(1)
        for _ in range(3):
            world.client.publish(b"t", bytes(2800))
        world.run(5, world.client.is_drained)
        self.assertTrue(world.client.is_drained())

    def test_one_message_longer_than_the_bound_goes_through(self):
        world = World(outbox=RamOutbox(4, 6000), keep_alive_s=0).connect()
        world.client.publish(b"t", b"small", 0)
        world.client.publish(b"t", bytes(5000))
        world.run(5, world.client.is_drained)
        self.assertTrue(world.client.is_drained())

    def test_an_idle_connection_asks_for_no_proof(self):
        world = World(outbox=RamOutbox(4, 6000), keep_alive_s=0).connect()
        world.client.publish(b"t", b"small", 0)
        world.run(60)
        self.assertEqual(world.stack.broker.came[PINGREQ], 1)
        world.client.publish(b"t", b"small")
        world.run(60)
        self.assertEqual(world.stack.broker.came[PINGREQ], 1)

    def test_all_answers_go_out_in_order_while_a_backlog_does(self):
        """Its acknowledgements come after the server's messages, whose answers wait for room."""
        for size in SIZES:
            world = World(SubscribingSession).connect()
            world.silent()
            backlog(world.client, size)
            world.run(1)  # the bound is used up
            world.stack.has_path = True
            world.stack.streams[-1].incoming = inbound(100)
            world.run(
                20,
                lambda world=world: (
                    world.client.is_drained() and world.stack.broker.came.get(PUBACK, 0) == 100
                ),
            )
            self.assertEqual(
                (world.session.received, world.stack.broker.came[PUBACK]), (100, 100), size
            )
            self.assertTrue(world.client.is_drained() and not world.client.failures)

    def test_qos_2_goes_through_both_ways(self):
        """PUBREL must go out before the window moves, and waits for room that the window takes."""
        for size in (20, 300, 450):
            world = World(ExactlyOnceSession, flash_outbox(NotedOutbox, 512)).connect()
            payload = bytes(size)
            for _ in range(40):
                self.assertEqual(world.client.publish(b"t", payload, 2, length=size), 0)
            world.stack.broker.to_say = inbound(20, 2)
            world.run(30, world.client.is_drained)
            self.assertTrue(world.client.is_drained(), size)
            self.assertEqual(world.stack.broker.came[lwip_model.PUBREL], 40)
            self.assertEqual(world.stack.broker.came[PUBLISH], 40)
            self.assertEqual(
                (world.session.received, world.client.failures, world.stack.lost_bytes), (20, 0, 0)
            )

    def test_a_collectors_board_replays_within_the_bound(self):
        outbox = flash_outbox()
        arguments = (b"durable", 1000)
        world = World(
            DurableSession,
            outbox,
            keep_alive_s=0,
            arguments=arguments,
            record_bytes=TLS_RECORD_BYTES,
        ).connect()
        backlog(world.client, 450, 20)
        world.run(20, lambda: world.stack.broker.came.get(PUBLISH, 0) >= 60)
        self.assertTrue(world.session.replays >= 2 and not world.client.failures)
        self.assertTrue(world.stack.most_bytes <= BOUND + cost_of(2))

    def test_after_a_reconnect_the_whole_bound_is_free(self):
        world = World().connect().silent()
        backlog(world.client, 388)
        world.run(60, lambda: world.client.failures)
        world.stack.has_path = True
        world.run(60, world.client.is_drained)
        self.assertTrue(world.client.is_drained() and world.session.connects == 2)


if __name__ == "__main__":
    unittest.main()
