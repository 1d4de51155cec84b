# long: thousands of cases
"""The scripted server's own codec against the standard's bytes, then the client against a server
that misbehaves: for each fault the status, the counter, and whether the connection stays. The
stream is a fake one, the time simulated; what needs real sockets is in test_real_sockets.py.
"""

import unittest

from bench_client import STREAM, TOPIC, Bench, puback
from fake_flash import flash_in_ram
from outpost import status
from outpost.connect_packet import encode_connect
from outpost.outbox import Outbox
from outpost.subscribing import encode_filters
from scripted_server import Malformed, answer, decode, decode_all, encode

# kind, fields, bytes: by hand from chapter 3 of the standard, one row or more for each of the 14
# packet types
GOLDEN = (
    (
        "CONNECT",
        {"client_id": b"d", "keep_alive": 60},
        b"\x10\x0d\x00\x04MQTT\x04\x00\x00\x3c\x00\x01d",
    ),
    (
        "CONNECT",
        {
            "client_id": b"d",
            "clean": True,
            "will": (b"w", b"gone", 1, True),
            "user": b"me",
            "password": b"p",
        },
        b"\x10\x1d\x00\x04MQTT\x04\xee\x00\x00\x00\x01d\x00\x01w\x00\x04gone\x00\x02me\x00\x01p",
    ),
    (
        "CONNECT",
        {"client_id": b"d", "name": b"MQIsdp", "level": 3},
        b"\x10\x0f\x00\x06MQIsdp\x03\x00\x00\x00\x00\x01d",
    ),
    ("CONNACK", {"session_present": 1, "code": 0}, b"\x20\x02\x01\x00"),
    ("CONNACK", {"session_present": 0, "code": 5}, b"\x20\x02\x00\x05"),
    ("PUBLISH", {"topic": b"a/b", "qos": 1, "packet_id": 10}, b"\x32\x07\x00\x03a/b\x00\x0a"),
    ("PUBLISH", {"topic": b"t", "payload": b"x", "retain": True}, b"\x31\x04\x00\x01tx"),
    ("PUBLISH", {"topic": b"t", "payload": bytes(318)}, b"\x30\xc1\x02\x00\x01t" + bytes(318)),
    (
        "PUBLISH",
        {"topic": b"t", "qos": 2, "packet_id": 0x1234, "dup": True},
        b"\x3c\x05\x00\x01t\x12\x34",
    ),
    ("PUBACK", {"packet_id": 10}, b"\x40\x02\x00\x0a"),
    ("PUBREC", {"packet_id": 256}, b"\x50\x02\x01\x00"),
    ("PUBREL", {"packet_id": 65535}, b"\x62\x02\xff\xff"),
    ("PUBCOMP", {"packet_id": 1}, b"\x70\x02\x00\x01"),
    (
        "SUBSCRIBE",
        {"packet_id": 10, "filters": [(b"a/b", 1), (b"c/#", 2)]},
        b"\x82\x0e\x00\x0a\x00\x03a/b\x01\x00\x03c/#\x02",
    ),
    ("SUBACK", {"packet_id": 10, "codes": [0, 2, 128]}, b"\x90\x05\x00\x0a\x00\x02\x80"),
    (
        "UNSUBSCRIBE",
        {"packet_id": 10, "filters": [b"a/b", b"+"]},
        b"\xa2\x0a\x00\x0a\x00\x03a/b\x00\x01+",
    ),
    ("UNSUBACK", {"packet_id": 10}, b"\xb0\x02\x00\x0a"),
    ("PINGREQ", {}, b"\xc0\x00"),
    ("PINGRESP", {}, b"\xd0\x00"),
    ("DISCONNECT", {}, b"\xe0\x00"),
)
MALFORMED = (
    b"\x00\x00", b"\xf0\x00", b"\x30\xff\xff\xff\xff\x01", b"\x41\x02\x00\x01", b"\x60\x02\x00\x01",
    b"\x80\x06\x00\x01\x00\x01a\x00", b"\x40\x02\x00\x00", b"\x40\x03\x00\x01\x00", b"\x40\x01\x00",
    b"\x36\x07\x00\x03a/b\x00\x0a", b"\x38\x04\x00\x01tx", b"\x30\x04\x00\x01#x",
    b"\x30\x04\x00\x01+x", b"\x30\x02\x00\x00", b"\x30\x04\x00\x09ab", b"\x30\x05\x00\x03a\x00b",
    b"\x30\x04\x00\x02\xc0\x80", b"\x32\x05\x00\x01t\x00\x00", b"\x82\x02\x00\x01",
    b"\x82\x06\x00\x01\x00\x01a\x03", b"\x82\x07\x00\x01\x00\x02#a\x00",
    b"\x82\x09\x00\x01\x00\x04a/#b\x00", b"\xa2\x02\x00\x01", b"\xa2\x06\x00\x01\x00\x02a+",
    b"\x90\x03\x00\x01\x03", b"\x90\x02\x00\x01", b"\x20\x02\x02\x00", b"\x20\x02\x01\x01",
    b"\x20\x02\x00\x06", b"\xc0\x01\x00", b"\x10\x0d\x00\x04MQTT\x04\x01\x00\x00\x00\x01d",
    b"\x10\x0d\x00\x04MQTT\x05\x00\x00\x00\x00\x01d",
    b"\x10\x0c\x00\x04MQTT\x04\x00\x00\x00\x00\x00",
    b"\x10\x0d\x00\x04MQTT\x04\x08\x00\x00\x00\x01d",
    b"\x10\x10\x00\x04MQTT\x04\x42\x00\x00\x00\x01d\x00\x01p",
    b"\x10\x13\x00\x04MQTT\x04\x1e\x00\x00\x00\x01d\x00\x01w\x00\x01m",
)  # fmt: skip


class TestCodec(unittest.TestCase):
    def test_golden_packets_both_ways(self):
        for kind, fields, data in GOLDEN:
            self.assertEqual(encode(kind, **fields), data, kind)
            found, decoded = decode_all(data)[0]
            self.assertEqual(found, kind)
            for name, value in fields.items():
                self.assertEqual(decoded[name], value, (kind, name))

    def test_all_14_types_have_a_row(self):
        self.assertEqual(sorted(set([data[0] // 16 for _, _, data in GOLDEN])), list(range(1, 15)))

    def test_every_truncation_needs_more_and_glued_ones_come_apart(self):
        for _, _, data in GOLDEN:
            for end in range(len(data)):
                self.assertEqual(decode(data[:end]), None, data)
            self.assertEqual(decode(data + b"\xc0")[2], b"\xc0")
        self.assertEqual(len(decode_all(b"".join([data for _, _, data in GOLDEN]))), len(GOLDEN))

    def test_what_a_client_may_not_send_is_malformed(self):
        for data in MALFORMED:
            with self.assertRaises(Malformed):
                found = decode_all(data)
                print(data, found)

    def test_takes_the_clients_own_packets(self):
        will = (b"w", b"gone", 2, True)
        for options in (
            {},
            {"clean": True},
            {"user": b"me"},
            {"user": b"me", "password": b"pw"},
            {"will": will},
            {"level": 3},
        ):
            decoded = decode_all(encode_connect(b"dev", 300, **options))[0][1]
            self.assertEqual((decoded["client_id"], decoded["keep_alive"]), (b"dev", 300))
            for name, value in options.items():
                self.assertEqual(decoded[name], value)
        entries = [[b"a/+", 1, -1], [b"#", 2, -1]]
        self.assertEqual(
            decode_all(encode_filters(7, entries))[0][1],
            {"packet_id": 7, "filters": [(b"a/+", 1), (b"#", 2)]},
        )


def said(bench):
    """What the client wrote since the last look. Raises Malformed where a server would close the
    connection.
    """
    return decode_all(bench.stream.take())


def say_all(bench, data):
    """However long it is: the client takes a bounded piece with each poll."""
    for start in range(0, len(data), 4096):
        bench.stream.say(data[start : start + 4096])
        for _ in range(5000):
            if bench.poll().stream.closed or not bench.stream._end:
                break
    return bench.poll(5)


def kinds(bench):
    return [kind for kind, _ in said(bench)]


def connected(mode="broker", connack=None, **options):
    bench = Bench(mode, **options)
    return bench.connect(connack or encode("CONNACK"))


def reconnected(bench, session_present=1):
    """The next connection, through CONNACK; `early` is what it published so far."""
    return bench.connect(encode("CONNACK", session_present=session_present))


def outcome(bench, stream):
    """(the connection is up, last_error)"""
    return (not stream.closed, bench.client.last_error)


UP = (True, 0)
DOWN = (False, status.PROTOCOL_ERROR)
MESSAGE = encode("PUBLISH", topic=b"a/b", payload=b"x", qos=1, packet_id=10)


class TestConnack(unittest.TestCase):
    def test_refused_1_to_5_tells_the_code_closes_comes_back_and_loses_nothing(self):
        for code in range(1, 6):
            bench = Bench().publish(b"kept")
            bench.poll(3)
            first = bench.stream
            bench.say(encode("CONNACK", code=code), 2)
            self.assertEqual(outcome(bench, first), (False, status.REFUSED))
            self.assertEqual(
                (bench.session.return_code, bench.client.failures, bench.session.connects),
                (code, 1, 0),
            )
            reconnected(bench, 0)
            self.assertEqual((bench.sent(), bench.session.return_code), ([(1, False, b"kept")], 0))

    def test_a_code_that_the_standard_does_not_know_is_a_refusal_too(self):
        for code in (6, 127, 255):
            bench = Bench().poll(3)
            first = bench.stream
            bench.say(b"\x20\x02\x00" + bytes([code]), 2)
            self.assertEqual(
                (outcome(bench, first), bench.session.return_code), ((False, status.REFUSED), code)
            )

    def test_reserved_flags_are_protocol_errors(self):
        for data in (
            b"\x20\x02\x02\x00",
            b"\x20\x02\xff\x00",
            b"\x21\x02\x00\x00",
            b"\x20\x03\x00\x00\x00",
        ):
            bench = Bench().poll(3)
            first = bench.stream
            bench.say(data, 2)
            self.assertEqual(outcome(bench, first), DOWN, data)

    def test_any_other_packet_first_is_a_protocol_error(self):
        for kind, _, data in GOLDEN:
            if kind != "CONNACK":
                bench = Bench().poll(3)
                first = bench.stream
                say_all(bench, data)
                self.assertEqual(outcome(bench, first), DOWN, kind)

    def test_a_second_connack_is_a_protocol_error(self):
        bench = connected()
        first = bench.stream
        bench.say(encode("CONNACK", session_present=1), 2)
        self.assertEqual(outcome(bench, first), DOWN)

    def test_silence_after_connect_ends_after_response_ms(self):
        bench = Bench().poll(3)
        first = bench.stream
        bench.poll(997)
        self.assertFalse(first.closed)
        bench.poll(5)
        self.assertEqual(outcome(bench, first), (False, status.TIMED_OUT))


class TestCutAtEveryByte(unittest.TestCase):
    """The server's packet stops after n bytes and the connection ends. The next one carries on
    where it must.
    """

    def cut(self, bench, data, count, by_reset):
        bench.say(data[:count], 2)
        if by_reset:
            bench.stream.broken = True
        else:
            bench.stream.ended = True
        first = bench.stream
        bench.poll(2)
        self.assertEqual(outcome(bench, first), (False, status.LINK_LOST))

    def each(self, data):
        return [(count, by_reset) for count in range(len(data)) for by_reset in (False, True)]

    def test_connack(self):
        data = encode("CONNACK", session_present=1)
        for count, by_reset in self.each(data):
            bench = Bench().publish(b"kept")
            bench.poll(3)
            self.cut(bench, data, count, by_reset)
            self.assertEqual(bench.session.connects, 0)
            # it never went out, so no DUP
            self.assertEqual(reconnected(bench).sent(), [(1, False, b"kept")])

    def test_puback(self):
        for count, by_reset in self.each(puback(1)):
            bench = connected().publish(b"kept")
            bench.sent()
            self.cut(bench, puback(1), count, by_reset)
            self.assertEqual((bench.session.acknowledged, bench.outbox.oldest_seq), (0, 0))
            self.assertEqual(reconnected(bench).sent(), [(1, True, b"kept")])
            bench.say(puback(1))
            self.assertEqual((bench.session.acknowledged, bench.client.is_drained()), (1, True))

    def test_suback(self):
        data = encode("SUBACK", packet_id=32768, codes=[1, 0])
        for count, by_reset in self.each(data):
            bench = Bench()
            bench.session.subscribe(b"a/+", 1)
            bench.session.subscribe(b"b", 0)
            bench.connect()
            self.cut(bench, data, count, by_reset)
            self.assertEqual([entry[2] for entry in bench.session.filters], [-1, -1])
            bench.poll(60).stream.take()
            bench.say(encode("CONNACK", session_present=1))  # even so: the answer never came
            filters = [(b"a/+", 1), (b"b", 0)]
            self.assertEqual(said(bench), [("SUBSCRIBE", {"packet_id": 32768, "filters": filters})])
            bench.say(data)
            self.assertEqual([entry[2] for entry in bench.session.filters], [1, 0])

    def test_unsuback(self):
        data = encode("UNSUBACK", packet_id=32768)
        for count, by_reset in self.each(data):
            bench = connected()
            bench.session.unsubscribe(b"a/+")
            bench.poll(3)
            self.cut(bench, data, count, by_reset)
            bench.poll(60).stream.take()
            bench.say(encode("CONNACK", session_present=1))
            self.assertEqual(kinds(bench), ["UNSUBSCRIBE"])
            bench.say(data)
            self.assertEqual(bench.session.filters, [])

    def test_pubrec_pubcomp_and_pubrel(self):
        for count, by_reset in self.each(puback(1)):
            bench = connected("exactly once")
            bench.client.publish(TOPIC, b"kept", 2)
            bench.poll(4)
            self.cut(bench, encode("PUBREC", packet_id=1), count, by_reset)
            self.assertEqual(reconnected(bench).sent(), [(1, True, b"kept")])
            bench.say(encode("PUBREC", packet_id=1))
            self.assertEqual(kinds(bench), ["PUBREL"])
            self.cut(bench, encode("PUBCOMP", packet_id=1), count, by_reset)
            bench.poll(60).stream.take()
            bench.say(encode("CONNACK", session_present=1))
            self.assertEqual(kinds(bench), ["PUBREL"])
            bench.say(encode("PUBCOMP", packet_id=1))
            self.assertTrue(bench.client.is_drained())

    def test_an_inbound_message_comes_whole_or_not_at_all(self):
        for count, by_reset in self.each(MESSAGE):
            bench = connected()
            self.cut(bench, MESSAGE, count, by_reset)
            self.assertEqual(bench.session.received, 0)
            reconnected(bench).say(MESSAGE)
            self.assertEqual((bench.session.received, kinds(bench)), (1, ["PUBACK"]))


class TestHostileBytes(unittest.TestCase):
    def test_five_byte_remaining_length_closes_whole_at_its_fourth_byte_and_byte_by_byte(self):
        for first in (0x20, 0x30, 0x32, 0x40, 0x90, 0xD0):
            for rest in (
                b"\x80\x80\x80\x80",
                b"\xff\xff\xff\xff\x01",
                b"\x80\x80\x80\x80\x00",
                b"\x82\x80\x80\x80\x00\x00\x01",
            ):
                for chunk in (None, 1, 2, 3):
                    for connack in (b"", encode("CONNACK")):
                        bench = Bench(chunk=chunk).poll(3).say(connack, 5)
                        stream = bench.stream
                        bench.say(bytes([first]) + rest, 9)
                        self.assertEqual(
                            outcome(bench, stream), DOWN, (first, rest, chunk, connack)
                        )

    def test_a_length_of_256_mib_grows_nothing_and_is_skipped(self):
        bench = connected(keep_alive_s=0)
        say_all(bench, b"\x30\xff\xff\xff\x7f\x00\x03a/b" + bytes(5000))
        self.assertEqual((len(bench.session.buffer), outcome(bench, bench.stream)), (256, UP))

    def test_an_overlong_length_is_taken_for_what_it_says(self):
        bench = connected()
        bench.say(b"\x32\x88\x80\x00" + MESSAGE[2:])
        self.assertEqual(
            (bench.session.received, kinds(bench), outcome(bench, bench.stream)),
            (1, ["PUBACK"], UP),
        )

    def test_every_first_byte_with_a_body_of_an_identifier(self):
        """What nobody asked for counts and the connection stays; every other type, and every wrong
        flag, closes it.
        """
        for mode, counts in (
            ("broker", (0x40, 0x62)), ("exactly once", (0x40, 0x50, 0x62, 0x70)),
        ):  # fmt: skip
            for first in range(256):
                bench = connected(mode)
                stream = bench.stream
                bench.say(bytes([first]) + b"\x02\x00\x09", 3)
                self.assertEqual(
                    outcome(bench, stream), UP if first in counts else DOWN, (mode, first)
                )
                self.assertEqual(
                    bench.session.ignored, 1 if first in counts and first & 0xF0 != 0x60 else 0
                )

    def test_every_first_byte_without_a_body(self):
        for first in range(256):
            bench = connected("exactly once")
            stream = bench.stream
            bench.say(bytes([first]) + b"\x00", 3)
            self.assertEqual(outcome(bench, stream), UP if first == 0xD0 else DOWN, first)

    def closes(self, data, mode="broker"):
        bench = connected(mode)
        stream = bench.stream
        bench.say(data, 4)
        self.assertEqual(outcome(bench, stream), DOWN, data)
        self.assertEqual((bench.session.received, bench.session.skipped), (0, 0), data)

    def test_qos_3(self):
        for mode in ("broker", "collector", "streaming", "exactly once"):
            for first in (0x36, 0x37, 0x3E, 0x3F):
                self.closes(bytes([first]) + MESSAGE[1:], mode)

    def test_packet_identifier_0(self):
        for first in (0x32, 0x34):
            self.closes(encode("PUBLISH", topic=b"a", qos=first >> 1 & 3), "exactly once")
        self.closes(encode("PUBREL", packet_id=0), "exactly once")

    def test_identifier_0_in_an_acknowledgement_only_counts(self):
        for kind in ("PUBACK", "PUBREC", "PUBCOMP"):
            bench = connected("exactly once").publish(b"a")
            bench.sent()
            bench.say(encode(kind, packet_id=0))
            self.assertEqual((bench.session.ignored, outcome(bench, bench.stream)), (1, UP))

    def test_topic_that_is_no_utf_8(self):
        for topic in (
            b"\xff",
            b"a\x80",
            b"\xc0\xaf",
            b"\xed\xa0\x80",
            b"\xf4\x90\x80\x80",
            b"\xe2\x82",
        ):
            self.closes(encode("PUBLISH", topic=topic, payload=b"x"))

    def test_topic_with_nul(self):
        for topic in (b"\x00", b"a\x00", b"a\x00b"):
            self.closes(encode("PUBLISH", topic=topic, payload=b"x"))

    def test_topic_longer_than_the_packet(self):
        for length in (3, 4, 200, 65535):
            self.closes(b"\x30\x04" + bytes([length // 256, length % 256]) + b"ab")
            self.closes(b"\x32\x04" + bytes([length // 256, length % 256]) + b"ab")

    def test_topic_longer_than_the_packet_with_sound_text_behind_it_in_the_buffer(self):
        """What is left of an earlier message must not be taken for the rest of this one."""
        for qos in (0, 1):
            bench = connected()
            first = bench.stream
            say_all(bench, encode("PUBLISH", topic=b"t" * 100, payload=b"x" * 100))
            bench.say(bytes([0x30 + 2 * qos]) + b"\x04\x00\x40tt")
            self.assertEqual((outcome(bench, first), bench.session.received), (DOWN, 1))

    def test_topic_that_leaves_no_room_for_the_identifier(self):
        self.closes(b"\x32\x05\x00\x03a/b")
        self.closes(b"\x32\x06\x00\x03a/b\x00")

    def test_empty_topic(self):
        self.closes(b"\x30\x03\x00\x00x")

    def test_topic_with_a_wildcard(self):
        for topic in (b"#", b"a/#", b"+", b"a/+/b"):
            self.closes(encode("PUBLISH", topic=topic, payload=b"x"))

    def test_dup_with_qos_0(self):
        self.closes(b"\x38\x04\x00\x01tx")


class TestAcknowledgements(unittest.TestCase):
    def test_unknown_and_repeated_pubacks_only_count(self):
        bench = connected().publish(b"a", b"b")
        bench.sent()
        for packet_id in (3, 17, 65535, 1, 1):
            bench.say(puback(packet_id))
        self.assertEqual(
            (bench.session.ignored, bench.session.acknowledged, bench.outbox.oldest_seq), (4, 1, 1)
        )
        self.assertEqual((outcome(bench, bench.stream), said(bench)), (UP, []))

    def test_a_puback_repeated_while_an_older_one_is_missing_only_counts(self):
        bench, told = connected().publish(b"a", b"b"), []
        bench.session.on_acknowledged = told.append
        bench.sent()
        bench.say(puback(2)).say(puback(2))
        self.assertEqual((bench.session.ignored, told, bench.session.acknowledged), (1, [1], 1))
        bench.say(puback(1))
        self.assertEqual((told, bench.client.is_drained()), ([1, 0], True))

    def test_identifier_0_is_not_taken_for_65535(self):
        """The two are alike in arithmetic that counts modulo 65,535."""
        flash = flash_in_ram(8, 256)
        Outbox(flash).format(STREAM, first_seq=65534)
        bench = Bench(flash=flash).connect().publish(b"a")
        self.assertEqual(bench.sent(), [(65535, False, b"a")])
        bench.say(puback(0))
        self.assertEqual((bench.session.ignored, bench.client.is_drained()), (1, False))
        bench.say(puback(65535))
        self.assertTrue(bench.client.is_drained())

    def test_puback_before_anything_was_sent_only_counts(self):
        bench = connected().say(puback(1))
        bench.publish(b"a")
        self.assertEqual(
            (bench.sent(), bench.session.ignored, bench.client.is_drained()),
            ([(1, False, b"a")], 1, False),
        )

    def test_out_of_order_pubacks_free_each_message_once(self):
        bench, told = connected().publish(*[b"%d" % n for n in range(16)]), []
        bench.session.on_acknowledged = told.append
        bench.sent()
        order = [16, 1, 15, 2, 14, 3, 13, 4, 12, 5, 11, 6, 10, 7, 9, 8]
        for packet_id in order:
            bench.say(puback(packet_id), 1)
        self.assertEqual(told, [packet_id - 1 for packet_id in order])
        self.assertEqual(
            (bench.session.ignored, bench.client.is_drained(), outcome(bench, bench.stream)),
            (0, True, UP),
        )

    def test_a_puback_for_a_qos_2_message_frees_nothing(self):
        bench = connected("exactly once")
        bench.client.publish(TOPIC, b"x", 2)
        bench.poll(4)
        bench.say(puback(1))
        self.assertEqual(
            (bench.session.ignored, bench.client.is_drained(), outcome(bench, bench.stream)),
            (1, False, UP),
        )

    def test_repeated_pubrec_gets_pubrel_again_and_repeated_pubcomp_counts(self):
        bench = connected("exactly once")
        bench.client.publish(TOPIC, b"x", 2)
        bench.poll(4).stream.take()
        for _ in range(2):
            bench.say(encode("PUBREC", packet_id=1))
            self.assertEqual(said(bench), [("PUBREL", {"packet_id": 1})])
        for ignored in range(2):
            bench.say(encode("PUBCOMP", packet_id=1))
            found = (bench.client.is_drained(), bench.session.ignored)
            self.assertEqual((found, outcome(bench, bench.stream)), ((True, ignored), UP))

    def test_suback_and_unsuback_that_nobody_asked_for_close(self):
        for data in (
            encode("SUBACK", packet_id=32768, codes=[0]),
            encode("UNSUBACK", packet_id=32768),
        ):
            bench = connected()
            first = bench.stream
            bench.say(data, 3)
            self.assertEqual(outcome(bench, first), DOWN)

    def test_suback_that_does_not_fit_the_request_closes_and_the_request_goes_again(self):
        unfit = (
            encode("SUBACK", packet_id=32769, codes=[0, 1]),
            encode("SUBACK", packet_id=32768, codes=[0]),
            encode("SUBACK", packet_id=32768, codes=[0, 1, 2]), encode("UNSUBACK", packet_id=32768),
        )  # fmt: skip
        for data in unfit:
            bench = Bench()
            bench.session.subscribe(b"a", 0)
            bench.session.subscribe(b"b", 1)
            bench.connect()
            first = bench.stream
            bench.say(data, 3)
            self.assertEqual(outcome(bench, first), DOWN, data)
            bench.poll(60).stream.take()
            bench.say(encode("CONNACK", session_present=1))
            asked = [fields["filters"] for kind, fields in said(bench) if kind == "SUBSCRIBE"]
            self.assertEqual(asked, [[(b"a", 0), (b"b", 1)]], data)

    def test_suback_with_a_reserved_code_closes_and_is_no_grant(self):
        for code in (3, 4, 127, 129, 255):
            bench = Bench()
            bench.session.subscribe(b"a", 1)
            bench.connect()
            first = bench.stream
            bench.say(b"\x90\x03\x80\x00" + bytes([code]), 3)
            self.assertEqual(outcome(bench, first), DOWN, code)
            self.assertEqual(bench.session.filters, [[b"a", 1, -1]])
            bench.poll(60).stream.take()
            bench.say(encode("CONNACK", session_present=1))
            self.assertEqual(kinds(bench), ["SUBSCRIBE"])

    def test_a_repeated_suback_closes(self):
        bench = Bench()
        bench.session.subscribe(b"a", 0)
        bench.connect()
        first = bench.stream
        bench.say(encode("SUBACK", packet_id=32768, codes=[0]), 3)
        self.assertEqual(outcome(bench, first), UP)
        bench.say(encode("SUBACK", packet_id=32768, codes=[0]), 3)
        self.assertEqual(outcome(bench, first), DOWN)

    def test_pingresp_that_nobody_asked_for_changes_nothing(self):
        bench = connected()
        bench.say(encode("PINGRESP") * 5)
        self.assertEqual((outcome(bench, bench.stream), bench.session.ignored), (UP, 0))


class TestSilence(unittest.TestCase):
    def test_after_pingreq_the_connection_is_given_up_after_response_ms(self):
        bench = connected(keep_alive_s=20).publish(b"kept")
        bench.sent()
        first, start = bench.stream, bench.now_ms
        while not first.closed:
            bench.poll()
        self.assertEqual(outcome(bench, first), (False, status.TIMED_OUT))
        # 15 s of rest, 10 s of waiting
        self.assertTrue(24_900 <= bench.now_ms - start + 400 <= 25_500, bench.now_ms - start)
        self.assertEqual(reconnected(bench).sent(), [(1, True, b"kept")])

    def test_without_keep_alive_a_quiet_connection_stays(self):
        bench = connected(keep_alive_s=0).poll(10_000)
        self.assertEqual((outcome(bench, bench.stream), said(bench)), (UP, []))

    def test_a_server_that_says_no_more_but_reads_on(self):
        """Half-closed: the end of its stream is the end of the connection; what was in flight goes
        again with DUP.
        """
        bench = connected().publish(b"kept")
        bench.sent()
        first = bench.stream
        first.ended = True
        bench.poll(1)
        self.assertEqual(outcome(bench, first), (False, status.LINK_LOST))
        self.assertEqual(reconnected(bench).sent(), [(1, True, b"kept")])

    def test_last_words_before_the_end_are_still_heard(self):
        bench = connected().publish(b"a")
        bench.sent()
        bench.stream.say(puback(1))
        bench.stream.ended = True
        bench.poll(4)
        self.assertTrue(bench.client.is_drained())

    def test_a_server_that_never_reads_is_given_up_after_response_ms(self):
        for taken in (0, 1, 20):
            bench = connected(keep_alive_s=0).publish(b"kept")
            stream, write = bench.stream, bench.stream.write
            left = [taken]

            def full(buf, offset, length, write=write, left=left):
                """The send buffer takes so much, and then nothing."""
                count = min(length, left[0])
                left[0] -= count
                return write(buf, offset, count) if count else None

            stream.write = full
            bench.poll(995)
            self.assertEqual(outcome(bench, stream), UP)
            bench.poll(10)
            self.assertEqual(outcome(bench, stream), (False, status.TIMED_OUT))
            self.assertEqual([p for _, _, p in reconnected(bench).sent()], [b"kept"])


class TestSegments(unittest.TestCase):
    def conversation(self, chunk):
        """Everything that a server may say, at once: what the client made of it."""
        bench, told = Bench("exactly once", chunk=chunk, keep_alive_s=0), []
        bench.session.on_message = lambda m: told.append(
            bytes(m.buffer[m.payload_at : m.payload_at + m.payload_length])
        )
        bench.session.subscribe(b"a/b", 2)
        bench.publish(b"one")
        bench.client.publish(TOPIC, b"two", 2)
        bench.connect().poll(30).stream.take()
        data = (
            encode("SUBACK", packet_id=32768, codes=[2])
            + puback(1)
            + encode("PUBREC", packet_id=2)
            + encode("PINGRESP")
        )
        for number in range(3):
            data += encode(
                "PUBLISH", topic=b"a/b", payload=b"%d" % number, qos=number, packet_id=number + 1
            )
        bench.say(data + encode("PUBREL", packet_id=3), 200)
        bench.say(encode("PUBCOMP", packet_id=2), 10)  # not before the PUBREL went out
        return (
            told,
            bench.session.filters[0][2],
            bench.client.is_drained(),
            bench.session.acknowledged,
            kinds(bench),
        )

    def test_one_byte_per_segment_glued_and_all_between_are_the_same(self):
        expected = ([b"0", b"1", b"2"], 2, True, 2, ["PUBREL", "PUBACK", "PUBREC", "PUBCOMP"])
        for chunk in (1, 2, 3, 5, 7, 16, 127, 128, None):
            told, code, drained, acknowledged, sent = self.conversation(chunk)
            self.assertEqual((told, code, drained, acknowledged), expected[:4], chunk)
            self.assertEqual(sorted(sent), sorted(expected[4]), chunk)

    def test_100_glued_messages_are_acknowledged_in_their_order(self):
        bench = connected()
        data = b"".join(
            [
                encode("PUBLISH", topic=b"a/b", payload=b"x", qos=1, packet_id=1 + n)
                for n in range(100)
            ]
        )
        say_all(bench, data)
        self.assertEqual([fields["packet_id"] for _, fields in said(bench)], list(range(1, 101)))
        self.assertEqual(bench.session.received, 100)

    def test_64_kib_into_256_bytes_is_skipped_counted_acknowledged_and_the_connection_stays(self):
        bench = connected(keep_alive_s=0)
        data = encode("PUBLISH", topic=b"a/b", payload=bytes(65_536), qos=1, packet_id=7)
        say_all(bench, data)
        self.assertEqual(
            (bench.session.skipped, bench.session.received, outcome(bench, bench.stream)),
            (1, 0, UP),
        )
        self.assertEqual(
            (said(bench), len(bench.session.buffer)), ([("PUBACK", {"packet_id": 7})], 256)
        )
        bench.say(MESSAGE)
        self.assertEqual(bench.session.received, 1)

    def test_a_sound_topic_that_the_buffer_does_not_hold_is_skipped_and_acknowledged(self):
        """Closed, it would come again indefinitely; unanswered, it would hold up the others."""
        for qos, answers in ((0, []), (1, [("PUBACK", {"packet_id": 7})])):
            bench = connected(keep_alive_s=0)
            first = bench.stream
            say_all(bench, encode("PUBLISH", topic=b"t" * 300, payload=b"x", qos=qos, packet_id=7))
            self.assertEqual(
                (bench.session.skipped, outcome(bench, first), said(bench)), (1, UP, answers)
            )


class TestOrdinaryServer(unittest.TestCase):
    def test_all_qos_both_ways_with_a_strict_server(self):
        """Every byte that the client sends goes through the server's own decoder."""
        bench, told = Bench("exactly once"), []
        bench.session.on_message = lambda m: told.append(m.first >> 1 & 3)
        bench.session.subscribe(b"c/#", 2)
        for qos in (1, 2, 1, 2):
            bench.client.publish(TOPIC, b"x", qos)
        heard = []
        for turn in range(200):
            bench.poll()
            for kind, fields in said(bench):
                heard.append(kind)
                bench.stream.say(answer(kind, fields))
            if turn in (50, 60, 70):
                number = turn // 10 - 5
                bench.stream.say(
                    encode("PUBLISH", topic=b"c/d", payload=b"y", qos=number, packet_id=9 * number)
                )
        bench.client.close()
        self.assertEqual(
            (bench.client.is_drained(), bench.session.acknowledged, told), (True, 4, [0, 1, 2])
        )
        self.assertEqual((bench.session.ignored, bench.session.connects), (0, 1))
        self.assertEqual(
            (heard.count("PUBLISH"), heard.count("PUBREL"), heard[0]), (4, 2, "CONNECT")
        )
        self.assertEqual(kinds(bench), ["DISCONNECT"])


if __name__ == "__main__":
    unittest.main()
