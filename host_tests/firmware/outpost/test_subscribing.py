import unittest

from bench_client import Bench, puback, split
from outpost import status
from outpost.subscribing import is_topic

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
            subscribes, _ = answers(bench)
            self.assertEqual(len(subscribes), 0 if present else 1)

    def test_a_request_without_an_answer_goes_again_on_the_next_connection(self):
        bench = Bench().connect()
        bench.session.subscribe(b"x", 1)
        self.assertEqual(len(answers(bench)[0]), 1)
        self.assertEqual(bench.session.subscribe(b"y", 1), status.BUSY)
        bench.drop()
        bench.poll(60).stream.take()
        bench.stream.say(b"\x20\x02\x01\x00")
        self.assertEqual(answers(bench)[0], [(0x82, b"\x80\x00\x00\x01x\x01")])

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

    def test_a_handler_that_raises_does_not_acknowledge(self):
        bench = Bench().connect()

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
            b"\x36\x07\x00\x03a/b\x00\x0a", b"\x34\x07\x00\x03a/b\x00\x0a",
            b"\x32\x07\x00\x03a/b\x00\x00", b"\x30\x02\x00\x00", b"\x30\x04\x00\x09ab",
            b"\x30\x01\x00", b"\x30\x05\x00\x03a\x00b", b"\x30\x05\x00\x03a\xc0\x80", b"\x30\x00",
        )  # fmt: skip
        for data in broken:
            bench = Bench().connect()
            bench.say(data)
            self.assertEqual(bench.client.last_error, status.PROTOCOL_ERROR, data)


class TestUtf8(unittest.TestCase):
    def test_every_border(self):
        for code in (1, 0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF):
            data = chr(code).encode()
            self.assertTrue(is_topic(data, 0, len(data)), data)
            for cut in range(1, len(data)):
                self.assertFalse(is_topic(data, 0, cut), data)

    def test_ill_formed(self):
        for data in (
            b"\x00", b"\x80", b"\xbf", b"\xc0\x80", b"\xc1\xbf", b"\xe0\x80\x80", b"\xe0\x9f\xbf",
            b"\xed\xa0\x80", b"\xed\xbf\xbf", b"\xf0\x80\x80\x80", b"\xf0\x8f\xbf\xbf",
            b"\xf4\x90\x80\x80", b"\xf5\x80\x80\x80", b"\xff", b"\xc3a", b"\xe2\x82a", b"\xc3\xc3",
            b"\xfe", b"\xf8\x88\x80\x80\x80",
        ):  # fmt: skip
            self.assertFalse(is_topic(data, 0, len(data)), data)

    def test_agrees_with_the_interpreter_on_all_two_byte_texts(self):
        for high in range(0x80, 0x100):
            for low in range(0, 0x100, 3):
                data = bytes([high, low])
                self.assertEqual(is_topic(data, 0, 2), 0xC2 <= high <= 0xDF and 0x80 <= low <= 0xBF)


if __name__ == "__main__":
    unittest.main()
