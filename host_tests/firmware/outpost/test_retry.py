"""A message of the shelf that goes out again: which acknowledgement is its own, what its end
leaves, and what comes next; and how a control begins."""

import unittest

from bench_client import STREAM
from fake_flash import flash_in_ram
from outpost import status
from outpost.exactly_once import ExactlyOnceSession
from outpost.packets import put_u16
from outpost.session import Session
from outpost.state_note import NotedOutbox
from test_suspects import World, again, is_bad, on_flash

PUBACK, PUBREC, PUBCOMP = 0x40, 0x50, 0x70
CALM, AGAIN, RECEIVED, RELEASED = 0, 3, 4, 5


def set_aside(*payloads, kind=ExactlyOnceSession, qos=2):
    """A world in which they are on the shelf. From now on the server takes everything."""
    world = World(kind, on_flash(NotedOutbox), is_bad)
    for payload in payloads:
        assert world.client.publish(b"t", payload, qos) == status.OK
    world.publish(b"ok")

    def is_done():
        is_all = world.outbox.aside == len(payloads) and world.client.is_drained()
        return is_all and world.session.suspects._state == CALM

    world.run(300, is_done)
    assert is_done()
    world.rejects, world.got = lambda *_: False, []
    return world


def out_again(*payloads, **options):
    """And the first of them is out; its answer never comes."""
    world = set_aside(*payloads, **options)
    world._take = lambda *_: b""
    world.session.suspects.shelved().begin_at(0)
    world.session.suspects.retry()
    world.run(30, lambda: world.session.suspects.shelved()._state == AGAIN)
    assert world.session.suspects.shelved()._state == AGAIN
    return world


def kinds(world):
    return [first & 0xF0 for _, first, _ in world.packets]


class TestAcknowledgement(unittest.TestCase):
    def test_each_of_qos_2_counts_in_its_turn_and_with_its_own_identifier(self):
        world = out_again(b"bad1", b"bad2")
        session, suspects = world.session, world.session.suspects.shelved()
        own = suspects._packet_id
        for first, packet_id in ((PUBACK, own + 1), (PUBREC, own + 1), (PUBCOMP, own)):
            self.assertIs(suspects.takes(first, packet_id), False)
        self.assertEqual((suspects._state, session.aside_id), (AGAIN, 0))
        self.assertIs(suspects.takes(PUBREC, own), True)
        self.assertIs(suspects.takes(PUBCOMP, own), False)
        self.assertEqual((suspects._state, world.outbox.aside), (RECEIVED, 2))
        world.run(1, lambda: suspects._state == RELEASED)
        world.queue.clear()
        self.assertEqual(session.aside_id, own)
        self.assertIs(suspects.takes(PUBCOMP, own), True)
        found = suspects._state, world.outbox.aside, session.aside_id
        self.assertEqual(found, (CALM, 1, 0))
        for first in (PUBACK, PUBREC, PUBCOMP):  # once more, when nothing is out
            self.assertIs(suspects.takes(first, own), False)
        self.assertEqual((world.outbox.aside, session.aside_id), (1, 0))

    def test_of_qos_1_it_says_nothing_of_what_is_noted(self):
        world = out_again(b"bad", qos=1)
        world.session.note_aside(77)
        suspects = world.session.suspects.shelved()
        self.assertIs(suspects.takes(PUBACK, suspects._packet_id), True)
        self.assertEqual((world.outbox.aside, world.session.aside_id), (0, 77))

    def test_it_is_counted_as_acknowledged_once(self):
        world = set_aside(b"bad")
        before = world.session.acknowledged
        world.session.suspects.retry()
        world.run(30, lambda: not world.outbox.aside)
        found = world.outbox.aside, world.session.acknowledged - before, world.session.ignored
        self.assertEqual(found, (0, 1, 0))

    def test_a_reset_does_not_bring_it_back_to_the_ring(self):
        """Its own record is there yet, and no later one says that it was freed."""
        world = set_aside(b"bad", kind=Session, qos=1)
        world.session.suspects.retry()
        world.run(30, lambda: not world.outbox.aside)
        fresh = again(world.outbox)
        self.assertEqual((fresh.aside, fresh.next_seq - fresh.oldest_seq), (0, 0))

    def test_where_flash_keeps_it_the_next_one_is_due_a_minute_later(self):
        world = out_again(b"bad1", b"bad2", kind=Session, qos=1)
        suspects = world.session.suspects.shelved()
        world.outbox.shelf().release = lambda index: status.STORAGE
        suspects._minutes, suspects._since_ms = 3, 0
        self.assertIs(suspects.takes(PUBACK, suspects._packet_id), True)
        found = suspects._index, suspects._minutes, suspects._since_ms
        self.assertEqual(found, (1, 3, world.now_ms))


class FullFlight:
    """No memory for what is in flight."""

    def __init__(self):
        self.asked = []

    def __bool__(self):
        return True

    def has_room(self, length):
        self.asked.append(length)
        return len(self.asked) > 1


class TestNext(unittest.TestCase):
    def after(self, suspects):
        """What is next, in how many minutes, from when on."""
        return suspects._index, suspects._minutes, suspects._since_ms

    def test_one_that_is_denied_is_behind_the_others_and_none_is_due_at_once(self):
        world = out_again(b"bad1", b"bad2", b"bad3", kind=Session, qos=1)
        suspects = world.session.suspects.shelved()
        suspects._minutes, suspects._since_ms = 3, 0
        self.assertIs(suspects.denies(suspects._packet_id), True)
        self.assertEqual(self.after(suspects), (1, 3, world.now_ms))
        world = out_again(b"bad", kind=Session, qos=1)
        suspects = world.session.suspects.shelved()
        suspects._minutes = suspects._since_ms = 0
        self.assertIs(suspects.denies(suspects._packet_id), True)
        self.assertEqual(self.after(suspects), (0, 1, world.now_ms))

    def test_one_that_the_server_has_is_the_next_after_an_end(self):
        for minutes, expected in ((0, 1), (4, 4)):
            world = out_again(b"bad1", b"bad2")
            suspects = world.session.suspects.shelved()
            self.assertIs(suspects.takes(PUBREC, suspects._packet_id), True)
            suspects._minutes, suspects._since_ms = minutes, 0
            self.assertIs(suspects.on_lost(), True)
            self.assertEqual(self.after(suspects), (0, expected, world.session.now_ms))

    def test_one_that_flash_does_not_read_is_passed_over(self):
        """Also when the server has the one whose identifier is 1."""
        world = out_again(b"bad1", b"bad2")
        suspects = world.session.suspects.shelved()
        world.session.note_aside(1)
        world.outbox.shelf().load = lambda index: status.STORAGE
        suspects._minutes, suspects._since_ms = 3, 0
        suspects._send()
        self.assertEqual((suspects._state, self.after(suspects)), (CALM, (1, 3, world.now_ms)))

    def test_it_waits_for_the_memory_of_what_is_in_flight(self):
        world = set_aside(b"bad", kind=Session, qos=1)
        flight = world.session.in_flight = FullFlight()
        suspects = world.session.suspects.shelved()
        suspects._send()
        self.assertEqual((suspects._state, world.session.out_end), (CALM, 0))
        suspects._send()
        self.assertEqual((suspects._state, flight.asked), (AGAIN, [4, 4]))
        self.assertTrue(world.session.out_end)

    def test_from_any_of_them_on_the_others_follow_within_seconds(self):
        for index in range(3):
            world = set_aside(b"bad1", b"bad2", b"bad3")
            world.session.suspects.shelved().begin_at(index)
            world.run(200, lambda world=world: world.outbox.aside == 2)
            self.assertEqual(world.outbox.aside, 2)
            world.run(10, lambda world=world: not world.outbox.aside)
            self.assertEqual((world.outbox.aside, len(world.got)), (0, 3), index)
            self.assertEqual(world.payloads()[0], b"bad%d" % (index + 1))


class TestNoted(unittest.TestCase):
    """What the session's note says of the message that the server has, over a reset."""

    def test_it_stands_beside_all_else_that_is_noted(self):
        for first_seq in (0, 0x1808004):
            for aside_id in (0, 7, 0x8001):
                outbox = NotedOutbox(flash_in_ram(8, 256))
                self.assertEqual(outbox.format(STREAM, first_seq=first_seq), status.OK)
                session = ExactlyOnceSession(outbox, b"dev")
                for _ in range(3):
                    self.assertEqual(outbox.append(b"t", b"x", 1, 0x20), status.OK)
                bit = 1 << (first_seq + 1 & 15)
                session._released = bit
                session._note_end = put_u16(session._note, session._note_end, 0x1234)
                session.note_aside(aside_id)
                self.assertFalse(session._is_noted)
                self.assertTrue(session._save() and session._is_noted)
                fresh = ExactlyOnceSession(again(outbox), b"dev")
                found = fresh.aside_id, fresh._released, fresh._note_end, fresh._place(0x1234)
                self.assertEqual(found, (aside_id, bit, 8, 6), first_seq)

    def connected(self, aside_id, connack=b"\x20\x02\x01\x00", reads=True):
        """(what is noted, index of what is next; what is noted over one more reset)."""
        world = set_aside(b"bad1", b"bad2")
        world.session.note_aside(aside_id)
        self.assertTrue(world.session._save())
        outbox = again(world.outbox)
        if not reads:
            outbox.shelf().load = lambda index: status.STORAGE
        world = World(ExactlyOnceSession, outbox)
        self.assertEqual(world.session.aside_id, aside_id)
        serve = world._serve

        def answer(packet):
            serve(packet)
            if packet[0] == 0x10:
                world.queue[-1] = (world.queue[-1][0], connack)

        world._serve = answer
        world.run(1)
        self.assertTrue(world.client.is_connected())
        self.assertEqual(outbox.aside, 2)
        fresh = ExactlyOnceSession(again(outbox), b"dev")
        return world.session.aside_id, world.session.suspects.shelved()._index, fresh.aside_id

    def test_its_message_is_the_next(self):
        self.assertEqual(self.connected(1), (1, 0, 1))
        self.assertEqual(self.connected(2), (2, 1, 2))

    def test_of_a_message_that_has_left_it_is_forgotten(self):
        self.assertEqual(self.connected(9), (0, 0, 0))

    def test_a_server_that_lost_the_session_has_nothing(self):
        self.assertEqual(self.connected(2, b"\x20\x02\x00\x00"), (0, 0, 0))

    def test_it_stays_while_flash_does_not_read(self):
        self.assertEqual(self.connected(1, reads=False), (1, 1, 1))


class TestControl(unittest.TestCase):
    def test_it_has_a_pingreq_though_the_connection_that_ended_had_no_age(self):
        world = World(rtt_ms=0, rejects=is_bad).publish(b"bad")
        world.run(30, lambda: world.links == 3 and kinds(world)[-1] == 0x30)
        self.assertEqual((world.links, kinds(world)), (3, [0x10, 0xC0, 0x30]))

    def test_it_comes_again_after_a_trial_that_was_not_answered(self):
        world = World(rejects=is_bad).publish(b"bad")
        world.run(30, lambda: world.links == 3 and kinds(world)[-1] == 0xC0)
        world.rejects = lambda *_: False
        world._take = lambda *_: b""
        world.run(200, lambda: world.links == 4)
        world.run(200, lambda: kinds(world)[-1] == 0x30)
        self.assertEqual((world.links, world.outbox.aside), (4, 0))
        self.assertEqual(kinds(world)[:2], [0x10, 0xC0])

    def test_a_connection_gives_back_what_a_cut_left_lent(self):
        world = set_aside(b"bad", kind=Session, qos=1)
        world.outbox.save_state()
        shelf = world.outbox.shelf()
        shelf._give_back = lambda: None
        shelf.release(0)
        outbox = again(world.outbox)
        self.assertEqual((outbox.aside, len(outbox.lent)), (0, 2))
        World(Session, outbox).run(1)
        self.assertEqual((outbox.lent, outbox._out), ((), ()))


if __name__ == "__main__":
    unittest.main()
