import unittest

from outpost import session
from outpost.reader import Reader
from outpost.session import Session, elapsed_ms, packet_id_of


def read(data):
    reader = Reader(64)
    reader.feed(data, 0, len(data))
    return reader


def connected(**options):
    one = Session(b"dev", **options)
    one.open(0)
    one.next_packet(bytearray(128), 0)
    assert one.received(read(b"\x20\x02\x00\x00")) == session.ESTABLISHED
    return one


def send(one, count):
    sent = []
    while count and one.may_send():
        sent.append(one.next_send)
        one.sent(0)
        count -= 1
    return sent


def puback(seq):
    return read(b"\x40\x02" + bytes([packet_id_of(seq) >> 8, packet_id_of(seq) & 255]))


class TestConnection(unittest.TestCase):
    def test_connack_refusals_are_told_with_their_code(self):
        for code in range(1, 6):
            one = Session(b"dev")
            one.open(0)
            self.assertEqual(one.received(read(b"\x20\x02\x00" + bytes([code]))), session.CONNECTION_REFUSED)
            self.assertEqual(one.return_code, code)

    def test_anything_but_a_sound_connack_first_is_a_protocol_error(self):
        unsound = (
            b"\x20\x02\x02\x00",
            b"\x20\x02\x01\x01",
            b"\x20\x03\x00\x00\x00",
            b"\xd0\x00",
            b"\x40\x02\x00\x01",
            b"\x21\x02\x00\x00",
        )
        for data in unsound:
            one = Session(b"dev")
            one.open(0)
            self.assertEqual(one.received(read(data)), session.PROTOCOL_ERROR)

    def test_reserved_types_and_flags_are_protocol_errors(self):
        for first in (0x00, 0xF0, 0x10, 0x41, 0x91, 0xD1, 0x50, 0x62, 0x70, 0xC0, 0xE0):
            self.assertEqual(connected().received(read(bytes([first]) + b"\x02\x00\x01")), session.PROTOCOL_ERROR)

    def test_ping_goes_out_in_time_and_a_missing_answer_ends_the_connection(self):
        one, buf = connected(keep_alive_s=10), bytearray(64)
        self.assertEqual(one.next_packet(buf, 7499), 0)
        self.assertEqual(bytes(buf[: one.next_packet(buf, 7500)]), b"\xc0\x00")
        self.assertEqual(one.check(7500 + 9999), session.NOTHING)
        self.assertEqual(one.check(7500 + 10_000), session.TIMED_OUT)

    def test_pingresp_in_time_keeps_it(self):
        one, buf = connected(keep_alive_s=10), bytearray(64)
        one.next_packet(buf, 8000)
        one.received(read(b"\xd0\x00"))
        self.assertEqual(one.check(30_000), session.NOTHING)

    def test_connack_that_never_comes_times_out(self):
        one = Session(b"dev")
        one.open(5)
        self.assertEqual(one.check(10_005), session.TIMED_OUT)

    def test_ticks_may_wrap(self):
        self.assertEqual(elapsed_ms(10, 0x3FFFFFF6), 20)
        self.assertEqual(elapsed_ms(5, 9), 0)


class TestWindow(unittest.TestCase):
    def test_no_more_than_the_window_in_flight(self):
        one = connected(window=4)
        self.assertEqual(send(one, 9), [0, 1, 2, 3])
        one.received(puback(1))
        self.assertEqual(send(one, 9), [])
        one.received(puback(0))
        self.assertEqual(send(one, 9), [4, 5])

    def test_unasked_repeated_and_foreign_acknowledgements_only_count(self):
        one = connected(window=4)
        send(one, 2)
        for data in (b"\x40\x02\x00\x00", b"\x40\x02\x00\x09", b"\x40\x02\xff\xff"):
            self.assertEqual(one.received(read(data)), session.NOTHING)
        self.assertEqual(one.received(puback(1)), session.ACKNOWLEDGED)
        self.assertEqual(one.received(puback(1)), session.NOTHING)
        self.assertEqual((one.ignored_acks, one.base), (4, 0))

    def test_after_a_drop_the_unacknowledged_go_again_with_dup_in_order(self):
        one = connected(window=8)
        send(one, 5)
        one.received(puback(0))
        one.received(puback(2))
        one.close()
        again = []
        one.open(0)
        one.received(read(b"\x20\x02\x01\x00"))
        while one.is_resending:
            if not one.pass_over():
                again.append((one.next_send, one.is_dup))
                one.sent(0)
        self.assertEqual(again, [(1, True), (3, True), (4, True)])
        self.assertEqual((one.next_send, one.is_dup, one.redelivered), (5, False, 3))

    def test_ids_wrap_twice_with_a_stuck_message_and_none_is_reused_or_0(self):
        one = connected(window=16)
        total, stuck = 0, 0
        while total < 200_000:
            sent = send(one, 16)
            total += len(sent)
            ids = [packet_id_of(seq) for seq in range(one.base, one.next_send)]
            assert 0 not in ids and len(set(ids)) == len(ids) and max(ids) <= 65535
            for seq in sent[1:]:
                one.received(puback(seq))
            stuck += one.base == sent[0]  # the first of each window is held back while all behind it are acknowledged
            one.received(puback(sent[0]))
        self.assertEqual((one.base, stuck), (total, total // 16))


class TestInbound(unittest.TestCase):
    def test_qos_1_is_acknowledged_once_it_was_taken(self):
        one, buf = connected(), bytearray(64)
        self.assertEqual(one.received(read(b"\x32\x07\x00\x03a/b\x00\x0a")), session.MESSAGE)
        self.assertEqual((one.inbound.is_on(b"a/b"), one.inbound.packet_id, one.inbound.payload_length), (True, 10, 0))
        self.assertTrue(one.ack_due)
        self.assertEqual(bytes(buf[: one.next_packet(buf, 0)]), b"\x40\x02\x00\x0a")
        self.assertFalse(one.ack_due)

    def test_broken_publishes_are_protocol_errors(self):
        broken = (
            b"\x36\x07\x00\x03a/b\x00\x0a",
            b"\x32\x07\x00\x03a/b\x00\x00",
            b"\x30\x02\x00\x00",
            b"\x30\x04\x00\x09ab",
            b"\x30\x01\x00",
        )
        for data in broken:
            self.assertEqual(connected().received(read(data)), session.PROTOCOL_ERROR)

    def test_oversize_is_skipped_counted_and_acknowledged(self):
        one, data = connected(), b"\x32\x6b\x00\x03a/b\x00\x0a" + bytes(100)
        self.assertEqual(one.received(read(data)), session.NOTHING)
        self.assertEqual((one.skipped, one.ack_due), (1, True))

    def test_window_outside_1_to_16_is_refused_at_set_up(self):
        for window in (0, 17):
            with self.assertRaises(ValueError):
                Session(b"dev", window=window)


if __name__ == "__main__":
    unittest.main()
