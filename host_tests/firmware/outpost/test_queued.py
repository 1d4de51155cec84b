"""Collector mode without retained messages: confirmations from the queue of the board's session."""

import unittest

from bench_client import CONNACK, Bench, acknowledged, puback, queued, split

RESUMED = b"\x20\x02\x01\x00"


def held(*payloads):
    """A board whose messages the server acknowledged, and no collector confirmed."""
    return acknowledged(Bench("queued").connect(), *payloads)


class TestQueuedConfirmations(unittest.TestCase):
    def test_it_subscribes_with_qos_1_on_every_connection(self):
        bench = Bench("queued")
        for connack in (CONNACK, RESUMED):
            bench.poll(80)
            bench.stream.say(connack)
            subscribe = [body for first, body in split(bench.poll(4).stream.take()) if first == 130]
            self.assertEqual(
                [body[2:] for body in subscribe], [b"\x00\x17outpost/board-1/durable\x01"]
            )
            bench.drop()

    def test_each_confirmation_is_acknowledged_the_useless_ones_too(self):
        bench = held(b"a", b"b", b"c")
        for packet_id, seq, oldest in ((7, 1, 2), (8, 0, 2), (9, 5, 2), (10, "x", 2), (11, 2, 3)):
            bench.stream.take()
            bench.say(queued(seq, packet_id))
            self.assertIn((0x40, bytes([0, packet_id])), split(bench.stream.take()))
            self.assertEqual(bench.outbox.oldest_seq, oldest)

    def test_what_was_never_sent_does_not_wait(self):
        bench = Bench("queued").publish(b"a", b"b")
        bench.connect()
        self.assertEqual(bench.sent(4), [(1, False, b"a"), (2, False, b"b")])

    def test_the_queued_confirmation_comes_first_and_the_unconfirmed_go_after_it(self):
        bench = held(b"a", b"b", b"c", b"d")
        bench.drop()
        bench.connect(RESUMED)
        self.assertEqual(bench.sent(10), [])
        bench.say(queued(1, 3))
        self.assertEqual(bench.sent(), [(3, False, b"c")])
        bench.say(puback(3)).say(queued(2, 4))
        self.assertEqual(bench.sent(), [(4, False, b"d")])

    def test_in_a_new_session_the_oldest_goes_alone_and_asks(self):
        """Without a wait: nothing can be queued in it."""
        bench = held(*[b"%d" % n for n in range(40)])
        replays = bench.session.replays
        bench.drop()
        bench.connect(CONNACK)
        self.assertEqual(bench.sent(4), [(1, False, b"0")])
        bench.say(puback(1)).publish(b"new")
        self.assertEqual(bench.sent(80), [])
        bench.say(queued(39, 1))
        self.assertEqual(bench.outbox.oldest_seq, 40)
        self.assertEqual(bench.sent(), [(41, False, b"new")])
        self.assertEqual((bench.session.replays - replays, bench.session.redelivered), (1, 0))

    def test_the_answer_may_overtake_the_acknowledgement(self):
        bench = held(*[b"%d" % n for n in range(40)])
        bench.drop()
        bench.connect(CONNACK)
        self.assertEqual(bench.sent(4), [(1, False, b"0")])
        bench.stream.say(queued(37, 1) + puback(1))
        self.assertEqual([payload for _, _, payload in bench.sent()], [b"38", b"39"])

    def test_after_a_power_cut_too(self):
        bench = held(*[b"%d" % n for n in range(40)])
        bench.boot()
        bench.connect(CONNACK)
        self.assertEqual(bench.sent(4), [(1, True, b"0")])
        bench.say(puback(1)).say(queued(39, 1))
        self.assertTrue(bench.client.is_drained())

    def test_without_an_answer_the_others_follow(self):
        """The collector is away, or has them not."""
        bench = held(b"a", b"b", b"c")
        bench.drop()
        bench.connect(CONNACK)
        self.assertEqual(bench.sent(4), [(1, False, b"a")])
        bench.say(puback(1))
        self.assertEqual(bench.sent(120), [])
        self.assertEqual(bench.sent(40), [(2, False, b"b"), (3, False, b"c")])

    def test_a_confirmation_that_was_lost_on_its_way_is_asked_for_after_the_timeout(self):
        bench = held(b"a", b"b", b"c")
        self.assertEqual(bench.sent(120), [(1, False, b"a")])
        bench.say(puback(1)).say(queued(2, 9))
        self.assertTrue(bench.client.is_drained())

    def test_what_is_in_flight_goes_before_the_question_and_with_dup(self):
        bench = held(b"a", b"b").publish(b"c")
        self.assertEqual(bench.sent(), [(3, False, b"c")])
        bench.drop()
        bench.connect(CONNACK)
        self.assertEqual(bench.sent(), [(3, True, b"c")])
        bench.say(puback(3))
        self.assertEqual(bench.sent(), [(1, False, b"a")])
        bench.say(puback(1)).say(queued(2, 9))
        self.assertTrue(bench.client.is_drained())

    def test_a_link_that_breaks_before_the_answer_asks_again(self):
        """With the next message: a broker may end the connection on one of them each time."""
        bench = held(*[b"%d" % n for n in range(4)])
        for n in range(3):
            bench.drop()
            bench.connect(CONNACK)
            self.assertEqual(bench.sent(4), [(n + 1, False, b"%d" % n)])
            bench.say(puback(n + 1))
        bench.say(queued(3, 1), 20)
        self.assertTrue(bench.client.is_drained())


if __name__ == "__main__":
    unittest.main()
