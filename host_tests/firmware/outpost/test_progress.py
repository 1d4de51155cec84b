"""The law of progress (`suspects.py`), a test for each way in which a board once stopped for good.
`host_tests/prove/prove_progress.py` has the mixtures."""

import unittest

from bench_client import WORD, Bench, puback, split
from outpost import status
from outpost.client import Client
from outpost.level5 import over
from outpost.outbox import Outbox
from outpost.ram_outbox import RamOutbox
from outpost.session import Session
from outpost.state_note import NotedOutbox
from outpost.subscribing import SubscribingSession
from test_suspects import Collector, World, is_bad, numbered, on_flash
from test_suspects import again as again_of

# DISCONNECT of a server (MQTT 5.0, 3.14.2.1), after which the client may connect again
CODES = (0x00, 0x80, 0x81, 0x82, 0x83, 0x87, 0x89, 0x8B, 0x8D, 0x8E, 0x90, 0x93, 0x94, 0x95, 0x96,
         0x97, 0x98, 0x99, 0x9A, 0x9B, 0x9C, 0x9D, 0x9E, 0xA0)  # fmt: skip


class World5(World):
    """MQTT 5.0. says(payload, identifier): the answer to a message that the server does not take;
    None: the end."""

    def __init__(self, outbox=None, says=None, kind=Session, **options):
        World.__init__(self, over(kind), outbox, **options)
        self.says = says

    def _serve(self, packet):
        World._serve(self, packet)
        if packet[0] == 0x10:
            present = bytes((self.links > 1,))
            self.queue[-1] = (self.queue[-1][0], b"\x20\x03" + present + b"\x00\x00")

    def _take(self, first, body, packet):
        end = 2 + (body[0] << 8 | body[1])
        number, payload = body[end : end + 2], body[end + 3 :]
        if payload[:3] == b"bad" and self.says:
            return self.says(payload, number)
        self.got.append((body[2:end], payload))
        return b"\x40\x02" + number


class TestEnds(unittest.TestCase):
    def test_l1_idle_ends_and_then_a_message_on_which_the_server_closes(self):
        """The idle ends looked like another client with this id, and that said "no evidence"."""
        for idle_ends in range(5):
            world = World(rejects=is_bad)
            for _ in range(idle_ends):
                world.run(60, world.client.is_connected)
                world.run(20)
                world.queue.append((0, None))
                world.run(1)
            world.publish(b"bad", *numbered(10))
            seconds = world.run(900, world.client.is_drained)
            self.assertEqual((world.client.is_drained(), world.shelf()), (True, [b"bad"]))
            self.assertTrue(seconds < 600, seconds)

    def test_l1_one_bad_message_a_minute_among_good_ones(self):
        world = World(outbox=on_flash(), rejects=is_bad)
        for minute in range(20):
            world.publish(b"bad%d" % minute)
            for number in range(5):
                world.publish(b"%d" % (5 * minute + number)).run(12)
        world.run(600, world.client.is_drained)
        self.assertEqual(set(world.payloads()), set(numbered(100)))
        self.assertEqual((world.client.takeovers, world.outbox.aside > 0), (0, True))

    def test_l2_disconnect_with_any_code(self):
        for code in CODES:
            world = World5(says=lambda payload, number, code=code: bytes((0xE0, 1, code)))
            world.publish(b"bad", *numbered(8))
            world.run(3600, world.client.is_drained)
            found = world.client.is_drained(), world.outbox.aside, len(set(world.payloads()))
            self.assertEqual((code, found), (code, (True, 1, 8)))

    def test_l4_more_than_four_in_a_row(self):
        for count in (5, 7):
            world = World(outbox=on_flash(), rejects=is_bad)
            world.publish(*([b"bad"] * count), *numbered(8))
            world.run(6 * 3600, world.client.is_drained)
            self.assertEqual((world.client.is_drained(), world.outbox.aside), (True, count))

    def test_l12_a_malformed_answer(self):
        world = World(rejects=is_bad)
        take = world._take
        world._take = lambda first, body, packet: (
            b"\xe0\x00" if b"bad" in body else take(first, body, packet)
        )
        world.publish(b"bad", *numbered(8)).run(600, world.client.is_drained)
        self.assertEqual((world.client.is_drained(), world.shelf()), (True, [b"bad"]))


class TestFullShelf(unittest.TestCase):
    """L1: a 300-byte message a minute fills a shelf of one block within a quarter of an hour."""

    def test_the_window_passes_what_the_shelf_has_no_room_for(self):
        world = World(outbox=on_flash(), rejects=is_bad)
        for minute in range(40):
            world.publish(b"bad%03d" % minute + bytes(290), *numbered(2)).run(60)
        world.run(600, lambda: len(world.payloads()) == 80)
        left, outbox = world.session.suspects.left, world.outbox
        self.assertEqual((len(world.payloads()), outbox.aside + len(left)), (80, 40))
        self.assertTrue(outbox.aside > 10 and len(left) > 16, (outbox.aside, left))
        # The server takes them again: each arrives, once.
        world.rejects = lambda *_: False
        for _ in range(600):
            world.session.suspects.retry()
            world.run(60, lambda: world.session.suspects is None)
            if world.session.suspects is None:
                break
        self.assertEqual((len(world.payloads()), outbox.aside), (120, 0))
        self.assertTrue(world.client.is_drained())

    def test_a_full_ring_with_one_that_the_server_does_not_take_in_front(self):
        for kind in (Outbox, NotedOutbox):
            world = World(outbox=on_flash(kind, 4), rejects=is_bad)
            payload = b"bad" + bytes(300)
            while world.client.publish(b"t", payload) == status.OK:
                payload = b"good" + bytes(300)
            world.run(900, world.client.is_drained)
            held = world.outbox.next_seq - 1
            self.assertEqual((world.outbox.aside, len(world.payloads())), (1, held), kind)
            world.publish(*numbered(8)).run(60, world.client.is_drained)
            self.assertEqual(len(world.payloads()), held + 8, kind)

    def test_a_reset_loses_nothing(self):
        outbox = on_flash()
        world = World(outbox=outbox, rejects=is_bad)
        for minute in range(30):
            world.publish(b"bad%03d" % minute + bytes(290), b"%d" % minute).run(60)
        world.run(600, lambda: len(world.payloads()) == 30)
        self.assertTrue(len(world.session.suspects.left) > 8)
        again = World(outbox=again_of(outbox))
        again.run(7200, lambda: again.client.is_drained() and not again.outbox.aside)
        found = set(world.payloads()) | set(again.payloads())
        self.assertEqual((len(found), again.outbox.aside), (60, 0))


class TestSilence(unittest.TestCase):
    def silent_world(self, **options):
        world = World(**options)
        take = world._take
        world._take = lambda first, body, packet: (
            b"" if b"mute" in body else take(first, body, packet)
        )
        return world

    def test_l12_with_a_window_of_one(self):
        world = self.silent_world(window=1).publish(b"mute", *numbered(8))
        world.run(3600, lambda: len(set(world.payloads())) == 8)
        self.assertEqual(set(world.payloads()), set(numbered(8)))

    def test_l12_beside_one_on_which_the_server_closes(self):
        world = self.silent_world(rejects=is_bad).publish(b"mute", b"bad", *numbered(8))
        world.run(3600, lambda: len(set(world.payloads())) == 8)
        self.assertEqual(set(world.payloads()), set(numbered(8)))

    def test_a_window_of_silent_ones_lets_the_rest_through(self):
        world = self.silent_world(outbox=on_flash())
        world.publish(*([b"mute"] * 16), b"1")
        world.run(24 * 3600, lambda: bool(world.got))
        self.assertEqual(world.payloads(), [b"1"])

    def test_qos_0_goes_out_while_one_is_silent(self):
        world = self.silent_world().publish(b"mute")
        accepted = 0
        for _ in range(60):
            world.run(60)
            accepted += world.client.publish(b"t", b"0", 0) == status.OK
        self.assertTrue(accepted > 20, accepted)


class TestRefusals(unittest.TestCase):
    def test_l11_one_that_is_always_refused_does_not_stop_the_others(self):
        for code in (0x80, 0x91, 0x97):
            world = World5(
                outbox=on_flash(), rtt_ms=150,
                says=lambda payload, number, code=code: b"\x40\x03" + number + bytes((code,)),
            )  # fmt: skip
            world.publish(b"bad")
            for second in range(100):
                world.publish(b"%d" % second).run(5)
            world.run(60, world.client.is_drained)
            found = world.client.is_drained(), world.outbox.aside, len(set(world.payloads()))
            self.assertEqual((code, found), (code, (True, 1, 100)))
            self.assertEqual(world.links, 1)

    def test_l9_set_aside_without_an_answer_it_goes_again_with_dup(self):
        """[MQTT-3.3.1-1], as long as the server keeps the session; after a refusal it is new."""
        for says, firsts in (
            (lambda payload, number: None, 0x3A),
            (lambda payload, number: b"\x40\x03" + number + b"\x83", 0x32),
        ):
            world = World5(says=says).publish(b"bad", b"ok")
            world.run(120, lambda world=world: world.outbox.aside and world.client.is_drained())
            world.says = None
            world.run(200, lambda world=world: not world.outbox.aside)
            found = [first for _, first, body in world.packets if b"bad" in body]
            self.assertEqual((found[-1], world.outbox.aside), (firsts, 0))


class TestFilters(unittest.TestCase):
    def test_l2_a_filter_that_the_server_answers_with_disconnect(self):
        for code in (0x81, 0x87, 0x8F, 0x97, 0xA2):
            world = World5(kind=SubscribingSession)
            subscribe = world._subscribe
            world._subscribe = lambda body, code=code, subscribe=subscribe: (
                bytes((0xE0, 1, code))
                if b"bad" in body
                else subscribe(body)[:1] + b"\x04" + body[:2] + b"\x00\x01"
            )
            self.assertEqual(world.session.subscribe(b"bad/\x01", 1), status.OK)
            world.publish(*numbered(8)).run(60)
            self.assertEqual(world.session.subscribe(b"good", 1), status.OK)
            world.run(900, lambda world=world: world.session.filters[1][2] == 1)
            filters, got = world.session.filters, set(world.payloads())
            found = filters[0][2], filters[1][2], len(got)
            self.assertEqual((code, found), (code, (255, 1, 8)))

    def test_one_that_is_never_answered_does_not_stop_another(self):
        world = World(SubscribingSession)
        subscribe = world._subscribe
        world._subscribe = lambda body: b"" if b"mute" in body else b"\x90" + subscribe(body)[1:]
        for name in (b"mute", b"good"):
            world.session.subscribe(name, 1)
        for second in range(120):  # messages are in flight when the answer is overdue
            world.publish(b"%d" % second).run(5)
        world.run(300)
        self.assertEqual([entry[2] for entry in world.session.filters], [255, 1])


class TestCollectorMode(unittest.TestCase):
    def test_a_bad_one_after_replayed_ones_that_are_acknowledged_each_time(self):
        """Each connection has progress, and ends on the same message."""
        world = Collector(on_flash(), rejects=is_bad)
        world.durable = set()
        serve = World._serve
        Collector._serve, kept = serve, Collector._serve
        try:
            world.publish(b"a", b"b", b"bad", b"c").run(900, lambda: b"c 3 0" in world.payloads())
        finally:
            Collector._serve = kept
        self.assertTrue(b"c 3 0" in world.payloads())
        self.assertEqual(world.shelf(), [b"bad 2 0"])


class TestClose(unittest.TestCase):
    """L6: what has begun goes out before DISCONNECT."""

    def test_qos_0_then_close(self):
        bench = Bench().connect()
        self.assertEqual(bench.client.publish(b"t", b"last", 0), status.OK)
        self.assertEqual(bench.client.close(), status.OK)
        self.assertEqual(bench.stream.take(), b"\x30\x07\x00\x01tlast\xe0\x00")

    def test_a_half_written_message_then_close(self):
        bench = Bench(room=5).connect()
        bench.publish(b"whole").poll(2)
        self.assertEqual(bench.client.close(), status.OK)
        packets = split(bench.stream.take())
        self.assertEqual([first for first, _ in packets], [0x32, 0xE0])

    def test_what_the_stream_does_not_take_is_told(self):
        bench = Bench().connect()
        self.assertEqual(bench.client.publish(b"t", b"last", 0), status.OK)
        bench.stream.room = 0
        self.assertEqual(bench.client.close(), status.BUSY)
        self.assertTrue(bench.stream.closed)

    def test_before_connack(self):
        """The server may have CONNECT: without DISCONNECT it would publish the will."""
        bench = Bench().poll(3)
        bench.stream.take()
        self.assertEqual(bench.client.close(), status.OK)
        self.assertEqual(bench.stream.take(), b"\xe0\x00")

    def test_without_a_stream(self):
        client = Client(lambda: None, Session(RamOutbox(4, 64), b"dev"))
        self.assertEqual(client.close(), status.OK)


class TestGap(unittest.TestCase):
    """L3: numbers that the broker takes and does not pass on."""

    def bench(self, count=6):
        bench = Bench("collector").connect(word=None)
        bench.publish(*numbered(count))
        self.answer(bench)
        return bench

    def answer(self, bench):
        for packet_id, _, _ in bench.sent(30):
            bench.say(puback(packet_id), 1)

    def say(self, bench, text):
        word = b"3fa9c1d2 " + text
        body = b"\x00" + bytes([len(WORD)]) + WORD + word
        bench.say(b"\x30" + bytes([len(body)]) + body)

    def test_after_three_replays_they_are_aside_and_the_rest_is_confirmed(self):
        bench = self.bench()
        session = bench.session
        replays = []
        for _ in range(4):
            self.say(bench, b"1 4-5")
            replays.append((bench.outbox.oldest_seq, bench.outbox.aside))
            for _ in range(2000):
                if session.replays == len(replays):
                    break
                bench.poll()
            self.answer(bench)
        bench.poll(20)
        self.assertEqual(replays[:3], [(2, 0)] * 3)
        self.say(bench, b"1 4-5")
        bench.poll(20)
        self.assertEqual((session.not_passed, bench.outbox.aside), (2, 2))
        self.assertEqual((bench.outbox.oldest_seq, session.through), (6, 5))
        shelf = bench.outbox.shelf()
        for index in range(2):
            self.assertEqual((shelf.load(index), shelf.seq, bool(shelf.mark)), (0, 2 + index, True))

    def test_one_replay_is_evidence_once(self):
        bench = self.bench()
        for _ in range(10):
            self.say(bench, b"1 4-5")
        bench.poll(20)
        self.assertEqual((bench.session.not_passed, bench.outbox.oldest_seq), (0, 2))

    def test_what_is_garbled_foreign_or_ahead_says_nothing(self):
        for text in (
            b"1 4-", b"1 -5", b"1 5-4", b"1 4", b"1 2-3", b"1 4-99", b"1 99-100", b"1  4-5",
            b"-1 ", b"x 4-5", b"- 4-5",
        ):  # fmt: skip
            bench = self.bench()
            for _ in range(5):
                self.say(bench, text)
                bench.session.replays += 1
            bench.poll(20)
            self.assertEqual((text, bench.session.not_passed), (text, 0))

    def test_when_nothing_can_be_confirmed(self):
        """The gap begins with number 0."""
        bench = self.bench()
        for _ in range(4):
            self.say(bench, b"-1 2-5")
            bench.session.replays += 1
        bench.poll(30)
        self.assertEqual((bench.session.not_passed, bench.session.through), (2, 5))
        self.assertTrue(bench.client.is_drained())

    def test_they_are_not_sent_again(self):
        """Another PUBACK would say nothing."""
        bench = self.bench()
        for _ in range(4):
            self.say(bench, b"-1 2-5")
            bench.session.replays += 1
        bench.poll(30)
        bench.stream.take()
        for _ in range(1400):
            bench.now_ms += 100
            bench.poll()
            if 0xC0 in [first for first, _ in split(bench.stream.take())]:
                bench.say(b"\xd0\x00", 2)
        self.assertEqual(bench.outbox.aside, 2)


class TestMemory(unittest.TestCase):
    def test_a_counted_message_that_is_released_otherwise_is_forgotten(self):
        world = World5(says=lambda payload, number: b"\x40\x03" + number + b"\x97")
        world.publish(b"bad").run(10, lambda: world.session.denied == 2)
        self.assertTrue(world.session.suspects is not None)
        world.outbox.discard(0)
        world.session._restart_window(1)
        world.run(5)
        self.assertTrue(world.session.suspects is None)


if __name__ == "__main__":
    unittest.main()
