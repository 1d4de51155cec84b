import unittest

from bench_client import Bench, puback
from outpost import status
from virtual.packets import frame, text


def message(payload, first=0x32, topic=b"a/b"):
    return frame(first, text(topic) + (b"\x00\x0a" if first & 6 else b"") + payload)


def streamed(chunk, payload, first=0x32, topic=b"a/b"):
    """A bench that got the message in segments of that size, with what the handler saw: (where,
    bytes).
    """
    bench, pieces = Bench("streaming", keep_alive_s=0, chunk=chunk).connect(), []
    bench.session.on_piece = lambda m, data, at, count: pieces.append(
        (m.piece_at, bytes(data[at : at + count]))
    )
    data = message(payload, first, topic)
    for start in range(0, len(data), 4000):
        bench.say(data[start : start + 4000], polls=4000 // min(chunk or 64, 64) + 5)
    return bench, pieces


PAYLOAD = bytes([n * 7 & 255 for n in range(5000)])


class TestStreaming(unittest.TestCase):
    def test_every_byte_once_and_in_order(self):
        for chunk in (1, 7, 127, 128, None):
            bench, pieces = streamed(chunk, PAYLOAD)
            at = 0
            for piece_at, data in pieces:
                self.assertEqual(piece_at, at)
                at += len(data)
            self.assertEqual(b"".join([data for _, data in pieces]), PAYLOAD, chunk)
            self.assertEqual(
                (bench.session.received, bench.session.skipped, bench.stream.take()),
                (1, 0, puback(10)),
            )
            self.assertEqual(
                (bench.session.payload_length, bench.session.is_on(b"a/b")), (5000, True)
            )

    def test_64_kib_into_256_bytes(self):
        bench, pieces = streamed(None, bytes(65_536), first=0x30)
        self.assertEqual(
            (sum([len(data) for _, data in pieces]), len(bench.session.buffer)), (65_536, 256)
        )
        self.assertTrue(bench.client.is_connected())

    def test_short_ones_go_to_on_message(self):
        bench, pieces = streamed(None, b"short")
        self.assertEqual((pieces, bench.session.received), ([], 1))

    def test_topic_longer_than_the_buffer_and_broken_ones(self):
        bench, pieces = streamed(None, b"x" * 300, topic=b"t" * 250)
        self.assertEqual(
            (b"".join([data for _, data in pieces]), bench.session.received), (b"x" * 300, 1)
        )
        for topic in (b"a\xffb", b"a\x00"):
            bench, pieces = streamed(None, PAYLOAD, topic=topic)
            self.assertEqual((pieces, bench.client.last_error), ([], status.PROTOCOL_ERROR))

    def test_a_handler_that_raises_ends_the_stream_without_acknowledgement(self):
        for failing in (0, 3):
            bench, calls = Bench("streaming", options={"unacknowledged": 1}).connect(), []

            def broken(m, data, at, count, failing=failing, calls=calls):
                calls.append(count)
                if len(calls) > failing:
                    raise KeyError("application fault")

            bench.session.on_piece = broken
            bench.say(message(PAYLOAD), 100)
            self.assertEqual(
                (len(calls), bench.session.handler_errors, bench.stream.take()),
                (failing + 1, 1, b""),
            )
            bench.say(b"\x32\x08\x00\x03a/b\x00\x0bx")
            self.assertEqual((bench.session.received, bench.stream.take()), (1, puback(11)))

    def test_a_handler_that_raises_acknowledges_after_the_last_piece(self):
        bench = Bench("streaming").connect()
        bench.session.on_piece = lambda m, data, at, count: {}[at]
        bench.say(message(PAYLOAD), 100)
        self.assertEqual((bench.session.handler_errors, bench.stream.take()), (1, puback(10)))

    def test_without_a_handler_it_is_skipped_and_acknowledged(self):
        bench = Bench("streaming").connect()
        bench.say(message(PAYLOAD), 100)
        self.assertEqual((bench.session.skipped, bench.stream.take()), (1, puback(10)))

    def test_a_link_that_breaks_in_the_middle_begins_anew(self):
        bench, pieces = Bench("streaming").connect(), []
        bench.session.on_piece = lambda m, data, at, count: pieces.append(
            bytes(data[at : at + count])
        )
        bench.say(message(PAYLOAD)[:2000], 60)
        bench.drop()
        bench.connect(b"\x20\x02\x01\x00")
        pieces.clear()
        bench.say(message(PAYLOAD, 0x3A), 100)
        self.assertEqual((b"".join(pieces), bench.stream.take()), (PAYLOAD, puback(10)))


if __name__ == "__main__":
    unittest.main()
