import unittest

from bench_client import TOPIC, Bench, puback, split
from outpost import status
from outpost.client import backoff_ms
from station.deep_sleep import drain


class TestPublish(unittest.TestCase):
    def test_one_write_per_packet(self):
        bench = Bench().connect().publish(b"one", b"two")
        writes = bench.stream.writes
        sent = bench.sent()
        self.assertEqual(sent, [(1, False, b"one"), (2, False, b"two")])
        self.assertEqual(bench.stream.writes - writes, 2)

    def test_partial_writes_resume_at_their_offset(self):
        bench = Bench(room=3).connect().publish(b"payload")
        self.assertEqual(bench.sent(60), [(1, False, b"payload")])

    def test_stored_before_sent_and_freed_by_puback(self):
        bench = Bench().publish(b"offline")
        self.assertEqual((bench.outbox.next_seq, bench.session.sent), (1, 0))
        bench.connect().sent()
        self.assertFalse(bench.client.is_drained())
        bench.say(puback(1))
        self.assertTrue(bench.client.is_drained())
        self.assertEqual((bench.session.acknowledged, bench.outbox.oldest_seq), (1, 1))

    def test_delivery_is_told_by_sequence_number(self):
        bench, told = Bench().connect().publish(b"a", b"b"), []
        bench.session.on_acknowledged = told.append
        bench.sent()
        bench.say(puback(2)).say(puback(1))
        self.assertEqual(told, [1, 0])

    def test_qos_0_needs_a_connection_and_goes_out_with_the_next_poll(self):
        bench = Bench()
        self.assertEqual(bench.client.publish(TOPIC, b"x", qos=0), status.OFFLINE)
        bench.connect()
        self.assertEqual(bench.client.publish(TOPIC, b"x", qos=0), status.OK)
        self.assertEqual(bench.client.publish(TOPIC, b"y", qos=0), status.BUSY)
        bench.poll()
        self.assertEqual(split(bench.stream.take()), [(0x30, b"\x00\x14" + TOPIC + b"x")])

    def test_faulty_arguments_are_statuses(self):
        client = Bench().client
        for topic in (None, b"", b"a/#", b"+/b", b"a\x00b"):
            self.assertEqual(client.publish(topic, b""), status.BAD_TOPIC)
        self.assertEqual(client.publish(TOPIC, b"", qos=2), status.BAD_QOS)
        self.assertEqual(client.publish(TOPIC, bytes(600)), status.TOO_BIG)

    def test_retain_goes_out(self):
        bench = Bench().connect()
        bench.client.publish(TOPIC, b"x", retain=True)
        self.assertEqual(split(bench.poll(3).stream.take())[0][0], 0x33)


class TestBackoff(unittest.TestCase):
    def test_doubles_up_to_a_minute_and_stays_there(self):
        least = [backoff_ms(attempt, 0) for attempt in range(1, 12)]
        most = [backoff_ms(attempt, 0xFFFF) for attempt in range(1, 12)]
        self.assertEqual(least[:3], [250, 500, 1000])
        self.assertEqual(most[:3], [499, 999, 1999])
        self.assertEqual((least[6], most[6], least[7], most[7]), (16_000, 31_999, 60_000, 76_383))
        self.assertEqual((least[10], most[10]), (least[7], most[7]))

    def test_jitter_stays_between_half_and_whole(self):
        for bits in range(0, 0x10000, 997):
            self.assertTrue(1000 <= backoff_ms(3, bits) < 2000)


class TestRedelivery(unittest.TestCase):
    def test_after_a_dropped_connection_same_ids_dup_and_order(self):
        bench = Bench().connect().publish(b"a", b"b", b"c")
        bench.sent()
        bench.say(puback(2)).drop()
        bench.connect(b"\x20\x02\x01\x00")
        bench.publish(b"d")
        self.assertEqual(bench.sent(), [(1, True, b"a"), (3, True, b"c"), (4, False, b"d")])
        self.assertEqual(bench.session.redelivered, 2)

    def test_after_a_power_cut_same_ids_dup_and_order(self):
        bench = Bench().connect().publish(b"a", b"b", b"c")
        bench.sent()
        bench.say(puback(1)).publish(b"d")  # d's record carries the acknowledgement of a
        bench.boot()
        bench.connect()
        self.assertEqual(bench.sent(), [(2, True, b"b"), (3, True, b"c"), (4, True, b"d")])

    def test_acknowledged_out_of_order_before_a_power_cut_is_not_sent_again(self):
        bench = Bench().connect().publish(b"a", b"b", b"c")
        bench.sent()
        bench.say(puback(2)).publish(b"d")
        bench.boot()
        bench.connect()
        self.assertEqual([packet_id for packet_id, _, _ in bench.sent()], [1, 3, 4])

    def test_session_not_present_loses_no_message(self):
        bench = Bench().connect().publish(b"a", b"b")
        bench.sent()
        bench.drop()
        bench.connect(b"\x20\x02\x00\x00")
        self.assertEqual([payload for _, _, payload in bench.sent()], [b"a", b"b"])

    def test_connection_cut_at_every_byte_of_what_the_client_writes(self):
        for cut in range(1, 40):
            bench = Bench(room=1).connect().publish(b"payload")
            bench.poll(cut)
            bench.stream_options = {}
            bench.drop()
            bench.connect()
            self.assertEqual([payload for _, _, payload in bench.sent(60)], [b"payload"])


class TestSaving(unittest.TestCase):
    """How many messages come again after a power cut."""

    def test_acknowledgements_get_a_record_of_their_own_after_a_quiet_while(self):
        bench = Bench(keep_alive_s=0).connect().publish(b"a")
        bench.sent()
        bench.say(puback(1))
        programs = bench.flash.programs
        bench.now_ms += 599_000
        bench.poll(50)
        self.assertEqual(bench.flash.programs, programs)
        bench.poll(100)
        self.assertEqual((bench.flash.programs, bench.outbox.unsaved()), (programs + 1, 0))
        bench.boot()
        self.assertTrue(bench.client.is_drained())

    def test_a_backlog_that_drains_is_written_down_every_64_acknowledgements(self):
        bench = Bench(blocks=16).publish(*[b"%d" % number for number in range(300)]).connect()
        programs = bench.flash.programs
        most = 0
        while not bench.client.is_drained():
            for packet_id, _, _ in bench.sent(2):
                bench.stream.say(puback(packet_id))
            most = max(most, bench.outbox.unsaved())
        self.assertTrue(most <= 64, most)
        self.assertEqual(bench.flash.programs - programs, 300 // 64)

    def test_drain_tells_whether_all_was_delivered_in_time(self):
        bench = Bench().connect().publish(b"a")
        board = Awake(bench)
        self.assertFalse(drain(bench.client, board, 200))
        bench.stream.say(puback(1))
        self.assertTrue(drain(bench.client, board, 200))
        self.assertTrue(0 < board.idles < board.feeds)


class Awake:
    """What of a board drain() needs. This wake is no long one."""

    def __init__(self, bench):
        self._bench = bench
        self.feeds = self.idles = 0

    def ticks_ms(self):
        self._bench.now_ms += 5
        return self._bench.now_ms

    def random_hex(self):
        return b"f0000000"

    def feed_watchdog(self):
        self.feeds += 1

    def idle(self, client):
        self.idles += 1


class TestLink(unittest.TestCase):
    def test_refused_connections_back_off(self):
        bench, times = Bench(), []

        def no_link():
            times.append(bench.now_ms)
            raise OSError(111)

        bench.client._link = no_link
        bench.poll(4000)
        # MicroPython has no pairwise.
        gaps = [after - before for before, after in zip(times, times[1:])]  # noqa: RUF007
        self.assertEqual(gaps[:4], [250, 500, 1000, 2000])
        self.assertEqual((bench.client.last_error, bench.client.failures), (111, len(times)))

    def test_it_begins_at_any_ticks(self):
        """Half of the ticks' range, 6.2 days, reads as a time to come."""
        for now_ms in (0, 1 << 28, 1 << 29, 3 << 28, (1 << 30) - 5):
            bench = Bench()
            bench.now_ms = now_ms
            self.assertTrue(bench.publish(b"x").connect().client.is_connected(), now_ms)
            self.assertEqual(bench.poll(40).session.sent, 1)

    def test_a_link_that_takes_days_is_called_all_the_while(self):
        for hours in (1, 24, 6 * 24, 8 * 24, 13 * 24):
            bench = Bench().connect()
            link, calls = bench.client._link, []
            bench.client._link = lambda calls=calls: calls.append(1)
            bench.drop()
            for hour in range(hours):
                bench.now_ms += 3_600_000
                bench.poll()
                self.assertTrue(len(calls) >= hour, hour)
            bench.client._link = link
            bench.poll(1200)  # CONNACK does not come
            self.assertTrue(bench.links > 1 and bench.client.failures > 1, hours)

    def test_connections_of_a_week_are_not_taken_for_short_ones(self):
        """Of two minutes, as when another client has the id."""
        bench = Bench(keep_alive_s=0).connect()
        for _ in range(4):
            for _ in range(7 * 24):
                bench.now_ms += 3_600_000
                bench.poll()
            bench.stream.ended = True
            bench.poll(2)
            self.assertEqual(bench.client.last_error, status.LINK_LOST)
            bench.connect()
        self.assertEqual(bench.client.takeovers, 0)

    def test_link_that_is_not_ready_is_asked_again(self):
        bench = Bench()
        link, answers = bench.client._link, [None, None]
        bench.client._link = lambda: answers.pop() if answers else link()
        self.assertTrue(bench.connect().client.is_connected())

    def test_silence_closed_and_broken_streams_end_the_connection(self):
        for fault in ("silence", "ended", "broken"):
            bench = Bench(keep_alive_s=1).connect()
            if fault != "silence":
                setattr(bench.stream, fault, True)
            first = bench.stream
            bench.poll(1200)
            self.assertTrue(first.closed, fault)
            self.assertTrue(bench.links > 1)

    def test_refused_by_the_server_waits_before_the_next_try(self):
        bench = Bench()
        for _ in range(3):
            bench.poll(3)
            bench.stream.say(b"\x20\x02\x00\x05")
            bench.poll(2)
        self.assertEqual((bench.links, bench.session.return_code), (1, 5))
        bench.poll(30)
        self.assertEqual(bench.links, 2)

    def test_garbage_closes_the_connection(self):
        for data in (b"\x00\x00", b"\x30\xff\xff\xff\xff", b"\xf0\x00", b"\x20\x02\x00\x00"):
            bench = Bench().connect()
            stream = bench.stream
            bench.say(data)
            self.assertTrue(stream.closed, data)

    def test_longest_outage_is_measured(self):
        bench = Bench().connect()
        bench.drop()
        bench.poll(300)
        bench.connect()
        self.assertTrue(3000 <= bench.session.longest_outage_ms <= 3500)


if __name__ == "__main__":
    unittest.main()
