"""MQTT 5.0 where messages come in: SUBSCRIBE's options, properties read in place."""

import unittest

from bench_client import WORD, confirmation, queued, split
from bench_level5 import Bench5, connected, sent
from outpost import status
from packets5 import ack, connack, frame
from virtual.packets import encode_properties


def asked(bench):
    bench.poll(3)
    return [one for one in split(bench.stream.take()) if one[0] & 0xDF == 0x82]


class TestSubscribe(unittest.TestCase):
    def test_options_and_identifier_byte_by_byte(self):
        bench = connected()
        bench.session.subscribe(b"a", 1)
        bench.session.subscribe(b"b", 0, identifier=300)
        first = asked(bench)[0][1]
        self.assertEqual(first[2:], b"\x03\x0b\xac\x02\x00\x01b\x00", "it goes alone")
        bench.say(frame(0x90, first[:2] + b"\x00\x00"))
        self.assertEqual([entry[2] for entry in bench.session.filters], [-1, 0])
        bench = connected()
        bench.session.subscribe(b"a/#", 1, no_local=True, as_published=True, retained=2)
        self.assertEqual(asked(bench)[0][1][2:], b"\x00\x00\x03a/#\x2d")

    def test_options_that_no_packet_has_are_refused(self):
        """Encoded, they would end the program at each connection."""
        bench = connected()
        for options in (
            {"retained": -1}, {"retained": 3}, {"identifier": -1}, {"identifier": 0x10000000},
        ):  # fmt: skip
            self.assertEqual(bench.session.subscribe(b"a", 1, **options), status.BAD_TOPIC)
        self.assertEqual(bench.session.filters, [])
        bench.session.subscribe(b"a", 1, no_local=4, as_published=2)
        self.assertEqual(asked(bench)[0][1][2:], b"\x00\x00\x01a\x0d", "as of True")

    def answered(self, codes, properties=b"", filters=(b"a", b"b"), kind=0x90):
        bench = connected()
        for one in filters:
            bench.session.subscribe(one, 1)
        request = asked(bench)[0]
        body = request[1][:2] + bytes((len(properties),)) + properties + codes
        bench.say(frame(kind, body))
        return bench

    def test_codes_of_suback(self):
        bench = self.answered(b"\x01\x87", b"\x1f\x00\x02no")
        self.assertEqual([entry[2] for entry in bench.session.filters], [1, 0x87])
        self.assertEqual((bench.session.refused, bench.session.reason), (1, 0x87))
        bench.drop()
        bench.connect(connack())
        self.assertTrue(all(entry[2] < 0 for entry in bench.session.filters), "asked for again")

    def test_codes_that_do_not_exist_and_too_few(self):
        for codes in (b"\x01\x03", b"\x01", b"\x01\x01\x01"):
            bench = self.answered(codes)
            self.assertEqual(bench.client.last_error, status.PROTOCOL_ERROR)

    def test_unsuback_has_codes(self):
        bench = self.answered(b"\x01", filters=(b"a",))
        bench.session.unsubscribe(b"a")
        request = asked(bench)[0]
        self.assertEqual((request[0], request[1][2:]), (0xA2, b"\x00\x00\x01a"))
        bench.say(frame(0xB0, request[1][:2] + b"\x00\x11"))
        self.assertEqual(bench.session.filters, [])

    def test_filters_that_the_server_does_not_take(self):
        bench = connected(b"\x28\x00\x29\x00\x2a\x00")
        for arguments in ((b"a/#",), (b"$share/g/a",), (b"a", 0, False, False, 0, 7)):
            self.assertEqual(bench.session.subscribe(*arguments), status.BAD_TOPIC)
        self.assertEqual(asked(bench), [])
        bench = Bench5()
        bench.session.subscribe(b"a/#")
        bench.connect(connack(b"\x28\x00"))
        self.assertEqual(asked(bench), [])
        self.assertEqual(bench.session.filters[0][2], 0xA2)


class TestMessages(unittest.TestCase):
    def came(self, body, first=0x30, mode="broker"):
        bench, found = connected(mode=mode), []

        def on_message(session):
            at, count = session.payload_at, session.payload_length
            found.append(bytes(session.buffer[at : at + count]))

        bench.session.on_message = on_message
        bench.say(frame(first, body), 14)
        return bench, found

    def test_payload_after_the_properties(self):
        bench, found = self.came(b"\x00\x01a\x09\x01\x01\x03\x00\x04jsonpay")
        self.assertEqual(found, [b"pay"])
        session = bench.session
        self.assertEqual(session.buffer[session.property_at(1)], 1)
        at = session.property_at(3)
        self.assertEqual(bytes(session.buffer[at : at + 6]), b"\x00\x04json")
        self.assertEqual(session.property_at(2), -1)

    def test_properties_that_come_often(self):
        body = b"\x00\x01a\x12\x0b\x05\x0b\x06\x26\x00\x01n\x00\x01v\x26\x00\x01n\x00\x01w"
        session = self.came(body)[0].session
        at = session.property_at(0x26)
        self.assertEqual(session.buffer[at + 5], ord("v"))
        at = session.property_at(0x26, at)
        self.assertEqual(session.buffer[at + 5], ord("w"))
        self.assertEqual(session.property_at(0x26, at), -1)
        at = session.property_at(0x0B)
        self.assertEqual(
            [session.buffer[at], session.buffer[session.property_at(0x0B, at)]], [5, 6]
        )

    def test_answers(self):
        for qos, first in ((1, 0x40), (2, 0x50)):
            bench, found = self.came(b"\x00\x01a\x00\x07\x00x", 0x30 | qos << 1, "exactly once")
            self.assertEqual((found, bench.stream.take()), ([b"x"], bytes((first, 2, 0, 7))))

    def test_alias_was_not_offered(self):
        """[MQTT-3.3.2-11]"""
        bench, found = self.came(b"\x00\x01a\x03\x23\x00\x01x")
        self.assertEqual((found, bench.stream.take()), ([], b"\xe0\x01\x94"))

    def test_a_topic_with_a_wildcard_closes(self):
        for topic in (b"+", b"a/#"):
            body = bytes((0, len(topic))) + topic + b"\x00x"
            bench, found = self.came(body)
            self.assertEqual((found, bench.stream.take()), ([], b"\xe0\x01\x81"))

    def test_too_long_is_skipped_wherever_the_buffer_ends(self):
        for count in range(240, 262):
            value = b"v" * count
            properties = encode_properties([(0x26, (b"n", value))])
            bench, found = self.came(b"\x00\x01a\x00\x07" + properties + b"x" * 200, 0x32)
            self.assertEqual((found, bench.session.skipped), ([], 1))
            self.assertEqual(bench.stream.take(), b"\x40\x02\x00\x07")

    def test_pieces_of_a_long_message(self):
        bench, found = connected(mode="streaming"), []

        def on_piece(session, data, at, count):
            found.append(bytes(data[at : at + count]))

        bench.session.on_piece = on_piece
        payload = bytes(range(256)) * 4
        bench.say(frame(0x32, b"\x00\x01a\x00\x07\x02\x01\x01" + payload), 60)
        self.assertEqual(b"".join(found), payload)
        self.assertEqual(bench.stream.take(), b"\x40\x02\x00\x07")


class TestQueuedMode(unittest.TestCase):
    """Confirmations from the queue of the board's session (`queued.py`)."""

    def bench(self):
        bench = Bench5("queued", blocks=4)
        bench.poll(4)
        bench.stream.take()
        bench.stream.say(connack())
        request = asked(bench)[0]
        self.assertEqual(request[1][2:], b"\x00\x00" + bytes((len(WORD),)) + WORD + b"\x01")
        return bench.say(frame(0x90, request[1][:2] + b"\x00\x01")).poll(30)

    def word(self, seq, packet_id):
        data = queued(seq, packet_id)
        at = 2 + 2 + len(WORD) + 2
        return frame(0x32, data[2:at] + b"\x00" + data[at:])

    def test_confirmed_released_and_acknowledged(self):
        bench = self.bench().publish(b"x", b"y")
        self.assertEqual(len(sent(bench)), 2)
        bench.say(ack(0x40, 1, 0x10)).say(ack(0x40, 2))
        self.assertEqual(bench.outbox.oldest_seq, 0, "nobody has it yet: kept")
        bench.say(self.word(0, 9))
        self.assertEqual((bench.outbox.oldest_seq, bench.stream.take()), (1, b"\x40\x02\x00\x09"))
        bench.say(self.word(1, 10))
        self.assertEqual(bench.outbox.oldest_seq, 2)

    def test_a_session_that_goes_on_brings_the_words_of_the_outage(self):
        bench = self.bench().publish(b"x")
        sent(bench)
        bench.say(ack(0x40, 1)).drop()
        links = bench.links
        while bench.links == links:
            bench.poll()
        bench.poll(4).stream.take()
        bench.say(connack(session_present=1) + self.word(0, 9), 8)
        self.assertEqual(bench.outbox.oldest_seq, 1)

    def test_words_with_properties_count(self):
        bench = self.bench().publish(b"x")
        sent(bench)
        bench.say(ack(0x40, 1))
        data = queued(0, 9)
        at = 2 + 2 + len(WORD) + 2
        bench.say(frame(0x32, data[2:at] + b"\x07\x26\x00\x01n\x00\x01v" + data[at:]))
        self.assertEqual(bench.outbox.oldest_seq, 1)


class TestHandlersInBetween(unittest.TestCase):
    """on_refused is called while answers are due: the server takes packets of 60 bytes, and one
    that was stored before is withdrawn."""

    def withdrawn(self, on_refused):
        """Returns the packets that went out."""
        bench = connected()
        bench.drop()
        bench.publish(bytes(100))
        bench.session.on_refused = lambda seq, code: on_refused(bench, code)
        while bench.stream.closed:
            bench.poll()
        asked = [frame(0x32, b"\x00\x03a/b" + bytes((0, one)) + b"\x00x") for one in (1, 2, 3)]
        bench.stream.say(connack(b"\x27\x00\x00\x00\x3c", session_present=1) + b"".join(asked))
        stream = bench.stream
        bench.poll(30)
        return split(stream.take())

    def test_what_it_publishes_is_not_replaced_by_an_answer(self):
        said = []

        def tell(bench, code):
            said.append(bench.client.publish(b"fault", b"%x" % code, 0))

        found = self.withdrawn(tell)
        self.assertEqual(said, [0])
        self.assertEqual([body[-2:] for first, body in found if first == 0x30], [b"95"])
        self.assertEqual([first for first, _ in found].count(0x40), 3)

    def test_no_answer_follows_on_a_connection_that_it_closed(self):
        found = self.withdrawn(lambda bench, _: bench.client.close())
        self.assertEqual([first for first, _ in found].count(0x40), 1)


class TestCollectorMode(unittest.TestCase):
    def test_confirmed_and_released(self):
        bench = Bench5("collector")
        bench.poll(40)
        bench.stream.say(connack())
        request = asked(bench)[0]
        self.assertEqual(request[1][3:], b"\x00" + bytes((len(WORD),)) + WORD + b"\x00")
        bench.say(frame(0x90, request[1][:2] + b"\x00\x00")).poll(30)
        bench.publish(b"x")
        identifier = sent(bench)[0][1]
        bench.say(ack(0x40, identifier, 0x10))
        self.assertEqual(bench.outbox.oldest_seq, 0, "nobody has it yet: kept")
        word = confirmation(0)
        body = word[2 : 4 + len(WORD)] + b"\x00" + word[4 + len(WORD) :]
        bench.say(frame(0x31, body))
        self.assertEqual(bench.outbox.oldest_seq, 1)


if __name__ == "__main__":
    unittest.main()
