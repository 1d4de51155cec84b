# long: hours of virtual time
"""How long a connection lives, and when the next one comes: deadlines, backoff by progress, and
what looks like another client with the same identifier.

The server and the path are fakes in virtual time (fakes/virtual_peer.py); fuzz/virtual_days.py has
whole days of the same.
"""

import unittest

import virtual_peer as peers
from bench_client import Bench, puback
from fake_flash import flash_in_ram
from outpost import status
from outpost.exactly_once import ExactlyOnceSession
from outpost.ram_outbox import RamOutbox
from outpost.state_note import NotedOutbox
from outpost.subscribing import SubscribingSession
from scripted_server import encode
from virtual_peer import Server, World

HOUR_S = 3600
A_MINUTE_AND_MORE = 65  # connects an hour at most, where there is no progress


def random():
    return 0x8000


def noted_outbox():
    outbox = NotedOutbox(flash_in_ram(16, 256))
    outbox.format(b"01234567")
    return outbox


def connected(server=None, *arguments, **options):
    return World(server or Server(), *arguments, **options).connect()


def dead(world):
    """The path takes all from now on, and brings nothing."""
    world.stream.is_dead = True
    return world


class TestBackoffByProgress(unittest.TestCase):
    def connects(self, server, hours=2, **options):
        """In each hour: at most one a minute, and the quick ones at first."""
        world = World(server, random=random, **options)
        world.run(hours * HOUR_S)
        found = [world.in_hour(hour) for hour in range(hours)]
        self.assertTrue(max(found) <= A_MINUTE_AND_MORE, found)
        self.assertTrue(min(found) >= 40, found)
        return world

    def test_a_server_that_closes_after_connack_is_backed_off_from(self):
        world = self.connects(peers.ClosesAfterConnack())
        self.assertEqual(world.session.acknowledged, 0)

    def test_and_a_publisher_of_qos_0_and_one_that_publishes_nothing_back_off_too(self):
        self.connects(peers.ClosesAfterConnack(), qos=0)
        self.connects(peers.ClosesAfterConnack(), interval_ms=0)

    def test_servers_that_refuse_or_say_nothing_are_backed_off_from(self):
        self.connects(peers.Refuses())
        self.connects(peers.Silent())

    def test_a_connection_without_progress_does_not_begin_anew_what_came_before(self):
        """Attempts fail; one is accepted and ends at once: the next wait is no short one."""
        server = peers.Refuses()
        world = World(server, random=random)
        world.run(200)
        server.on_connect = lambda: None
        server.on_time = lambda stream: stream.is_connected and stream.end()
        before = world.now_ms
        world.run(90, lambda: world.session.connects == 1)
        world.until_failure(5)
        failed_ms, connects = world.now_ms, len(server.connects)
        world.run(120, lambda: len(server.connects) > connects)
        self.assertTrue(world.now_ms - failed_ms >= 60_000, (before, failed_ms, world.now_ms))

    def test_an_acknowledged_message_makes_the_next_wait_short(self):
        world = World(peers.Refuses(), random=random)
        world.run(200)  # waits of a minute
        world.server.on_connect = lambda: None
        world.run(120, lambda: world.session.acknowledged > 0)
        self.assertTrue(world.session.acknowledged > 0)
        world.stream.end()
        world.until_failure(5)
        self.assertTrue(world.run(5, world.client.is_connected) <= 0.6)

    def test_so_does_a_life_with_proof_when_there_was_nothing_to_send(self):
        for seconds, is_short in ((20, False), (100, True)):
            world = World(peers.Refuses(), random=random, interval_ms=0)
            world.run(200)
            world.server.on_connect = lambda: None
            world.run(120, world.client.is_connected)
            world.run(seconds)  # a PINGRESP comes after 45
            world.stream.end()
            world.until_failure(5)
            waited_s = world.run(120, world.client.is_connected)
            self.assertEqual(waited_s <= 0.6, is_short, waited_s)


class TestTakeover(unittest.TestCase):
    def test_it_is_named_counted_and_backed_off_from(self):
        """Each connection works, and is closed after half a second."""
        world = World(peers.OtherClient(500), random=random, interval_ms=1000)
        world.run(HOUR_S)
        self.assertEqual(world.client.last_error, status.TAKEN_OVER)
        self.assertEqual(world.client.takeovers, len(world.failures) - 2)
        self.assertTrue(world.in_hour(0) <= A_MINUTE_AND_MORE, world.in_hour(0))
        self.assertTrue(world.session.acknowledged > 0)

    def test_an_idle_client_is_told_too(self):
        world = World(peers.OtherClient(5000), random=random, interval_ms=0)
        world.run(HOUR_S)
        self.assertEqual(world.client.last_error, status.TAKEN_OVER)
        self.assertTrue(world.in_hour(0) <= A_MINUTE_AND_MORE)

    def test_also_while_a_message_is_aside(self):
        """It ends no connection here (the broker does not pass it on), so it excuses none."""
        for interval_ms in (0, 1000):
            world = World(peers.OtherClient(2000), random=random, interval_ms=interval_ms)
            world.outbox.append(b"t", b"99999999", 8, 0x10)
            world.session._load_suspects()
            world.session.suspects.refuse(world.session.base, 8)
            world.run(HOUR_S)
            self.assertEqual((interval_ms, world.outbox.aside), (interval_ms, 1))
            self.assertEqual(world.client.last_error, status.TAKEN_OVER)
            self.assertTrue(world.in_hour(0) <= A_MINUTE_AND_MORE, world.in_hour(0))

    def test_two_clients_with_one_identifier_both_find_out_within_a_minute(self):
        """A real pair: each connect closes the other's connection."""
        both = peers.OneId()
        worlds = [World(both, random=random, interval_ms=1000) for _ in range(2)]
        worlds[1].now_ms = 170
        for _ in range(1200 * 10):
            for world in worlds:
                world.step()
        for world in worlds:
            told = [ms for ms, error in world.failures if error == status.TAKEN_OVER]
            self.assertTrue(told and told[0] <= 60_000, world.failures[:9])
        self.assertTrue(len(both.connects) <= 50, len(both.connects))

    def test_it_ends_when_the_other_one_is_gone(self):
        world = World(peers.OtherClient(500), random=random, interval_ms=1000)
        world.run(600)
        self.assertEqual(world.client.last_error, status.TAKEN_OVER)
        world.server.after_ms = 1 << 30
        world.run(300)
        self.assertTrue(world.client.is_connected())
        world.stream.end()
        world.until_failure(5)
        self.assertEqual(world.client.last_error, status.LINK_LOST)
        self.assertTrue(world.run(5, world.client.is_connected) <= 0.6)

    def test_a_broker_that_restarts_is_none(self):
        """It closes what stands, and then refuses for a while."""
        server = Server()
        world = World(server, random=random)

        def refuse():
            raise OSError(111)

        for _ in range(8):
            world.run(120, world.client.is_connected)
            world.run(15)
            world.stream.end()
            server.on_connect = refuse
            world.run(2)
            server.on_connect = lambda: None
        self.assertTrue(world.client.failures >= 16)
        self.assertEqual(world.client.takeovers, 0)

    def test_a_network_that_ends_seven_connections_with_messages_on_their_way_is_none(self):
        world = World(Server(), random=random, interval_ms=100)
        for turn in range(1, 9):
            world.run(60, world.client.is_connected)
            world.run(3)
            self.assertTrue(world.session.acknowledged > 25 * turn)
            dead(world).run(0.3)
            world.stream.end()
            world.until_failure(5)
            self.assertEqual(world.client.takeovers, int(turn == 8))


class TestHalfOpen(unittest.TestCase):
    """Found within 1.5 keep alives, whatever goes out."""

    def test_with_messages_of_any_qos_at_any_distance(self):
        for keep_alive_s in (4, 20, 60):
            for qos in (0, 1, 2):
                for interval_ms in (0, 300, 30_000, 44_000):
                    options = {"keep_alive_s": keep_alive_s, "interval_ms": interval_ms}
                    if qos == 2:
                        options.update(kind=ExactlyOnceSession, outbox=noted_outbox())
                    world = connected(qos=qos, size=8, **options)
                    world.run(17)
                    found_s = dead(world).until_failure(4 * HOUR_S)
                    at = (keep_alive_s, qos, interval_ms, found_s)
                    self.assertTrue(found_s <= 1.5 * keep_alive_s + 0.2, at)
                    self.assertEqual(world.client.last_error, status.TIMED_OUT, at)

    def test_a_subscriber_that_only_answers(self):
        world = connected(kind=SubscribingSession, interval_ms=0)
        world.run(17)
        self.assertTrue(dead(world).until_failure(HOUR_S) <= 90)

    def test_without_keep_alive_a_message_that_is_not_acknowledged_finds_it(self):
        """6 times response_ms, then a PINGREQ that is not answered."""
        world = connected(keep_alive_s=0)
        world.run(17)
        self.assertTrue(dead(world).until_failure(HOUR_S) <= 10 + 60 + 10.2)

    def test_without_keep_alive_and_with_qos_0_alone_a_bound_of_what_is_in_flight_finds_it(self):
        world = connected(keep_alive_s=0, qos=0, in_flight_bytes=3000)
        world.run(17)
        self.assertTrue(dead(world).until_failure(HOUR_S) <= 15 * 10 + 10.2)

    def test_a_ping_is_not_sent_while_the_server_talks_and_this_side_does(self):
        world = connected(interval_ms=10_000)
        world.run(HOUR_S)
        self.assertEqual((world.server.came.get("PINGREQ", 0), len(world.failures)), (0, 0))


class TestAnswers(unittest.TestCase):
    """6 times response_ms, while pings are answered."""

    def check(self, server, **options):
        world = connected(server, random=random, **options)
        found_s = world.until_failure(HOUR_S)
        self.assertEqual(world.client.last_error, status.NO_ANSWER, found_s)
        self.assertTrue(60 <= found_s <= 60 + 46, found_s)
        world.run(HOUR_S)
        self.assertTrue(10 <= world.in_hour(0) <= A_MINUTE_AND_MORE, world.in_hour(0))
        return world

    def test_puback(self):
        world = self.check(peers.Withholds("PUBLISH"), interval_ms=10_000)
        server = world.server
        server.kinds = ()
        world.run(200, world.client.is_drained)
        world.interval_ms = 0
        world.run(200, world.client.is_drained)
        self.assertTrue(world.client.is_drained())
        self.assertEqual(len(server.delivered), world.taken)

    def test_puback_without_keep_alive(self):
        self.check(peers.Withholds("PUBLISH"), keep_alive_s=0)

    def test_pubrec_and_pubcomp(self):
        for kind in ("PUBLISH", "PUBREL"):
            options = {"kind": ExactlyOnceSession, "outbox": noted_outbox(), "qos": 2}
            self.check(peers.Withholds(kind), **options)

    def test_suback_and_unsuback_and_the_next_request_is_not_busy_indefinitely(self):
        for kind in ("SUBSCRIBE", "UNSUBSCRIBE"):
            world = connected(peers.Withholds(kind), kind=SubscribingSession)
            session = world.session
            self.assertEqual(session.subscribe(b"a", 1), status.OK)
            world.run(1)
            if kind == "UNSUBSCRIBE":
                self.assertEqual(session.unsubscribe(b"a"), status.OK)
                world.run(1)
            self.assertEqual(session.subscribe(b"b", 1), status.BUSY)
            world.until_failure(HOUR_S)  # although PUBACKs come all the while
            self.assertEqual(world.client.last_error, status.NO_ANSWER)
            self.assertEqual(session.subscribe(b"b", 1), status.OK)

    def test_an_acknowledgement_that_is_late_but_within_the_time_is_none(self):
        bench = Bench().connect().publish(b"a")
        bench.sent()
        for _ in range(5800):
            bench.poll()
            if bench.stream.take() == b"\xc0\x00":
                bench.stream.say(b"\xd0\x00")
        bench.say(puback(1))
        self.assertEqual((bench.client.is_drained(), bench.client.failures), (True, 0))

    def test_one_that_never_comes_while_others_do_stops_the_window_and_then_counts(self):
        class NotTheFirst(Server):
            def on_packet(self, stream, kind, fields):
                said = Server.on_packet(self, stream, kind, fields)
                return b"" if kind == "PUBLISH" and fields["payload"][:8] == b"00000003" else said

        world = connected(NotTheFirst(), interval_ms=1000)
        world.until_failure(HOUR_S)
        self.assertEqual(world.client.last_error, status.NO_ANSWER)

    def test_it_counts_as_no_progress(self):
        world = connected(peers.Withholds("PUBLISH"), random=random, keep_alive_s=20)
        gaps = []
        for _ in range(9):
            world.until_failure(HOUR_S)
            gaps.append(world.run(300, world.client.is_connected))
        self.assertTrue(gaps[0] < 1 and gaps[-1] >= 60, gaps)


class TestRestOfAPacket(unittest.TestCase):
    def test_half_a_packet_and_then_silence_ends_after_response_ms(self):
        for keep_alive_s in (0, 60, 3000):
            for data in (b"\x30", b"\x30\x20\x00\x03a", b"\x30\xff", b"\x40\x02\x00", b"\xd0"):
                world = connected(peers.HalfPacket(data), keep_alive_s=keep_alive_s)
                found_s = world.until_failure(HOUR_S)
                self.assertTrue(found_s <= 1 + 10.3, (keep_alive_s, data, found_s))
                self.assertEqual(world.client.last_error, status.TIMED_OUT)

    def test_with_messages_going_out_all_the_while(self):
        for qos in (0, 1):
            world = connected(peers.HalfPacket(), qos=qos, interval_ms=300)
            self.assertTrue(world.until_failure(HOUR_S) <= 1 + 10.3)

    def test_a_trickle_is_no_life(self):
        """Less than 16 bytes/s, after a response_ms to begin with."""
        world = connected(peers.Trickles(9000, length=1000))
        found_s = world.until_failure(4 * HOUR_S)
        self.assertTrue(10 < found_s <= 1 + 2 * 10, found_s)
        self.assertEqual(world.client.last_error, status.TIMED_OUT)

    def test_nor_without_keep_alive_and_messages(self):
        for every_ms in (9000, 1000, 300):
            world = connected(peers.Trickles(every_ms), keep_alive_s=0, interval_ms=0)
            self.assertTrue(world.until_failure(4 * HOUR_S) <= 1 + 30, every_ms)

    def test_16_bytes_a_second_are(self):
        world = connected(peers.Trickles(50, length=2000), keep_alive_s=0, interval_ms=0)
        world.run(60)
        self.assertEqual(world.failures, [])


class TestSlowLinks(unittest.TestCase):
    def test_a_message_of_450_bytes_at_30_bytes_a_second(self):
        for qos in (1, 2):
            options = {"interval_ms": 60_000, "size": 450, "qos": qos}
            if qos == 2:
                options.update(kind=ExactlyOnceSession, outbox=noted_outbox())
            world = World(peers.Slow(30), **options)
            world.run(1200)
            self.assertEqual((world.failures, len(world.server.connects)), ([], 1))
            self.assertTrue(world.session.acknowledged >= 19, world.session.acknowledged)

    def test_a_backlog_too(self):
        world = World(peers.Slow(30), interval_ms=0, size=450)
        for _ in range(16):
            world.publish()
        taken_s = world.run(HOUR_S, world.client.is_drained)
        self.assertTrue(taken_s < 16 * 480 / 30 + 20, taken_s)
        self.assertEqual(world.failures, [])

    def test_inbound_8_kb_at_100_bytes_a_second(self):
        """PINGRESP comes after it."""
        server = peers.Slow(100)
        world = connected(server, kind=SubscribingSession, interval_ms=0)
        world.stream.say(encode("PUBLISH", topic=b"a/b", payload=bytes(8000), qos=1, packet_id=5))
        world.run(150)
        self.assertEqual((world.failures, world.session.skipped), ([], 1))
        self.assertTrue(server.came["PINGREQ"] >= 1 and server.came["PUBACK"] == 1)

    def test_and_as_many_small_ones(self):
        server = peers.Slow(100)
        world = connected(server, kind=SubscribingSession, interval_ms=0)
        got = []
        world.session.on_message = lambda m: got.append(m.payload_length)
        world.stream.say(encode("PUBLISH", topic=b"a/b", payload=bytes(100)) * 75)
        world.run(150)
        self.assertEqual((world.failures, len(got)), ([], 75))

    def test_connect_may_be_slow_too(self):
        world = World(peers.Slow(30), user=b"u" * 200, password=b"p" * 200)
        world.run(60, world.client.is_connected)
        self.assertEqual((world.failures, world.client.is_connected()), ([], True))

    def test_a_stream_that_takes_a_byte_now_and_then_is_dead(self):
        """16 bytes/s is the least; the first response_ms are free."""
        world = World(peers.Slow(30), interval_ms=0, size=450).connect()
        world.server.rate = 1
        world.publish()
        found_s = world.until_failure(HOUR_S)
        self.assertTrue(10 <= found_s <= 30, found_s)
        self.assertEqual(world.client.last_error, status.TIMED_OUT)


class TestFlood(unittest.TestCase):
    def test_bytes_are_life_but_not_without_a_pingresp_for_ever(self):
        world = connected(peers.Floods("PINGREQ", "PUBLISH"), kind=SubscribingSession)
        found_s = world.until_failure(4 * HOUR_S)
        self.assertTrue(61 < found_s <= 70 + 300 + 64 * 0.05 + 1, found_s)

    def test_a_flood_from_a_server_that_answers_harms_nothing(self):
        world = connected(peers.Floods(), kind=SubscribingSession, interval_ms=1000)
        world.run(600)
        self.assertEqual(world.failures, [])
        self.assertTrue(world.session.acknowledged >= 595)


class TestFaultsOfTheServerAndThePort(unittest.TestCase):
    def test_session_present_with_clean_session_subscribes_again(self):
        bench = Bench()
        bench.session = SubscribingSession(RamOutbox(), b"d", clean=True)
        bench.client.__init__(bench._link, bench.session)
        bench.session.subscribe(b"a", 1)
        for turn in range(2):
            bench.poll(400)
            bench.stream.say(encode("CONNACK", session_present=1))
            bench.poll(4)
            data = bench.stream.take()
            self.assertTrue(b"\x00\x01a\x01" in data, (turn, data))
            bench.stream.say(encode("SUBACK", packet_id=32768, codes=[1]))
            bench.poll(4).drop()

    def test_a_links_negative_number_is_no_status_of_another_meaning(self):
        for raised, reported in (
            (-2, status.LINK_LOST), (-11, status.LINK_LOST), ("timed out", status.LINK_LOST),
            (0, status.LINK_LOST), (111, 111), (-9984, -9984),
            (status.WIFI_NO_AP, status.WIFI_NO_AP), (status.DNS_FAILED, status.DNS_FAILED),
            (status.TIMED_OUT, status.TIMED_OUT),
        ):  # fmt: skip

            def fails(raised=raised):
                raise OSError(raised)

            bench = Bench()
            bench.client._link = fails
            bench.poll(2)
            self.assertEqual(bench.client.last_error, reported, raised)
            self.assertTrue(bench.client.failures >= 1, raised)

    def test_puback_for_a_half_written_publish_is_none(self):
        for taken in (0, 1, 20):
            bench = Bench().connect().publish(b"kept", b"next")
            write, left = bench.stream.write, [taken]

            def full(buf, offset, length, write=write, left=left):
                count = min(length, left[0])
                left[0] -= count
                return write(buf, offset, count) if count else None

            bench.stream.write = full
            bench.poll(3).say(puback(1))
            self.assertEqual((bench.session.acknowledged, bench.session.ignored), (0, 1))
            bench.stream.write = write
            self.assertEqual(len(bench.sent()), 2)
            bench.say(puback(1) + puback(2))
            self.assertTrue(bench.client.is_drained())

    def test_nor_is_pubrec(self):
        bench = Bench("exactly once").connect()
        bench.stream.write = lambda buf, offset, length: None
        self.assertEqual(bench.client.publish(b"t", b"two", 2), status.OK)
        bench.poll(3).say(b"\x50\x02\x00\x01")
        self.assertEqual((bench.session.ignored, bench.session._released), (1, 0))

    def test_but_one_for_a_message_before_it_is(self):
        bench = Bench().connect().publish(b"first")
        bench.sent()
        write = bench.stream.write
        bench.stream.write = lambda buf, offset, length: None
        bench.publish(b"second").poll(3).say(puback(1))
        self.assertEqual((bench.session.acknowledged, bench.session.ignored), (1, 0))
        bench.client.publish(b"t", b"", 0)
        bench.stream.write = write
        self.assertEqual(len(bench.sent()), 1)

    def test_puback_while_a_message_of_qos_0_is_half_written_is_taken(self):
        bench = Bench().connect().publish(b"first")
        bench.sent()
        bench.stream.write = lambda buf, offset, length: None
        self.assertEqual(bench.client.publish(b"t", b"zero", 0), status.OK)
        bench.poll(3).say(puback(1))
        self.assertTrue(bench.client.is_drained())


class TestRest(unittest.TestCase):
    """What an outbox does when nothing moves."""

    def test_erase_ahead_runs_while_there_is_no_link(self):
        bench = Bench(blocks=8)
        bench.client._link = lambda: None
        erases = bench.outbox.erases
        bench.publish(b"x").poll(5)
        self.assertTrue(bench.outbox.erases > erases)
        self.assertFalse(bench.outbox.erase_ahead())  # done already

    def test_a_flash_driver_that_raises_ends_no_connection(self):
        bench = Bench().connect()

        def broken():
            raise OSError(5)

        bench.outbox.erase_ahead = broken
        bench.poll(500)
        self.assertEqual((bench.client.failures, bench.client.is_connected()), (0, True))
        bench.drop()
        bench.client._link = lambda: None
        bench.poll(500)  # and leaves no poll()
        self.assertEqual(bench.client.last_error, status.LINK_LOST)


if __name__ == "__main__":
    unittest.main()
