# long: each packet and each program
"""QoS 2 both ways: each message once, whatever breaks: the link at any packet, the power at any
program of the flash.
"""

import random
import unittest

from bench_client import TOPIC, Bench, puback, publishes, split
from fake_flash import PowerCut, flash_in_ram
from outpost import status
from outpost.exactly_once import ExactlyOnceSession
from outpost.outbox import Outbox
from outpost.ram_outbox import RamOutbox
from virtual.packets import encode


def acknowledgement(first, packet_id):
    return bytes([first, 2, packet_id >> 8, packet_id & 255])


def publish_2(packet_id, payload, dup=False):
    return encode("PUBLISH", topic=b"a/b", payload=payload, qos=2, packet_id=packet_id, dup=dup)


def bench():
    return Bench("exactly once").connect()


def put(one, *payloads):
    for payload in payloads:
        assert one.client.publish(TOPIC, payload, 2) == 0
    return one


class TestOut(unittest.TestCase):
    def test_four_packets_and_the_record_is_freed_by_the_last(self):
        one = put(bench(), b"x")
        sent = split(one.poll(4).stream.take())
        self.assertEqual([(first, body[-3:]) for first, body in sent], [(0x34, b"\x00\x01x")])
        one.say(acknowledgement(0x50, 1))
        self.assertEqual(one.stream.take(), acknowledgement(0x62, 1))
        self.assertFalse(one.client.is_drained())
        one.say(acknowledgement(0x70, 1))
        self.assertEqual((one.client.is_drained(), one.session.acknowledged), (True, 1))

    def test_released_ones_get_pubrel_after_a_drop_the_others_publish_with_dup(self):
        one = put(bench(), b"a", b"b", b"c")
        one.poll(6)
        one.say(acknowledgement(0x50, 2))
        one.stream.take()
        one.drop()
        one.connect(b"\x20\x02\x01\x00")
        self.assertEqual([p[:2] for p in one.sent()], [(1, True), (3, True)])

    def test_released_ones_get_pubrel_after_a_reset(self):
        one = put(bench(), b"a", b"b")
        one.poll(6)
        one.say(acknowledgement(0x50, 1))
        one.boot()
        one.poll(2)
        one.stream.take()
        one.say(b"\x20\x02\x01\x00", 8)
        packets = split(one.stream.take())
        self.assertEqual(
            [(first, body[:2]) for first, body in packets if first == 0x62], [(0x62, b"\x00\x01")]
        )
        self.assertEqual([first for first, _ in packets], [0x62, 0x3C])

    def test_one_note_for_all_that_came_together(self):
        one = put(bench(), *[b"%d" % i for i in range(10)])
        one.poll(20)
        programs = one.flash.programs
        one.say(b"".join([acknowledgement(0x50, packet_id) for packet_id in range(1, 11)]), 30)
        self.assertEqual(one.flash.programs - programs, 1)
        self.assertEqual(
            one.stream.take()[-40:], b"".join([acknowledgement(0x62, i) for i in range(1, 11)])
        )

    def test_what_does_not_fit_the_exchange_only_counts(self):
        one = put(bench(), b"two")
        one.client.publish(TOPIC, b"one")
        one.poll(6)
        one.stream.take()
        for first, packet_id in ((0x40, 1), (0x70, 1), (0x50, 2), (0x70, 2), (0x50, 9), (0x70, 0)):
            one.say(acknowledgement(first, packet_id))
        self.assertEqual(
            (one.session.ignored, one.session.acknowledged, one.stream.take()), (6, 0, b"")
        )
        self.assertTrue(one.client.is_connected())

    def test_server_that_lost_the_session_gets_the_message_again(self):
        one = put(bench(), b"a")
        one.poll(4)
        one.say(acknowledgement(0x50, 1))
        one.drop()
        one.connect(b"\x20\x02\x00\x00")
        self.assertEqual(one.sent(), [(1, True, b"a")])

    def test_a_record_lost_from_flash_does_not_release_a_later_one(self):
        one = put(bench(), b"a")
        one.poll(4)
        one.say(acknowledgement(0x50, 1))
        one.drop()
        one.outbox.discard_through(0)
        put(one, *[b"%d" % i for i in range(20)])
        one.connect(b"\x20\x02\x01\x00")
        sent = one.sent()
        self.assertEqual([payload for _, _, payload in sent], [b"%d" % i for i in range(16)])

    def test_a_full_outbox_drains_with_every_exchange_noted(self):
        for blocks, size in ((2, 6), (3, 60), (4, 20)):
            one, server = Bench("exactly once", blocks=blocks, keep_alive_s=0), Server()
            server.to_send = []
            published = 0
            while one.client.publish(TOPIC, bytes(size), 2) == 0:
                published += 1
            for _ in range(20_000):
                one.poll()
                if one.stream and not one.stream.closed:
                    for first, body in split(one.stream.take()):
                        one.stream.say(
                            server.hello() if first == 0x10 else server.answer(first, body)
                        )
                if one.client.is_drained():
                    break
            self.assertTrue(one.client.is_drained(), (blocks, size))
            self.assertEqual((len(server.got), one.session.unnoted), (published, 0))

    def test_a_ring_without_room_for_a_note_goes_on_and_says_so(self):
        one = put(bench(), b"a")
        one.poll(4)
        one.outbox.set_note = lambda data, length: status.FULL
        one.stream.take()
        one.say(acknowledgement(0x50, 1))
        self.assertEqual(
            (one.stream.take(), one.session.unnoted > 0), (acknowledgement(0x62, 1), True)
        )

    def test_needs_an_outbox_that_keeps_a_note(self):
        """Without it the first PUBREC would end the program."""
        for outbox in (Outbox(flash_in_ram(4)), RamOutbox(record_bytes=200)):
            with self.assertRaises(ValueError):
                ExactlyOnceSession(outbox, b"d")

    def test_needs_a_record_that_holds_the_note(self):
        small = Bench("exactly once").outbox
        small.record_bytes = 64
        with self.assertRaises(ValueError):
            ExactlyOnceSession(small, b"d")


class TestIn(unittest.TestCase):
    def receiver(self):
        one, got = bench(), []
        one.session.on_message = lambda m: got.append(
            bytes(m.buffer[m.payload_at : m.payload_at + m.payload_length])
        )
        return one, got

    def test_delivered_once_however_often_it_comes(self):
        one, got = self.receiver()
        one.say(publish_2(7, b"x"))
        self.assertEqual((got, one.stream.take()), ([b"x"], acknowledgement(0x50, 7)))
        one.say(publish_2(7, b"x", True))
        self.assertEqual((got, one.stream.take()), ([b"x"], acknowledgement(0x50, 7)))
        one.say(acknowledgement(0x62, 7))
        self.assertEqual(one.stream.take(), acknowledgement(0x70, 7))
        one.say(publish_2(7, b"y"))
        self.assertEqual(got, [b"x", b"y"])

    def test_delivered_once_over_a_reset(self):
        one, got = self.receiver()
        one.say(publish_2(7, b"x"))
        handler = one.session.on_message
        one.boot()
        one.session.on_message = handler
        one.connect(b"\x20\x02\x01\x00")
        one.say(publish_2(7, b"x", True))
        self.assertEqual((got, one.stream.take()), ([b"x"], acknowledgement(0x50, 7)))

    def test_identifier_is_free_again_after_a_reset_behind_pubcomp(self):
        one, got = self.receiver()
        one.say(publish_2(7, b"x")).say(acknowledgement(0x62, 7))
        handler = one.session.on_message
        one.boot()
        one.session.on_message = handler
        one.connect(b"\x20\x02\x01\x00")
        one.say(publish_2(7, b"y"))
        self.assertEqual(got, [b"x", b"y"])

    def test_server_without_the_session_may_use_the_identifier_anew(self):
        one, got = self.receiver()
        one.say(publish_2(7, b"x")).drop()
        one.connect(b"\x20\x02\x00\x00")
        one.say(publish_2(7, b"y"))
        self.assertEqual(got, [b"x", b"y"])

    def test_unknown_release_is_completed(self):
        one, _ = self.receiver()
        one.say(acknowledgement(0x62, 99))
        self.assertEqual(one.stream.take(), acknowledgement(0x70, 99))
        one.say(acknowledgement(0x62, 0))
        self.assertEqual(one.client.last_error, status.PROTOCOL_ERROR)

    def test_a_handler_that_raises_gets_no_pubrec_where_that_was_chosen(self):
        one = Bench("exactly once", options={"unacknowledged": 1}).connect()

        def broken(message):
            raise KeyError("application fault")

        one.session.on_message = broken
        one.say(publish_2(7, b"x"))
        self.assertEqual((one.stream.take(), one.session.handler_errors), (b"", 1))

    def flooded(self, count):
        """`count` messages have come before the first PUBREL."""
        one, got = self.receiver()
        for packet_id in range(1, count + 1):
            one.say(publish_2(packet_id, b"%d" % packet_id))
        return one, got

    def test_more_at_a_time_than_can_be_noted_are_passed_over_and_none_is_lost(self):
        """The connection stands until those that were noted are released: NATS, for one, gives
        other identifiers to what it sends again on the next connection.
        """
        one, got = self.flooded(40)
        answered = [acknowledgement(0x50, packet_id) for packet_id in range(1, 33)]
        self.assertEqual((one.stream.take(), len(got)), (b"".join(answered), 32))
        for packet_id in range(1, 32):
            one.say(acknowledgement(0x62, packet_id))
        self.assertTrue(one.client.is_connected())
        one.say(acknowledgement(0x62, 32))
        self.assertEqual(one.client.last_error, status.TOO_MANY)
        one.connect(b"\x20\x02\x01\x00")
        for packet_id in range(33, 41):
            one.say(publish_2(packet_id, b"%d" % packet_id, True))
        self.assertEqual(got[-8:], [b"%d" % packet_id for packet_id in range(33, 41)])
        self.assertEqual(len(got), 40)

    def test_what_was_passed_over_is_taken_when_it_comes_again_on_the_same_connection(self):
        one, got = self.flooded(33)
        one.say(acknowledgement(0x62, 1)).say(publish_2(33, b"33", True))
        self.assertEqual((len(got), one.client.is_connected()), (33, True))

    def test_no_later_message_overtakes_one_that_was_passed_over(self):
        one, got = self.flooded(33)
        one.say(acknowledgement(0x62, 1)).say(publish_2(34, b"34"))
        self.assertEqual(len(got), 32)
        for packet_id in range(2, 33):
            one.say(acknowledgement(0x62, packet_id))
        one.connect(b"\x20\x02\x01\x00")
        one.say(publish_2(33, b"33", True)).say(publish_2(34, b"34", True))
        self.assertEqual(got[32:], [b"33", b"34"])


class Server:
    """The other end, with a session that lasts: takes messages as a QoS 2 receiver, sends its own
    as a QoS 2 sender.
    """

    def __init__(self):
        self.open_ids = set()  # received, PUBREL awaited
        self.got = []
        self.to_send = [(1 + n % 5, b"command %d" % n) for n in range(30)]
        self.state = "publish"  # of the first of to_send: publish, release

    def hello(self):
        """What the server says on a connection with its session."""
        return b"\x20\x02\x01\x00" + self.current(True)

    def current(self, dup=False):
        if not self.to_send:
            return b""
        packet_id, payload = self.to_send[0]
        return (
            publish_2(packet_id, payload, dup)
            if self.state == "publish"
            else acknowledgement(0x62, packet_id)
        )

    def answer(self, first, body):
        """What it says to a packet."""
        if first & 0xF6 == 0x34:
            packet_id, _, payload = publishes(bytes([first, len(body)]) + body)[0]
            if packet_id not in self.open_ids:
                self.got.append(payload)
            self.open_ids.add(packet_id)
            return acknowledgement(0x50, packet_id)
        packet_id = body[0] << 8 | body[1] if body else 0
        if first == 0x62:
            self.open_ids.discard(packet_id)
            return acknowledgement(0x70, packet_id)
        if (
            first == 0x50
            and self.to_send
            and packet_id == self.to_send[0][0]
            and self.state == "publish"
        ):
            self.state = "release"
            return self.current()
        if (
            first == 0x70
            and self.to_send
            and packet_id == self.to_send[0][0]
            and self.state == "release"
        ):
            self.to_send.pop(0)
            self.state = "publish"
            return self.current()
        return puback(packet_id) if first & 0xF6 == 0x32 else b""


class Trial:
    """One run: 40 readings out, 30 commands in; the link drops and the power goes at random."""

    READINGS = 40

    def __init__(self, seed):
        random.seed(seed)
        self.bench, self.server = Bench("exactly once", blocks=6), Server()
        self.published, self.handled = [], []
        # window: cuts between the handler's return and the note
        self.cuts = self.drops = self.window = 0

    def boot(self):
        self.bench.boot()
        self.bench.session.on_message = self.handle
        flash = self.bench.flash
        flash.cut_at = flash.operations + 1 + random.getrandbits(5)
        flash.cut_mode = random.choice(("nothing", "all", "first", "last", "random"))

    def handle(self, message):
        self.handled.append(
            bytes(message.buffer[message.payload_at : message.payload_at + message.payload_length])
        )

    def run(self):
        self.boot()
        for _ in range(6000):
            before = len(self.handled)
            try:
                self.publish()
                self.bench.poll()
                self.serve()
            except PowerCut:
                self.cut(before)
            if (
                len(self.published) == self.READINGS
                and self.bench.client.is_drained()
                and not self.server.to_send
            ):
                break
        return self

    def publish(self):
        if len(self.published) < self.READINGS and random.getrandbits(3) == 0:
            payload = b"reading %d" % len(self.published)
            if self.bench.client.publish(TOPIC, payload, 2) == 0:
                self.published.append(payload)

    def cut(self, before):
        self.cuts += 1
        self.window += len(self.handled) > before
        self.boot()
        # inside publish(), and the message came out whole
        if self.bench.outbox.next_seq > len(self.published):
            self.published.append(b"reading %d" % len(self.published))

    def serve(self):
        stream = self.bench.stream
        if stream is None or stream.closed:
            return
        for first, body in split(stream.take()):
            stream.say(self.server.hello() if first == 0x10 else self.server.answer(first, body))
        if random.getrandbits(6) == 0:
            self.drops += 1
            stream.broken = True


class TestWhateverBreaks(unittest.TestCase):
    def test_each_message_once(self):
        cuts = drops = 0
        for seed in range(60):
            trial = Trial(seed).run()
            self.assertEqual(trial.server.got, trial.published, seed)
            unique = []
            for payload in trial.handled:
                if payload not in unique:
                    unique.append(payload)
            self.assertEqual(unique, [b"command %d" % n for n in range(30)], seed)
            self.assertTrue(
                len(trial.handled) - 30 <= trial.window, (seed, len(trial.handled), trial.window)
            )
            cuts += trial.cuts
            drops += trial.drops
        print("QoS 2: %d power cuts, %d drops of the link" % (cuts, drops))
        self.assertTrue(cuts > 100 and drops > 100, (cuts, drops))


if __name__ == "__main__":
    unittest.main()
