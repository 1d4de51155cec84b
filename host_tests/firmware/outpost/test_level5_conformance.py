# long: thousands of cases
"""Statements of MQTT 5.0 that bind a client and that no other test of `level5.py` shows;
`conformance5.csv` has them all."""

import unittest

from bench_client import TOPIC, split
from bench_level5 import Bench5, connected, sent
from outpost import status
from outpost.level5 import over
from outpost.ram_outbox import RamOutbox
from outpost.session import Session
from packets5 import ack, connack, frame
from virtual.packets import decode_all, text, u16

CONNECT_OPTIONS = (
    {}, {"clean": True}, {"user": b"me"}, {"user": b"me", "password": b""},
    {"user": b"", "password": b"pw"}, {"will": (b"w", b"", 0, False)},
    {"will": (b"w", b"m", 1, True), "will_properties": ((0x18, 5),)},
    {"will": (b"w", b"m", 2, False), "user": b"me", "password": b"pw", "clean": True},
)  # fmt: skip


def packet_of(**options):
    return over(Session)(RamOutbox(2, 64), b"board-1", **options).connect_packet


def connect_fields(packet):
    """Raises Malformed: a reserved flag, flags without their fields, and bytes left over."""
    return decode_all(bytes(packet), 5)[0][1]


def message(qos=0, packet_id=7, payload=b"x", topic=b"a/b", first=0x30):
    body = text(topic) + (u16(packet_id) if qos else b"")
    return frame(first | qos << 1, body + b"\x00" + payload)


def next_connection(bench, session_present=1):
    bench.connect(connack(session_present=session_present))
    return bench


def reconnected(bench, session_present=1, polls=20):
    """What goes out behind CONNACK on the next connection."""
    links = bench.links
    for _ in range(8000):
        if bench.links == links or bench.stream.closed:
            bench.poll()
    bench.poll(4).stream.take()
    bench.stream.say(connack(session_present=session_present))
    bench.poll(polls)
    return split(bench.stream.take())


def kinds(bench, polls=4):
    bench.poll(polls)
    return [first for first, _ in split(bench.stream.take())]


class TestConnect(unittest.TestCase):
    def test_flags_and_fields_agree_in_every_combination(self):
        """[MQTT-3.1.2-9, -11, -13, -16 to -19, 3.1.3-1, -3]"""
        for options in CONNECT_OPTIONS:
            fields = connect_fields(packet_of(**options))
            self.assertEqual(fields["client_id"], b"board-1")
            for name in ("will", "user", "password"):
                self.assertEqual(fields[name], options.get(name), (name, options))
            self.assertEqual("will_properties" in fields, fields["will"] is not None)

    def test_name_version_and_reserved_flag(self):
        for options in CONNECT_OPTIONS:
            fields = connect_fields(packet_of(**options))
            self.assertEqual((fields["name"], fields["level"]), (b"MQTT", 5))

    def test_will_qos_3_is_refused_at_set_up(self):
        with self.assertRaises(ValueError):
            packet_of(will=(b"w", b"m", 3, False))

    def test_texts_that_no_server_takes_are_refused_at_set_up(self):
        for bad in (b"\xff", b"a\x00b", b"\xed\xa0\x80"):
            for options in (
                {"will": (bad, b"m", 0, False)}, {"user": bad},
                {"publish_properties": ((0x26, (bad, b"v")),)},
                {"publish_properties": ((0x26, (b"n", bad)),)},
                {"publish_properties": ((0x03, bad),)}, {"publish_properties": ((0x08, bad),)},
            ):  # fmt: skip
                with self.assertRaises(ValueError):
                    packet_of(**options)
            with self.assertRaises(ValueError):
                over(Session)(RamOutbox(2, 64), bad)

    def test_it_is_the_first_packet_and_the_only_one_of_its_kind(self):
        bench = Bench5().publish(b"a")
        bench.session.subscribe(b"c")
        self.assertEqual(bench.client.publish(TOPIC, b"x", qos=0), status.OFFLINE)
        bench.poll(900)
        self.assertEqual(kinds(bench), [0x10], "and nothing before CONNACK")
        bench = next_connection(bench)
        for _ in range(3):
            self.assertNotIn(0x10, kinds(bench, 200))
            bench.drop()
            next_connection(bench)

    def test_client_identifier_is_the_same_on_every_connection_and_after_a_reset(self):
        bench, found = Bench5(), []
        for _ in range(4):
            found.append(connect_fields(bench.session.connect_packet)["client_id"])
            next_connection(bench).drop()
            bench.boot()
        self.assertEqual(found, [b"board-1"] * 4)

    def test_authentication_is_refused_at_set_up(self):
        for pair in ((0x15, b"SCRAM"), (0x16, b"data")):
            with self.assertRaises(ValueError):
                packet_of(connect_properties=(pair,))

    def test_a_session_that_nobody_asked_for_closes(self):
        """[MQTT-3.2.2-4]"""
        bench = Bench5("exactly once")
        bench.poll(4)
        self.assertTrue(connect_fields(bench.stream.take())["clean"])
        first = bench.stream
        bench.say(connack(session_present=1), 2)
        self.assertEqual((first.closed, bench.client.last_error), (True, status.PROTOCOL_ERROR))

    def test_a_session_that_is_gone_leaves_no_dup_and_no_subscription(self):
        """[MQTT-3.2.2-5]: the outbox is the application's store; its messages are new to a new
        session."""
        for power_cut in (False, True):
            bench = connected()
            bench.session.subscribe(b"a")
            bench.publish(b"1", b"2")
            sent(bench)
            bench.drop()
            if power_cut:
                bench.boot()
                bench.session.subscribe(b"a")
            found = [first for first, _ in reconnected(bench, 0)]
            self.assertIn(0x82, found)
            self.assertEqual([first for first in found if first >> 4 == 3], [0x32, 0x32])
            self.assertEqual(bench.session.next_send, 2)

    def test_session_is_kept_over_a_disconnect_and_a_reset(self):
        bench = connected(mode="exactly once").publish(b"one")
        bench.client.publish(TOPIC, b"two", 2)
        sent(bench)
        bench.say(ack(0x50, 2)).say(message(2, 9))
        bench.client.close()
        for _ in range(2):
            found = reconnected(bench)
            self.assertEqual([first for first, _ in found], [0x3A, 0x62])
            self.assertEqual(found[1][1], b"\x00\x02")
            self.assertEqual(bench.outbox.oldest_seq, 0)
            received = bench.session.received
            bench.say(message(2, 9, first=0x38))
            self.assertEqual(bench.session.received, received, "it has come before")
            bench.boot()

    def test_clean_asks_for_a_new_session_each_time_and_keeps_nothing_of_the_old(self):
        bench = connected(mode="exactly once", clean=True)
        for identifier in (7, 7, 7):
            self.assertEqual(bench.session.connect_packet[9] & 2, 2)
            received = bench.session.received
            bench.say(message(2, identifier))
            self.assertEqual(bench.session.received, received + 1)
            bench.drop()
            next_connection(bench, 0)

    def test_a_refusal_closes_with_its_code(self):
        for code in (0x80, 0x84, 0x87, 0x95, 0x9F):
            bench = Bench5()
            bench.poll(4)
            first = bench.stream
            bench.say(connack(code=code), 2)
            self.assertEqual((first.closed, bench.session.return_code), (True, code))
            self.assertEqual(bench.client.last_error, status.REFUSED)

    def test_another_packet_before_connack_closes(self):
        for data in (b"\xe0\x00", message(), b"\xd0\x00", b"\xf0\x00", b"\x20\x03\x02\x00\x00"):
            bench = Bench5()
            bench.poll(4)
            first = bench.stream
            bench.say(data, 2)
            self.assertEqual(
                (first.closed, bench.client.last_error), (True, status.PROTOCOL_ERROR), data
            )

    def test_a_second_connack_is_a_protocol_error(self):
        bench = connected()
        bench.say(connack())
        self.assertEqual(bench.stream.take(), b"\xe0\x01\x82")


class TestKeepAlive(unittest.TestCase):
    def test_no_gap_between_packets_is_longer_than_keep_alive(self):
        bench = connected(keep_alive_s=10)
        gap = longest = pings = 0
        for _ in range(5000):
            bench.poll()
            data = bench.stream.take()
            gap += 10
            if data:
                longest, gap = max(longest, gap), 0
                pings += data == b"\xc0\x00"
                bench.stream.say(b"\xd0\x00")
        self.assertTrue(0 < longest <= 10_000 and pings > 3)


class TestPublish(unittest.TestCase):
    def test_qos_0_has_no_identifier_and_no_dup_and_is_not_sent_again(self):
        bench = connected()
        self.assertEqual(bench.client.publish(TOPIC, b"x", 0), 0)
        self.assertEqual(sent(bench), [(TOPIC, 0, b"", b"x")])
        bench.drop()
        next_connection(bench)
        self.assertEqual(sent(bench), [])

    def first_bytes(self, bench):
        bench.poll(8)
        return [first for first, _ in split(bench.stream.take()) if first >> 4 == 3]

    def test_dup_tells_of_a_repeated_packet_alone(self):
        bench = connected(mode="exactly once")
        self.assertEqual(bench.client.publish(TOPIC, b"x", 1), 0)
        self.assertEqual(bench.client.publish(TOPIC, b"y", 2), 0)
        self.assertEqual(self.first_bytes(bench), [0x32, 0x34])
        bench.drop()
        self.assertEqual([first for first, _ in reconnected(bench)], [0x3A, 0x3C])

    def test_qos_3_is_neither_sent_nor_taken(self):
        bench = connected(mode="exactly once")
        self.assertEqual(bench.client.publish(TOPIC, b"x", 3), status.BAD_QOS)
        bench.say(message(3))
        self.assertEqual(bench.stream.take(), b"\xe0\x01\x81")

    def test_topics_that_no_server_may_see_are_refused(self):
        bench = connected(aliases=(TOPIC,))
        for topic in (b"", b"a/+", b"#", b"a\x00", b"\xff", b"\xed\xa0\x80"):
            self.assertEqual(bench.client.publish(topic, b"x"), status.BAD_TOPIC)
            self.assertEqual(bench.client.publish(topic, b"x", 0), status.BAD_TOPIC)
        self.assertEqual(bench.client.publish(b"t" * 70_000, b"x"), status.TOO_BIG)
        self.assertEqual(sent(bench), [])

    def test_byte_order_mark_is_kept_both_ways(self):
        topic = b"\xef\xbb\xbfa"
        bench, told = connected(), []
        self.assertEqual(bench.client.publish(topic, b"x"), 0)
        self.assertEqual(sent(bench)[0][0], topic)
        bench.session.on_message = lambda one: told.append(
            bytes(one.buffer[2 : 2 + one.topic_length])
        )
        bench.say(message(topic=topic))
        self.assertEqual(told, [topic])

    def test_response_topic_has_no_wildcard(self):
        for topic in (b"a/+", b"#"):
            with self.assertRaises(ValueError):
                packet_of(publish_properties=((0x08, topic),))

    def test_no_subscription_identifier_and_no_alias_of_the_application_go_out(self):
        for pair in ((0x0B, 1), (0x23, 1)):
            with self.assertRaises(ValueError):
                packet_of(publish_properties=(pair,))

    def test_other_packets_go_while_the_window_is_full(self):
        """[MQTT-3.3.4-8, 4.9.0-3]"""
        bench = connected(b"\x21\x00\x01", keep_alive_s=1).publish(b"1", b"2")
        self.assertEqual(len(sent(bench)), 1)
        bench.session.subscribe(b"a", 1)
        self.assertIn(0x82, kinds(bench))
        bench.say(message(1, 9))
        self.assertEqual(bench.stream.take(), b"\x40\x02\x00\x09")
        self.assertIn(0xC0, kinds(bench, 80))

    def test_identifier_in_use_is_not_given_out_again_until_its_exchange_is_over(self):
        bench = connected(mode="exactly once")
        for _ in range(16):
            self.assertEqual(bench.client.publish(TOPIC, b"x", 2), 0)
        used = [one[1] for one in sent(bench, 40)]
        bench.session.subscribe(b"a", 1)
        bench.publish(b"more")
        bench.poll(10)
        used += [body[0] << 8 | body[1] for kind, body in split(bench.stream.take())]
        self.assertEqual((len(set(used)), len(used), 0 in used), (17, 17, False))


class TestReceive(unittest.TestCase):
    def test_answers_have_their_identifiers_in_order(self):
        """[MQTT-2.2.1-5, 3.3.4-1, 4.3.2-4, 4.3.3-8, 4.6.0-2, -3]"""
        order = [7, 3, 65535, 1, 20, 4]
        for qos, first in ((0, None), (1, 0x40), (2, 0x50)):
            bench = connected(mode="exactly once")
            bench.say(b"".join([message(qos, one) for one in order]), 40)
            found = split(bench.stream.take())
            wanted = [(first, bytes((one >> 8, one & 255))) for one in order]
            self.assertEqual(found, wanted if qos else [])

    def test_answered_whether_or_not_the_application_wants_it(self):
        for qos, first in ((1, 0x40), (2, 0x50)):
            for count in (0, 100, 5000):
                bench = connected(mode="exactly once")  # no handler, no subscription
                bench.say(message(qos, 5, bytes(count)), 300)
                self.assertEqual(bench.stream.take(), bytes((first, 2, 0, 5)))

    def test_qos_1_identifier_is_new_after_its_puback_whatever_dup_says(self):
        bench = connected()
        for first in (0x30, 0x38, 0x38):
            bench.say(message(1, 5, first=first))
        self.assertEqual(bench.session.received, 3)

    def test_qos_2_is_handed_on_once_and_its_identifier_is_new_after_pubcomp(self):
        """[MQTT-4.3.3-10, -11, -12, -13]: an expiry changes nothing."""
        bench = connected(mode="exactly once")
        expiring = frame(0x34, b"\x00\x01a\x00\x05\x05\x02\x00\x00\x00\x00x")
        for _ in range(2):
            received = bench.session.received
            bench.say(expiring).say(b"\x3c" + expiring[1:]).say(ack(0x62, 5))
            self.assertEqual(kinds(bench), [0x50, 0x50, 0x70])
            self.assertEqual(bench.session.received, received + 1)

    def test_text_that_is_not_utf_8_closes(self):
        for bad in (b"\xff", b"a\x00", b"\xed\xa0\x80", b"\xc0\x80"):
            for data in (
                message(topic=bad),
                frame(0x30, b"\x00\x01a" + pair(b"\x03", bad)),
                frame(0x30, b"\x00\x01a" + pair(b"\x26\x00\x01n", bad)),
                frame(0x30, b"\x00\x01a" + pair(b"\x08", bad)),
                frame(0xE0, b"\x8b" + pair(b"\x1f", bad)),
            ):
                bench = connected()
                bench.say(data)
                self.assertIn(bench.stream.take(), (b"\xe0\x01\x81", b"\xe0\x01\x82"))
                self.assertEqual(bench.client.last_error, status.PROTOCOL_ERROR)

    def test_pubrels_in_the_order_of_their_pubrecs(self):
        for glued in (False, True):
            bench = connected(mode="exactly once")
            for number in range(4):
                bench.client.publish(TOPIC, b"%d" % number, 2)
            sent(bench, 10)
            order = [1, 2, 3, 4] if glued else [2, 1, 4, 3]
            data = [ack(0x50, one) for one in order]
            for segment in [b"".join(data)] if glued else data:
                bench.say(segment, 12)
            found = split(bench.stream.take())
            self.assertEqual(found, [(0x62, bytes((0, one))) for one in order])

    def test_first_bytes_that_no_server_sends_close_with_a_reason(self):
        """[MQTT-2.1.3-1, 3.6.1-1, 3.14.1-1, 3.15.1-1]: malformed."""
        sound = {0x20, 0x40, 0x50, 0x62, 0x70, 0x90, 0xB0, 0xD0, 0xE0, 0xF0}
        for first in range(256):
            if first in sound or first >> 4 == 3:
                continue
            bench = connected(mode="exactly once")
            bench.say(bytes((first, 2, 0, 9)))
            self.assertEqual(bench.stream.take(), b"\xe0\x01\x81", first)

    def test_an_alias_beyond_what_was_offered_and_an_auth_are_refused(self):
        bench = connected()
        bench.say(frame(0xF0, b"\x18\x00"))
        self.assertEqual(bench.stream.take(), b"\xe0\x01\x82")
        self.assertEqual(bench.client.last_error, status.PROTOCOL_ERROR)


def pair(head, value):
    """A property block: `head`, then a text with its length."""
    body = head + text(value)
    return bytes((len(body),)) + body


class TestSend(unittest.TestCase):
    def test_redelivery_keeps_identifiers_order_and_kind_over_drops_and_resets(self):
        """[MQTT-4.4.0-1, 4.6.0-1, 4.3.3-5]"""
        bench = connected(mode="exactly once")
        for number, qos in enumerate((1, 2, 1, 2, 2)):
            self.assertEqual(bench.client.publish(TOPIC, b"%d" % number, qos), 0)
        sent(bench, 12)
        bench.say(ack(0x50, 4)).say(ack(0x40, 3))
        for reset in (False, True, True):
            bench.drop()
            if reset:
                bench.boot()
            found = []
            for first, body in reconnected(bench):
                at = 2 + body[1] if first >> 4 == 3 else 0
                found.append((first, body[at + 1]))
            found = [one for one in found if one[1] != 3]  # acknowledged, perhaps not written
            self.assertEqual(found, [(0x3A, 1), (0x3C, 2), (0x62, 4), (0x3C, 5)])
            if reset:
                break  # once more, and they would go out one by one: test_suspects.py

    def test_after_pubrel_the_message_is_never_published_again(self):
        bench = connected(mode="exactly once")
        bench.client.publish(TOPIC, b"x", 2)
        sent(bench)
        bench.say(ack(0x50, 1))
        for _ in range(3):
            bench.drop()
            self.assertEqual([first for first, _ in reconnected(bench, polls=60)], [0x62])

    def test_unacknowledged_until_the_answer(self):
        """[MQTT-4.3.2-3, 4.3.3-3, 4.1.0-1]"""
        bench = connected(keep_alive_s=0).publish(b"a")
        sent(bench)
        bench.poll(5_900)
        self.assertEqual(bench.outbox.oldest_seq, 0)
        bench.say(ack(0x40, 1))
        self.assertTrue(bench.client.is_drained())


class TestSubscribe(unittest.TestCase):
    def test_flags_and_at_least_one_filter(self):
        bench = connected()
        bench.session.subscribe(b"a/+", 1)
        bench.poll(2)
        ((first, body),) = split(bench.stream.take())
        self.assertEqual((first, body[2:]), (0x82, b"\x00\x00\x03a/+\x01"))
        bench.say(frame(0x90, body[:2] + b"\x00\x01"))
        self.assertEqual(kinds(bench), [], "nothing to ask for: no empty request")
        bench.session.unsubscribe(b"a/+")
        bench.poll(2)
        ((first, body),) = split(bench.stream.take())
        self.assertEqual((first, body[2:]), (0xA2, b"\x00\x00\x03a/+"))

    def test_filters_and_options_that_a_server_must_not_accept_are_refused(self):
        bench = connected()
        for one in (b"", b"a\x00b", b"\xff", b"a#", b"a/#/b", b"a+", b"f" * 70_000):
            self.assertEqual(bench.session.subscribe(one), status.BAD_TOPIC)
        self.assertEqual(bench.session.subscribe(b"a", 3), status.BAD_QOS)
        self.assertEqual(bench.session.subscribe(b"a", retained=3), status.BAD_TOPIC)
        self.assertEqual(kinds(bench), [])

    def test_shared_subscriptions(self):
        """[MQTT-3.8.3-4, 4.8.2-1, -2]"""
        bench = connected()
        for one in (b"$share/", b"$share//a", b"$share/g", b"$share/g/", b"$share/+/a"):
            self.assertEqual(bench.session.subscribe(one), status.BAD_TOPIC, one)
        shared = b"$share/g/a/#"
        self.assertEqual(bench.session.subscribe(shared, no_local=True), status.BAD_TOPIC)
        self.assertEqual(bench.session.subscribe(shared, 1), status.OK)
        self.assertEqual(kinds(bench), [0x82])

    def test_no_request_is_longer_than_the_server_takes(self):
        """[MQTT-3.2.2-15]"""
        bench = Bench5()
        for number in range(8):
            bench.session.subscribe(b"filter/%d/" % number + b"x" * 30, 1)
        bench.poll(4).stream.take()
        bench.say(connack(b"\x27\x00\x00\x00\x64"))
        asked = []
        for _ in range(9):
            for first, body in split(bench.stream.take()):
                self.assertTrue(first == 0x82 and len(body) + 2 <= 100)
                asked.append(body.count(b"filter/"))
                bench.say(frame(0x90, body[:2] + b"\x00" + b"\x01" * asked[-1]))
        self.assertEqual(asked, [2, 2, 2, 2])
        self.assertEqual(bench.session.subscribe(b"x" * 99), status.BAD_TOPIC)


class TestDisconnect(unittest.TestCase):
    def test_it_is_the_last_packet_and_the_connection_is_closed(self):
        bench = connected().publish(b"a")
        sent(bench)
        bench.client.close()
        first = bench.stream
        self.assertEqual((first.take(), first.closed), (b"\xe0\x00", True))
        bench.publish(b"b")
        bench.poll(100)
        self.assertEqual(first.length, 0)

    def test_after_a_fault_it_is_the_last_packet_too(self):
        bench = connected().publish(b"a")
        sent(bench)
        first = bench.stream
        bench.stream.say(b"\xf0\x00")
        bench.publish(b"b")
        bench.poll(6)
        self.assertEqual((first.take(), first.closed), (b"\xe0\x01\x82", True))

    def test_a_session_expiry_of_the_servers_is_malformed(self):
        """[MQTT-3.14.2-2]"""
        bench = connected()
        bench.say(frame(0xE0, b"\x00\x05\x11\x00\x00\x00\x00"))
        self.assertEqual(bench.stream.take(), b"\xe0\x01\x81")

    def test_the_server_is_answered_by_a_close(self):
        bench = connected()
        first = bench.stream
        bench.say(frame(0xE0, b"\x8b"), 2)
        self.assertEqual((first.take(), first.closed), (b"", True))


if __name__ == "__main__":
    unittest.main()
