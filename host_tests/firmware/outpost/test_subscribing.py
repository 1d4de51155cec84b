import unittest

from bench_client import CONNACK, Bench, puback, split
from bench_level5 import Bench5
from outpost import status
from packets5 import connack
from virtual.packets import frame, text, u16

MESSAGE = b"\x32\x08\x00\x03a/b\x00\x0ax"


def answers(bench):
    """(SUBSCRIBE and UNSUBSCRIBE packets, everything else) that went out since the last look."""
    packets = split(bench.poll(4).stream.take())
    return [p for p in packets if p[0] in (0x82, 0xA2)], [
        p for p in packets if p[0] not in (0x82, 0xA2)
    ]


class TestSubscriptions(unittest.TestCase):
    def subscribed(self):
        """Connected, with three filters granted 0, 1 and refused."""
        bench = Bench()
        for topic_filter, qos in ((b"a/+", 0), (b"b/#", 1), (b"c", 1)):
            self.assertEqual(bench.session.subscribe(topic_filter, qos), status.OK)
        bench.connect()
        bench.say(b"\x90\x05\x80\x00\x00\x01\x80")
        return bench

    def test_several_filters_in_one_packet_and_their_granted_codes(self):
        bench = Bench()
        bench.session.subscribe(b"a/+", 0)
        bench.session.subscribe(b"b/#", 1)
        bench.poll(2).stream.say(b"\x20\x02\x00\x00")
        subscribes, _ = answers(bench)
        self.assertEqual(
            subscribes, [(0x82, b"\x80\x00" + b"\x00\x03a/+\x00" + b"\x00\x03b/#\x01")]
        )
        bench.say(b"\x90\x04\x80\x00\x00\x80")
        self.assertEqual(bench.session.filters, [[b"a/+", 0, 0], [b"b/#", 1, 128]])
        self.assertEqual((bench.session.refused, bench.client.is_connected()), (1, True))

    def test_asked_again_when_the_server_has_no_session(self):
        for present in (0, 1):
            bench = self.subscribed()
            bench.drop()
            bench.poll(60).stream.take()
            bench.stream.say(b"\x20\x02" + bytes([present]) + b"\x00")
            ((_, body),), _ = answers(bench)  # what was refused is asked for in any case
            wanted = b"\x00\x01c\x01" if present else b"\x00\x03a/+\x00\x00\x03b/#\x01\x00\x01c\x01"
            self.assertEqual(body[2:], wanted)

    def test_a_request_without_an_answer_goes_again_on_the_next_connection(self):
        bench = Bench().connect()
        bench.session.subscribe(b"x", 1)
        self.assertEqual(len(answers(bench)[0]), 1)
        self.assertEqual(bench.session.subscribe(b"y", 1), status.BUSY)
        bench.drop()
        bench.poll(60).stream.take()
        bench.stream.say(b"\x20\x02\x01\x00")
        self.assertEqual(answers(bench)[0], [(0x82, b"\x80\x00\x00\x01x\x01")])

    def test_no_request_has_more_than_eight_filters(self):
        """AWS IoT closes the connection on nine."""
        bench = Bench()
        for number in range(20):
            bench.session.subscribe(b"a/%d" % number, 1)
        bench.poll(2).stream.say(b"\x20\x02\x00\x00")
        for count in (8, 8, 4):
            requests, _ = answers(bench)
            self.assertEqual([body.count(b"a/") for _, body in requests], [count])
            bench.say(bytes([0x90, 2 + count, 0x80, 0]) + b"\x01" * count, polls=1)
        self.assertEqual(answers(bench)[0], [])
        self.assertEqual([code for _, _, code in bench.session.filters], [1] * 20)

    def test_unsubscribe(self):
        bench = self.subscribed()
        bench.session.unsubscribe(b"b/#")
        self.assertEqual(answers(bench)[0], [(0xA2, b"\x80\x00\x00\x03b/#")])
        bench.say(b"\xb0\x02\x80\x00")
        self.assertEqual([entry[0] for entry in bench.session.filters], [b"a/+", b"c"])

    def test_both_kinds_go_one_after_the_other(self):
        bench = self.subscribed()
        bench.session.subscribe(b"new", 1)
        bench.session.unsubscribe(b"c")
        first, _ = answers(bench)
        bench.say(b"\xb0\x02\x80\x00")
        second, _ = answers(bench)
        self.assertEqual([first[0][0], second[0][0]], [0xA2, 0x82])

    def test_unasked_and_broken_answers_are_protocol_errors(self):
        for answer in (
            b"\x90\x03\x80\x00\x00", b"\x90\x05\x80\x01\x00\x01\x00",
            b"\x90\x05\x80\x00\x00\x03\x00", b"\x90\x02\x80\x00", b"\xb0\x02\x80\x00",
            b"\x90\x06\x80\x00\x00\x00\x00\x00", b"\x90\xac\x02" + bytes(300),
            b"\xb0\x03\x80\x00\x00",
        ):  # fmt: skip
            bench = Bench()
            for name in (b"1", b"2", b"3"):
                bench.session.subscribe(name, 1)
            bench.connect()
            bench.say(answer)
            self.assertEqual(
                (bench.client.is_connected(), bench.client.last_error),
                (False, status.PROTOCOL_ERROR),
                answer,
            )
        bench = Bench().connect()
        bench.say(b"\x90\x03\x80\x00\x00")
        self.assertEqual(bench.client.last_error, status.PROTOCOL_ERROR)


class TestMessages(unittest.TestCase):
    def test_acknowledged_after_the_handler_returned(self):
        bench, seen = Bench().connect(), []
        bench.session.on_message = lambda message: seen.append(
            (message.payload_length, bench.stream.length)
        )
        bench.say(MESSAGE)
        self.assertEqual((seen, bench.stream.take()), ([(1, 0)], puback(10)))

    def test_close_in_the_handler_leaves_nothing_for_the_next_connection(self):
        """Neither the rest of what was read, nor an answer, nor a status."""
        for mode, first in (("broker", 0x30), ("broker", 0x32), ("exactly once", 0x34)):
            bench = Bench(mode).connect()
            bench.session.on_message = lambda message, bench=bench: bench.client.close()
            stream = bench.stream
            bench.say(inbound(1, first) + inbound(2, first) + inbound(3, first), 1)
            self.assertEqual((stream.closed, bench.session.received), (True, 1))
            bench.connect()
            self.assertTrue(bench.client.is_connected(), mode)
            self.assertEqual(bench.client.failures, 0)

    def test_topic_payload_and_flags_are_told(self):
        bench, seen = Bench().connect(), []

        def keep(m):
            payload = bytes(m.buffer[m.payload_at : m.payload_at + m.payload_length])
            seen.append(
                (
                    bytes(m.buffer[2 : 2 + m.topic_length]),
                    payload,
                    m.first & 15,
                    m.is_on(b"a/b"),
                    m.is_on(b"a/c"),
                )
            )

        bench.session.on_message = keep
        for first, body in (
            (0x31, b"\x00\x03a/bxy"),
            (0x3A, b"\x00\x03a/b\x00\x07"),
            (0x30, b"\x00\x03a/b"),
        ):
            bench.say(bytes([first, len(body)]) + body)
        self.assertEqual(
            seen,
            [
                (b"a/b", b"xy", 1, True, False),
                (b"a/b", b"", 10, True, False),
                (b"a/b", b"", 0, True, False),
            ],
        )

    def test_a_topic_of_characters_is_a_mistake_and_not_another_topic(self):
        bench = Bench().connect()
        with self.assertRaises(TypeError) as got:
            bench.session.is_on("a/b")
        self.assertIn("must be bytes: write text.encode()", str(got.exception))

    def test_a_handler_that_raises_does_not_acknowledge_where_that_was_chosen(self):
        bench = Bench(options={"unacknowledged": 1}).connect()

        def broken(message):
            raise KeyError("application fault")

        bench.session.on_message = broken
        bench.say(MESSAGE)
        self.assertEqual(
            (bench.stream.take(), bench.session.handler_errors, bench.client.is_connected()),
            (b"", 1, True),
        )

    def test_glued_and_dripping_packets(self):
        for chunk in (1, 2, 5, 128):
            bench = Bench(chunk=chunk).connect()
            bench.say(MESSAGE * 5, polls=120)
            self.assertEqual((bench.session.received, bench.stream.take()), (5, puback(10) * 5))

    def test_oversize_is_skipped_acknowledged_and_the_connection_stays(self):
        bench, seen = Bench().connect(), []
        bench.session.on_message = lambda message: seen.append(1)
        bench.say(b"\x32\xe8\x07\x00\x03a/b\x00\x0b" + bytes(993), polls=40)
        self.assertEqual((seen, bench.session.skipped, bench.stream.take()), ([], 1, puback(11)))
        bench.say(MESSAGE)
        self.assertEqual(seen, [1])

    def test_broken_publishes_are_protocol_errors(self):
        broken = (
            b"\x36\x07\x00\x03a/b\x00\x0a", b"\x34\x07\x00\x03a/b\x00\x00",
            b"\x62\x02\x00\x00", b"\x30\x04\x00\x09ab",
            b"\x32\x07\x00\x03a/b\x00\x00", b"\x30\x02\x00\x00",
            b"\x30\x01\x00", b"\x30\x05\x00\x03a\x00b", b"\x30\x05\x00\x03a\xc0\x80", b"\x30\x00",
        )  # fmt: skip
        for data in broken:
            bench = Bench().connect()
            bench.say(data)
            self.assertEqual(bench.client.last_error, status.PROTOCOL_ERROR, data)


def raising(bench):
    def broken(message):
        raise KeyError("application fault")

    bench.session.on_message = broken
    return bench


def inbound(packet_id, first=0x32, topic=b"a/b", payload=b"x"):
    """A PUBLISH of QoS 1 or 2."""
    return frame(first, text(topic) + u16(packet_id) + payload)


class TestCannotBeTaken(unittest.TestCase):
    """C6: 20 that are not acknowledged, and mosquitto sends no more."""

    def test_a_handler_that_raises_acknowledges_and_tells(self):
        bench = raising(Bench().connect())
        for number in range(1, 31):
            bench.say(inbound(number))
            self.assertEqual(bench.stream.take(), puback(number))
        session = bench.session
        self.assertEqual((session.handler_errors, session.received), (30, 0))

    def test_not_acknowledged_by_choice_has_a_bound_for_each_connection(self):
        bench = raising(Bench(options={"unacknowledged": 3}).connect())
        for connection in range(2):
            bench.say(b"\x30\x06\x00\x03a/bx")  # QoS 0 has no answer to hold back
            for number in range(1, 9):
                bench.say(inbound(number))
            answered = b"".join([puback(number) for number in range(4, 9)])
            self.assertEqual(bench.stream.take(), answered, connection)
            bench.drop()
            bench.connect()
        for count in (-1, 17):
            with self.assertRaises(ValueError):
                Bench(options={"unacknowledged": count})

    def test_a_topic_longer_than_the_buffer_is_skipped_and_acknowledged(self):
        for mode, first, answer in (
            ("broker", 0x32, 0x40), ("streaming", 0x32, 0x40), ("exactly once", 0x34, 0x50),
        ):  # fmt: skip
            for chunk in (1, 3, 64):
                bench = Bench(mode, chunk=chunk).connect()
                bench.session.on_piece = lambda *_: None
                for length in (249, 250, 251, 252, 253, 254, 255, 256, 300):
                    topic = b"t" * length
                    bench.say(inbound(0x1234, first, topic, b"payload"), polls=320 // chunk + 4)
                    self.assertEqual(bench.stream.take(), bytes((answer, 2, 0x12, 0x34)), length)
                    if first == 0x34:
                        bench.say(b"\x62\x02\x12\x34")
                    bench.say(inbound(7, 0x32), polls=16)
                    self.assertEqual(bench.stream.take()[-4:], puback(7))
                streamed = 4 if mode == "streaming" else 0  # of those the buffer holds the topic
                found = (bench.session.skipped, bench.session.received)
                self.assertEqual(found, (9 - streamed, 9 + streamed))

    def test_its_identifier_0_is_a_protocol_error(self):
        bench = Bench().connect().say(inbound(0, 0x32, b"t" * 300), polls=40)
        self.assertEqual(bench.client.last_error, status.PROTOCOL_ERROR)

    def test_qos_2_of_an_old_session_comes_at_least_once_and_the_connection_stays(self):
        """C3: a protocol error here would end each connection: 158 a minute."""
        for mode, level in (("broker", 4), ("streaming", 3), ("collector", 4)):
            bench = Bench(mode, options={"level": level}).connect()
            for first in (0x34, 0x3C):
                bench.say(inbound(9, first))
                self.assertEqual(bench.stream.take(), b"\x50\x02\x00\x09")
            for first in (0x62, 0x6A if level == 3 else 0x62):  # 3.1 has a DUP there
                bench.say(bytes((first, 2, 0, 9)))
                self.assertEqual(bench.stream.take(), b"\x70\x02\x00\x09")
            self.assertEqual((bench.session.received, bench.client.failures), (2, 0))
        bench = Bench("streaming").connect()
        bench.session.on_piece = lambda *_: None
        bench.say(inbound(9, 0x34, payload=bytes(900)), 40)
        self.assertEqual((bench.stream.take(), bench.session.received), (b"\x50\x02\x00\x09", 1))


class TestFilters(unittest.TestCase):
    """C5: a filter that no server takes is not asked for; one on which it closes is given up."""

    def test_a_filter_may_be_a_bytearray_that_changes(self):
        for bench in (Bench(), Bench5()):
            topic_filter = bytearray(b"a/b")
            more = () if type(bench) is Bench else (False, False, 0, 7)
            self.assertEqual(bench.session.subscribe(topic_filter, 1, *more), status.OK)
            topic_filter[0] = 0x62
            for _ in range(2):
                bench.poll(4).connect(CONNACK if not more else connack())
                bench.stream.ended = True
                bench.poll(100)
            self.assertEqual(bench.session.filters, [[b"a/b", 1, -1]])

    def test_rules_of_4_7(self):
        session = Bench().session
        for good in (
            b"#", b"+", b"/", b"a/#", b"+/+", b"/+", b"a//b", b"a/+/#", b"$SYS/#", b"$share/g/#",
            b"$share/g/a/+", b"$share/g//", b" ", b"a" * 65_535, "gr\u00fcn/\u6e29".encode(),
        ):  # fmt: skip
            self.assertEqual(session.subscribe(good, 1), status.OK, good[:9])
        for bad in (
            b"", b"a/#/b", b"#/",
            b"a#", b"a+", b"+a/b", b"a/b+/c", b"##", b"++", b"a\x00", b"a\xb0C",
            b"\xed\xa0\x80", b"a" * 65_536, b"$share", b"$share/g", b"$share/g/", b"$share//a",
            b"$share/+/a", b"$share/#/a", b"$share/a+/b", b"$share/g/a+",
        ):  # fmt: skip
            self.assertEqual(session.subscribe(bad, 1), status.BAD_TOPIC, bad[:9])
            self.assertEqual(session.unsubscribe(bad), status.BAD_TOPIC, bad[:9])

    def test_a_suback_with_too_few_codes_does_not_loop(self):
        bench = Bench()
        for name in (b"1", b"2"):
            bench.session.subscribe(name, 1)
        requests = 0
        for _ in range(12):
            bench.connect().poll(10)
            while bench.session._requested and bench.client.is_connected():
                requests += 1
                bench.say(b"\x90\x02" + bench.session._request_id.to_bytes(2, "big"))
            if bench.client.is_connected():
                break
        self.assertTrue(bench.client.is_connected())
        self.assertEqual(requests, 6)  # both twice, then each alone twice
        self.assertEqual([entry[2] for entry in bench.session.filters], [255, 255])
        self.assertEqual(bench.session.refused, 2)
        self.assertEqual(bench.client.publish(b"t", b"x"), status.OK)
        self.assertEqual(len(bench.sent()), 1)
        bench.session.subscribe(b"1", 0)
        self.assertEqual(answers(bench)[0], [(0x82, b"\x80\x00\x00\x011\x00")])


class TestFairness(unittest.TestCase):
    """C12."""

    def test_a_flood_of_messages_does_not_starve_the_outbox(self):
        for mode, first in (("broker", 0x32), ("collector", 0x32), ("exactly once", 0x34)):
            bench = Bench(mode).connect().publish(*[b"%d" % number for number in range(16)])
            number = 0
            sent = []
            for _ in range(100):
                for _ in range(4):
                    number += 1
                    bench.stream.say(inbound(number, first))
                found = split(bench.poll().stream.take())
                sent += [body for first_byte, body in found if first_byte & 0xF0 == 0x30]
            self.assertEqual(len(sent), 16, mode)

    def test_nor_subscribe(self):
        bench = Bench().connect()
        bench.session.subscribe(b"x", 1)
        kinds = []
        for number in range(1, 20):
            bench.stream.say(inbound(number) * 4)
            kinds += [first for first, _ in split(bench.poll().stream.take())]
        self.assertTrue(0x82 in kinds[:4], kinds)

    def test_a_full_outbox_does_not_starve_answers(self):
        bench = Bench().connect().publish(*[b"%d" % number for number in range(40)])
        bench.say(inbound(1) * 3, polls=8)
        kinds = [first for first, _ in split(bench.stream.take())]
        self.assertEqual(kinds.count(0x40), 3, kinds)


if __name__ == "__main__":
    unittest.main()
