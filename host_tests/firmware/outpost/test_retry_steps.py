"""Each step of `retry.py` by itself, at its bounds. `test_retry.py` has the whole."""

import unittest

from outpost import packets, status
from outpost.ram_outbox import RamOutbox
from outpost.retry import Retry
from outpost.session import Session

CALM, PINGED, HOLD, AGAIN, RECEIVED, RELEASED = range(6)
MINUTE_MS = 60_000


class Room:
    """Stands in for an InFlight. length: of the message that it was asked about."""

    def __init__(self, has_room):
        self.is_free, self.length = has_room, 0

    def has_room(self, length):
        self.length = length
        return self.is_free


class Base(unittest.TestCase):
    def setUp(self):
        self.outbox = RamOutbox(16, 400)
        self.new()

    def new(self, aside=3, now_ms=500_000, topic=b"topic", flags=0x10):
        """A connected session with nothing in flight, and messages 0, 1, ... on the shelf."""
        self.outbox = RamOutbox(16, 400)
        for number in range(aside):
            payload = b"payload %d" % number
            assert self.outbox.append(topic, payload, len(payload), flags) == status.OK
            assert self.outbox.shelf().put(number, 0) == status.OK
            self.outbox.discard(number)
        self.session = session = Session(self.outbox, b"dev")
        session.state, session.now_ms = 2, now_ms
        session.note_aside = self.note_aside
        self.noted, self.can_save = [], True
        session._is_noted, session._save = True, lambda: self.can_save
        self.retry = Retry(session)
        return self.retry

    def note_aside(self, packet_id):
        self.noted.append(packet_id)
        self.session.aside_id = packet_id

    def out(self, index=0, state=AGAIN, minutes=4):
        retry = self.new()
        retry._index, retry._state, retry._minutes = index, state, minutes
        retry._packet_id = packets.packet_id_of(index)
        retry._exchanges[retry._packet_id] = 8
        self.session.now_ms += 1000
        return retry

    def sent(self):
        """The first byte of the packet that was started; 0: none was."""
        return self.session.out[0] if self.session.out_end else 0

    def when(self):
        return self.retry._index, self.retry._minutes, self.retry._since_ms

    def raises(self, *_):
        raise AssertionError


class TestEvents(Base):
    def test_the_first_state(self):
        self.assertEqual(self.when(), (0, 1, 500_000))
        self.assertEqual((self.retry._packet_id, self.retry._dup), (0, 8))

    def test_what_is_out(self):
        for state in range(6):
            self.retry._state = state
            self.assertEqual(self.retry.is_out(), state >= AGAIN)

    def test_it_is_made_due(self):
        self.retry.hurry()
        self.assertEqual(self.when(), (0, 0, 500_000))
        self.retry.begin_at(2)
        self.assertEqual(self.when(), (2, 0, 500_000))

    def test_the_first_one_that_is_added_has_a_minute(self):
        for aside, when in ((1, (0, 1, 501_000)), (2, (0, 7, 500_000))):
            self.new(aside)
            self.retry._minutes, self.session.now_ms = 7, 501_000
            self.retry.added()
            self.assertEqual(self.when(), when)

    def test_a_refused_exchange_is_over(self):
        self.retry.ended(5)
        self.assertEqual(self.retry._exchanges, {5: 0})

    def test_connected(self):
        for is_present, exchanges, dup in ((True, {5: 8}, 8), (False, {}, 0)):
            self.new()
            self.retry._exchanges[5] = 8
            self.session.session_present = is_present
            self.retry.on_connected()
            self.assertEqual((self.retry._exchanges, self.retry._dup), (exchanges, dup))
            self.assertEqual(self.when(), (0, 1, 500_000))

    def test_one_that_waited_longer_than_ticks_measure_is_due(self):
        self.session.now_ms = (500_000 + 0x20000001) & 0x3FFFFFFF
        self.retry.on_connected()
        self.assertEqual(self.retry._minutes, 0)
        self.new()
        self.session.now_ms = 500_001
        self.retry.on_connected()
        self.assertEqual(self.retry._minutes, 1)

    def test_an_end(self):
        for state, was_out, when in (
            (HOLD, False, (0, 4, 500_000)), (AGAIN, True, (1, 4, 501_000)),
            (RECEIVED, True, (1, 4, 501_000)), (CALM, False, (0, 4, 500_000)),
        ):  # fmt: skip
            retry = self.out(state=state)
            self.assertEqual((retry.on_lost(), retry._state), (was_out, CALM))
            self.assertEqual(self.when(), when)

    def test_the_next_one_has_its_turn(self):
        """After the last one the time doubles, up to a day."""
        for index, minutes, when in (
            (0, 4, (1, 4)), (1, 4, (2, 4)), (2, 4, (0, 8)), (2, 0, (0, 1)), (2, 1, (0, 2)),
            (2, 800, (0, 1440)), (2, 700, (0, 1400)),
        ):  # fmt: skip
            self.out(index, minutes=minutes)._postpone()
            self.assertEqual(self.when(), when + (501_000,))

    def test_but_one_that_the_server_has_stays_the_next(self):
        for minutes, later in ((0, 1), (1, 1), (4, 4)):
            retry = self.out(1, minutes=minutes)
            self.session.aside_id = 2
            retry._postpone()
            self.assertEqual(self.when(), (1, later, 501_000))
        retry = self.out(1)
        self.session.aside_id = 3
        retry._postpone()
        self.assertEqual(self.when(), (2, 4, 501_000))
        retry = self.out(1)
        retry._packet_id = 0
        retry._postpone()
        self.assertEqual(self.when(), (2, 4, 501_000))


class TestAnswers(Base):
    def test_of_another_message(self):
        for state, packet_id in ((HOLD, 1), (AGAIN, 2)):
            retry = self.out(state=state)
            self.assertFalse(retry.takes(0x40, packet_id) or retry.denies(packet_id))
            self.assertEqual((retry._state, self.outbox.aside), (state, 3))

    def test_puback(self):
        retry = self.out()
        saved = []
        self.outbox.save_state = lambda: saved.append(self.outbox.aside)
        self.assertTrue(retry.takes(0x40, 1))
        self.assertEqual((retry._state, self.outbox.aside, saved), (CALM, 2, [3]))
        self.assertEqual((self.when(), retry._exchanges), ((0, 0, 501_000), {}))
        self.assertEqual(self.noted, [])

    def test_after_the_last_one_comes_the_first(self):
        for index, following in ((2, 0), (1, 1)):
            retry = self.out(index)
            self.assertTrue(retry.takes(0x40, index + 1))
            self.assertEqual(self.when(), (following, 0, 501_000))

    def test_pubrec(self):
        retry = self.out()
        self.assertTrue(retry.takes(0x50, 1))
        self.assertEqual((retry._state, self.noted), (RECEIVED, [1]))
        self.assertEqual((retry._since_ms, self.outbox.aside), (501_000, 3))

    def test_pubcomp(self):
        for state, takes in ((AGAIN, False), (RECEIVED, False), (RELEASED, True)):
            retry = self.out(state=state)
            self.assertEqual(retry.takes(0x70, 1), takes)
            self.assertEqual((self.noted, self.outbox.aside), ([0] * takes, 3 - takes))
            self.assertEqual(retry._state, CALM if takes else state)

    def test_puback_when_flash_keeps_it(self):
        for first in (0x40, 0x70):
            retry = self.out(state=RELEASED)
            self.outbox.shelf().release = lambda index: status.STORAGE
            self.assertTrue(retry.takes(first, 1))
            self.assertEqual((self.when(), retry._state), ((1, 4, 501_000), CALM))
            self.assertEqual((retry._exchanges, self.noted), ({1: 8}, []))

    def test_a_refusal(self):
        retry = self.out()
        self.assertTrue(retry.denies(1))
        self.assertEqual((retry._state, retry._exchanges), (CALM, {1: 0}))
        self.assertEqual(self.when(), (1, 4, 501_000))


class TestTicks(Base):
    def tick(self, state, waited_ms=0, minutes=4, **fields):
        """(window, state, first byte that goes out)"""
        retry = self.out(state=state, minutes=minutes)
        self.session.now_ms = 500_000 + waited_ms
        for name, value in fields.items():
            setattr(self.session, name, value)
        window = retry.on_tick(7)
        return window, retry._state, self.sent()

    def test_it_waits_and_then_sends_pingreq(self):
        self.assertEqual(self.tick(CALM, 4 * MINUTE_MS - 1), (7, CALM, 0))
        self.assertEqual(self.tick(CALM, 4 * MINUTE_MS), (7, PINGED, 0xC0))
        self.assertEqual(self.tick(CALM, 0, minutes=0), (7, PINGED, 0xC0))

    def test_others_that_wait_on_this_connection_go_first(self):
        """One acknowledgement is enough. The outbox has messages before number 3."""
        self.assertEqual(self.tick(CALM, 4 * MINUTE_MS, base=2), (7, CALM, 0))
        self.assertEqual(self.tick(CALM, 4 * MINUTE_MS, base=3), (7, PINGED, 0xC0))
        counts = {"acknowledged": 5, "_acked_before": 4}
        self.assertEqual(self.tick(CALM, 4 * MINUTE_MS, base=2, **counts), (7, PINGED, 0xC0))
        self.assertEqual(self.tick(CALM, 4 * MINUTE_MS - 1, base=2, **counts), (7, CALM, 0))

    def test_the_window_runs_empty_after_pingresp(self):
        for awaited_ms in (0, 5):
            self.assertEqual(self.tick(PINGED, _awaited_ms=awaited_ms), (7, PINGED, 0))
        self.assertEqual(self.tick(PINGED, next_send=4, base=3), (0, HOLD, 0))
        self.assertEqual(self.tick(HOLD, next_send=4, base=3, _awaited_ms=5), (0, HOLD, 0))

    def test_it_goes_out_alone(self):
        self.assertEqual(self.tick(PINGED), (0, AGAIN, 0x3A))
        self.assertEqual(self.tick(HOLD), (0, AGAIN, 0x3A))
        self.assertEqual(self.tick(HOLD, _requested=(b"a",)), (0, HOLD, 0))
        self.assertEqual(self.tick(HOLD, out_end=2, out=b"\xd0\x00"), (0, HOLD, 0xD0))

    def test_one_without_an_answer_is_asked_for_once(self):
        """By PINGREQ, to which a server that answers in order answers after it."""
        for state in (AGAIN, RECEIVED, RELEASED):
            self.assertNotEqual(self.tick(state, 9_999)[2], 0xC0)
            self.assertIs(self.retry.is_late(), False)
            self.assertEqual(self.tick(state, 10_000), (0, state, 0xC0))
            self.assertIs(self.retry.is_late(), True)
            self.session.out_end, self.session._awaited_ms = 0, -1
            self.assertEqual((self.retry.on_tick(7), self.sent()), (0, 0))
            self.assertEqual(self.when(), (0, 4, 500_000))
        for busy in ({"_awaited_ms": 0}, {"_awaited_ms": 5}, {"out_end": 2, "out": b"\xd0\x00"}):
            self.tick(AGAIN, 10_000, **busy)
            self.assertIs(self.retry.is_late(), False)

    def test_an_answer_in_time_or_the_end_is_late_no_more(self):
        for answer in (
            lambda retry: retry.takes(0x50, 1), lambda retry: retry.takes(0x40, 1),
            lambda retry: retry.denies(1), lambda retry: retry.on_lost(),
        ):  # fmt: skip
            self.tick(AGAIN, 10_000)
            answer(self.retry)
            self.assertIs(self.retry.is_late(), False)

    def test_pubrel(self):
        self.assertEqual(self.tick(RECEIVED, 9_999), (0, RELEASED, 0x62))
        self.assertEqual(bytes(self.session.out[: self.session.out_end]), b"\x62\x02\x00\x01")
        self.assertEqual(self.tick(RECEIVED, out_end=2, out=b"\xd0\x00"), (0, RECEIVED, 0xD0))

    def test_no_pubrel_before_the_note_is_in_flash(self):
        for is_noted, can_save, goes in (
            (False, False, False), (False, True, True), (True, False, True),
        ):  # fmt: skip
            self.new()
            self.retry._state, self.retry._packet_id = RECEIVED, 1
            self.session._is_noted, self.can_save = is_noted, can_save
            self.retry.on_tick(7)
            self.assertEqual((self.retry._state, self.sent()), (5, 0x62) if goes else (4, 0))


class TestPublish(Base):
    def send(self, **options):
        self.new(**options)
        self.session.now_ms = 501_000
        self.retry._state = HOLD
        self.retry._send()
        return bytes(self.session.out[: self.session.out_end])

    def test_with_its_old_identifier(self):
        packet = self.send()
        self.assertEqual(packet, b"\x3a\x12\x00\x05topic\x00\x01payload 0")
        self.assertEqual((self.retry._packet_id, self.retry._since_ms), (1, 501_000))
        self.assertEqual(self.retry._exchanges, {1: 8})
        self.assertEqual((self.session.out_at, self.session.out is self.session.tx), (0, True))

    def test_qos_2_only_where_the_session_has_it_and_retain(self):
        self.assertEqual(self.send(flags=0x20)[0], 0x3A)
        self.assertEqual(self.send(flags=0x50)[0], 0x3B)
        self.session.highest_qos = 2
        for flags, first in ((0x20, 0x3C), (0x10, 0x3A), (0x60, 0x3D)):
            self.new(flags=flags)
            self.session.highest_qos = 2
            self.retry._send()
            self.assertEqual(self.session.out[0], first)

    def test_dup_while_its_exchange_is_open(self):
        for exchanges, dup, first in (
            ({}, 8, 0x3A),
            ({1: 0}, 8, 0x32),
            ({1: 8}, 0, 0x3A),
            ({}, 0, 0x32),
        ):
            self.new()
            self.retry._exchanges, self.retry._dup = exchanges, dup
            self.retry._send()
            self.assertEqual(self.session.out[0], first)

    def test_one_that_flash_does_not_read_or_that_is_marked_is_postponed(self):
        for status_of_load, mark in ((status.EMPTY, 0), (status.OK, 1)):
            self.new()
            self.retry._state, self.retry._packet_id, self.session.aside_id = HOLD, 1, 1
            shelf = self.outbox.shelf()
            shelf.load, shelf.mark = lambda index, found=status_of_load: found, mark
            self.session.now_ms = 501_000
            self.retry._send()
            self.assertEqual((self.retry._state, self.retry._packet_id), (CALM, 0))
            self.assertEqual((self.when(), self.sent()), ((1, 1, 501_000), 0))

    def test_it_waits_for_room(self):
        for has_room in (False, True):
            self.new()
            self.retry._state = HOLD
            self.session.in_flight = Room(has_room)
            self.retry._send()
            self.assertEqual(self.session.in_flight.length, 14)
            found = self.retry._state, self.sent(), self.retry._packet_id
            self.assertEqual(found, (AGAIN, 0x3A, 1) if has_room else (HOLD, 0, 0))

    def test_one_that_the_server_has_goes_on_with_pubrel(self):
        self.new()
        self.session.aside_id = 1
        self.retry._state = HOLD
        self.retry._send()
        self.assertEqual((self.retry._state, self.sent()), (RECEIVED, 0))

    def test_one_that_this_server_does_not_take_is_postponed(self):
        for takes in (False, True):
            self.new()
            self.retry._state, self.session.now_ms = HOLD, 501_000
            self.session._properties, self.session._prepares = b"\x01\x00\x00\x00", True
            self.asked = []
            self.session._prepare = lambda seq, takes=takes: self.asked.append(seq) or takes
            self.retry._send()
            self.assertEqual((self.asked, self.retry._state), ([-1], AGAIN if takes else CALM))
            self.assertEqual(self.when()[0], 0 if takes else 1)

    def test_nobody_is_asked_without_need(self):
        for properties, prepares in ((0, True), (b"\x01\x00\x00\x00", False)):
            self.new()
            self.session._properties, self.session._prepares = properties, prepares
            self.session._prepare = self.raises
            self.retry._send()
            self.assertEqual(self.retry._state, AGAIN)


if __name__ == "__main__":
    unittest.main()
