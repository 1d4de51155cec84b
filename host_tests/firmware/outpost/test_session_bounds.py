"""What a session is bounded by: its buffers, the ticks at which it looks, its window."""

import unittest

from outpost import status
from outpost.connect_packet import encode_connect
from outpost.ram_outbox import RamOutbox
from outpost.session import Session
from outpost.subscribing import SubscribingSession
from test_session import (
    CONNACK,
    PINGREQ,
    connected,
    make,
    numbers,
    opened,
    puback,
    publish,
    say,
    written,
)

TICKS = 0x3FFFFFFF


class TestBegin(unittest.TestCase):
    def test_defaults_and_what_is_known_before_the_first_connection(self):
        one = make()
        self.assertEqual((len(one.buffer), one.window, one.response_ms), (4, 16, 10_000))
        self.assertEqual((one.session_present, one.return_code), (False, 0))
        self.assertEqual((one.connects, one.longest_outage_ms, one.has_progress()), (0, 0, False))
        self.assertEqual(bytes(one.connect_packet), encode_connect(b"dev", 60))

    def test_the_longest_message_goes_out_whole(self):
        """`tx` is made for it: behind it, machine code would write into other objects."""
        for qos, overhead in ((0, 5), (1, 7)):
            one = connected(outbox=RamOutbox(2, 1000))
            payload = bytes(range(250)) * 4
            self.assertEqual(one.publish(b"t", payload, qos, length=999), status.OK)
            packet = written(one)
            self.assertEqual((len(packet), packet[-999:]), (1000 + overhead, payload[:999]))
            self.assertEqual(len(one.tx), 1009)
            self.assertEqual(one.publish(b"t", payload, qos, length=1000), status.TOO_BIG)

    def test_what_a_power_cut_may_have_forgotten_goes_again_with_dup(self):
        """64 acknowledgements that were not saved, and 16 messages in flight."""
        outbox = RamOutbox(16, 64)
        outbox.oldest_seq, outbox.next_seq = 5, 200
        self.assertEqual(Session(outbox, b"dev").maybe_sent, 85)
        outbox.next_seq = 20
        self.assertEqual(Session(outbox, b"dev").maybe_sent, 20)


class TestTicks(unittest.TestCase):
    def test_once_in_16_ms_over_a_wrap_too(self):
        for start in (1000, TICKS - 5):
            one = connected(keep_alive_s=0)
            one.now_ms = start
            one.next_packet()
            one.next_packet()
            self.assertFalse(one.is_tick)  # the same millisecond
            for passed, is_tick in ((15, False), (16, True), (17, False), (31, False), (40, True)):
                one.now_ms = start + passed & TICKS
                self.assertEqual(one.next_packet(), 0)
                self.assertEqual(one.is_tick, is_tick, passed)
                due = 16 if passed < 16 else 32 if passed < 40 else 56
                self.assertEqual(one.check_ms, start + due & TICKS)

    def test_a_connection_late_in_the_day_asks_for_nothing(self):
        one = make(keep_alive_s=0)
        one.now_ms = 1_000_000
        one.open()
        written(one)
        self.assertEqual(one.receive(CONNACK, 0, 4), 4)
        self.assertEqual(written(one), b"")

    def test_half_a_minute_without_a_message_is_progress(self):
        one = connected()
        for now_ms, is_progress in ((29_999, False), (30_000, True)):
            one._inbound_ms = now_ms
            self.assertEqual(one.has_progress(), is_progress)

    def test_an_answer_is_awaited_from_the_first_ping_on(self):
        one = connected()
        for now_ms in (0, 5):
            one.now_ms = now_ms
            one.start_ping()
            self.assertEqual(written(one)[-2:], PINGREQ)
        self.assertEqual(one._awaited_ms, 0)


class TestNothingDue(unittest.TestCase):
    def test_a_message_that_waits_does_not_keep_the_board_awake(self):
        """For room in the window, for proof, or for a connection: none is due before the tick."""
        full = connected(window=1)
        publish(full, 2)
        self.assertEqual(numbers(full), [0])
        bounded = connected(in_flight_bytes=200)
        publish(bounded, 2)
        self.assertEqual(numbers(bounded), [0])
        opening = opened()
        publish(opening, 1)
        for one in (full, bounded, opening):
            one.next_packet()
            self.assertEqual((one.next_packet(), one.check_ms - one.now_ms), (0, 16))
            self.assertFalse(one.is_tick)

    def test_nor_is_a_window_that_moves_on_a_packet(self):
        """Its oldest message was freed otherwise: the next call starts the one after it."""
        one = connected()
        publish(one, 1)
        one.next_packet()
        one.part_written(3)
        one.out_end = 0  # the rest is written
        one.receive(puback(0), 0, 4)
        publish(one, 2)
        self.assertTrue(one.outbox.discard(1))
        self.assertEqual(one.next_packet(), 0)
        self.assertEqual(numbers(one), [2])


class TestPing(unittest.TestCase):
    """Ticks wrap: what went out at ticks 0 is awaited like any other."""

    @staticmethod
    def at(one, now_ms):
        """The packets of this tick."""
        one.now_ms = now_ms & TICKS
        out = written(one)
        assert one.settle(True) == status.OK
        return out

    def test_one_at_a_time_is_awaited(self):
        one = make(keep_alive_s=10)
        one.now_ms = TICKS - 7499
        one.open()
        written(one)
        one.receive(CONNACK, 0, 4)
        self.assertEqual(self.at(one, 0), PINGREQ)
        one.publish(b"t", b"", 0)
        self.assertEqual(self.at(one, 5000), b"\x30\x03\x00\x01t")
        self.assertEqual(self.at(one, 7484), b"")
        self.assertEqual(say(one, b"\xd0\x00"), status.OK)
        one.publish(b"t", b"", 0)
        self.assertEqual(self.at(one, 14_983), b"\x30\x03\x00\x01t")
        self.assertEqual(self.at(one, 14_999), PINGREQ)

    def late(self):
        """PINGREQ went out at ticks 0, as a message was not acknowledged in six seconds."""
        one = make(keep_alive_s=0, response_ms=1000)
        one.now_ms = TICKS - 5999
        one.open()
        written(one)
        one.receive(CONNACK, 0, 4)
        publish(one, 1)
        self.assertEqual(len(self.at(one, -6000)), 7)
        self.assertEqual((self.at(one, -17), self.at(one, 0)), (b"", PINGREQ))
        one.now_ms = 100
        return one

    def test_its_answer_shows_that_an_acknowledgement_will_not_come(self):
        self.assertEqual(say(self.late(), b"\xd0\x00"), status.NO_ANSWER)

    def test_unless_it_came_just_before(self):
        one = self.late()
        self.assertEqual((say(one, puback(0) + b"\xd0\x00"), one.told), (status.OK, [0]))

    def test_a_ping_that_a_suspicion_asks_for_goes_out_before_answers(self):
        one = connected(SubscribingSession)
        message = b"\x32\x05\x00\x01a\x00"
        one.receive(message + b"\x07", 0, 7)
        self.assertEqual(one.next_packet(), 4)
        one.out_end = 0
        self.assertTrue(one._load_suspects())
        one.suspects.begin()
        one.receive(message + b"\x08", 0, 7)
        self.assertEqual(written(one), PINGREQ + b"\x40\x02\x00\x08")


class TestHalfWritten(unittest.TestCase):
    def test_the_last_message_alone_is_not_acknowledged_yet(self):
        one = connected()
        publish(one, 2)
        one.next_packet()
        one.out_end = 0
        one.next_packet()
        for seq in (1, 0):
            one.receive(puback(seq), 0, 4)
        self.assertEqual((one.told, one.ignored), ([0], 1))

    def test_one_before_a_message_of_qos_0_is(self):
        for retain in (False, True):
            one = connected()
            publish(one, 1)
            self.assertEqual(numbers(one), [0])
            self.assertEqual(one.publish(b"t", b"x", 0, retain), status.OK)
            one.receive(puback(0), 0, 4)
            self.assertEqual((one.told, one.ignored), ([0], 0))

    def test_none_that_did_not_go_again_yet(self):
        one = connected()
        publish(one, 2)
        written(one)
        say(one, puback(0))
        one.lost(status.LINK_LOST)
        one.open()
        written(one)
        self.assertEqual(one.receive(CONNACK + puback(1), 0, 8), 8)
        self.assertEqual((one.told, one.ignored), ([0], 1))


class TestCounters(unittest.TestCase):
    def test_each_repetition_is_counted(self):
        outbox = RamOutbox(16, 64)
        publish(make(outbox=outbox), 3)
        one = opened(outbox=outbox)  # as after a power cut
        one.receive(CONNACK, 0, 4)
        self.assertEqual((numbers(one), one.sent, one.redelivered), ([0, 1, 2], 3, 3))
        one.lost(status.LINK_LOST)
        one.open()
        written(one)
        one.receive(CONNACK, 0, 4)
        self.assertEqual((numbers(one), one.sent, one.redelivered), ([0, 1, 2], 6, 6))

    def test_each_acknowledgement_is_counted_once(self):
        """Of a message that is aside, too, where PUBREC is none."""
        one = connected()
        publish(one, 3)
        written(one)
        say(one, puback(2) + puback(0) + puback(0))
        self.assertEqual((one.acknowledged, one.ignored), (2, 1))
        self.assertTrue(one._load_suspects())
        one.suspects.takes = lambda first, packet_id: packet_id == 9
        for first, acknowledged in ((0x40, 3), (0x50, 3), (0x70, 4)):
            one._on_unexpected(first, 9)
            self.assertEqual((one.acknowledged, one.ignored), (acknowledged, 1))
        one._on_unexpected(0x50, 8)
        self.assertEqual((one.acknowledged, one.ignored), (4, 2))

    def test_the_longest_outage_is_from_the_loss_to_connack(self):
        one = connected()
        for lost_ms, up_ms, longest_ms in ((1000, 1500, 500), (2000, 2100, 500), (3000, 3700, 700)):
            one.now_ms = lost_ms
            one.lost(status.LINK_LOST)
            one.now_ms += 50
            one.open()
            one.lost(status.LINK_LOST)  # it did not come to CONNACK
            one.open()
            written(one)
            one.now_ms = up_ms
            one.receive(CONNACK, 0, 4)
            self.assertEqual(one.longest_outage_ms, longest_ms)
        self.assertEqual(one.connects, 4)

    def test_acknowledgements_are_saved_before_64_could_be_forgotten(self):
        """Looked at with every 16th message."""
        for seq, unsaved, saves in ((15, 48, 0), (15, 49, 1), (14, 60, 0), (31, 49, 1)):
            one = connected()
            one.outbox.next_seq = one.outbox.oldest_seq = seq
            one._restart_window(seq)
            publish(one, 1)
            self.assertEqual(numbers(one), [seq])
            found = []
            one.outbox.unsaved = lambda unsaved=unsaved: unsaved
            one.outbox.save_state = lambda found=found: found.append(1)
            one.receive(puback(seq), 0, 4)
            self.assertEqual((one.told, len(found)), ([seq], saves), (seq, unsaved))

    def test_a_message_or_an_old_pubrel_that_nobody_asked_for_is_counted(self):
        for data in (b"\x31\x03\x00\x01a", b"\x34\x05\x00\x01a\x00\x07", b"\x6a\x02\x00\x07"):
            one = connected()
            self.assertEqual((say(one, data), one.skipped), (status.OK, 1), data)
        for data in (
            b"\x37\x05\x00\x01a\x00\x07",
            b"\x36\x05\x00\x01a\x00\x07",
            b"\x62\x03\x00\x07\x00",
            b"\x60\x02\x00\x07",
        ):
            one = connected()
            self.assertEqual((say(one, data), one.skipped), (status.PROTOCOL_ERROR, 0), data)

    def test_a_message_of_qos_2_that_an_earlier_program_left_goes_out_with_qos_1(self):
        one = make()
        one.outbox.append(b"t", b"", 0, 0x20)
        one.open()
        written(one)
        one.receive(CONNACK, 0, 4)
        self.assertEqual(written(one), b"\x32\x05\x00\x01t\x00\x01")

    def test_ping_is_due_after_three_quarters_of_silence_either_way(self):
        for heard_ms, sent_ms in ((5000, 0), (0, 5000)):
            for now_ms, packet in ((7499, b""), (7500, PINGREQ)):
                one = connected(keep_alive_s=10)
                one._inbound_ms, one._sent_ms, one.now_ms = heard_ms, sent_ms, now_ms
                self.assertEqual(written(one), packet, (heard_ms, now_ms))


if __name__ == "__main__":
    unittest.main()
