"""What a session does beside the exchange of packets, at its borders: deadlines to the millisecond,
over a wrap of the ticks too; what is done at rest; which ends of connections are suspicious."""

import sys
import unittest

from outpost import status
from outpost.ram_outbox import RamOutbox
from test_session import (
    CONNACK,
    PINGREQ,
    connected,
    make,
    opened,
    puback,
    publish,
    say,
    sent,
    written,
)

TICKS = 0x3FFFFFFF
STARTS = (0, 30_000, TICKS - 700)
SECOND = 1000  # response_ms, where it matters


def connected_at(now_ms, **options):
    one = make(response_ms=SECOND, **options)
    one.now_ms = now_ms & TICKS
    one.open()
    written(one)
    assert one.receive(CONNACK, 0, 4) == 4
    return one


def look(one, now_ms, data=b""):
    """One poll of a client, at these ticks: (packets that go out, status)."""
    one.now_ms = now_ms & TICKS
    if data:
        assert one.receive(data, 0, len(data)) == len(data)
    return written(one), one.settle(True)


class TestPublish(unittest.TestCase):
    def test_flags_of_a_stored_message(self):
        for options, flags in (((), 0x10), ((1, False), 0x10), ((1, True), 0x50)):
            outbox, found = RamOutbox(), []
            append = outbox.append
            outbox.append = lambda *message, found=found, append=append: (
                found.append(message[3]) or append(*message)
            )
            self.assertEqual(make(outbox=outbox).publish(b"t", b"", *options), status.OK)
            self.assertEqual(found, [flags])

    def test_topics_of_one_byte(self):
        one = make(outbox=RamOutbox(1))
        for byte in range(256):
            is_sound = 0 < byte < 0x80 and bytes([byte]) not in (b"#", b"+")
            one.outbox.discard(one.outbox.oldest_seq)
            expected = status.OK if is_sound else status.BAD_TOPIC
            self.assertEqual(one.publish(bytes([byte]), b""), expected, byte)


class TestAcknowledgementsThatAreLate(unittest.TestCase):
    """Six times response_ms after the last one, or after the window began to fill."""

    def test_to_the_millisecond(self):
        for start_ms in STARTS:
            one = connected_at(start_ms - 9000, keep_alive_s=0)
            self.assertEqual(look(one, start_ms - 100), (b"", status.OK))
            publish(one, 2)
            self.assertEqual(len(look(one, start_ms)[0]), 14)
            look(one, start_ms + 2000)
            for now_ms, is_late in ((5999, False), (6000, True)):
                one.now_ms = start_ms + now_ms & TICKS
                self.assertEqual((one._on_late(0), one._on_late(1)), (is_late, False), now_ms)
            look(one, start_ms + 3000, puback(0))
            for now_ms, is_late in ((8999, False), (9000, True)):
                one.now_ms = start_ms + now_ms & TICKS
                self.assertEqual(one._on_late(0), is_late, now_ms)
            look(one, start_ms + 3000, puback(1))
            one.now_ms = start_ms + 99_000 & TICKS
            self.assertFalse(one._on_late(0))


class TestPacketsThatStall(unittest.TestCase):
    def test_each_byte_of_the_server_is_good_for_64_ms(self):
        """The time that a wait has left is response_ms at most."""
        for pieces, due_ms in (
            ([(0, 2)], 1000), ([(0, 2), (500, 5)], 500 + 820), ([(0, 2), (100, 5)], 100 + 1000),
            ([(0, 2), (500, 5), (800, 3)], 800 + 712), ([(0, 2), (900, 0)], 1000),
        ):  # fmt: skip
            for start_ms in STARTS:
                one = connected_at(start_ms - 9000, keep_alive_s=0)
                for now_ms, count in pieces:
                    data = (b"\x30\x7f" + bytes(9))[2 if now_ms else 0 :][:count]
                    self.assertEqual(look(one, start_ms + now_ms, data), (b"", status.OK))
                self.assertEqual(look(one, start_ms + due_ms - 1)[1], status.OK, pieces)
                self.assertEqual(look(one, start_ms + due_ms)[1], status.TIMED_OUT, pieces)

    def test_so_is_each_of_this_side(self):
        """CONNACK is awaited from the last piece of CONNECT on."""
        one = make(response_ms=SECOND, keep_alive_s=1)
        one.open()
        length = one.next_packet()
        one.now_ms = 500
        self.assertEqual((one.part_written(0), one.part_written(5)), (False, True))
        self.assertEqual(one.next_packet(), length - 5)
        one.now_ms = 1319
        self.assertEqual(one.settle(True), status.OK)
        self.assertTrue(one.part_written(1))
        one.out_end = 0
        one.now_ms = 1383
        self.assertEqual(one.settle(True), status.OK)
        one.now_ms = 1384
        self.assertEqual(one.settle(True), status.TIMED_OUT)

    def test_a_message_in_pieces_awaits_no_answer(self):
        one = connected_at(0, keep_alive_s=0)
        one.publish(b"t", b"", 0)
        one.next_packet()
        self.assertTrue(one.part_written(1))
        one.out_end = 0
        self.assertEqual(look(one, 90_000), (b"", status.OK))

    def test_nothing_awaited_is_nothing_late(self):
        one = connected(keep_alive_s=0, response_ms=1)
        self.assertEqual(look(one, 90_000), (b"", status.OK))


class TestPings(unittest.TestCase):
    def test_while_other_bytes_come_30_times_response_ms_and_64_a_byte_of_their_packet(self):
        message = b"\x30\x05\x00\x01abc"
        for start_ms in STARTS:
            for late_ms, expected in ((30_319, status.OK), (30_320, status.TIMED_OUT)):
                one = connected_at(start_ms, keep_alive_s=0)
                one.start_ping()
                self.assertEqual(look(one, start_ms)[0], PINGREQ)
                self.assertEqual(look(one, start_ms + late_ms, message), (b"", expected))

    def test_without_keep_alive_response_ms(self):
        one = connected(keep_alive_s=0)
        one.start_ping()
        self.assertEqual(look(one, 0), (PINGREQ, status.OK))
        self.assertEqual(look(one, 9999)[1], status.OK)
        self.assertEqual(look(one, 10_000)[1], status.TIMED_OUT)

    def test_connack_has_response_ms_whatever_the_keep_alive(self):
        for keep_alive_s in (0, 1):
            one = opened(keep_alive_s=keep_alive_s)
            self.assertEqual(look(one, 9999)[1], status.OK)
            self.assertEqual(look(one, 10_000)[1], status.TIMED_OUT)


class TestRest(unittest.TestCase):
    def test_ten_minutes_after_the_last_one_acknowledgements_are_saved(self):
        outbox, calls = RamOutbox(), []
        one = make(outbox=outbox)
        unsaved = [1]
        outbox.unsaved = lambda: unsaved[0]
        outbox.erase_ahead = lambda: calls.append("erase")
        outbox.save_state = lambda: calls.append("save")
        for now_ms, moved, oldest, left, expected in (
            (5000, False, 2, 1, ["erase"]),
            (604_999, False, 2, 1, ["erase"]),
            (605_000, True, 2, 1, []),
            (605_000, False, 2, 1, ["erase", "save"]),
            (605_000, False, 2, 0, ["erase"]),
            (605_000, False, 3, 1, ["erase"]),
            (1_204_999, False, 3, 1, ["erase"]),
            (1_205_000, False, 3, 1, ["erase", "save"]),
        ):
            one.now_ms, outbox.oldest_seq, unsaved[0] = now_ms, oldest, left
            self.assertEqual(one.settle(moved), status.OK)
            self.assertEqual(calls, expected, now_ms)
            calls.clear()

    def test_when_numbers_begin_again_so_does_the_window(self):
        one = connected()
        publish(one, 3)
        written(one)
        say(one, puback(0) + puback(1) + puback(2))
        one.outbox.next_seq = one.outbox.oldest_seq = 0
        one.maybe_sent = 3
        self.assertEqual(look(one, 100), (b"", status.OK))
        publish(one, 1)
        self.assertEqual(sent(one), [(0, False)])


def ends(one, error, acknowledged=()):
    """A connection that ends so, after these acknowledgements. True: it began with a control, so
    that a suspicion is there."""
    one.open()
    written(one)
    assert one.receive(b"\x20\x02\x01\x00", 0, 4) == 4
    packets = written(one)
    for seq in acknowledged:
        one.receive(puback(seq), 0, 4)
    one.lost(error)
    return packets == PINGREQ


class TestSuspiciousEnds(unittest.TestCase):
    """The second in a row with the same message as the oldest in flight."""

    LOST, LATE, SILENT = status.LINK_LOST, status.TIMED_OUT, status.NO_ANSWER

    def check(self, histories, first_seq=0, messages=2, aside=0, received=None):
        for history, is_suspicious in histories:
            outbox = RamOutbox(16, 64)
            outbox.next_seq = outbox.oldest_seq = first_seq
            one = make(outbox=outbox)
            publish(one, messages)
            if received is not None:
                one._released = 1 << (received & 15)
            outbox.aside = aside
            for end in history:
                self.assertFalse(ends(one, *end))
            outbox.aside = 0
            self.assertEqual(ends(one, status.OK), is_suspicious, history)

    def test_two_in_a_row(self):
        self.check((
            ([(self.LOST,)], False),
            ([(self.LOST,), (self.LOST,)], True),
            ([(self.LOST,), (self.LATE,)], True),
            ([(self.LATE,), (self.LATE,)], True),
            ([(self.SILENT,), (self.SILENT,)], True),
        ))  # fmt: skip

    def test_every_end_by_the_server_counts_and_none_by_this_side(self):
        """L1, L2, L12: by DISCONNECT, and with a malformed packet, too."""
        own = status.OK, status.STORAGE, status.TOO_MANY, 104
        servers = status.PROTOCOL_ERROR, status.TAKEN_OVER, status.SERVER_LEFT, status.MOVED
        for error in own:
            self.check([([(error,), (error,), (error,)], False)])
            self.check([([(self.LOST,), (error,), (self.LOST,)], True)])
        for error in servers:
            self.check([([(self.LOST,), (error,)], True)])

    def test_an_acknowledgement_restarts_the_count(self):
        self.check((
            ([(self.LOST,), (self.LOST, [0])], False),
            ([(self.LOST,), (self.LOST, [0]), (self.LOST,)], True),
        ))  # fmt: skip

    def test_not_without_a_message(self):
        self.check([([(self.LOST,), (self.LOST,), (self.LOST,)], False)], messages=0)

    def test_one_is_enough_while_messages_are_aside(self):
        self.check([([(self.LOST,)], True), ([(self.LATE,)], True)], aside=1)

    def test_of_a_message_of_qos_2_that_the_server_has_only_where_others_wait(self):
        twice = [(self.LOST,), (self.LOST,)]
        for messages, received, is_suspicious in ((1, 17, False), (2, 17, True), (1, 18, True)):
            self.check([(twice, is_suspicious)], 17, messages, received=received)

    def test_without_memory_for_it_the_next_end_is_early_enough(self):
        def no_memory(session):
            raise MemoryError

        __import__("outpost.suspects")
        module = sys.modules["outpost.suspects"]  # another one than before, after unload()
        kept, module.Suspects = module.Suspects, no_memory
        one = make()
        publish(one, 1)
        try:
            for _ in range(4):
                self.assertFalse(ends(one, self.LOST))
        finally:
            module.Suspects = kept
        self.assertFalse(ends(one, self.LOST))
        self.assertTrue(ends(one, status.OK))


if __name__ == "__main__":
    unittest.main()
