"""MQTT 5.0 over each session: what goes out byte by byte, what becomes of every reason code."""

import os
import unittest

from bench_client import TOPIC, split
from bench_level5 import Bench5, connected, sent
from outpost import status
from outpost.level5 import over
from outpost.mqtt5.level5_setup import disconnect
from outpost.mqtt5.properties import room
from outpost.ram_outbox import RamOutbox
from outpost.session import Session
from packets5 import ack, connack, frame, publish_parts

EXPIRES = b"\x11\xff\xff\xff\xff"
MODES = ("broker", "streaming", "exactly once")


class Told:
    """What on_refused was called with."""

    def __init__(self):
        self.found = []

    def add(self, seq, code):
        self.found.append((seq, code))


class TestConnect(unittest.TestCase):
    def packet(self, **options):
        outbox = RamOutbox(2, 64)
        return bytes(over(Session)(outbox, b"b", **options).connect_packet)

    def test_plain(self):
        """[MQTT-3.1.2-1]: MQTT, level 5; a session is kept, long; only what fits may come."""
        body = b"\x00\x04MQTT\x05\x00\x00<\x0c" + EXPIRES + b"\x17\x00\x27\x00\x00\x00\x82"
        self.assertEqual(self.packet(), frame(0x10, body + b"\x00\x01b"))

    def test_everything(self):
        packet = self.packet(
            level=5, session_expiry_s=3600, receive_maximum=7, maximum_packet_size=200,
            connect_properties=((0x26, (b"k", b"v")), (0x17, 1), (0x22, 0)),
            will=(b"w", b"gone", 1, True), will_properties=((0x18, 5), (0x02, 9), (0x01, 1)),
            user=b"u", password=b"p",
        )  # fmt: skip
        connect = b"\x11\x00\x00\x0e\x10\x21\x00\x07\x27\x00\x00\x00\xc8"
        connect += b"\x26\x00\x01k\x00\x01v\x17\x01\x22\x00\x00"
        will = b"\x18\x00\x00\x00\x05\x02\x00\x00\x00\x09\x01\x01"
        body = b"\x00\x04MQTT\x05\xec\x00<" + bytes((len(connect),)) + connect + b"\x00\x01b"
        body += bytes((len(will),)) + will + b"\x00\x01w\x00\x04gone\x00\x01u\x00\x01p"
        self.assertEqual(packet, frame(0x10, body))

    def test_clean_session_expires_at_once(self):
        self.assertIn(b"\x05\x02\x00<\x0c\x11\x00\x00\x00\x00", self.packet(clean=True))

    def test_options_out_of_range_are_named(self):
        for options in (
            {"level": 4}, {"session_expiry_s": -1}, {"receive_maximum": 65_536},
            {"publish_properties": ((0x23, 1),)}, {"publish_properties": ((0x11, 1),)},
            {"publish_properties": ((0x04, 1),)}, {"publish_properties": ((0x01, 2),)},
            {"publish_properties": ((0x02, 1), (0x02, 1))}, {"will_properties": ((0x18, 1),)},
            {"publish_properties": ((0x03, b"\xff"),)}, {"connect_properties": ((0x11, 1),)},
            {"publish_properties": ((0x26, (b"n", bytes(400))),)}, {"aliases": (b"a",) * 17},
            {"aliases": b"topic"}, {"aliases": ("topic",)}, {"maximum_packet_size": 15},
            {"publish_properties": ((0x08, "reply"),)}, {"publish_properties": ((0x08, b"a/#"),)},
            {"connect_properties": ((0x26, ("site", b"north")),)},
            {"publish_properties": ((0x03, 5),)},
        ):  # fmt: skip
            with self.assertRaises(ValueError):
                self.packet(**options)
        with self.assertRaises(TypeError):
            self.packet(expiry=1)

    def test_clean_start_only_while_the_outbox_is_new(self):
        bench = connected()
        self.assertEqual(bench.session.connect_packet[9] & 2, 0, "not after the first CONNACK")
        fresh = Bench5("exactly once")
        self.assertEqual(fresh.session.connect_packet[9] & 2, 2)
        fresh.publish(b"x").boot()
        self.assertEqual(fresh.session.connect_packet[9] & 2, 0, "not once it has had a message")

    def test_a_board_that_only_subscribes_never_starts_clean(self):
        """Its outbox stays new: what the server has queued for it must not go."""
        bench = Bench5()
        self.assertEqual(bench.session.connect_packet[9] & 2, 0)
        bench = Bench5("exactly once")
        bench.connect(connack())
        bench.poll(10)
        bench.boot()
        self.assertEqual(bench.session.connect_packet[9] & 2, 0, "the note tells of a session")

    def test_a_server_of_3_1_1_refuses_and_is_told(self):
        bench = Bench5()
        bench.connect(b"\x20\x02\x00\x01")
        self.assertEqual(bench.client.last_error, status.REFUSED)
        self.assertEqual(bench.session.return_code, 1)


def publishes_of(bench, polls):
    """(identifier, payload) of each PUBLISH, as it comes. The server answers each PINGREQ."""
    for _ in range(polls):
        bench.poll(1)
        for first, body in split(bench.stream.take()):
            if first == 0xC0:
                bench.stream.say(b"\xd0\x00")
            elif first & 0xF0 == 0x30:
                _, packet_id, _, payload = publish_parts(first, body)
                yield packet_id, payload


def with_dup(bench, polls=8):
    """[(payload, DUP)] of what was published since CONNACK, and is in the next polls."""
    return [(payload[1:], dup) for _, dup, payload in bench.sent(polls)]  # without properties


class TestLimits(unittest.TestCase):
    def test_room_of_a_packet(self):
        for size in list(range(5, 400)) + list(range(16_380, 16_400)):
            most = room(size)
            self.assertTrue(1 + width(most) + most <= size)
            self.assertTrue(1 + width(most + 1) + most + 1 > size)

    def test_receive_maximum_is_the_window(self):
        bench = connected(b"\x21\x00\x02")
        bench.publish(b"1", b"2", b"3")
        self.assertEqual([one[1] for one in sent(bench)], [1, 2])
        bench.say(ack(0x40, 1), 0)
        self.assertEqual([one[1] for one in sent(bench)], [3])

    def test_maximum_packet_size_to_the_byte(self):
        """[MQTT-3.2.2-15]"""
        bench = connected(b"\x27\x00\x00\x00\x64", publish_properties=((0x01, 1),))
        most = 100 - 2 - 2 - len(TOPIC) - 2 - 3
        for qos in (1, 0):
            most += 2 * (not qos)  # no identifier
            self.assertEqual(
                bench.client.publish(TOPIC, bytes(99), qos, length=most + 1), status.TOO_BIG
            )
            self.assertEqual(bench.client.publish(TOPIC, bytes(99), qos, length=most), status.OK)
            bench.poll(4)
            self.assertEqual(len(bench.stream.take()), 100)

    def test_an_alias_takes_no_room_that_a_message_needs(self):
        """It goes with its topic when both do not fit. So do later ones of that length."""
        for more in (0, 125):  # with 125 and an alias, the length of the properties has two bytes
            size = 200 + more
            given = ((0x26, (b"", b"v" * (more - 5))),) if more else ()
            for qos in (0, 1):
                bench = connected(
                    b"\x22\x00\x01\x27\x00\x00" + bytes((size >> 8, size & 255)),
                    aliases=(TOPIC,), publish_properties=given,
                )  # fmt: skip
                most = size - 3 - 2 - len(TOPIC) - 2 * qos - 1 - more
                self.assertEqual(bench.client.publish(TOPIC, bytes(250), qos, length=most + 1), -2)
                found = []
                for length in (most, most - 4, most - 4, most):
                    self.assertEqual(bench.client.publish(TOPIC, bytes(250), qos, length=length), 0)
                    bench.poll(4)
                    data = bench.stream.take()
                    found.append((len(data), TOPIC in data, b"\x23\x00\x01" in data))
                both = size - 4 + 3 + (more > 0)
                self.assertEqual(
                    found,
                    [(size, True, False), (both, True, True), (both - len(TOPIC), False, True),
                     (size, True, False)],
                )  # fmt: skip

    def test_qos_0_keeps_to_the_bound_of_what_is_in_flight(self):
        bench = connected(in_flight_bytes=300)
        self.assertEqual(bench.client.publish(TOPIC, b"x", 0), status.OK)
        bench.poll()
        self.assertEqual(bench.client.publish(TOPIC, b"x", 0), status.BUSY)

    def test_maximum_qos_and_retain(self):
        """[MQTT-3.2.2-11, -14]: refused with a status, never on the wire."""
        bench = connected(b"\x24\x00\x25\x00")
        self.assertEqual(bench.client.publish(TOPIC, b"x"), status.BAD_QOS)
        self.assertEqual(bench.client.publish(TOPIC, b"x", 0, True), status.BAD_RETAIN)
        self.assertEqual(bench.client.publish(TOPIC, b"x", 0), status.OK)
        bench = connected(b"\x25\x00")
        self.assertEqual(bench.client.publish(TOPIC, b"x", 1, True), status.BAD_RETAIN)
        bench = connected(b"\x24\x01", mode="exactly once")
        self.assertEqual(bench.client.publish(TOPIC, b"x", 2), status.BAD_QOS)
        self.assertEqual(bench.client.publish(TOPIC, b"x", 1), status.OK)

    def test_what_was_stored_before_is_set_aside_and_the_next_goes(self):
        bench = Bench5()
        bench.publish(bytes(90), b"short")
        bench.connect(connack(b"\x27\x00\x00\x00\x40"))
        self.assertEqual([one[3] for one in sent(bench) or parts(bench.early)], [b"short"])
        self.assertEqual((bench.outbox.aside, bench.session.denied), (1, 1))
        self.assertEqual(bench.session.reason, 0x95)

    def test_nor_does_it_go_out_again_before_a_server_takes_it(self):
        """[MQTT-3.2.2-11, -14, -15]"""
        for limit, mode, qos, retain in (
            (b"\x27\x00\x00\x00\x40", "broker", 1, False),
            (b"\x25\x00", "broker", 1, True),
            (b"\x24\x01", "exactly once", 2, False),
        ):
            bench = Bench5(mode, options={"in_flight_bytes": 600})
            self.assertEqual(bench.client.publish(TOPIC, bytes(90), qos, retain), status.OK)
            bench.connect(connack(limit))
            self.assertEqual(self.published(bench, 400), [])
            self.assertEqual(bench.outbox.aside, 1)
            self.assertEqual(bench.client.publish(TOPIC, b"x"), status.OK)
            self.assertEqual(self.published(bench, 1), [b"x"])
            bench.drop()
            bench.connect(connack())
            self.assertEqual(self.published(bench, 600), [bytes(90)])

    def published(self, bench, seconds):
        """Payloads, none of them answered but `x`."""
        found = []
        for packet_id, payload in publishes_of(bench, seconds * 100):
            found.append(payload)
            if payload != b"x":
                break
            bench.stream.say(ack(0x40, packet_id))
        return found

    def test_server_keep_alive(self):
        """[MQTT-3.2.2-21]"""
        bench = connected(b"\x13\x00\x0a")
        bench.poll(740)
        self.assertEqual(bench.stream.take(), b"")
        bench.poll(20)
        self.assertEqual(bench.stream.take(), b"\xc0\x00")

    def test_assigned_client_id_is_used_from_then_on(self):
        outbox = RamOutbox(2, 64)
        session = over(Session)(outbox, b"")
        self.assertEqual(bytes(session.connect_packet[-2:]), b"\x00\x00")
        session.open()
        packet = connack(b"\x12\x00\x06auto-1")
        session.out_end = 0
        session.receive(packet, 0, len(packet))
        self.assertEqual(session.assigned_id, b"auto-1")
        self.assertEqual(bytes(session.connect_packet[-8:]), b"\x00\x06auto-1")
        self.assertEqual(session.connect_packet[1], len(session.connect_packet) - 2)

    def test_assigned_client_id_is_kept_over_a_reset(self):
        path = "assigned_id_of_a_test"
        try:
            for _ in range(2):
                session = over(Session)(RamOutbox(2, 64), b"", id_file=path)
                session.open()
                session.out_end = 0
                packet = connack(b"\x12\x00\x06auto-1")
                session.receive(packet, 0, len(packet))
            again = over(Session)(RamOutbox(2, 64), b"", id_file=path)
            self.assertEqual(bytes(again.connect_packet[-8:]), b"\x00\x06auto-1")
            given = over(Session)(RamOutbox(2, 64), b"mine", id_file=path)
            self.assertEqual(bytes(given.connect_packet[-6:]), b"\x00\x04mine")
        finally:
            os.remove(path)

    def test_a_flash_that_does_not_take_the_id_is_no_fault(self):
        session = over(Session)(RamOutbox(2, 64), b"", id_file="no/such/folder/id")
        session.open()
        session.out_end = 0
        packet = connack(b"\x12\x00\x06auto-1")
        self.assertEqual(session.receive(packet, 0, len(packet)), len(packet))
        self.assertEqual(session.assigned_id, b"auto-1")

    def test_limits_are_those_of_the_last_connack(self):
        bench = connected(b"\x21\x00\x01\x25\x00\x13\x00\x05")
        bench.drop()
        bench.connect(connack())
        self.assertEqual((bench.session.window, bench.session.keep_alive_s), (16, 60))
        self.assertEqual(bench.client.publish(TOPIC, b"x", 1, True), status.OK)


class TestPublish(unittest.TestCase):
    def test_no_properties_are_one_byte(self):
        bench = connected().publish(b"x")
        self.assertEqual(sent(bench), [(TOPIC, 1, b"", b"x")])

    def test_constants_in_every_session(self):
        constant = b"\x03\x00\x04json\x26\x00\x01k\x00\x01v"
        for mode in MODES:
            bench = connected(mode=mode, publish_properties=((0x03, b"json"), (0x26, (b"k", b"v"))))
            self.assertEqual(bench.client.publish(TOPIC, b"zero", 0), 0)
            self.assertEqual(sent(bench), [(TOPIC, 0, constant, b"zero")])
            bench.publish(b"one")
            self.assertEqual(sent(bench), [(TOPIC, 1, constant, b"one")])
            bench.drop()
            bench.connect(connack(session_present=1))
            bench.poll(10)

    def test_lengths_of_one_and_two_bytes(self):
        for count in range(118, 134):
            given = ((0x26, (b"", bytes(b"v" * count))),)
            bench = connected(publish_properties=given, aliases=(TOPIC,))
            bench.publish(b"payload")
            self.assertEqual(sent(bench)[0][3], b"payload")

    def test_alias_first_with_its_topic_then_alone_and_anew_on_each_connection(self):
        """[MQTT-3.3.2-6, -7, -8, 3.2.2-17, -18]"""
        bench = connected(b"\x22\x00\x01", aliases=(TOPIC, b"other"))
        bench.publish(b"1", b"2")
        self.assertEqual(bench.client.publish(b"other", b"3"), 0)
        found = [one[:1] + one[2:] for one in sent(bench)]
        alias = b"\x23\x00\x01"
        self.assertEqual(found, [(TOPIC, alias, b"1"), (b"", alias, b"2"), (b"other", b"", b"3")])
        bench.say(ack(0x40, 1) + ack(0x40, 2) + ack(0x40, 3)).drop()
        bench.connect(connack(b"\x22\x00\x01", session_present=1)).publish(b"4")
        self.assertEqual(sent(bench), [(TOPIC, 4, alias, b"4")])
        bench = connected(aliases=(TOPIC,)).publish(b"1")
        self.assertEqual(sent(bench)[0][:3], (TOPIC, 1, b""), "none that the server did not offer")

    def test_farewell(self):
        bench = connected()
        bench.session.farewell = disconnect(4, 0)
        bench.client.close()
        self.assertEqual(bench.stream.take(), b"\xe0\x07\x04\x05\x11\x00\x00\x00\x00")


class TestReasonCodes(unittest.TestCase):
    def test_success_with_and_without_a_reason(self):
        for code, properties in ((0, None), (0, b""), (0x10, None), (0x10, b"\x1f\x00\x01x")):
            bench = connected().publish(b"x")
            sent(bench)
            bench.say(ack(0x40, 1, code, properties))
            self.assertEqual(bench.outbox.oldest_seq, 1)
            self.assertEqual(bench.session.unmatched, code == 0x10)

    def test_refused_for_good_is_set_aside(self):
        for code in (0x83, 0x87, 0x90, 0x99):
            bench = connected().publish(b"bad", b"good")
            sent(bench)
            told = Told()
            bench.session.on_refused = told.add
            bench.say(ack(0x40, 1, code))
            bench.say(ack(0x40, 2))
            self.assertEqual(told.found, [(0, code)])
            self.assertEqual((bench.outbox.oldest_seq, bench.outbox.aside), (2, 1))
            self.assertEqual(bench.client.failures, 0, "the connection stays")

    def test_refused_again_from_the_shelf_it_waits_twice_as_long(self):
        bench = connected().publish(b"bad")
        packet_id, waits_s = sent(bench)[0][1], []
        for _ in range(3):
            since_ms = bench.now_ms
            bench.say(ack(0x40, packet_id, 0x87))
            self.assertEqual((bench.outbox.aside, bench.session.ignored), (1, 0))
            packet_id, payload = self.next_publish(bench)
            self.assertEqual(payload, b"bad")
            waits_s.append((bench.now_ms - since_ms) // 1000)
        self.assertEqual(waits_s, [60, 120, 240])

    def next_publish(self, bench):
        """(identifier, payload)."""
        for found in publishes_of(bench, 30_000):
            return found
        raise AssertionError("it does not come again")

    def test_busy_and_quota_are_sent_again_later_without_dup(self):
        for code in (0x80, 0x91, 0x97):
            bench = connected().publish(b"1", b"2")
            sent(bench)
            bench.say(ack(0x40, 1, code)).say(ack(0x40, 2))
            self.assertEqual(bench.poll(85).stream.take(), b"", "a second of silence")
            bench.poll(30)
            self.assertEqual(split(bench.stream.take())[0][0], 0x32)
            bench.say(ack(0x40, 1))
            self.assertEqual(bench.outbox.oldest_seq, 2)

    def test_nor_is_dup_set_by_what_went_out_after_it_on_an_earlier_connection(self):
        """[MQTT-4.3.2-2], and [MQTT-3.3.1-1] for the other one."""
        bench = connected().publish(b"1", b"2")
        self.assertEqual(with_dup(bench), [(b"1", False), (b"2", False)])
        bench.drop()
        bench.connect(connack(b"\x21\x00\x01", session_present=1))  # one at a time
        self.assertEqual(with_dup(bench), [(b"1", True)])
        for _ in range(2):
            bench.say(ack(0x40, 1, 0x97))
            self.assertEqual(with_dup(bench, 500), [(b"1", False)])
        bench.say(ack(0x40, 1), 0)
        self.assertEqual(with_dup(bench), [(b"2", True)])
        self.assertEqual(bench.session.redelivered, 2)

    def test_nor_on_the_next_connection(self):
        """[MQTT-4.4.0-2]: its exchange was over. That of the other one was not."""
        for is_there in (True, False):
            bench = connected().publish(b"1", b"2", b"3")
            self.assertEqual(len(with_dup(bench)), 3)
            bench.say(ack(0x40, 2, 0x97)).drop()
            bench.connect(connack(session_present=is_there))
            found = with_dup(bench, 500)
            self.assertEqual(found, [(b"1", is_there), (b"2", False), (b"3", is_there)])
            bench.say(ack(0x40, 1)).drop()
            bench.connect(connack(session_present=True))
            found = with_dup(bench, 500)
            self.assertEqual(found, [(b"2", True), (b"3", True)], "a new exchange, not answered")

    def test_nor_by_what_this_server_does_not_take(self):
        """It was withdrawn after it, and there is no room to set it aside: it never went out."""
        bench = Bench5("broker").publish(b"1")
        self.assertEqual(bench.client.publish(TOPIC, bytes(90)), status.OK)
        bench.outbox.shelf().put = lambda seq, mark: status.FULL
        bench.connect(connack(b"\x27\x00\x00\x00\x40"))
        self.assertEqual(with_dup(bench), [(b"1", False)])
        bench.say(ack(0x40, 1, 0x97))
        self.assertEqual(with_dup(bench, 300), [(b"1", False)])

    def shelf_without_an_answer(self):
        """PINGREQ is out, because the message that was set aside went out and is not answered."""
        bench = connected().publish(b"bad")
        sent(bench)
        bench.say(ack(0x40, 1, 0x87))
        self.assertEqual(self.next_first_byte(bench), 0x32)
        bench.poll(1100)
        self.assertEqual(bench.stream.take(), b"\xc0\x00")
        self.assertEqual((bench.outbox.aside, bench.client.failures), (1, 0))
        return bench

    def test_nor_after_an_answer_that_came_late_to_one_of_the_shelf(self):
        """[MQTT-4.3.2-2]: it is refused, its exchange is over, and the connection stays."""
        bench = self.shelf_without_an_answer()
        bench.say(ack(0x40, 1, 0x97) + b"\xd0\x00")
        self.assertEqual(self.next_first_byte(bench), 0x32)
        bench.say(ack(0x40, 1))
        self.assertEqual((bench.outbox.aside, bench.client.failures), (0, 0))

    def test_one_of_the_shelf_without_an_answer_ends_the_connection(self):
        """It takes one of the places that the server allows (receive maximum), and may not be sent
        again on this connection [MQTT-4.4.0-1]."""
        bench = self.shelf_without_an_answer()
        bench.publish(b"other")
        self.assertEqual(with_dup(bench, 400), [], "there may be no place for it")
        bench.say(b"\xd0\x00")
        self.assertEqual((bench.client.failures, bench.client.last_error), (1, status.NO_ANSWER))
        bench.connect(connack(session_present=True))
        self.assertEqual(with_dup(bench), [(b"other", False)])

    def next_first_byte(self, bench):
        for _ in range(300):
            bench.poll(100)
            for first, _ in split(bench.stream.take()):
                if first & 0xF0 == 0x30:
                    return first
                if first == 0xC0:
                    bench.say(b"\xd0\x00")
        raise AssertionError("it does not come again")

    def test_none_is_sent_again_while_another_is_unanswered(self):
        """[MQTT-4.4.0-1]"""
        bench = connected().publish(b"1", b"2")
        sent(bench)
        bench.say(ack(0x40, 1, 0x97))
        self.assertEqual(sent(bench, 400), [])
        bench.say(ack(0x40, 2))
        self.assertEqual([one[3] for one in sent(bench)], [b"1"])

    def test_the_pause_doubles(self):
        """While the message cannot be set aside."""
        bench = connected(keep_alive_s=0).publish(b"x")
        bench.outbox.shelf().put = lambda seq, mark: status.STORAGE
        sent(bench)
        for wait_s in (1, 2, 4, 8, 16, 32, 64, 64):
            bench.say(ack(0x40, 1, 0x97), 1)
            self.assertEqual(sent(bench, wait_s * 100 - 5), [])
            self.assertEqual(len(sent(bench, 20)), 1)

    def test_a_pause_is_over_after_days_without_a_network(self):
        for days in (1, 7, 13):
            bench = connected().publish(b"x")
            sent(bench)
            bench.say(ack(0x40, 1, 0x97))
            bench.away(days)
            bench.connect(connack())
            self.assertEqual(len(bench.early or sent(bench, 20)), 1, days)

    def test_no_subscriber_kept_when_asked_to(self):
        bench = connected(keep_unmatched=True).publish(b"x")
        sent(bench)
        bench.say(ack(0x40, 1, 0x10))
        self.assertEqual((bench.outbox.oldest_seq, bench.session.unmatched), (0, 1))
        self.assertEqual([one[3] for one in sent(bench, 120)], [b"x"])
        bench.say(ack(0x40, 1))
        self.assertEqual(bench.outbox.oldest_seq, 1)

    def test_exactly_once_refused_by_pubrec(self):
        bench = connected(mode="exactly once")
        self.assertEqual(bench.client.publish(TOPIC, b"bad", 2), 0)
        self.assertEqual(bench.client.publish(TOPIC, b"good", 2), 0)
        sent(bench)
        bench.say(ack(0x50, 1, 0x99)).say(ack(0x50, 2, 0x10))
        self.assertEqual(split(bench.stream.take()), [(0x62, b"\x00\x02")])
        bench.say(ack(0x70, 2, 0x92))
        self.assertEqual((bench.outbox.oldest_seq, bench.outbox.aside), (2, 1))

    def test_codes_that_do_not_exist_are_malformed(self):
        for first, codes in ((0x40, (1, 0x82, 0xFF)), (0x50, (0x92,)), (0x62, (0x80,))):
            for code in codes:
                bench = connected(mode="exactly once").publish(b"x")
                sent(bench)
                bench.say(ack(first, 1, code))
                self.assertEqual(bench.stream.take(), b"\xe0\x01\x81")
                self.assertEqual(bench.client.last_error, status.PROTOCOL_ERROR)
                self.assertEqual(bench.outbox.oldest_seq, 0)

    def test_disconnect_of_the_server(self):
        for code, error in (
            (0x00, status.SERVER_LEFT), (0x8B, status.SERVER_LEFT), (0x8E, status.TAKEN_OVER),
            (0x9C, status.MOVED), (0x9D, status.MOVED),
        ):  # fmt: skip
            bench = connected()
            bench.say(frame(0xE0, bytes((code,)) + b"\x07\x1c\x00\x04host"))
            self.assertEqual((bench.client.last_error, bench.session.reason), (error, code))
            self.assertEqual(bench.session.server[0x1C], b"host")
        bench = connected()
        bench.say(b"\xe0\x00")
        self.assertEqual(bench.client.last_error, status.SERVER_LEFT)

    def test_a_busy_server_is_left_alone_longer_though_there_was_progress(self):
        waits = []
        for code in (0x00, 0x97):
            bench = connected()
            for _ in range(4):
                bench.publish(b"x")
                first = sent(bench)[0][1]
                bench.say(ack(0x40, first)).say(frame(0xE0, bytes((code,))))
                links, at_ms = bench.links, bench.now_ms
                for _ in range(7000):
                    if bench.links == links:
                        bench.poll()
                wait_ms = bench.now_ms - at_ms
                bench.connect(connack(session_present=1))
            waits.append(wait_ms)
        self.assertTrue(waits[1] >= 4 * waits[0], waits)

    def test_auth_is_refused(self):
        bench = connected()
        bench.say(b"\xf0\x00")
        self.assertEqual(bench.stream.take(), b"\xe0\x01\x82")


def width(value):
    return 1 + (value > 127) + (value > 16_383) + (value > 2_097_151)


def parts(early):
    """What Bench.publishes() took for payload begins with the length of the properties."""
    return [(b"", packet_id, b"", payload[1:]) for packet_id, _, payload in early]


if __name__ == "__main__":
    unittest.main()
