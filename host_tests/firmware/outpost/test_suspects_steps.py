"""Each step of `suspects.py` by itself, at its bounds. `test_suspects.py` and `test_progress.py`
have the whole, over hours with a server."""

import sys
import unittest

from fake_flash import flash_in_ram
from outpost import status
from outpost.outbox import Outbox
from outpost.session import Session
from outpost.suspects import Suspects

CALM, CONTROL, TRIAL = 0, 1, 2
JUDGED, PATIENCE = 1, -3


class Shelf:
    """has: numbers that are there; result: what put() says, or raises."""

    def __init__(self, *has, result=status.OK):
        self.numbers, self.result, self.tidied, self.marks = list(has), result, 0, []

    def put(self, seq, mark):
        if not isinstance(self.result, int):
            raise self.result
        if self.result == status.OK:
            self.numbers.append(seq)
            self.marks.append(mark)
        return self.result

    def has(self, seq):
        return seq in self.numbers

    def tidy(self):
        self.tidied += 1


class Part:
    """Stands in for the Retry: answers `says`, and notes the calls."""

    def __init__(self, says=False):
        self.says, self.calls = says, []

    def __getattr__(self, name):
        def call(*arguments):
            self.calls.append((name,) + arguments)
            return self.says

        return call


class Base(unittest.TestCase):
    def setUp(self):
        self.outbox = Outbox(flash_in_ram(4))
        assert self.outbox.format(b"3fa9c1d2") == status.OK
        self.released = []

    def store(self, count, topic=b"t"):
        for _ in range(count):
            assert self.outbox.append(topic, b"1", 1, 0x10) == status.OK

    def new(self, held=20, base=17, shelf=None):
        """A connected session whose window begins at `base`, with `held` messages from there on;
        all of the window was sent before."""
        self.store(base)
        self.outbox.discard_through(base - 1)
        self.store(held)
        self.session = session = Session(self.outbox, b"dev", window=7)
        self.shelf = shelf or Shelf()
        self.outbox.shelf = lambda: self.shelf
        session._release = self.released.append
        session.state, session.now_ms, session._up_ms = 2, 500_000, 470_000
        session.high = min(base + 16, self.outbox.next_seq)
        self.suspects = session.suspects = Suspects(session)
        return self.suspects

    def on_trial(self, seq=17, state=TRIAL, **options):
        suspects = self.new(**options)
        suspects._state, suspects._seq, suspects._until = state, seq, self.session.high
        return suspects


class TestAsked(Base):
    def test_it_is_over_when_nothing_is_left_to_do(self):
        suspects = self.new()
        self.assertTrue(suspects.is_over())
        for name, value in (("_state", CONTROL), ("_counts", {1: 1}), ("left", [1])):
            suspects = self.new(base=0)
            setattr(suspects, name, value)
            self.assertFalse(suspects.is_over(), name)
        suspects = self.new(base=0)
        self.outbox.aside = 1
        self.assertFalse(suspects.is_over())

    def test_it_is_testing(self):
        suspects = self.new()
        for state, seq, since_ms, is_testing in (
            (CONTROL, -1, 0, True), (TRIAL, 0, 9_999, True), (TRIAL, 17, 0, True),
            (TRIAL, -1, 0, False), (TRIAL, 17, 10_000, False), (CALM, 17, 0, False),
        ):  # fmt: skip
            suspects._state, suspects._seq = state, seq
            suspects._tried_ms = self.session.now_ms - since_ms
            self.assertEqual(suspects.is_testing(), is_testing, (state, seq, since_ms))
        for is_out in (True, False):
            suspects._shelved = Part(is_out)
            self.assertEqual(suspects.is_testing(), is_out)

    def test_what_is_not_there_takes_and_denies_nothing(self):
        suspects = self.new()
        self.assertEqual((suspects.takes(0x40, 1), suspects.denies(1)), (False, False))
        suspects._shelved = Part(True)
        self.assertEqual((suspects.takes(0x40, 1), suspects.denies(1)), (True, True))
        suspects._shelved = Part(False)
        self.assertEqual((suspects.takes(0x40, 1), suspects.denies(1)), (False, False))

    def test_the_first_state(self):
        suspects = self.new()
        self.assertEqual((suspects._in_a_row, suspects.status, suspects.left), (0, 0, []))
        self.assertEqual((suspects._full, suspects._tried_ms), (7, 500_000))


class TestBegin(Base):
    def test_it_forgets_what_was_before(self):
        suspects = self.new()
        suspects._counts[17], suspects._silent, suspects._proved = 2, [17], [18]
        suspects.begin()
        self.assertEqual((suspects._state, suspects._turn, suspects._until), (CONTROL, 17, 33))
        self.assertEqual((suspects._counts, suspects._silent, suspects._proved), ({}, [], []))
        self.assertEqual(suspects._age_ms, 10_000)

    def test_the_age_counts_up_to_10_s(self):
        suspects = self.new()
        self.session._up_ms = 490_001
        suspects.begin()
        self.assertEqual(suspects._age_ms, 9_999)

    def test_not_for_one_that_the_server_has_and_that_is_alone(self):
        for held, released, begins in (
            (1, 1 << 1, False), (2, 1 << 1, True), (1, 1 << 0, True), (1, 1 << 2, True),
            (1, 0, True),
        ):  # fmt: skip
            self.setUp()
            suspects = self.new(held)
            self.session._released = released
            suspects.begin()
            self.assertEqual(suspects._state, CONTROL if begins else CALM, (held, released))


class TestSetAside(Base):
    def test_one_is_passed_over(self):
        suspects = self.new()
        suspects._counts[17] = 2
        self.assertEqual(suspects.refuse(17), status.OK)
        self.assertEqual((self.released, self.session.base), ([17], 18))
        self.assertEqual((suspects._counts, suspects.status), ({}, status.OK))
        suspects._shelved = Part()
        suspects.refuse(18, 8)
        self.assertEqual(self.shelf.marks, [0, 8])
        self.assertEqual(suspects._shelved.calls, [("added",)])

    def test_one_that_the_shelf_does_not_take_is_not(self):
        for result, found in (
            (status.STORAGE, status.STORAGE), (MemoryError(), status.FULL),
            (ImportError(), status.FULL),
        ):  # fmt: skip
            self.setUp()
            suspects = self.new(shelf=Shelf(result=result))
            suspects._counts[17] = 2
            self.assertEqual((suspects.refuse(17), suspects.status), (found, found))
            self.assertEqual((self.released, suspects._counts), ([], {17: 2}))
            self.assertTrue(suspects._shelved is None)

    def test_the_window_passes_what_is_in_it(self):
        suspects = self.new(shelf=Shelf(16, 17, 32, 33))
        self.assertEqual([suspects.pass_over(seq) for seq in (16, 33, 18)], [False] * 3)
        self.assertEqual([suspects.pass_over(32), suspects.pass_over(17)], [True, True])
        self.assertEqual((self.released, self.session.base), ([32, 17], 18))

    def test_how_much_it_takes(self):
        suspects = self.new()
        found = []
        for suspects._in_a_row in range(8):
            found.append(suspects._needed())
        self.assertEqual(found, [3, 3, 3, 3, 6, 12, 24, 24])

    def test_it_counts(self):
        suspects = self.new()
        self.assertEqual([suspects._count(18), suspects._count(18)], [False, False])
        self.assertEqual((suspects._counts, suspects.status), ({18: 2}, status.OK))
        self.assertEqual((suspects._count(18), suspects._in_a_row), (True, 1))
        self.assertEqual((self.released, suspects._counts), ([18], {}))

    def test_after_four_it_says_so(self):
        suspects = self.new()
        for suspects._in_a_row, said in ((3, status.OK), (4, status.BLOCKED)):
            suspects._count(18)
            self.assertEqual(suspects.status, said)

    def test_what_the_server_has_stays_and_others_have_their_turn(self):
        for released, is_aside in ((1 << 2, False), (1 << 3, True), (1 << 1, True), (0, True)):
            self.setUp()
            suspects = self.on_trial(18)
            self.session._released, suspects._counts[18] = released, 2
            self.assertEqual((suspects._count(18), self.released), (is_aside, [18] * is_aside))
            if not is_aside:
                self.assertEqual((suspects._turn, suspects._seq, suspects.left), (19, -1, []))
                self.assertEqual(suspects._counts, {18: 3})


class TestNoRoom(Base):
    def full(self, **options):
        return self.new(shelf=Shelf(result=status.FULL), **options)

    def test_the_window_passes_it(self):
        suspects = self.full()
        self.outbox.aside, suspects.left = 5, [20]
        suspects._counts[18] = 2
        self.assertFalse(suspects._count(18))
        self.assertEqual((suspects.left, suspects._full_at, suspects._counts), ([18, 20], 5, {}))
        self.assertEqual((self.session._acked, suspects._turn), (2, 19))

    def test_not_when_flash_fails_or_the_outbox_renumbers_or_the_server_has_it(self):
        for name in ("storage", "renumbers", "released"):
            self.setUp()
            suspects = self.full()
            suspects._counts[18] = 2
            if name == "storage":
                self.shelf.result = status.STORAGE
            elif name == "renumbers":
                self.outbox.renumbers = True
            else:
                self.session._released = 1 << 2
                suspects.status = status.FULL  # of another one
            suspects._count(18)
            self.assertEqual((suspects.left, self.session._acked), ([], 0), name)
            self.assertEqual(suspects._turn, 19)

    def left(self, *numbers, base=37, aside=5):
        """All of the window but these was acknowledged."""
        suspects = self.full()
        suspects.left, suspects._full_at = list(numbers), 5
        self.session.base = self.session.next_send = base
        self.shelf.result, self.outbox.aside = status.OK, aside
        return suspects

    def test_it_waits_while_there_is_none(self):
        for aside in (5, 6):
            self.setUp()
            suspects = self.left(17, aside=aside)
            suspects._look_at_left()
            self.assertEqual((suspects.left, self.released), ([17], []))

    def test_when_there_was_nothing_on_the_shelf_it_is_tried_once_there_is_nothing(self):
        suspects = self.left(17, aside=1)
        suspects._full_at = 0
        suspects._look_at_left()
        self.assertEqual(suspects.left, [17])
        self.outbox.aside = 0
        suspects._look_at_left()
        self.assertEqual(suspects.left, [])

    def test_it_is_set_aside_and_what_is_up_to_the_next_one_is_released(self):
        for numbers, base, end in (((17, 20), 37, 20), ((17,), 37, 37), ((17, 20), 19, 19)):
            self.setUp()
            suspects = self.left(*numbers, base=base, aside=4)
            suspects._look_at_left()
            self.assertEqual((suspects.left, self.shelf.numbers), (list(numbers[1:]), [17]))
            self.assertEqual(self.released, list(range(17, end)))

    def test_it_stays_when_the_shelf_refuses_again(self):
        suspects = self.left(17, aside=4)
        self.shelf.result = status.FULL
        suspects._look_at_left()
        self.assertEqual((suspects.left, self.released), ([17], []))

    def test_one_that_is_gone_needs_no_shelf(self):
        suspects = self.left(17, 20, aside=6)
        self.outbox.discard_through(18)
        suspects._look_at_left()
        self.assertEqual((suspects.left, self.released), ([20], [19]))


class TestEnds(Base):
    def test_connected(self):
        suspects = self.on_trial()
        suspects._pinged_ms, suspects._shelved = 5, Part()
        suspects.on_connected()
        self.assertEqual((suspects._pinged_ms, suspects._seq), (-1, -1))
        self.assertEqual((suspects._state, self.shelf.tidied), (CONTROL, 0))
        self.assertEqual(suspects._shelved.calls, [])
        self.outbox.lent, self.outbox.aside, suspects._state = [3], 1, CALM
        suspects.on_connected()
        self.assertEqual((suspects._state, self.shelf.tidied), (CALM, 1))
        self.assertEqual(suspects._shelved.calls, [("on_connected",)])
        self.outbox.shelf = self.raises
        suspects.on_connected()

    def raises(self):
        raise MemoryError

    def test_while_calm(self):
        suspects = self.new()
        self.assertEqual(suspects.on_lost(status.LINK_LOST, True), 0)
        for was_out in (True, False):
            suspects._shelved = Part(was_out)
            self.assertEqual(suspects.on_lost(status.LINK_LOST, True), int(was_out))

    def test_one_that_says_nothing(self):
        for is_end, requested in ((False, ()), (True, (b"a",))):
            for state in (CONTROL, TRIAL):
                self.setUp()
                suspects = self.on_trial(state=state)
                self.session.next_send, self.session._requested = 18, requested
                self.assertEqual(suspects.on_lost(status.LINK_LOST, is_end), JUDGED)
                self.assertEqual((suspects._state, suspects._counts), (CONTROL, {}))

    def test_in_the_control(self):
        suspects = self.on_trial(state=CONTROL)
        self.session.next_send = 18
        self.assertEqual(suspects.on_lost(status.LINK_LOST, True), PATIENCE)
        self.assertEqual((suspects._state, suspects._counts), (CALM, {}))

    def test_in_the_trial(self):
        for next_send, counts, age_ms in ((18, {17: 1}, 10_000), (17, {}, 0)):
            self.setUp()
            suspects = self.on_trial()
            self.session.next_send = next_send
            self.assertEqual(suspects.on_lost(status.LINK_LOST, True), JUDGED)
            found = suspects._state, suspects._counts, suspects._age_ms
            self.assertEqual(found, (CONTROL, counts, age_ms))

    def test_out_is_what_the_stream_has_taken_some_of(self):
        suspects = self.on_trial()
        session = self.session
        for seq, next_send, out_end, out_at, is_publish, is_out in (
            (17, 18, 0, 0, True, True), (17, 17, 0, 0, True, False), (17, 19, 0, 0, True, True),
            (-1, 18, 0, 0, True, False), (17, 18, 9, 0, True, False), (17, 18, 9, 1, True, True),
            (17, 18, 9, 0, False, True), (0, 1, 0, 0, True, True), (17, 18, 1, 0, True, False),
        ):  # fmt: skip
            suspects._seq, session.next_send = seq, next_send
            session.out_end, session.out_at = out_end, out_at
            session.out = session.tx if is_publish else b""
            self.assertEqual(bool(suspects._is_out()), is_out, (seq, next_send, out_end, out_at))

    def judge(self, seq, error=status.LINK_LOST, late_ms=0, acked=0, silent=()):
        self.setUp()
        suspects = self.on_trial(seq)
        suspects._tried_ms = self.session.now_ms - late_ms
        self.session._acked, suspects._silent = acked, list(silent)
        suspects._judge(error)
        return suspects

    def test_an_end_counts_and_it_has_the_next_trial_too(self):
        suspects = self.judge(18, late_ms=9_999)
        self.assertEqual((suspects._counts, suspects._turn), ({18: 1}, 18))

    def test_silence_gives_the_next_one_its_turn(self):
        for error, late_ms in (
            (status.TIMED_OUT, 0), (status.NO_ANSWER, 0), (status.LINK_LOST, 10_000),
        ):  # fmt: skip
            suspects = self.judge(18, error, late_ms)
            self.assertEqual((suspects._counts, suspects._silent), ({}, [18]))
            self.assertEqual((suspects._turn, suspects._seq), (19, -1))

    def test_it_counts_when_a_later_one_was_acknowledged(self):
        for seq, acked, counts in (
            (18, 0b100, {18: 1}), (19, 0b010, {}), (17, 0b010, {17: 1}), (16, 0b010, {16: 1}),
            (19, 0b1010, {19: 1}), (20, 0b0110, {}),
        ):  # fmt: skip
            suspects = self.judge(seq, status.TIMED_OUT, acked=acked)
            self.assertEqual(
                (suspects._counts, suspects._silent), (counts, [] if counts else [seq])
            )

    def test_and_when_each_has_been_silent(self):
        suspects = self.judge(18, status.TIMED_OUT, silent=range(17, 33))
        self.assertEqual((suspects._counts, len(suspects._silent)), ({18: 1}, 16))
        suspects = self.judge(18, status.TIMED_OUT, silent=range(17, 32))
        self.assertEqual((suspects._counts, len(suspects._silent)), ({}, 15))


class TestAnswers(Base):
    def test_an_acknowledgement_ends_the_count(self):
        suspects = self.on_trial(18)
        suspects._counts, suspects._silent = {18: 2, 19: 1}, [18, 19, 20]
        suspects.status, suspects._in_a_row, suspects._proved = status.BLOCKED, 3, [21]
        suspects._shelved = Part()
        self.assertEqual(suspects.on_acknowledged(18), 0)
        self.assertEqual((suspects._counts, suspects._silent), ({19: 1}, []))
        self.assertEqual((suspects._proved, suspects._seq), ([21, 19, 20], -1))
        self.assertEqual((suspects.status, suspects._in_a_row), (status.OK, 0))
        self.assertEqual(suspects._shelved.calls, [])

    def test_one_of_another_message_leaves_the_trial(self):
        suspects = self.on_trial(18)
        suspects.on_acknowledged(17)
        self.assertEqual(suspects._seq, 18)

    def test_the_window_stays_outside_of_a_trial(self):
        for state in (CALM, CONTROL):
            self.setUp()
            self.assertEqual(self.on_trial(18, state).on_acknowledged(18), 7)

    def test_the_first_after_a_row_makes_the_shelf_due(self):
        suspects = self.new()
        suspects._shelved, suspects._in_a_row = Part(), 4
        suspects.on_acknowledged(17)
        self.assertEqual((suspects._shelved.calls, suspects._in_a_row), ([("hurry",)], 0))

    def test_a_refusal(self):
        for seq, is_final, aside, turn in (
            (18, False, False, 19), (19, False, False, 0),
            (18, True, True, 19), (19, True, True, 0),
        ):  # fmt: skip
            self.setUp()
            suspects = self.on_trial(18)
            suspects._shelved = Part()
            self.assertEqual(suspects.on_refused(seq, is_final), aside)
            self.assertEqual((suspects._turn, suspects._counts), (turn, {} if aside else {seq: 1}))
            self.assertEqual(("ended", seq + 1) in suspects._shelved.calls, aside)
        suspects._counts[20] = 2
        self.assertTrue(suspects.on_refused(20, False))
        self.assertTrue(("ended", 21) in suspects._shelved.calls)


class TestTicks(Base):
    def test_while_calm_the_window_is_as_it_was_or_the_retrys(self):
        suspects = self.new()
        suspects.set_window(5)
        self.assertEqual(suspects.on_tick(), 5)
        suspects._shelved, self.outbox.aside = Part(3), 1
        self.assertEqual(suspects.on_tick(), 3)
        self.assertEqual(suspects._shelved.calls, [("on_tick", 5)])

    def test_one_that_the_silence_speaks_against_is_counted(self):
        suspects = self.new()
        suspects._proved = [18, 19]
        suspects.on_tick()
        self.assertEqual((suspects._proved, suspects._counts), ([18], {19: 1}))

    def test_those_left_are_looked_at(self):
        suspects = self.new()
        suspects.left = [17]
        suspects.on_tick()
        self.assertEqual((suspects.left, self.shelf.numbers), ([], [17]))

    def test_the_control_and_then_the_trial(self):
        suspects = self.on_trial(-1, CONTROL)
        suspects._turn, suspects._age_ms = 18, 10_000
        self.assertEqual((suspects.on_tick(), suspects._state), (0, CONTROL))
        suspects._pinged_ms, self.session._awaited_ms = 10_000, -1
        self.assertEqual((suspects.on_tick(), suspects._state), (2, TRIAL))
        self.assertEqual((suspects._seq, self.session.next_send), (18, 18))
        self.assertEqual(suspects._tried_ms, 500_000)

    def test_what_was_released_is_forgotten(self):
        suspects = self.new()
        suspects._counts = {16: 1, 17: 1}
        suspects.on_tick()
        self.assertEqual(suspects._counts, {17: 1})
        suspects.on_tick()
        self.assertEqual(suspects._counts, {17: 1})

    def test_one_aside_that_no_confirmation_will_release_is_released(self):
        for aside, base, has, oldest in (
            (1, 18, 17, 18), (0, 18, 17, 17), (1, 17, 17, 17), (1, 18, 18, 17),
        ):  # fmt: skip
            self.setUp()
            suspects = self.new(shelf=Shelf(has))
            self.outbox.aside, self.session.base = aside, base
            suspects._drop()
            self.assertEqual(self.outbox.oldest_seq, oldest, (aside, base, has))

    def test_a_control_is_proved_by_a_ping_that_is_older_than_the_last_connection(self):
        suspects = self.on_trial(-1, CONTROL)
        session = self.session
        for requested, awaited, pinged, age, up, proved, pings in (
            ((), -1, 10_000, 10_000, 30_000, True, False),
            ((), -1, 9_999, 10_000, 30_000, False, True),
            ((), -1, 9_999, 10_000, 10_000, False, True),
            ((), -1, 5_000, 10_000, 9_999, False, False),
            ((), -1, -1, 10_000, 5, False, True),
            ((), -1, 0, 0, 5, True, False),
            ((), -1, 0, 10_000, 5, False, False),
            ((), 0, 10_000, 10_000, 30_000, False, False),
            ((), 5, 10_000, 10_000, 30_000, False, False),
            ((b"a",), -1, 10_000, 10_000, 30_000, False, False),
        ):  # fmt: skip
            session._requested, session._awaited_ms = requested, awaited
            suspects._pinged_ms, suspects._age_ms = pinged, age
            session._up_ms, session.out_end = session.now_ms - up, 0
            case = pinged, age, up, awaited
            self.assertEqual((suspects._is_proved(), session.out_end > 0), (proved, pings), case)
            self.assertEqual(suspects._pinged_ms, up if pings else pinged)


class TestTurns(Base):
    def test_it_is_over_when_all_that_was_in_flight_is_done(self):
        for base, oldest, is_over in ((33, 17, True), (32, 17, False), (17, 33, True)):
            self.setUp()
            suspects = self.on_trial(17)
            self.session.base = self.session.next_send = base
            self.outbox.discard_through(oldest - 1)
            self.assertEqual(suspects._try_next() == 7, is_over)
            self.assertEqual(suspects._state, CALM if is_over else TRIAL)

    def test_the_one_that_is_out_stays_until_it_is_acknowledged(self):
        suspects = self.on_trial(18)
        suspects._turn, suspects._tried_ms = 20, 5
        self.session.next_send = 19
        self.assertEqual((suspects._try_next(), suspects._seq), (2, 18))
        self.assertEqual((suspects._tried_ms, self.session.next_send), (5, 19))
        self.session._acked = 2
        self.assertEqual((suspects._try_next(), suspects._seq), (4, 20))
        self.assertEqual((suspects._tried_ms, self.session.next_send), (500_000, 20))

    def test_the_very_first_message(self):
        suspects = self.on_trial(-1, base=0)
        suspects._turn, suspects._tried_ms = 0, 5
        self.assertEqual((suspects._try_next(), suspects._seq), (1, 0))
        self.assertEqual((suspects._tried_ms, self.session.next_send), (500_000, 0))
        self.session.next_send, self.session.now_ms = 1, 500_016
        self.assertEqual((suspects._try_next(), suspects._tried_ms), (1, 500_000))

    def test_no_window_while_none_may_go(self):
        suspects = self.on_trial(-1)
        suspects._tried_ms = 5
        self.session._denied = 0xFFFF
        self.session.next_send = 30
        self.assertEqual((suspects._try_next(), suspects._seq), (0, -1))
        self.assertEqual((suspects._tried_ms, self.session.next_send), (5, 17))

    def test_whose_turn_it_is(self):
        """high: one more than was sent may go; the ring and the window end it."""
        for held, high, turn, acked, chosen in (
            (20, 20, 17, 0, 17), (20, 20, 20, 0, 20), (20, 20, 21, 0, 17), (20, 20, 16, 0, 17),
            (3, 33, 19, 0, 19), (3, 33, 20, 0, 17), (20, 40, 32, 0, 32), (20, 40, 33, 0, 17),
            (20, 20, 17, 0b110, 17), (20, 20, 18, 0b110, 20), (20, 20, 18, 0b10, 19),
            (20, 20, 19, 0b1100, 17),
            (20, 0, 18, 0, 17), (1, 18, 17, 0, 17), (16, 40, 32, 0, 32),
        ):  # fmt: skip
            self.setUp()
            suspects = self.on_trial(-1, held=held)
            self.session.high, suspects._turn, self.session._acked = high, turn, acked
            self.assertEqual(suspects._choose(), chosen, (held, high, turn, acked))

    def test_the_last_of_sixteen(self):
        suspects = self.on_trial(-1)
        self.session._acked, suspects._turn = 0xFFFE, 18
        self.assertEqual(suspects._choose(), 17)
        self.session._denied = 0xFFFF
        self.assertEqual(suspects._choose(), -1)

    def test_what_may_go(self):
        suspects = self.on_trial(-1)
        for denied, count, since_ms, may_go in (
            (0, 0, 0, True), (1 << 2, 0, 0, False), (1 << 1, 0, 0, True), (1 << 3, 0, 0, True),
            (0, 2, 0, True), (0, 3, 0, False), (0, 3, 59_999, False), (0, 3, 60_000, True),
        ):  # fmt: skip
            self.session._denied, suspects._counts = denied, {18: count} if count else {}
            suspects._tried_ms = self.session.now_ms - since_ms
            self.assertEqual(suspects._may_go(18), may_go, (denied, count, since_ms))

    def test_what_is_held(self):
        suspects = self.new(shelf=Shelf(19))
        self.session._acked = 0b10
        held = [seq for seq in range(10, 40) if suspects._is_held(seq)]
        self.assertEqual(held, [17] + list(range(19, 33)))
        self.outbox.aside = 1
        held = [seq for seq in range(10, 40) if suspects._is_held(seq)]
        self.assertEqual(held, [17] + list(range(20, 33)))

    def test_one_that_is_gone(self):
        suspects = self.new()
        self.assertEqual([suspects._is_invalid(17), suspects._is_invalid(18)], [False, False])
        self.outbox.discard_through(18)
        self.assertEqual([suspects._is_invalid(17), suspects._is_invalid(18)], [False, True])
        self.assertEqual(suspects._is_invalid(37), True)  # not stored

    def test_a_topic_that_no_server_takes_is_set_aside(self):
        for topic in (b"", b"a#", b"\xb0C"):
            self.setUp()
            suspects = self.new(held=1)
            self.store(1, topic)
            self.assertEqual((suspects._is_invalid(18), self.shelf.numbers), (True, [18]))
            suspects = self.new(base=0, held=0, shelf=Shelf(result=status.FULL))
            self.assertEqual(suspects._is_invalid(18), False)

    def test_all_is_well(self):
        suspects = self.new()
        suspects.shelved()
        suspects.unload()
        self.assertFalse({"outpost.suspects", "outpost.retry"} & set(sys.modules))


if __name__ == "__main__":
    unittest.main()
