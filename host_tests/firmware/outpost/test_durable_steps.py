"""The gap and the replay of `durable.py`, each step by itself, at its bounds. `test_durable.py` has
the whole."""

import unittest

from bench_client import STREAM, WORD
from fake_flash import flash_in_ram
from outpost import status
from outpost.durable import DurableSession, _decimal, parse_confirmation, word_end
from outpost.outbox import Outbox


class Judge:
    """Stands in for the Suspects. says: what refuse() returns."""

    def __init__(self, says=status.OK):
        self.says, self.refused = says, []

    def refuse(self, seq, mark=0):
        self.refused.append((seq, mark))
        return self.says

    def is_testing(self):
        return False


class Base(unittest.TestCase):
    def setUp(self):
        self.new()

    def new(self, through=9, acknowledged=30, stored=40):
        """Messages 0 to `through` are confirmed; those before `acknowledged` have PUBACK."""
        self.outbox = Outbox(flash_in_ram(4))
        assert self.outbox.format(STREAM) == status.OK
        for _ in range(stored):
            assert self.outbox.append(b"t", b"1", 1, 0x10) == status.OK
        self.session = session = DurableSession(self.outbox, b"dev", WORD, 1000)
        session.through = through
        self.outbox.discard_through(through)
        session.base = session.next_send = session.high = acknowledged
        session.maybe_sent = session._exchanged = acknowledged
        session.state = 2
        session.suspects = self.judge = Judge()
        return session

    def gap(self):
        session = self.session
        return session._gap_seq, session._gap_end, session._beyond_end, session._gap_replays

    def says(self, text):
        """The collector's word arrives."""
        session, word = self.session, STREAM + text
        session.buffer[: len(WORD) + 2] = b"\x00" + bytes((len(WORD),)) + WORD
        session.topic_length = len(WORD)
        session.payload_at, session.payload_length = len(WORD) + 2, len(word)
        session.buffer[len(WORD) + 2 : len(WORD) + 2 + len(word)] = word
        assert session._on_message()


class TestOptions(Base):
    def test_the_timeout_is_up_to_a_day(self):
        for timeout_ms, is_taken in (
            (0, False),
            (1, True),
            (86_400_000, True),
            (86_400_001, False),
        ):
            try:
                DurableSession(self.outbox, b"dev", WORD, timeout_ms)
                self.assertTrue(is_taken, timeout_ms)
            except ValueError:
                self.assertFalse(is_taken, timeout_ms)


class TestWords(Base):
    def test_where_one_ends(self):
        for text, at, end in (
            (b"12 34", 0, 2), (b"12-34", 0, 2), (b"1234", 0, 4), (b" 12", 0, 0), (b"1 2 3", 2, 3),
            (b"12", 2, 2), (b"1,2.3", 0, 5),
        ):  # fmt: skip
            self.assertEqual(word_end(text, at, len(text)), end, text)

    def test_numbers(self):
        for text, number in (
            (b"0", 0), (b"9", 9), (b"120", 120), (b"1073741823", 0x3FFFFFFF), (b"1073741824", -1),
            (b"1073741830", -1), (b"10737418230", -1), (b"1/", -1), (b"1:", -1), (b"-1", -1),
            (b"", 0), (b"99999999999", -1),
        ):  # fmt: skip
            self.assertEqual(_decimal(b" " + text, 1, 1 + len(text)), number, text)

    def test_confirmations(self):
        for text, number in (
            (STREAM + b" 5", 5), (STREAM + b" 123456789", 123456789), (STREAM + b" ", -1),
            (STREAM + b"-5", -1), (b"3fa9c1d3 5", -1), (b"4fa9c1d2 5", -1),
            (STREAM + b" 1073741823", 0x3FFFFFFF), (STREAM + b" 10737418231", -1),
        ):  # fmt: skip
            self.assertEqual(parse_confirmation(b"x" + text, 1, len(text), STREAM), number, text)


class TestBeyond(Base):
    def test_what_the_collector_says(self):
        for text, gap in (
            (b" 9 15-19", (10, 15, 20, 0)), (b" 9 15-19 25-29", (10, 15, 20, 0)),
            (b" 9", (-1, -1, -1, 0)), (b" 9 15", (-1, -1, -1, 0)), (b" 9 15 19", (10, 15, 20, 0)),
            (b" 9 x-19", (-1, -1, -1, 0)), (b" 9 15-x", (-1, -1, -1, 0)),
            (b" 11 15-19", (12, 15, 20, 0)),
        ):  # fmt: skip
            self.new()
            self.says(text)
            self.assertEqual(self.gap(), gap, text)

    def test_small_numbers(self):
        self.new(through=3)
        self.says(b" 3 5-7")
        self.assertEqual(self.gap(), (4, 5, 8, 0))
        self.new(through=-1)
        self.says(b" 0 5-7")
        self.assertEqual((self.gap(), self.session.through), ((1, 5, 8, 0), 0))

    def test_the_first_one_is_missing(self):
        for text, gap in (
            (b" -1 5-9", (0, 5, 10, 0)), (b" -2 5-9", (-1, -1, -1, 0)),
            (b" x1 5-9", (-1, -1, -1, 0)),
        ):  # fmt: skip
            self.new(through=-1)
            self.says(text)
            self.assertEqual(self.gap(), gap, text)

    def test_what_is_no_gap(self):
        for first, last, is_gap in (
            (10, 12, False), (11, 10, False), (11, 11, True), (11, 39, False), (11, 29, True),
            (11, 30, False), (30, 30, False), (29, 29, True), (9, 12, False),
        ):  # fmt: skip
            self.new()
            self.session._on_beyond(first, last)
            self.assertEqual(self.session._gap_seq == 10, is_gap, (first, last))

    def test_it_begins_at_what_is_held(self):
        self.new(through=9)
        self.outbox.discard_through(12)
        self.session._on_beyond(15, 19)
        self.assertEqual(self.gap(), (13, 15, 20, 0))

    def test_not_before_the_broker_has_acknowledged_what_is_before_it(self):
        for first, is_gap in ((29, True), (30, False), (31, False)):
            self.new()
            self.session.maybe_sent = 40
            self.session._on_beyond(first, 35)
            self.assertEqual(self.session._gap_seq == 10, is_gap, first)

    def test_what_is_confirmed_and_not_yet_released_is_no_gap(self):
        self.session.through = 15
        self.session._on_beyond(20, 25)
        self.assertEqual(self.gap(), (16, 20, 26, 0))

    def test_a_replay_counts_once(self):
        session = self.session
        session.replays = 5
        session._on_beyond(15, 19)
        self.assertEqual((self.gap(), session._gap_replay), ((10, 15, 20, 0), 5))
        session._on_beyond(15, 19)
        session.replays = 7
        session._on_beyond(16, 20)
        self.assertEqual((self.gap(), session._gap_replay), ((10, 16, 21, 1), 7))
        session._on_beyond(16, 20)
        self.assertEqual(self.gap(), (10, 16, 21, 1))
        self.outbox.discard_through(10)
        session._on_beyond(16, 20)
        self.assertEqual((self.gap(), session._gap_replay), ((11, 16, 21, 0), 7))


class TestClose(Base):
    def close(self, says=status.OK, end=12):
        session = self.session
        session._gap_end, session._beyond_end, session._gap_replays = end, 20, 3
        self.judge.says = says
        session._close_gap()

    def test_one_message_a_time_is_set_aside(self):
        self.close()
        self.assertEqual((self.judge.refused, self.session.not_passed), ([(10, 8)], 1))
        self.assertEqual((self.outbox.oldest_seq, self.session._gap_replays), (11, 3))

    def test_after_the_last_one_those_beyond_are_confirmed(self):
        self.close(end=10)
        self.assertEqual((self.judge.refused, self.session.not_passed), ([], 0))
        self.assertEqual((self.session.through, self.outbox.oldest_seq), (19, 20))
        self.assertEqual((self.session._beyond_end, self.session._gap_replays), (-1, 0))

    def test_without_room_the_rest_goes_on(self):
        self.close(status.FULL)
        self.assertEqual((self.session._gap_replays, self.session.not_passed), (0, 0))
        self.assertEqual(self.outbox.oldest_seq, 10)

    def test_not_before_the_broker_has_acknowledged_it(self):
        for acknowledged, refused in ((10, []), (11, [(10, 8)])):
            self.new(acknowledged=acknowledged)
            self.close()
            self.assertEqual(self.judge.refused, refused)

    def test_nor_without_memory(self):
        self.session._load_suspects = lambda: False
        self.close()
        self.assertEqual((self.judge.refused, self.outbox.oldest_seq), ([], 10))

    def test_a_tick_closes_it_after_three_replays(self):
        for replays, refused in ((2, []), (3, [(10, 8)]), (4, [(10, 8)])):
            self.new()
            self.session._gap_end, self.session._gap_replays = 12, replays
            self.session._is_replay_due = lambda: False
            self.session.suspects.on_tick = lambda: 16
            self.session.suspects.is_over = lambda: False
            self.session._on_tick()
            self.assertEqual(self.judge.refused, refused)


class TestReplay(Base):
    def test_all_that_is_held_goes_again(self):
        session = self.session
        session._is_reconnected = session._is_waiting = True
        session.now_ms, session._exchanged = 5000, 25
        session._replay()
        self.assertEqual((session.base, session.next_send, session.high), (10, 10, 10))
        self.assertEqual((session._exchanged, session._replay_end, session.replays), (30, 30, 1))
        self.assertEqual((session._is_reconnected, session._is_waiting), (False, False))
        self.assertEqual((session._progress_ms, session._factor), (5000, 1))

    def test_nothing_to_repeat_is_no_replay(self):
        self.new(through=29)
        self.session._replay()
        self.assertEqual(self.session.replays, 0)

    def test_the_timeout_doubles_up_to_64_fold(self):
        found = []
        for _ in range(8):
            self.session._replay()
            found.append(self.session._factor)
        self.assertEqual(found, [2, 4, 8, 16, 32, 64, 64, 64])
        for timeout_ms, factor in ((0x10000000, 1), (0x0FFFFFFF, 2)):
            self.session._factor, self.session.timeout_ms = 1, timeout_ms
            self.session._replay()
            self.assertEqual(self.session._factor, factor)

    def test_when_it_is_due(self):
        for silent_ms, reconnected, oldest, due in (
            (999, False, 10, False), (1000, False, 10, True), (5000, False, 30, False),
            (0, True, 10, True), (0, True, 30, True), (1000, False, 29, True),
        ):  # fmt: skip
            self.new(through=oldest - 1)
            session = self.session
            session._is_reconnected, session.now_ms = reconnected, silent_ms
            self.assertEqual(session._is_replay_due(), due, (silent_ms, reconnected, oldest))

    def test_one_that_was_cut_short_goes_on_instead(self):
        """It is complete when the message after it was acknowledged, if there is one."""
        for base, end, stored, is_anew in (
            (30, 30, 40, False), (31, 30, 40, True), (30, 31, 40, False), (32, 31, 40, True),
            (30, 30, 30, True), (29, 30, 30, False), (30, -1, 40, True), (0, -1, 40, True),
        ):  # fmt: skip
            self.new(acknowledged=base, stored=stored, through=-1)
            self.session.suspects, self.session._replay_end = None, end
            self.session._on_connected()
            self.assertEqual(self.session._is_reconnected, is_anew, (base, end, stored))
            self.assertTrue(self.session._is_waiting)

    def test_none_while_messages_are_tested(self):
        self.session.now_ms, self.session._is_reconnected = 5000, True
        self.judge.is_testing = lambda: True
        self.assertFalse(self.session._is_replay_due())
        self.session.suspects = None
        self.assertTrue(self.session._is_replay_due())


if __name__ == "__main__":
    unittest.main()
