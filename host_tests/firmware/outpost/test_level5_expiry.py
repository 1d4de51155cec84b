"""Message expiry of MQTT 5.0 by what remains: from the age in the outbox, never too early."""

import unittest

from bench_client import TOPIC, split
from bench_level5 import Bench5, connected, sent
from outpost import status
from outpost.level5 import over
from outpost.mqtt5.level5_expiry import Expiry
from outpost.ram_outbox import RamOutbox
from outpost.session import Session
from packets5 import ack, connack


def waited(bench, seconds):
    """No connection for so long."""
    bench.now_ms += seconds * 1000


def expiry_of(properties):
    assert properties[:1] == b"\x02"
    return int.from_bytes(properties[1:5], "big")


def offline(**options):
    bench = Bench5(options=options)
    bench.poll(1)
    return bench


def after(bench):
    """[(expiry, payload)] of what goes out once it is connected."""
    bench.poll(4).stream.take()
    bench.stream.say(connack())
    return [(expiry_of(one[2]), one[3]) for one in sent(bench, 40)]


class TestExpiry(unittest.TestCase):
    def test_what_remains_goes_out(self):
        bench = offline(expiry_s=100, publish_properties=((0x01, 1),))
        bench.publish(b"old")
        waited(bench, 5)
        bench.poll(1).publish(b"young")
        waited(bench, 3)
        self.assertEqual(after(bench), [(92, b"old"), (97, b"young")])

    def test_a_message_of_qos_0_goes_with_all_of_it(self):
        bench = offline(expiry_s=100)
        bench.publish(b"old")
        waited(bench, 5)
        self.assertEqual(after(bench), [(95, b"old")])
        self.assertEqual(bench.client.publish(TOPIC, b"now", qos=0), status.OK)
        self.assertEqual([expiry_of(one[2]) for one in sent(bench)], [100])

    def test_one_that_was_set_aside_goes_with_all_of_it(self):
        bench = offline(expiry_s=100)
        bench.publish(b"refused")
        waited(bench, 5)
        self.assertEqual(after(bench), [(95, b"refused")])
        bench.say(ack(0x40, 1, 0x87))
        self.assertEqual((bench.outbox.oldest_seq, bench.outbox.aside), (1, 1))
        found = []
        for _ in range(100):
            bench.say(b"\xd0\x00", 0)  # to its pings
            found += sent(bench, 100)
        self.assertEqual([(expiry_of(one[2]), one[3]) for one in found], [(100, b"refused")])

    def test_close_when_one_has_expired_while_an_answer_is_due(self):
        bench = connected(expiry_s=2)
        bench.session.expiry.on_expired = lambda seq: bench.client.close()
        bench.publish(b"old")
        waited(bench, 5)
        message = b"\x32\x07\x00\x01a\x00\x01\x00x"
        bench.stream.say(message + message[:6] + b"\x02\x00x")
        bench.poll(4)
        self.assertEqual((bench.stream.closed, bench.client.last_error), (True, 0))
        self.assertEqual((bench.session.expiry.expired, bench.client.failures), (1, 0))

    def test_days_without_a_network_count(self):
        for days in (1, 7, 13):
            bench = connected(expiry_s=20 * 86_400).publish(b"old")
            bench.poll(1)
            bench.away(days)
            bench.connect(connack())
            expiry_s = expiry_of(bench.early[0][2][1:])
            self.assertTrue(0 <= (20 - days) * 86_400 - expiry_s < 120, (days, expiry_s))

    def test_an_expired_one_is_freed_counted_and_told(self):
        bench, told, acknowledged = offline(expiry_s=6), [], []
        session = bench.session
        session.expiry.on_expired = told.append
        session.on_acknowledged = acknowledged.append
        bench.publish(b"old")
        waited(bench, 5)
        bench.poll(1).publish(b"young")
        waited(bench, 2)
        self.assertEqual(after(bench), [(4, b"young")])
        self.assertEqual((told, acknowledged, session.expiry.expired), ([0], [], 1))
        self.assertEqual((bench.outbox.oldest_seq, session.acknowledged, session.sent), (1, 0, 1))
        bench.say(ack(0x40, 2))
        self.assertEqual((acknowledged, session.ignored), ([1], 0))
        self.assertTrue(bench.client.is_drained())

    def test_what_may_have_been_sent_never_expires(self):
        """[MQTT-4.3.3-7], and so with QoS 1; QoS 2 goes with a second at least."""
        bench = connected(mode="exactly once", expiry_s=5).publish(b"1")
        bench.client.publish(TOPIC, b"2", 2)
        self.assertEqual(len(sent(bench)), 2)
        bench.drop()
        bench.client.publish(TOPIC, b"3", 2)
        waited(bench, 60)
        links = bench.links
        while bench.links == links:
            bench.poll()
        bench.poll(4).stream.take()
        bench.stream.say(connack(session_present=1))
        found = [(expiry_of(one[2]), one[3]) for one in sent(bench, 40)]
        self.assertEqual(found, [(1, b"1"), (1, b"2"), (1, b"3")])
        self.assertEqual(bench.session.expiry.expired, 0)

    def test_what_was_there_at_power_on_counts_from_then(self):
        bench = offline(expiry_s=10)
        bench.publish(b"x")
        waited(bench, 8)
        bench.boot()
        bench.poll(1)
        waited(bench, 4)
        self.assertEqual(after(bench), [(6, b"x")])

    def test_no_message_expires_early_and_the_marks_stay_few(self):
        """1,000 messages at distances of 0 to 9 s."""
        expiry = Expiry(over(Session)(RamOutbox(2, 64), b"b"), 100_000, 4)
        now_ms, stored_s = 0, []
        for seq in range(1000):
            now_ms += (seq * 7919 % 10) * 1000
            expiry.stored(seq, now_ms)
            stored_s.append(now_ms // 1000)
        expiry.look(now_ms)
        late = [expiry.left_s(seq) - (100_000 - (now_ms // 1000 - at)) for seq, at in
                enumerate(stored_s)]  # fmt: skip
        self.assertTrue(min(late) >= 0)
        self.assertTrue(max(late) <= now_ms // 1000 // 15, max(late))
        self.assertEqual(late[-1], 0)
        self.assertEqual(len(expiry._seqs), 32)

    def test_marks_of_messages_that_are_gone_go_first(self):
        """A board that was up for long: the age of those it holds is known as well as ever."""
        session = over(Session)(RamOutbox(2, 64), b"b")
        expiry, outbox = Expiry(session, 100_000, 4), session.outbox
        for seq in range(1000):
            outbox.oldest_seq = max(seq - 20, 0)
            expiry.stored(seq, 1000 + seq * 60_000)
        found = [100_000 - expiry.left_s(seq) for seq in range(980, 1000)]
        self.assertEqual(found, [60 * (999 - seq) for seq in range(980, 1000)])

    def test_ticks_may_wrap(self):
        bench = Bench5(options={"expiry_s": 100})
        bench.now_ms = 0x3FFFFFFF - 2000
        bench.poll(1).publish(b"x")
        bench.now_ms = (bench.now_ms + 5000) & 0x3FFFFFFF
        bench.session.expiry.look(bench.now_ms)
        self.assertEqual(bench.session.expiry.left_s(0), 95)

    def test_options_out_of_range_are_named(self):
        for options in (
            {"expiry_s": -1}, {"expiry_s": 0x2000000},
            {"expiry_s": 5, "publish_properties": ((0x02, 9),)},
        ):  # fmt: skip
            with self.assertRaises(ValueError):
                Bench5(options=options)
        for mode in ("collector", "queued"):
            with self.assertRaises(ValueError):
                Bench5(mode, options={"expiry_s": 5})

    def test_with_an_alias(self):
        bench = connected(b"\x22\x00\x01", aliases=(TOPIC,), expiry_s=50).publish(b"1", b"2")
        bench.poll(6)
        found = [body for _, body in split(bench.stream.take())]
        self.assertEqual(found[1], b"\x00\x00\x00\x02\x08\x23\x00\x01\x02\x00\x00\x00\x322")


if __name__ == "__main__":
    unittest.main()
