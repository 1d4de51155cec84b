import unittest

from outpost import client_setup, status
from outpost.client_setup import connect
from outpost.session import Session, elapsed_ms, packet_id_of


class Recorded(Session):
    """Keeps what the session tells."""

    def __init__(self, keep_alive_s=60, window=16):
        client_setup.session(self, connect(b"dev", keep_alive_s), keep_alive_s, window, 128, 64)
        self.told = []

    def _established(self):
        self.told.append("established")

    def _acknowledged(self, seq):
        self.told.append(seq)


def say(one, data):
    """Bytes from the server: the status of the last whole packet in them."""
    at, result = 0, None
    while at < len(data):
        at = one.feed(data, at, len(data))
        if at < 0:
            return status.PROTOCOL_ERROR
        if one.is_between:
            result = one.handle()
    return result


def opened(**options):
    one = Recorded(**options)
    one.open()
    one.out_end = 0  # written
    return one


def connected(**options):
    one = opened(**options)
    assert say(one, b"\x20\x02\x00\x00") == status.OK
    return one


def send(one, count):
    sent = []
    while count and one.pass_over() - one.base < one.window:
        sent.append(one.next_send)
        one.start_message(9)
        one.out_end = 0
        count -= 1
    return sent


def puback(seq):
    return b"\x40\x02" + bytes([packet_id_of(seq) >> 8, packet_id_of(seq) & 255])


class TestConnection(unittest.TestCase):
    def test_connect_goes_out_first(self):
        one = Recorded()
        one.open()
        self.assertEqual(bytes(one.out[: one.out_end]), connect(b"dev", 60))

    def test_connack_refusals_are_told_with_their_code(self):
        for code in range(1, 6):
            one = opened()
            self.assertEqual(say(one, b"\x20\x02\x00" + bytes([code])), status.REFUSED)
            self.assertEqual((one.return_code, one.told), (code, []))

    def test_anything_but_a_sound_connack_first_is_a_protocol_error(self):
        unsound = (
            b"\x20\x02\x02\x00", b"\x20\x02\x01\x01", b"\x20\x03\x00\x00\x00", b"\x20\x00", b"\x20\x01\x00", b"\xd0\x00",
            b"\x40\x02\x00\x01", b"\x21\x02\x00\x00", b"\x30\x04\x00\x01ab",
        )  # fmt: skip
        for data in unsound:
            self.assertEqual(say(opened(), data), status.PROTOCOL_ERROR, data)

    def test_session_present_is_told(self):
        for flag in (0, 1):
            one = opened()
            say(one, b"\x20\x02" + bytes([flag]) + b"\x00")
            self.assertEqual((one.session_present, one.told, one.state), (bool(flag), ["established"], status.CONNECTED))

    def test_reserved_types_and_flags_are_protocol_errors(self):
        for first in (0x00, 0xF0, 0x10, 0x41, 0x91, 0xD1, 0x50, 0x62, 0x70, 0xC0, 0xE0, 0x90, 0xB0, 0x20):
            self.assertEqual(say(connected(), bytes([first]) + b"\x02\x00\x01"), status.PROTOCOL_ERROR)

    def test_ping_goes_out_in_time_and_a_missing_answer_ends_the_connection(self):
        one = connected(keep_alive_s=10)
        one.now_ms = 7499
        self.assertFalse(one.due())
        one.now_ms = 7500
        self.assertTrue(one.due())
        self.assertEqual(bytes(one.out[: one.out_end]), b"\xc0\x00")
        one.out_end = 0
        one.now_ms = 7500 + 9999
        self.assertFalse(one.is_dead())
        one.now_ms = 7500 + 10_000
        self.assertTrue(one.is_dead())

    def test_pingresp_in_time_keeps_it(self):
        one = connected(keep_alive_s=10)
        one.now_ms = 8000
        one.due()
        one.out_end = 0
        say(one, b"\xd0\x00")
        one.now_ms = 30_000
        self.assertFalse(one.is_dead())

    def test_connack_that_never_comes_times_out(self):
        one = Recorded()
        one.now_ms = 5
        one.open()
        one.now_ms = 10_005
        self.assertTrue(one.is_dead())

    def test_a_packet_that_the_stream_does_not_take_times_out(self):
        one = connected(keep_alive_s=0)
        one.start_message(9)
        one.now_ms = 9_999
        self.assertFalse(one.is_dead())
        one.now_ms = 10_000
        self.assertTrue(one.is_dead())

    def test_ticks_may_wrap(self):
        self.assertEqual(elapsed_ms(10, 0x3FFFFFF6), 20)
        self.assertEqual(elapsed_ms(5, 9), 0)

    def test_a_message_that_nobody_asked_for_only_counts(self):
        one = connected()
        self.assertEqual(say(one, b"\x32\x07\x00\x03a/b\x00\x0a"), status.OK)
        self.assertEqual((one.skipped, one.due()), (1, False))

    def test_window_outside_1_to_16_is_refused_at_set_up(self):
        for window in (0, 17):
            with self.assertRaises(ValueError):
                Recorded(window=window)


class TestWindow(unittest.TestCase):
    def test_no_more_than_the_window_in_flight(self):
        one = connected(window=4)
        self.assertEqual(send(one, 9), [0, 1, 2, 3])
        say(one, puback(1))
        self.assertEqual(send(one, 9), [])
        say(one, puback(0))
        self.assertEqual(send(one, 9), [4, 5])

    def test_unasked_repeated_and_foreign_acknowledgements_only_count(self):
        one = connected(window=4)
        send(one, 2)
        for data in (b"\x40\x02\x00\x00", b"\x40\x02\x00\x09", b"\x40\x02\xff\xff", puback(1), puback(1)):
            self.assertEqual(say(one, data), status.OK)
        self.assertEqual((one.ignored, one.base, one.told), (4, 0, ["established", 1]))

    def test_after_a_drop_the_unacknowledged_go_again_with_dup_in_order(self):
        one = connected(window=8)
        send(one, 5)
        say(one, puback(0))
        say(one, puback(2))
        one.open()
        one.out_end = 0
        say(one, b"\x20\x02\x01\x00")
        again = []
        for _ in range(3):
            one.pass_over()
            again.append((one.next_send, one.is_dup()))
            one.start_message(9)
        self.assertEqual(again, [(1, True), (3, True), (4, True)])
        self.assertEqual((one.next_send, one.is_dup()), (5, False))

    def test_ids_wrap_twice_with_a_stuck_message_and_none_is_reused_or_0(self):
        one = connected(window=16)
        total, stuck = 0, 0
        while total < 200_000:
            sent = send(one, 16)
            total += len(sent)
            ids = [packet_id_of(seq) for seq in range(one.base, one.next_send)]
            assert 0 not in ids and len(set(ids)) == len(ids) and max(ids) <= 65535
            for seq in sent[1:]:
                say(one, puback(seq))
            stuck += one.base == sent[0]  # the first of each window is held back while all behind it are acknowledged
            say(one, puback(sent[0]))
        self.assertEqual((one.base, stuck), (total, total // 16))


if __name__ == "__main__":
    unittest.main()
