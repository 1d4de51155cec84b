"""Answers of a server of MQTT 5.0 that are longer than the buffer: user properties, a long client
id, a text. None of them ends the connection."""

import unittest

from bench_level5 import Bench5, connected, sent
from outpost import status
from outpost.mqtt5 import level5_session
from packets5 import ack, connack, frame, length_of
from virtual.packets import decode

MODES = "broker", "streaming", "exactly once"
WINDOW = b"\x21\x00\x03"  # receive maximum


def users(size):
    """User properties of this many bytes."""
    found = b""
    while size - len(found) > 70:
        found += b"\x26\x00\x01n\x00\x1e" + b"v" * 30
    return (
        found + b"\x26\x00\x00" + bytes((0, size - len(found) - 5)) + b"v" * (size - len(found) - 5)
    )


def of_size(size):
    """Properties so that CONNACK, with a receive maximum at its end, has this remaining length."""
    count = size - 2 - (1 if size < 130 else 2 if size < 16_387 else 3)
    return users(count - len(WINDOW)) + WINDOW


def counted(properties):
    """With their length in front."""
    return length_of(len(properties)) + properties


def greeted(properties, mode="broker", **options):
    """CONNACK has come, whole."""
    bench = connected(properties, mode, **options)
    return bench.poll(len(properties) // 60 + 4)


def no_memory(size):
    raise MemoryError


class TestConnack(unittest.TestCase):
    def test_up_to_4_096_bytes_every_property_counts(self):
        for mode in MODES:
            for rx_bytes in (4, 8, 256):
                for size in (257, 300, 4095, 4096):
                    bench = greeted(of_size(size), mode, rx_bytes=rx_bytes)
                    self.assertTrue(bench.client.is_connected(), (mode, rx_bytes, size))
                    self.assertEqual(bench.session.window, 3)
                    self.assertEqual(len(bench.session.buffer), rx_bytes)

    def test_a_longer_one_connects_and_its_first_4_096_bytes_count(self):
        for size in (4097, 5000, 16_390, 60_000):
            for before, window in ((WINDOW, 3), (b"", 16)):
                count = size - 2 - (2 if size < 16_387 else 3) - len(WINDOW)
                properties = before + users(count) + (b"" if before else WINDOW)
                bench = greeted(properties, rx_bytes=8)
                self.assertTrue(bench.client.is_connected(), size)
                self.assertEqual((bench.session.window, len(bench.session.buffer)), (window, 8))
                bench.publish(b"x")
                self.assertEqual(len(sent(bench)), 1)

    def test_without_memory_what_the_buffer_has_counts(self):
        for rx_bytes in (4, 5, 6, 7, 8, 9, 12, 64):
            for properties in (WINDOW + users(300), users(90) + WINDOW):
                bench = Bench5(options={"rx_bytes": rx_bytes})
                level5_session.bytearray = no_memory
                try:
                    bench.connect(connack(properties)).poll(20)
                finally:
                    del level5_session.bytearray
                self.assertTrue(bench.client.is_connected(), rx_bytes)
                is_there = len(properties) > 300 and rx_bytes >= 4 + len(WINDOW)
                self.assertEqual(bench.session.window, 3 if is_there else 16, rx_bytes)

    def test_a_long_client_id_is_used_from_then_on(self):
        for size in (250, 1000, 4000):
            bench = greeted(b"\x12" + bytes((size >> 8, size & 255)) + b"i" * size, rx_bytes=8)
            self.assertEqual(bench.session.assigned_id, b"i" * size)
            fields = decode(bytes(bench.session.connect_packet), 5)[1]
            self.assertEqual(fields["client_id"], b"i" * size)

    def test_in_pieces_and_after_one_that_broke_off(self):
        data = connack(of_size(700))
        for step in (1, 3, 63):
            bench = Bench5(options={"rx_bytes": 8})
            bench.poll(4)
            bench.say(data[:400])
            self.assertTrue(len(bench.session.buffer) > 8)
            bench.drop()
            links = bench.links
            while bench.links == links:
                bench.poll()
            self.assertEqual(len(bench.session.buffer), 8)
            bench.poll(4)
            for at in range(0, len(data), step):
                bench.say(data[at : at + step], 1)
            self.assertEqual((bench.poll(4).session.window, len(bench.session.buffer)), (3, 8))

    def test_a_long_one_that_is_wrong_does_not_connect(self):
        for properties in (
            users(300) + b"\x07", WINDOW + users(300) + WINDOW, users(300) + b"\x21\x00\x00",
            b"\x21\x00\x00" + users(5000), users(300) + b"\x12\x00\x02\xff\xff",
        ):  # fmt: skip
            bench = greeted(properties, rx_bytes=8)
            self.assertFalse(bench.client.is_connected())
            self.assertEqual(bench.client.last_error, status.PROTOCOL_ERROR)
        bench = Bench5(options={"rx_bytes": 8})
        bench.connect(frame(0x20, b"\x00\x00\x05" + users(300))).poll(9)  # their length says 5
        self.assertEqual(bench.client.last_error, status.PROTOCOL_ERROR)

    def test_a_long_refusal_is_told(self):
        bench = Bench5(options={"rx_bytes": 8})
        bench.connect(frame(0x20, b"\x00\x87" + counted(users(300)))).poll(9)
        self.assertEqual((bench.client.last_error, bench.session.reason), (status.REFUSED, 0x87))
        self.assertEqual(len(bench.session.buffer), 8)


class TestOthers(unittest.TestCase):
    def test_acknowledgements(self):
        for rx_bytes in (4, 5, 8, 64):
            for size in (60, 130, 300):
                for code in (0, 0x10, 0x87):
                    bench = connected(rx_bytes=rx_bytes).publish(b"x", b"y")
                    sent(bench)
                    bench.say(ack(0x40, 1, code, users(size)) + ack(0x40, 2), 20)
                    self.assertEqual(bench.outbox.oldest_seq, 2, (rx_bytes, size, code))
                    self.assertEqual(bench.outbox.aside, code == 0x87)
                    self.assertEqual(bench.client.failures, 0)

    def test_disconnect(self):
        for rx_bytes in (4, 8, 64):
            for size in (60, 130, 300):
                more = b"\x1c\x00\x01s" + users(size)
                bench = connected(rx_bytes=rx_bytes)
                bench.say(frame(0xE0, b"\x9d" + counted(more)), 20)
                self.assertEqual(bench.client.last_error, status.MOVED)
                is_there = 1 + len(counted(more)) - len(more) + 4 <= rx_bytes
                self.assertEqual(bench.session.server.get(0x1C), b"s" if is_there else None)

    def test_suback_and_unsuback(self):
        for rx_bytes in (4, 5, 8, 11, 64):
            for size in (60, 130, 300):
                bench = connected(rx_bytes=rx_bytes)
                self.check_filters(bench, counted(users(size)))

    def check_filters(self, bench, properties):
        names = [b"f/%d" % number for number in range(10)]
        for name in names:
            self.assertEqual(bench.session.subscribe(name, 1), 0)
        count = self.answered(bench, 0x82, 0x90, properties, (1, 0x87, 0))
        self.assertEqual(count, 10)
        codes = [entry[2] for entry in bench.session.filters]
        self.assertEqual(codes, [self.answers[name] for name in names])
        for name in names:
            self.assertEqual(bench.session.unsubscribe(name), 0)
        self.assertEqual(self.answered(bench, 0xA2, 0xB0, properties, (0, 0x11)), 10)
        self.assertEqual((bench.session.filters, bench.client.failures), ([], 0))

    def answered(self, bench, first, answer, properties, codes):
        """The server answers each request. Returns how many filters there were."""
        self.answers, count = {}, 0
        for _ in range(40):
            data = bench.poll(4).stream.take()
            if not data:
                break
            self.assertEqual(data[0], first)
            at, given = (5 if data[1] < 128 else 6), b""
            while at < len(data):
                end = at + 2 + data[at + 1]
                code = codes[count % len(codes)]
                self.answers[data[at + 2 : end]] = code
                given += bytes((code,))
                count += 1
                at = end + (first == 0x82)
            self.assertTrue(len(given) <= max(len(bench.session.buffer) - 3, 1))
            at = 2 if data[1] < 128 else 3
            bench.say(frame(answer, data[at : at + 2] + properties + given), 20)
        return count

    def test_a_long_suback_with_another_number_of_codes_is_malformed(self):
        for rx_bytes in (4, 8, 64):
            for codes in (b"", b"\x00\x00"):
                bench = connected(rx_bytes=rx_bytes)
                bench.session.subscribe(b"a")
                packet_id = bench.poll(4).stream.take()[2:4]
                properties = counted(users(300))
                bench.say(frame(0x90, packet_id + properties + codes), 20)
                self.assertEqual(bench.stream.take(), b"\xe0\x01\x81")

    def test_one_that_nobody_asked_for(self):
        bench = connected(rx_bytes=8)
        bench.say(frame(0x90, b"\x00\x01" + counted(users(300)) + b"\x00"), 20)
        self.assertEqual(bench.client.last_error, status.PROTOCOL_ERROR)

    def test_messages_still_arrive(self):
        bench, found = greeted(of_size(300), rx_bytes=16), []
        bench.session.on_message = lambda one: found.append(one.payload_length)
        bench.say(b"\x30\x06\x00\x01a\x00xy").publish(b"1")
        self.assertEqual((found, len(sent(bench))), ([2], 1))


if __name__ == "__main__":
    unittest.main()
