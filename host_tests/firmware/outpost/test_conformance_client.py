"""Statements of MQTT 3.1.1 that bind a client and that no test of a module shows; `conformance.csv`
has them all.

What the client sends goes through the scripted server's decoder, which is strict and knows nothing
of the firmware.
"""

import unittest

from bench_client import TOPIC, Bench, puback
from outpost import status
from outpost.client import Client
from outpost.connect_packet import encode_connect
from outpost.ram_outbox import RamOutbox
from outpost.session import Session
from scripted_server import Malformed, decode_all, encode


class BareBench(Bench):
    """The session that only publishes, over an outbox in RAM."""

    def __init__(self, kind=Session, **options):
        self.kind, self.options = kind, options
        Bench.__init__(self)

    def boot(self):
        self.outbox = RamOutbox(16, 128)
        self.session = self.kind(self.outbox, b"board-1", **self.options)
        self.client = Client(self._link, self.session)
        self.stream = None


def said(bench):
    return decode_all(bench.stream.take())


def kinds(bench):
    return [kind for kind, _ in said(bench)]


def connected(mode="broker", **options):
    return Bench(mode, **options).connect()


def next_connection(bench, session_present=1):
    """Through CONNACK; returns the CONNECT's fields."""
    for _ in range(8000):
        if bench.poll().stream and not bench.stream.closed and bench.stream.length:
            break
    kind, fields = said(bench)[0]
    assert kind == "CONNECT"
    bench.stream.say(encode("CONNACK", session_present=session_present))
    return fields


def publish_2(packet_id, payload, dup=False):
    return encode("PUBLISH", topic=b"a/b", payload=payload, qos=2, packet_id=packet_id, dup=dup)


CONNECT_OPTIONS = (
    {}, {"clean": True}, {"user": b"me"}, {"user": b"me", "password": b""},
    {"user": b"", "password": b"pw"}, {"level": 3}, {"will": (b"w", b"", 0, False)},
    {"will": (b"w", b"m", 1, True)}, {"will": (b"w", b"m", 2, False), "user": b"me"},
    {"will": (b"w", b"m", 0, True), "user": b"me", "password": b"pw", "clean": True},
)  # fmt: skip


class TestConnect(unittest.TestCase):
    def test_flags_and_fields_agree_in_every_combination(self):
        """[MQTT-3.1.2-9, -11, -13, -15, -18 to -21, 3.1.3-1, -3]: what is not given has neither
        flag nor field.
        """
        for options in CONNECT_OPTIONS:
            fields = decode_all(encode_connect(b"board-1", 60, **options))[0][1]
            self.assertEqual(fields["client_id"], b"board-1")
            for name in ("will", "user", "password"):
                self.assertEqual(fields[name], options.get(name), (name, options))
            self.assertEqual(fields["clean"], options.get("clean", False))

    def test_reserved_flag_is_0(self):
        for options in CONNECT_OPTIONS:
            data = encode_connect(b"d", 60, **options)
            self.assertEqual(data[11 if options.get("level") == 3 else 9] & 1, 0)

    def test_will_qos_3_is_refused_at_set_up(self):
        with self.assertRaises(ValueError):
            encode_connect(b"d", 60, will=(b"w", b"m", 3, False))

    def test_connect_is_the_first_packet_and_the_only_one_of_its_kind(self):
        bench = Bench().publish(b"a")
        bench.session.subscribe(b"c")
        self.assertEqual(bench.client.publish(TOPIC, b"x", qos=0), status.OFFLINE)
        bench.poll(900)
        self.assertEqual(kinds(bench), ["CONNECT"])  # and nothing before CONNACK
        bench.say(encode("CONNACK")).poll(20_000)
        self.assertEqual(bench.links > 1, True)  # no PINGRESP came
        for _ in range(3):
            next_connection(bench)
            bench.poll(200)
            self.assertEqual(kinds(bench).count("CONNECT"), 0)
            bench.drop()

    def test_client_identifier_is_the_same_on_every_connection_and_after_a_reset(self):
        bench, found = Bench(), []
        for _ in range(2):
            for _ in range(3):
                found.append(next_connection(bench)["client_id"])
                bench.poll(2).drop()
            bench.boot()
        self.assertEqual(found, [b"board-1"] * 6)

    def test_clean_session_asks_for_a_new_one_each_time_and_keeps_nothing_of_the_old(self):
        """The outbox is the application's store, not the session's state: its messages go again,
        subscriptions are requested again.
        """
        bench = BareBench(clean=True)
        for _ in range(3):
            self.assertEqual(next_connection(bench, 0)["clean"], True)
            bench.poll(2).drop()
        one = connected("exactly once")
        one.say(publish_2(7, b"x"))
        one.drop()
        next_connection(one, 0)
        one.poll(3).say(publish_2(7, b"y"))
        # identifier 7 of the session that is gone means nothing
        self.assertEqual(one.session.received, 2)

    def test_session_is_kept_over_a_disconnect_and_a_reset(self):
        bench = connected("exactly once").publish(b"one")
        bench.client.publish(TOPIC, b"two", 2)
        bench.poll(5).say(encode("PUBREC", packet_id=2)).say(publish_2(9, b"in"))
        bench.client.close()
        for _ in range(2):
            self.assertEqual(next_connection(bench)["clean"], False)
            found = [(kind, fields.get("packet_id")) for kind, fields in said(bench.poll(6))]
            self.assertEqual(found, [("PUBLISH", 1), ("PUBREL", 2)])
            received = bench.session.received
            bench.say(publish_2(9, b"in", True))
            self.assertEqual((bench.session.received, kinds(bench)), (received, ["PUBREC"]))
            bench.boot()


class TestKeepAlive(unittest.TestCase):
    def gaps(self, bench, polls, answered):
        """Milliseconds between the packets that go out while the connection stands."""
        stream, last, found = bench.stream, bench.now_ms, []
        for _ in range(polls):
            if bench.poll().stream is not stream or stream.closed:
                break
            if stream.length:
                found.append(bench.now_ms - last)
                last = bench.now_ms
                if answered:
                    stream.say(encode("PINGRESP") * kinds(bench).count("PINGREQ"))
                stream.take()
        return found + [bench.now_ms - last]

    def test_no_gap_between_packets_is_longer_than_keep_alive(self):
        for keep_alive_s in (1, 4, 30):
            gaps = self.gaps(connected(keep_alive_s=keep_alive_s), keep_alive_s * 1000, True)
            self.assertTrue(len(gaps) > 8 and max(gaps) <= keep_alive_s * 1000, gaps)

    def test_nor_while_a_pingresp_is_late(self):
        """A slow server is no fault; one that closes for want of packets would be this side's."""
        gaps = self.gaps(connected(keep_alive_s=4), 2000, False)
        self.assertTrue(max(gaps) <= 4000, gaps)
        # 3 s of rest, and as long from the first PINGREQ on: 1.5 times keep alive
        self.assertTrue(5_900 <= sum(gaps) <= 6_000, gaps)

    def test_keep_alive_0_sends_no_pingreq(self):
        bench = connected(keep_alive_s=0).poll(10_000)
        self.assertEqual(bench.stream.take(), b"")


class TestPublish(unittest.TestCase):
    def test_qos_0_has_no_identifier_and_no_dup_and_is_not_sent_again(self):
        bench = connected()
        bench.client.publish(TOPIC, b"\x00\x01", qos=0)
        found = said(bench.poll(2))
        self.assertEqual(
            found[0][1], decode_all(encode("PUBLISH", topic=TOPIC, payload=b"\x00\x01"))[0][1]
        )
        bench.drop()
        next_connection(bench)
        self.assertEqual(kinds(bench.poll(50)), [])

    def test_first_delivery_has_dup_0_for_qos_1_and_2(self):
        bench = connected("exactly once")
        for qos in (1, 2):
            bench.client.publish(TOPIC, b"x", qos)
        found = [
            (fields["qos"], fields["dup"], fields["packet_id"]) for _, fields in said(bench.poll(6))
        ]
        self.assertEqual(found, [(1, False, 1), (2, False, 2)])

    def test_qos_3_cannot_be_sent(self):
        for bench in (connected(), connected("exactly once")):
            self.assertEqual(bench.client.publish(TOPIC, b"x", 3), status.BAD_QOS)
            self.assertEqual(kinds(bench.poll(5)), [])

    def test_qos_3_closes_the_connection_of_a_client_that_only_publishes_too(self):
        bench = BareBench().connect()
        first = bench.stream
        bench.say(b"\x36\x07\x00\x03a/b\x00\x0a")
        self.assertEqual((first.closed, bench.client.last_error), (True, status.PROTOCOL_ERROR))

    def test_retain_goes_out_only_where_it_was_asked_for(self):
        bench = connected("exactly once")
        found = []
        for qos in (0, 1, 2):
            for retain in (False, True):
                bench.client.publish(TOPIC, b"x", qos, retain)
                found += [(fields["qos"], fields["retain"]) for _, fields in said(bench.poll(4))]
        self.assertEqual(
            found, [(0, False), (0, True), (1, False), (1, True), (2, False), (2, True)]
        )

    def test_topic_names_of_the_application_that_no_server_may_see_are_refused(self):
        client = connected().client
        for topic in (b"", b"#", b"a/+", b"a\x00"):
            for qos in (0, 1):
                self.assertEqual(client.publish(topic, b"x", qos), status.BAD_TOPIC)

    def test_topic_names_beyond_the_buffer_and_texts_beyond_65535_bytes_are_refused(self):
        client = connected().client
        for length in (600, 65_535, 65_536):
            for qos in (0, 1):
                self.assertEqual(client.publish(b"t" * length, b"", qos), status.TOO_BIG)
        with self.assertRaises(ValueError):
            encode_connect(b"x" * 65_536)
        with self.assertRaises(ValueError):
            encode_connect(b"d", will=(b"w" * 65_536, b"", 0, False))

    def test_byte_order_mark_is_kept_both_ways(self):
        topic = b"\xef\xbb\xbfa"
        bench, told = connected(), []
        bench.session.on_message = lambda m: told.append(bytes(m.buffer[2 : 2 + m.topic_length]))
        bench.client.publish(topic, b"x", qos=0)
        self.assertEqual(said(bench.poll(2))[0][1]["topic"], topic)
        bench.say(encode("PUBLISH", topic=topic, payload=b"x"))
        self.assertEqual(told, [topic])


class TestReceive(unittest.TestCase):
    def test_answer_of_each_qos(self):
        bench = connected("exactly once")
        for qos, answered in ((0, []), (1, ["PUBACK"]), (2, ["PUBREC"])):
            bench.say(encode("PUBLISH", topic=b"a/b", qos=qos, packet_id=300 + qos))
            found = said(bench)
            self.assertEqual([kind for kind, _ in found], answered)
            self.assertEqual(
                [fields["packet_id"] for _, fields in found], [300 + qos] * len(answered)
            )

    def test_answered_whether_or_not_the_application_wants_it(self):
        bench = connected("exactly once")  # no handler, no subscription
        for length in (0, 100, 5000):
            bench.say(
                encode("PUBLISH", topic=b"a/b", payload=bytes(length), qos=1, packet_id=5), 300
            )
            bench.say(
                encode("PUBLISH", topic=b"a/b", payload=bytes(length), qos=2, packet_id=6 + length),
                300,
            )
            self.assertEqual(kinds(bench), ["PUBACK", "PUBREC"])

    def test_a_client_that_only_publishes_counts_what_an_old_session_sends(self):
        """A session of the past, of the same client identifier, may have subscriptions: `Session`
        has no buffer for a message. It does not acknowledge; `SubscribingSession` does, and
        `clean=True` ends such a session.
        """
        bench = BareBench().connect()
        bench.say(encode("PUBLISH", topic=b"a/b", payload=b"x", qos=1, packet_id=5))
        self.assertEqual(
            (kinds(bench), bench.session.skipped, bench.client.is_connected()), ([], 1, True)
        )

    def test_qos_1_identifier_is_a_new_message_after_its_puback_whatever_dup_says(self):
        bench = connected()
        for dup in (False, True, True):
            bench.say(encode("PUBLISH", topic=b"a/b", payload=b"x", qos=1, packet_id=5, dup=dup))
        self.assertEqual((bench.session.received, kinds(bench)), (3, ["PUBACK"] * 3))

    def test_qos_2_identifier_is_a_new_message_after_its_pubcomp_whatever_dup_says(self):
        bench = connected("exactly once")
        for dup in (False, True):
            bench.say(publish_2(5, b"x", dup)).say(publish_2(5, b"x", True)).say(
                encode("PUBREL", packet_id=5)
            )
            self.assertEqual(kinds(bench), ["PUBREC", "PUBREC", "PUBCOMP"])
        self.assertEqual(bench.session.received, 2)

    def test_pubacks_and_pubrecs_in_the_order_of_their_messages(self):
        order = [7, 3, 65535, 1, 20, 4]
        for qos, kind in ((1, "PUBACK"), (2, "PUBREC")):
            bench = connected("exactly once")
            bench.say(
                b"".join([encode("PUBLISH", topic=b"a", qos=qos, packet_id=n) for n in order]), 40
            )
            self.assertEqual(said(bench), [(kind, {"packet_id": n}) for n in order])

    def test_pubrels_in_the_order_of_their_pubrecs(self):
        """Also where the server answers out of the order of the messages, one by one or in one
        segment.
        """
        for glued in (False, True):
            bench = connected("exactly once")
            for number in range(4):
                bench.client.publish(TOPIC, b"%d" % number, 2)
            bench.poll(10).stream.take()
            order = [1, 2, 3, 4] if glued else [2, 1, 4, 3]
            data = [encode("PUBREC", packet_id=n) for n in order]
            for segment in [b"".join(data)] if glued else data:
                bench.say(segment, 12)
            self.assertEqual(said(bench), [("PUBREL", {"packet_id": n}) for n in order])

    def test_pubrecs_that_break_the_order_and_come_together_get_pubrels_in_the_order_of_the_messages(  # noqa: E501
        self,
    ):
        """The one departure from [MQTT-4.6.0-4]: only a server that broke [MQTT-4.6.0-3] sees it.
        It saves a queue.
        """
        bench = connected("exactly once")
        for number in range(4):
            bench.client.publish(TOPIC, b"%d" % number, 2)
        bench.poll(10).stream.take()
        bench.say(b"".join([encode("PUBREC", packet_id=n) for n in (2, 1, 4, 3)]), 20)
        self.assertEqual([fields["packet_id"] for _, fields in said(bench)], [1, 2, 3, 4])

    def test_a_transient_error_closes_the_connection_and_the_message_comes_again(self):
        """The flash does not take the note that a QoS 2 message has arrived."""
        bench = connected("exactly once")
        first, set_note = bench.stream, bench.outbox.set_note
        bench.outbox.set_note = lambda data, length: status.STORAGE
        bench.say(publish_2(7, b"x"), 3)
        self.assertEqual((first.closed, bench.client.last_error), (True, status.STORAGE))
        bench.outbox.set_note = set_note
        next_connection(bench)
        bench.poll(2).say(publish_2(7, b"x", True))
        self.assertEqual(kinds(bench)[-1], "PUBREC")


class TestSend(unittest.TestCase):
    def test_redelivery_keeps_identifier_order_and_kind_over_drops_and_resets(self):
        bench = connected("exactly once")
        for number, qos in enumerate((1, 2, 1, 2, 2)):
            bench.client.publish(TOPIC, b"%d" % number, qos)
        bench.poll(12).say(encode("PUBREC", packet_id=4)).say(puback(3))
        expected = [("PUBLISH", 1), ("PUBLISH", 2), ("PUBREL", 4), ("PUBLISH", 5)]
        bench.drop()
        next_connection(bench)
        found = said(bench.poll(20))
        self.assertEqual([(kind, fields["packet_id"]) for kind, fields in found], expected)
        self.assertEqual([fields.get("dup", True) for _, fields in found], [True] * 4)
        for _ in range(2):
            bench.boot()
            next_connection(bench)
            found = [(kind, fields["packet_id"]) for kind, fields in said(bench.poll(20))]
            # 3 was acknowledged, perhaps not yet written
            self.assertEqual([entry for entry in found if entry[1] != 3], expected)
            bench.drop()  # a second time in a row they would go out one by one: test_suspects.py

    def test_qos_2_after_pubrel_the_message_is_never_published_again(self):
        bench = connected("exactly once")
        bench.client.publish(TOPIC, b"x", 2)
        bench.poll(4).say(encode("PUBREC", packet_id=1))
        for _ in range(3):
            bench.drop()
            next_connection(bench)
            self.assertEqual(said(bench.poll(60)), [("PUBREL", {"packet_id": 1})])

    def test_identifier_in_use_is_not_given_out_again_until_its_exchange_is_over(self):
        bench = connected("exactly once")
        for _ in range(16):
            bench.client.publish(TOPIC, b"x", 2)
        bench.poll(40)
        bench.session.subscribe(b"a", 1)
        bench.publish(b"more")
        used = [fields["packet_id"] for _, fields in said(bench.poll(10))]
        # 16 in flight and SUBSCRIBE; no room for more
        self.assertEqual((len(set(used)), len(used), 0 in used), (17, 17, False))


class TestSubscribe(unittest.TestCase):
    def test_subscribe_and_unsubscribe_carry_their_flags_and_at_least_one_filter(self):
        bench = connected()
        bench.session.subscribe(b"a/+", 1)
        self.assertEqual(bench.poll(2).stream.written[0], 0x82)
        self.assertEqual(said(bench)[0][1]["filters"], [(b"a/+", 1)])
        bench.say(encode("SUBACK", packet_id=32768, codes=[1]))
        self.assertEqual(kinds(bench), [])  # nothing to ask for: no empty request
        bench.session.unsubscribe(b"a/+")
        self.assertEqual(bench.poll(2).stream.written[0], 0xA2)
        self.assertEqual(said(bench)[0][1]["filters"], [b"a/+"])

    def test_a_requested_qos_that_a_server_must_not_accept_is_refused(self):
        """3 breaks the protocol; 2 without the class for it would bring messages that close the
        connection, indefinitely.
        """
        for bench, qos in ((connected("exactly once"), 3), (connected(), 3), (connected(), 2)):
            self.assertEqual(bench.session.subscribe(b"a", qos), status.BAD_QOS)
            self.assertEqual((kinds(bench.poll(5)), bench.session.filters), ([], []))

    def test_an_empty_filter_and_one_with_nul_are_refused(self):
        for topic_filter in (b"", b"a\x00b"):
            bench = connected()
            self.assertEqual(bench.session.subscribe(topic_filter), status.BAD_TOPIC)
            self.assertEqual((kinds(bench.poll(5)), bench.session.filters), ([], []))


class TestDisconnect(unittest.TestCase):
    def test_disconnect_is_the_last_packet_and_the_connection_is_closed(self):
        bench = connected().publish(b"a")
        bench.sent()
        bench.client.close()
        self.assertEqual((bytes(bench.stream.take()), bench.stream.closed), (b"\xe0\x00", True))
        first = bench.stream
        bench.publish(b"b")
        bench.poll(100)
        self.assertEqual(first.length, 0)

    def test_no_disconnect_into_the_middle_of_a_packet(self):
        bench = connected(room=7).publish(b"x" * 50)
        bench.poll(3)
        bench.stream.room = 0
        self.assertEqual(bench.client.close(), status.BUSY)
        with self.assertRaises(Malformed):
            # what is cut off is the PUBLISH, and nothing follows it
            decode_all(bench.stream.take())
        self.assertTrue(bench.stream.closed)


class TestState(unittest.TestCase):
    def test_unacknowledged_messages_are_state_as_long_as_the_connection_and_beyond(self):
        bench = connected(keep_alive_s=0).publish(b"a")
        bench.sent()
        bench.poll(5_900)  # for 6 times response_ms the server may take its time
        self.assertEqual((bench.outbox.oldest_seq, bench.session.base), (0, 0))
        bench.say(puback(1))
        self.assertTrue(bench.client.is_drained())

    def test_a_protocol_violation_closes_and_the_handler_may_too(self):
        bench = connected()
        first = bench.stream
        bench.session.on_message = lambda m: bench.client.close()
        bench.say(
            encode("PUBLISH", topic=b"a", payload=b"x")
            + b"\xf0\x00"
            + encode("PUBLISH", topic=b"a"),
            1,
        )
        self.assertEqual(
            (first.closed, bench.session.received, bench.client.last_error), (True, 1, 0)
        )


if __name__ == "__main__":
    unittest.main()
