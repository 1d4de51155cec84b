"""A session that receives, at its borders: of packets, of the buffer, of time, and of what goes out
when several things are due."""

import unittest

from outpost import status
from outpost.ram_outbox import RamOutbox
from outpost.subscribing import SubscribingSession, encode_filters
from test_session import CONNACK, PINGREQ, connected, make, opened, publish, say, written
from virtual.packets import frame, text, u16

SUBSCRIBE_X = b"\x82\x06\x80\x00\x00\x01x\x01"
KEPT = b"\x20\x02\x01\x00"  # CONNACK: the server has the session
PUBLISH = b"\x32\x05\x00\x01t\x00"  # of test_session.publish(), without its last byte


def subscriber(**options):
    return connected(SubscribingSession, **options)


def inbound(packet_id, first=0x32, topic=b"a", payload=b""):
    return frame(first, text(topic) + (u16(packet_id) if first & 6 else b"") + payload)


def take(one, data):
    """From the server; answers stay due."""
    assert one.receive(data, 0, len(data)) == len(data)
    return one


def packet(one):
    """The next one that goes out."""
    length = one.next_packet()
    one.out_end = 0
    return bytes(one.out[:length])


def again(one, error=status.LINK_LOST, connack=KEPT):
    """The connection ends so, and the next one begins: what goes out on it."""
    one.lost(error)
    one.open()
    written(one)
    return written(take(one, connack))


class TestRequests(unittest.TestCase):
    def test_bytes_of_subscribe_and_unsubscribe(self):
        name = b"n" * 0x123
        entries = [(b"a", 1, -1), (b"b", 0, -1)]
        self.assertEqual(
            encode_filters(0x12FE, entries), b"\x82\x0a\x12\xfe\x00\x01a\x01\x00\x01b\x00"
        )
        self.assertEqual(encode_filters(7, [(b"a", -1, -1)]), b"\xa2\x05\x00\x07\x00\x01a")
        self.assertEqual(
            encode_filters(7, [(name, 0, -1)]), b"\x82\xa8\x02\x00\x07\x01\x23" + name + b"\x00"
        )

    def test_qos_0_unless_told(self):
        one = subscriber()
        self.assertEqual(one.subscribe(b"x"), status.OK)
        self.assertEqual(one.filters, [[b"x", 0, -1]])

    def test_any_granted_qos_is_taken_and_no_other_code(self):
        """Of the first filter and of the last."""
        for code, expected in (
            (0, status.OK), (1, status.OK), (2, status.OK), (128, status.OK),
            (3, status.PROTOCOL_ERROR), (127, status.PROTOCOL_ERROR), (129, status.PROTOCOL_ERROR),
        ):  # fmt: skip
            for codes in ((code, 1), (1, code)):
                one = make(SubscribingSession, rx_bytes=4)  # which SUBACK fills
                one.subscribe(b"a", 1)
                one.subscribe(b"b", 0)
                one.open()
                written(one)
                self.assertEqual(
                    written(take(one, CONNACK)), encode_filters(0x8000, one.filters), code
                )
                self.assertEqual(say(one, b"\x90\x04\x80\x00" + bytes(codes)), expected, codes)
                if expected == status.OK:
                    self.assertEqual([entry[2] for entry in one.filters], list(codes))
                    self.assertEqual(one.refused, codes.count(128))

    def test_no_more_filters_than_the_codes_that_the_buffer_holds(self):
        for level in (3, 4):
            for rx_bytes, most in ((4, 2), (5, 3), (9, 7), (10, 8), (64, 8)):
                one = make(SubscribingSession, rx_bytes=rx_bytes, level=level)
                for number in range(11):
                    one.subscribe(b"%d" % (100 + number), 1)
                one.open()
                written(one)
                sizes, request = [], written(take(one, CONNACK))
                while request:
                    sizes.append((len(request) - 4) // 6)
                    codes = bytes(b"\x01" * sizes[-1])
                    answer = bytes((0x90, 2 + len(codes))) + request[2:4] + codes
                    request = written(take(one, answer))
                self.assertEqual((max(sizes), sum(sizes)), (most, 11))
                self.assertEqual([entry[2] for entry in one.filters], [1] * 11)

    def test_unsuback_has_no_codes(self):
        for answer, expected in (
            (b"\xb0\x02\x80\x00", status.OK),
            (b"\xb0\x03\x80\x00\x00", status.PROTOCOL_ERROR),
            (b"\x90\x02\x80\x00", status.PROTOCOL_ERROR),
        ):
            one = subscriber()
            one.unsubscribe(b"x")
            one.unsubscribe(b"y")
            one.subscribe(b"z", 1)
            self.assertEqual(written(one), b"\xa2\x08\x80\x00\x00\x01x\x00\x01y")
            self.assertEqual(say(one, answer), expected, answer)

    def test_one_without_an_answer_is_late_after_six_times_response_ms(self):
        one = subscriber(response_ms=1000)
        self.assertEqual(one.subscribe(b"x", 1), status.OK)
        self.assertEqual(written(one), SUBSCRIBE_X)
        for now_ms, is_late in ((5999, False), (6000, True)):
            one.now_ms = now_ms
            self.assertEqual((one._on_late(0), one._on_late(1)), (is_late, False))
        say(one, b"\x90\x03\x80\x00\x01")
        one.now_ms = 90_000
        self.assertFalse(one._on_late(0))
        publish(one, 1)
        written(one)
        one.settle(True)
        one.now_ms += 6000
        self.assertTrue(one._on_late(0))


class TestVainRequests(unittest.TestCase):
    """Connections that end on a filter: twice together, twice alone, and it is given up."""

    def given_up(self):
        one = subscriber()
        one.subscribe(b"x", 1)
        self.assertEqual(written(one), SUBSCRIBE_X)
        for _ in range(3):
            self.assertEqual(again(one), SUBSCRIBE_X)
        self.assertEqual((one.filters[0][2], one.refused), (-1, 0))
        self.assertEqual(again(one), b"")
        self.assertEqual((one.filters[0][2], one.refused, one.connects), (255, 1, 5))
        return one

    def test_asked_for_again_after_a_connection_that_ended_otherwise(self):
        one = self.given_up()
        self.assertEqual(again(one), SUBSCRIBE_X)
        self.assertEqual(one.filters[0][2], -1)
        self.assertEqual(again(one), b"")  # the next end on it was enough
        self.assertEqual((one.filters[0][2], one.refused), (255, 2))

    def test_what_was_refused_is_asked_for_on_the_next_one_all_the_same(self):
        one = subscriber()
        one.subscribe(b"y", 1)
        written(one)
        self.assertEqual(say(one, b"\x90\x03\x80\x00\x80"), status.OK)
        one.subscribe(b"x", 1)
        self.assertEqual(written(one), SUBSCRIBE_X)
        self.assertEqual(again(one), b"\x82\x0a\x80\x00\x00\x01y\x01\x00\x01x\x01")

    def test_an_answer_restarts_the_count(self):
        one = self.given_up()
        self.assertEqual(again(one), SUBSCRIBE_X)
        self.assertEqual(say(one, b"\x90\x03\x80\x00\x01"), status.OK)
        for _ in range(4):
            self.assertEqual(again(one, connack=CONNACK), SUBSCRIBE_X)
            self.assertEqual(one.filters[0][2], -1)

    def test_ends_that_count(self):
        """The server's, on a request, while no message is out. L2: by DISCONNECT, too."""
        for error, messages, is_asked, counts in (
            (status.LINK_LOST, 0, True, True), (status.TAKEN_OVER, 0, True, True),
            (status.SERVER_LEFT, 0, True, True), (status.MOVED, 0, True, True),
            (status.TIMED_OUT, 0, True, True), (status.OK, 0, True, False),
            (status.STORAGE, 0, True, False), (status.SERVER_LEFT, 1, True, False),
            (status.LINK_LOST, 1, True, False), (status.TAKEN_OVER, 1, True, False),
            (status.LINK_LOST, 0, False, False),
        ):  # fmt: skip
            one = subscriber()
            one.subscribe(b"x", 1)
            publish(one, messages)
            written(one)
            if not is_asked:
                say(one, b"\x90\x03\x80\x00\x01")
            one.lost(error)
            self.assertEqual(bool(one._vain), counts, (error, messages, is_asked))

    def test_messages_are_suspected_as_in_any_session(self):
        one = subscriber()
        publish(one, 1)
        written(one)
        self.assertEqual(again(one), b"\x3a\x05\x00\x01t\x00\x01")
        self.assertEqual(again(one), PINGREQ)


class TestTurns(unittest.TestCase):
    """What is due at the same time goes out at the same time, and no answer waits for long."""

    def answered(self, **options):
        """It is the others' turn."""
        one = subscriber(**options)
        self.assertEqual(packet(take(one, inbound(7))), b"\x40\x02\x00\x07")
        return one

    def test_an_answer_then_a_request(self):
        one = subscriber()
        one.subscribe(b"x", 1)
        self.assertEqual(written(take(one, inbound(7))), b"\x40\x02\x00\x07" + SUBSCRIBE_X)

    def test_a_request_then_an_answer(self):
        one = self.answered()
        one.subscribe(b"x", 1)
        self.assertEqual(written(take(one, inbound(8))), SUBSCRIBE_X + b"\x40\x02\x00\x08")

    def test_a_message_then_an_answer(self):
        one = self.answered()
        publish(one, 1)
        self.assertEqual(written(take(one, inbound(8))), PUBLISH + b"\x01\x40\x02\x00\x08")

    def test_an_answer_when_no_message_may_go_out(self):
        one = self.answered(window=1)
        publish(one, 2)
        self.assertEqual(packet(one), PUBLISH + b"\x01")
        self.assertEqual(packet(take(one, inbound(8))), b"\x40\x02\x00\x08")
        self.assertEqual(packet(take(one, inbound(9))), b"\x40\x02\x00\x09")

    def test_nothing_due_lets_the_board_rest(self):
        waiting = subscriber()
        waiting.subscribe(b"x", 1)
        self.assertEqual(written(waiting), SUBSCRIBE_X)
        for one in (subscriber(), opened(SubscribingSession), waiting):
            for now_ms in (100, 200):
                one.now_ms = now_ms
                self.assertEqual((one.next_packet(), one.is_tick), (0, True))
                self.assertEqual((one.next_packet(), one.is_tick), (0, False))
            self.assertEqual(one.check_ms, 216)


class TestAnswersThatWait(unittest.TestCase):
    """Where what is in flight is bounded: up to 32, in one write."""

    def test_until_no_more_can(self):
        one = subscriber(in_flight_bytes=200)
        publish(one, 1)
        self.assertEqual(written(one), PUBLISH + b"\x01")
        for number in range(1, 32):
            found = written(take(one, inbound(number)))
            self.assertEqual(found, PINGREQ if number == 1 else b"", number)
            self.assertEqual((one.next_packet(), one.is_tick), (0, False))
        answers = b"".join([b"\x40\x02\x00" + bytes([number]) for number in range(1, 33)])
        self.assertEqual(written(take(one, inbound(32))), answers)

    def test_until_there_is_room(self):
        one = subscriber(in_flight_bytes=200)
        publish(one, 1)
        written(one)
        self.assertEqual(written(take(one, inbound(1))), PINGREQ)
        self.assertEqual(written(take(one, inbound(2))), b"")
        answers = b"\x40\x02\x00\x01\x40\x02\x00\x02"
        self.assertEqual(written(take(one, b"\xd0\x00")), answers)

    def test_none_while_there_is_room(self):
        one = subscriber(in_flight_bytes=2000)
        for number in range(1, 4):
            found = written(take(one, inbound(number)))
            self.assertEqual(found, b"\x40\x02\x00" + bytes([number]))


class TestMessages(unittest.TestCase):
    def test_one_that_fills_the_buffer_is_taken(self):
        for length, received in ((11, 1), (12, 1), (13, 0)):
            one = subscriber(rx_bytes=12)
            self.assertEqual(say(one, inbound(7, 0x32, b"a", bytes(length - 5))), status.OK)
            self.assertEqual((one.received, one.skipped), (received, 1 - received))

    def test_the_shortest(self):
        for data, expected in (
            (b"\x30\x03\x00\x01a", status.OK), (b"\x32\x05\x00\x01a\x00\x07", status.OK),
            (b"\x30\x02\x00\x00", status.PROTOCOL_ERROR),
            (b"\x30\x02\x00\x01", status.PROTOCOL_ERROR),
            (b"\x30\x03\x00\x02a", status.PROTOCOL_ERROR),
            (b"\x32\x04\x00\x01a\x00", status.PROTOCOL_ERROR),
        ):  # fmt: skip
            one = subscriber()
            self.assertEqual((say(one, data), one.received), (expected, int(not expected)), data)

    def test_each_byte_of_a_topic_is_looked_at(self):
        for topic in (b"+", b"#", b"\x00a", b"\x80a", b"a+", b"a\x00", b"a/\xc3"):
            data = inbound(7, 0x30, topic)
            self.assertEqual(say(subscriber(), data), status.PROTOCOL_ERROR, topic)

    def test_answers_have_the_identifier_of_their_packet(self):
        for packet_id in (b"\x00\x06", b"\x01\x00", b"\x12\x34", b"\xff\xff"):
            for data, first in (
                (b"\x32\x05\x00\x01a", 0x40), (b"\x34\x05\x00\x01a", 0x50), (b"\x62\x02", 0x70),
            ):  # fmt: skip
                one = subscriber()
                self.assertEqual(
                    written(take(one, data + packet_id)), bytes([first, 2]) + packet_id
                )
        self.assertEqual(say(subscriber(), b"\x62\x02\x00\x00"), status.PROTOCOL_ERROR)

    def test_of_qos_0_none_is_held_back(self):
        def broken(message):
            raise KeyError("application fault")

        one = subscriber(unacknowledged=1)
        one.on_message = broken
        self.assertEqual(written(take(one, inbound(0, 0x31))), b"")
        self.assertEqual(written(take(one, inbound(1))), b"")
        self.assertEqual(written(take(one, inbound(2))), b"\x40\x02\x00\x02")
        self.assertEqual(one.handler_errors, 3)

    def test_16_may_be_held_back_at_most(self):
        for count, is_taken in ((0, True), (16, True), (17, False), (-1, False)):
            try:
                SubscribingSession(RamOutbox(), b"dev", unacknowledged=count)
                self.assertTrue(is_taken, count)
            except ValueError:
                self.assertFalse(is_taken, count)


if __name__ == "__main__":
    unittest.main()
