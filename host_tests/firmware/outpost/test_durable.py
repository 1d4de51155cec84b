"""Collector mode: the record stays until the collector's word."""

import unittest

from bench_client import CONNACK, STREAM, Bench, acknowledged, confirmation, puback
from fake_flash import flash_in_ram
from outpost.durable import DurableSession, parse_confirmation
from outpost.outbox import Outbox


class TestParse(unittest.TestCase):
    def test_sound_and_garbled_words(self):
        for word, expected in (
            (b"3fa9c1d2 0", 0), (b"3fa9c1d2 1073741823", 1073741823), (b"3fa9c1d2 1073741824", -1),
            (b"3fa9c1d2 9999999999", -1), (b"00000000 5", -1), (b"3fa9c1d2", -1),
            (b"3fa9c1d2 ", -1), (b"3fa9c1d2 -1", -1), (b"3fa9c1d2 5x", -1), (b"", -1),
            (b"3fa9c1d2_55", -1), (b"3fa9c1d2 00000000001", -1), (b"3fa9c1d2 1:", -1),
            (b"3fa9c1d2 1/", -1),
        ):  # fmt: skip
            self.assertEqual(parse_confirmation(word, 0, len(word), STREAM), expected, word)


class TestSetUp(unittest.TestCase):
    def test_what_could_never_be_confirmed_is_refused(self):
        for arguments in (
            (b"",), (b"a/#",), (b"+",), ("words",), (None,), (b"t", 0), (b"t", -1),
            (b"t", 86_400_001), (b"t", None), (b"t", 1.5),
        ):  # fmt: skip
            outbox = Outbox(flash_in_ram(4))
            with self.assertRaises(ValueError):
                DurableSession(outbox, b"board-1", *arguments)


class TestCollectorMode(unittest.TestCase):
    def test_a_long_timeout_goes_on_replaying(self):
        """Doubled, it would be longer than ticks can tell, or just half of them."""
        for timeout_ms in (86_400_000, 1 << 24):
            bench = acknowledged(Bench("collector", keep_alive_s=0).connect(word=0), b"a", b"b")
            bench.session.timeout_ms = timeout_ms
            at_days = []
            for hour in range(40 * 24):
                bench.now_ms += 3_600_000
                bench.poll(2)
                for packet_id, _, _ in bench.sent():
                    at_days.append(hour // 24)
                    bench.say(puback(packet_id))
            self.assertTrue(len(at_days) >= 6 and at_days[-1] > 30, at_days)

    def test_puback_moves_the_window_and_the_word_frees(self):
        bench = acknowledged(Bench("collector").connect(word=0), *[b"%d" % i for i in range(20)])
        self.assertEqual((bench.session.acknowledged, bench.outbox.oldest_seq), (20, 0))
        bench.say(confirmation(11))
        self.assertEqual((bench.outbox.oldest_seq, bench.client.is_drained()), (12, False))
        bench.say(confirmation(19))
        self.assertTrue(bench.client.is_drained())

    def test_subscribes_on_every_connection(self):
        bench = Bench("collector")
        for links in (1, 2):
            bench.poll(30)
            bench.stream.say(b"\x20\x02\x01\x00")
            bench.poll(4)
            self.assertTrue(b"\x00\x17outpost/board-1/durable\x00" in bench.stream.take())
            self.assertEqual((bench.links, bench.session.connects), (links, links))
            bench.drop()

    def test_after_a_reconnect_the_unconfirmed_go_again_from_the_retained_word_on(self):
        bench = acknowledged(Bench("collector").connect(word=0), b"a", b"b", b"c", b"d")
        bench.drop()
        bench.connect(word=1)
        # a new exchange: no DUP
        self.assertEqual(bench.sent(), [(3, False, b"c"), (4, False, b"d")])

    def test_unacknowledged_ones_go_first_with_dup_then_the_unconfirmed(self):
        bench = acknowledged(Bench("collector").connect(word=0), b"a", b"b").publish(b"c")
        self.assertEqual(bench.sent(), [(3, False, b"c")])
        bench.drop()
        bench.connect(word=0)
        self.assertEqual(bench.sent(), [(3, True, b"c")])
        bench.say(puback(3))
        self.assertEqual(bench.sent(), [(2, False, b"b"), (3, False, b"c")])

    def test_a_word_for_what_was_never_sent_frees_nothing_and_is_counted(self):
        """A restored flash, or a second board with this stream, stored messages offline: the
        retained word is of the other life, whose numbers went further.
        """
        bench = Bench("collector").publish(*[b"%d" % i for i in range(4)])
        bench.connect(word=2)
        self.assertEqual((bench.outbox.oldest_seq, bench.session.ahead), (0, 1))
        self.assertEqual([payload for _, _, payload in bench.sent()], [b"0", b"1", b"2", b"3"])
        bench.say(b"".join(puback(i + 1) for i in range(4))).say(confirmation(9))
        self.assertEqual((bench.outbox.oldest_seq, bench.session.ahead), (0, 2))
        bench.say(confirmation(3))
        self.assertTrue(bench.client.is_drained())
        self.assertEqual(bench.session.ahead, 2)

    def test_after_a_reboot_nothing_confirmed_goes_again(self):
        bench = acknowledged(Bench("collector").connect(word=0), b"a", b"b", b"c")
        bench.boot()
        bench.connect(word=1)
        self.assertEqual(bench.sent(), [(3, True, b"c")])

    def test_without_a_retained_word_all_held_go_again_after_a_moment(self):
        bench = acknowledged(Bench("collector").connect(), b"a")
        bench.boot()
        bench.connect()
        self.assertEqual(bench.sent(15), [])
        self.assertEqual(bench.sent(30), [(1, True, b"a")])

    def test_without_suback_they_wait_longer(self):
        bench = acknowledged(Bench("collector").connect(), b"a")
        bench.boot()
        bench.poll(30)
        bench.stream.say(b"\x20\x02\x01\x00")
        self.assertEqual(bench.sent(100), [])
        self.assertEqual(bench.sent(80), [(1, True, b"a")])

    def test_a_word_soon_after_suback_is_waited_for(self):
        bench = acknowledged(Bench("collector").connect(), b"a", b"b")
        bench.boot()
        bench.connect()
        self.assertEqual(bench.sent(10), [])
        bench.say(confirmation(0))
        self.assertEqual(bench.sent(40), [(2, True, b"b")])

    def test_what_was_never_sent_does_not_wait_for_a_word(self):
        bench = Bench("collector").publish(b"a", b"b")
        bench.connect()
        self.assertEqual(bench.sent(4), [(1, False, b"a"), (2, False, b"b")])
        self.assertEqual(bench.session.replays, 0)

    def test_what_the_connection_before_sent_waits_for_a_word(self):
        bench = acknowledged(Bench("collector").connect(), b"a").publish(b"b")
        bench.sent()
        bench.drop()
        bench.connect()
        bench.publish(b"c")
        # its exchange is open
        self.assertEqual([payload for _, _, payload in bench.sent(10)], [b"b"])
        bench.say(puback(2))
        self.assertEqual([payload for _, _, payload in bench.sent(40)], [b"a", b"b", b"c"])

    def test_a_replay_that_the_word_makes_needless_holds_no_new_message_back(self):
        """The path was silent for longer than the timeout, with messages in flight; then it
        delivers all that waited.
        """
        bench = acknowledged(Bench("collector").connect(word=0), b"a", b"b").publish(b"c")
        self.assertEqual(bench.sent(), [(3, False, b"c")])
        bench.poll(150)  # a replay is due, once c is acknowledged
        bench.say(confirmation(1) + puback(3)).say(confirmation(2))
        self.assertTrue(bench.client.is_drained())
        bench.publish(b"d")
        self.assertEqual(bench.sent(), [(4, False, b"d")])

    def test_silence_brings_a_replay_and_then_longer_pauses(self):
        bench = acknowledged(Bench("collector").connect(word=0), b"a", b"b", b"c", b"d")
        bench.say(confirmation(1))
        times = []
        for _ in range(1600):
            for packet_id, dup, payload in bench.sent(1):
                if payload == b"c":
                    times.append(bench.now_ms)
                self.assertFalse(dup)
                bench.stream.say(puback(packet_id))
        # MicroPython has no pairwise.
        gaps = [after - before for before, after in zip(times, times[1:])]  # noqa: RUF007
        self.assertEqual([gap // 200 for gap in gaps], [10, 20, 40], gaps)  # 2, 4, 8 seconds
        self.assertEqual(bench.session.replays, 4)

    def test_idle_hours_do_not_make_the_pause_longer(self):
        bench = acknowledged(Bench("collector", keep_alive_s=0).connect(word=0), b"a")
        bench.say(confirmation(0)).poll(20_000)
        acknowledged(bench, b"b")
        self.assertEqual(bench.sent(150), [(2, False, b"b")])
        self.assertEqual(bench.session.replays, 1)

    def test_stale_foreign_future_and_garbled_words_only_count(self):
        bench = acknowledged(Bench("collector").connect(word=0), b"a", b"b", b"c")
        bench.say(confirmation(1))
        ignored = bench.session.ignored
        for word in (
            confirmation(0),
            confirmation(1),
            confirmation(3),
            confirmation(2, b"ffffffff"),
            confirmation("x"),
        ):
            bench.say(word)
        self.assertEqual((bench.outbox.oldest_seq, bench.session.ignored - ignored), (2, 5))
        self.assertTrue(bench.client.is_connected())

    def test_nothing_is_freed_whose_exchange_is_open(self):
        bench = Bench("collector").connect(word=0).publish(b"a", b"b")
        bench.sent()
        bench.say(confirmation(1))
        self.assertEqual(bench.outbox.oldest_seq, 0)
        bench.say(puback(1)).say(puback(2))
        self.assertEqual(bench.outbox.oldest_seq, 2)

    def test_more_than_65535_held_messages_keep_their_order(self):
        bench = Bench("collector", blocks=2)
        outbox = bench.outbox
        outbox.next_seq = outbox.oldest_seq = outbox._first_seq = 65_530
        bench.session._restart_window(65_530)
        bench.connect().poll(160)
        bench.publish(*[b"%d" % seq for seq in range(65_530, 65_545)])
        ids = [packet_id for packet_id, _, _ in bench.sent()]
        self.assertEqual(ids, [65531, 65532, 65533, 65534, 65535] + list(range(1, 11)))


class TestHeldUp(unittest.TestCase):
    """While the retained word may still come, and no longer."""

    def test_a_word_that_tells_nothing_new_ends_the_wait(self):
        for known in (0, 1):
            bench = acknowledged(Bench("collector").connect(word=known), b"a", b"b", b"c")
            bench.say(confirmation(known)).drop()
            bench.connect(word=known)
            held = [b"a", b"b", b"c"][known + 1 :]
            self.assertEqual([payload for _, _, payload in bench.sent(6)], held)

    def test_one_that_tells_more_ends_it_too(self):
        bench = acknowledged(Bench("collector").connect(word=0), b"a", b"b", b"c")
        bench.drop()
        bench.connect(word=1)
        self.assertEqual(bench.sent(6), [(3, False, b"c")])
        self.assertEqual(bench.session.confirmations, 1)

    def test_a_garbled_one_does_not_end_it(self):
        bench = acknowledged(Bench("collector").connect(word=0), b"a", b"b")
        bench.drop()
        bench.connect(word="x")
        self.assertEqual(bench.sent(10), [])
        bench.say(confirmation(0))
        self.assertEqual(bench.sent(6), [(2, False, b"b")])

    def test_nor_does_it_begin_one(self):
        bench = Bench("collector").connect()
        bench.say(confirmation("x"), 2).publish(b"a")
        self.assertEqual(bench.sent(4), [(1, False, b"a")])

    def test_a_message_that_waits_does_not_keep_the_board_awake(self):
        bench = acknowledged(Bench("collector").connect(word=0), b"a")
        bench.drop()
        bench.connect()
        bench.publish(b"b").poll()
        self.assertTrue(bench.session.check_ms > bench.now_ms)
        self.assertEqual(bench.stream.take(), b"")

    def test_without_its_filter_no_word_is_near(self):
        session = Bench("collector").connect().session
        self.assertTrue(session._is_subscribed())
        session.filters.clear()
        self.assertFalse(session._is_subscribed())

    def test_ten_seconds_of_silence_unless_told(self):
        session = DurableSession(Bench("collector").outbox, b"board-1", b"t")
        self.assertEqual(session.timeout_ms, 10_000)


class TestNumbers(unittest.TestCase):
    LAST = (1 << 30) - 2  # the last number of a stream

    def ended(self):
        flash = flash_in_ram(4, 256)
        Outbox(flash).format(STREAM, False, self.LAST)
        bench = Bench("collector", flash=flash)
        bench.outbox.erase_ahead()
        acknowledged(bench.connect(), b"end").say(confirmation(self.LAST))
        self.assertTrue(bench.client.is_drained())
        return bench

    def test_a_word_of_the_stream_that_ended_frees_nothing_of_the_next(self):
        """Stored while connected, or while not: when the numbers begin again, PUBACK frees none."""
        for is_offline in (False, True):
            bench = self.ended()
            if is_offline:
                bench.drop()
            bench.publish(b"0", b"1", b"2")
            if is_offline:
                bench.connect()
            sent = [(1, False, b"0"), (2, False, b"1"), (3, False, b"2")]
            self.assertEqual(bench.sent(), sent, is_offline)
            bench.say(puback(1) + puback(2) + puback(3))
            found = bench.outbox.oldest_seq, bench.session.through, bench.session._after_sent()
            self.assertEqual(found, (0, -1, 3), is_offline)
            bench.say(confirmation(2, bytes(bench.outbox.stream)))
            self.assertTrue(bench.client.is_drained(), is_offline)

    def test_nor_does_one_of_the_next_whose_first_message_was_not_sent_yet(self):
        bench = self.ended()
        bench.drop()
        bench.publish(b"0")
        bench.poll(40)  # CONNECT is out
        bench.stream.take()
        bench.say(CONNACK + confirmation(0, bytes(bench.outbox.stream)), 1)
        self.assertEqual((bench.outbox.oldest_seq, bench.session.ahead), (0, 1))
        self.assertEqual(bench.sent(), [(1, False, b"0")])

    def test_only_what_is_in_flight_keeps_a_confirmed_one(self):
        bench = acknowledged(Bench("collector").connect(), b"a", b"b").publish(b"c")
        bench.sent()
        bench.say(confirmation(1))
        self.assertEqual(bench.outbox.oldest_seq, 2)


if __name__ == "__main__":
    unittest.main()
