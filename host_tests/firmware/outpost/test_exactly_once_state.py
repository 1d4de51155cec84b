"""What ExactlyOnceSession remembers of an exchange: as long as the window needs it and no longer;
in both protocol levels; over power cuts, with acknowledgements in any order.
"""

import unittest

from bench_client import STREAM, TOPIC, Bench, puback, split
from fake_flash import flash_in_ram
from outpost import status
from outpost.exactly_once import ExactlyOnceSession
from outpost.packets import packet_id_of
from outpost.state_note import NotedOutbox
from virtual.packets import encode

PRESENT, ABSENT = b"\x20\x02\x01\x00", b"\x20\x02\x00\x00"
PUBREC, PUBREL, PUBCOMP = 0x50, 0x62, 0x70
LEVEL_3 = {"level": 3}


def acknowledgement(first, packet_id):
    return bytes([first, 2, packet_id >> 8, packet_id & 255])


def publish_2(packet_id, payload, dup=False):
    return encode("PUBLISH", topic=b"a/b", payload=payload, qos=2, packet_id=packet_id, dup=dup)


def bench(**options):
    return Bench("exactly once", options=options).connect()


def put(one, *messages):
    """messages: (QoS, payload)."""
    for qos, payload in messages:
        assert one.client.publish(TOPIC, payload, qos) == 0
    return one


def reset(one, connack=PRESENT):
    """A power cut, and the next connection."""
    one.boot()
    one.poll(2).stream.take()
    return one.say(connack, 40)


def taken(one):
    """[(kind, packet identifier)] of what the client sent since it was last asked."""
    found = []
    for first, body in split(one.stream.take()):
        at = 2 + (body[0] << 8 | body[1]) if first & 0xF0 == 0x30 else 0
        found.append((first, body[at] << 8 | body[at + 1]))
    return found


def completed_out_of_order(one):
    """Message 0 (QoS 1) awaits its PUBACK, 1 (QoS 2) is complete, which the record of 2 tells."""
    put(one, (1, b"0"), (2, b"1")).poll(6)
    one.say(acknowledgement(PUBREC, 2)).say(acknowledgement(PUBCOMP, 2))
    return put(one, (1, b"2"))


class TestBitsOfPassedMessages(unittest.TestCase):
    def drained(self, one, messages):
        """A server that acknowledges all; what it got: {packet identifier: first bytes}."""
        got = {}
        for _ in range(400):
            for first, packet_id in taken(one):
                got.setdefault(packet_id, []).append(first)
                answer = {2: puback(packet_id), 4: acknowledgement(PUBREC, packet_id)}
                if first == PUBREL:
                    one.stream.say(acknowledgement(PUBCOMP, packet_id))
                elif first & 0xF0 == 0x30:
                    one.stream.say(answer[first & 6])
            if one.client.is_drained() and not messages:
                break
            if messages and one.outbox.next_seq - one.outbox.oldest_seq < 20:
                put(one, messages.pop(0))
            one.poll()
        self.assertTrue(one.client.is_drained())
        return got

    def test_complete_before_a_cut_the_message_16_later_is_published(self):
        one = reset(completed_out_of_order(bench()))
        got = self.drained(one, [(2, b"%d" % seq) for seq in range(3, 24)])
        for seq in range(3, 24):
            self.assertEqual(got[packet_id_of(seq)], [0x34, PUBREL], seq)

    def test_complete_before_a_cut_the_puback_of_the_message_16_later_counts(self):
        one = reset(completed_out_of_order(bench()))
        got = self.drained(one, [(1, b"%d" % seq) for seq in range(3, 24)])
        for seq in range(3, 24):
            self.assertEqual(got[packet_id_of(seq)], [0x32], seq)

    def test_lost_while_its_pubrel_is_due_no_other_message_gets_it(self):
        one = put(bench(), *[(2, b"%d" % seq) for seq in range(3)])
        one.poll(6).stream.take()
        one.session.outbox.set_note = lambda data, length: status.STORAGE
        one.say(acknowledgement(PUBREC, 1))
        self.assertEqual(taken(one), [])
        one.outbox.discard_through(2)
        one.session._restart_window(3)  # as when flash has lost messages 0 to 2
        del one.session.outbox.set_note
        put(one, *[(2, b"%d" % seq) for seq in range(3, 20)])
        one.poll(60)
        sent = taken(one)
        self.assertEqual([kind for kind, _ in sent], [0x34] * 16)
        self.assertEqual([packet_id for _, packet_id in sent], list(range(4, 20)))

    def test_numbers_that_begin_again_at_0_have_no_note_of_the_end(self):
        last = (1 << 30) - 2  # the number before the last
        flash = flash_in_ram(4, 256)
        NotedOutbox(flash).format(STREAM, False, last)
        one = Bench("exactly once", flash=flash)
        one.outbox.erase_ahead()
        put(one.connect(), (2, b"end")).poll(6)
        one.say(acknowledgement(PUBREC, packet_id_of(last)))
        one.say(acknowledgement(PUBCOMP, packet_id_of(last)))
        self.assertTrue(one.client.is_drained())
        put(one, (1, b"0"))
        self.assertEqual(one.outbox.next_seq, 1)
        one = reset(one)
        self.assertEqual((one.session._two, one.session._released), (0, 0))
        got = self.drained(one, [(2, b"%d" % seq) for seq in range(1, 20)])
        for seq in range(1, 20):
            self.assertEqual(got[packet_id_of(seq)], [0x34, PUBREL], seq)

    def test_note_of_a_message_that_never_was_is_not_taken(self):
        """As an earlier firmware could write it: bit 15 of base 0, two messages stored."""
        one = put(bench(), (2, b"0"), (2, b"1"))
        one.outbox.set_note(b"\x00\x00\x00\x00\x80\x01", 6)
        one = reset(one)
        self.assertEqual(taken(one), [(PUBREL, 1), (0x3C, 2)])
        got = self.drained(reset(one), [(2, b"%d" % seq) for seq in range(2, 20)])
        self.assertEqual(got[16], [0x34, PUBREL])


class TestLevel3(unittest.TestCase):
    """MQTT 3.1 has no session-present flag: its CONNACK says 0 whatever the server kept."""

    def receiver(self, **options):
        one, got = bench(**options), []

        def handle(message):
            got.append(bytes(message.buffer[message.payload_at : message.length]))

        one.session.on_message = handle
        return one, got, handle

    def test_released_before_a_drop_gets_pubrel_and_is_not_published_again(self):
        one = put(bench(**LEVEL_3), (2, b"a"), (2, b"b")).poll(6)
        one.say(acknowledgement(PUBREC, 1)).drop()
        one.connect(ABSENT).poll(10)
        self.assertEqual(taken(one), [])  # connect() took them
        self.assertEqual([found[:2] for found in one.early], [(2, True)])
        one.say(acknowledgement(PUBCOMP, 1))
        self.assertEqual(one.session.acknowledged, 1)

    def test_released_before_a_cut_gets_pubrel_and_is_not_published_again(self):
        one = put(bench(**LEVEL_3), (2, b"a"), (2, b"b")).poll(6)
        one.say(acknowledgement(PUBREC, 1))
        self.assertEqual(taken(reset(one, ABSENT)), [(PUBREL, 1), (0x3C, 2)])

    def test_arrived_before_a_drop_is_not_handed_over_again(self):
        one, got, _ = self.receiver(**LEVEL_3)
        one.say(publish_2(7, b"x")).drop()
        one.connect(ABSENT).stream.take()
        one.say(publish_2(7, b"x", True))
        self.assertEqual((got, taken(one)), ([b"x"], [(PUBREC, 7)]))

    def test_arrived_before_a_cut_is_not_handed_over_again(self):
        one, got, handle = self.receiver(**LEVEL_3)
        one.say(publish_2(7, b"x"))
        one.boot()
        one.session.on_message = handle
        one.connect(ABSENT).stream.take()
        one.say(publish_2(7, b"x", True))
        self.assertEqual((got, taken(one)), ([b"x"], [(PUBREC, 7)]))

    def test_pubrel_with_dup_is_taken(self):
        one, _, _ = self.receiver(**LEVEL_3)
        one.say(publish_2(7, b"x")).stream.take()
        one.say(acknowledgement(0x6A, 7))
        self.assertEqual((taken(one), one.client.last_error), ([(PUBCOMP, 7)], status.OK))

    def test_pubrel_with_dup_is_an_error_in_level_4(self):
        one, _, _ = self.receiver()
        one.say(publish_2(7, b"x")).stream.take()
        one.say(acknowledgement(0x6A, 7))
        self.assertEqual(one.client.last_error, status.PROTOCOL_ERROR)

    def test_the_filters_are_asked_for_again_at_each_connection(self):
        one = bench(**LEVEL_3)
        one.session.subscribe(b"a/b", 2)
        one.poll(4)
        one.say(b"\x90\x03" + split(one.stream.take())[-1][1][:2] + b"\x02").drop()
        one.connect(ABSENT).poll(4)
        self.assertEqual(one.session.filters, [[b"a/b", 2, -1]])


class TestCleanSession(unittest.TestCase):
    """[MQTT-3.1.2-6]: a clean session shares nothing with the one before it."""

    def test_nothing_of_the_session_before_is_kept(self):
        for level, connack in ((4, ABSENT), (4, PRESENT), (3, ABSENT)):
            one = put(bench(clean=True, level=level), (2, b"a")).poll(6)
            got = []
            one.session.on_message = lambda message, got=got: got.append(message.first)
            one.say(acknowledgement(PUBREC, 1)).say(publish_2(7, b"x")).drop()
            one.connect(connack)
            self.assertEqual([found[:2] for found in one.early], [(1, True)])
            one.say(publish_2(7, b"y"))
            self.assertEqual(got, [0x34, 0x34], (level, connack))


class TestNote(unittest.TestCase):
    """A program of the flash for each change, none without; and what it says is so after a cut."""

    def receiver(self, one):
        got = []
        one.session.on_message = lambda m: got.append(bytes(m.buffer[m.payload_at : m.length]))
        return got

    def test_a_connection_without_an_exchange_programs_nothing(self):
        for connack in (PRESENT, ABSENT):
            one = bench()
            for _ in range(2):
                programs = one.flash.programs
                one.boot()
                one.connect(connack).drop()
                one.connect(connack)
                self.assertEqual(one.flash.programs, programs, connack)

    def test_a_pubrec_that_comes_again_programs_nothing(self):
        one = put(bench(), (2, b"0"), (2, b"1")).poll(6)
        one.say(acknowledgement(PUBREC, 1) + acknowledgement(PUBREC, 2))
        programs = one.flash.programs
        one.say(acknowledgement(PUBREC, 1) + acknowledgement(PUBREC, 2))
        self.assertEqual((one.flash.programs, one.session.ignored), (programs, 0))

    def test_complete_and_not_noted_the_message_16_later_is_published(self):
        one = put(bench(), (2, b"0")).poll(6)
        one.say(acknowledgement(PUBREC, 1)).say(acknowledgement(PUBCOMP, 1))
        put(one, *[(2, b"%d" % seq) for seq in range(1, 17)])
        self.assertEqual(taken(reset(one)), [(0x3C, packet_id) for packet_id in range(2, 18)])

    def test_a_record_that_flash_lost_is_not_in_the_next_note(self):
        one = put(bench(), (2, b"0")).poll(6).say(acknowledgement(PUBREC, 1))
        one.outbox.discard_through(0)
        one.session._restart_window(1)
        one.say(publish_2(7, b"x"))
        put(one, *[(2, b"%d" % seq) for seq in range(1, 17)])
        self.assertEqual(taken(reset(one)), [(0x3C, packet_id) for packet_id in range(2, 18)])

    def test_what_a_lost_session_had_is_forgotten_over_a_cut_too(self):
        one = bench().say(publish_2(7, b"x"))
        one.drop()
        one.connect(ABSENT).boot()
        got = self.receiver(one)
        one.connect(PRESENT).say(publish_2(7, b"y"))
        self.assertEqual(got, [b"y"])

    def test_an_identifier_stays_noted_when_flash_does_not_take_its_release(self):
        one = bench()
        got = self.receiver(one)
        one.say(publish_2(7, b"7")).say(publish_2(8, b"8"))
        one.outbox.set_note = lambda data, length: status.STORAGE
        one.say(acknowledgement(PUBREL, 7))
        self.assertEqual(one.client.last_error, status.STORAGE)
        del one.outbox.set_note
        one.connect(PRESENT).say(publish_2(7, b"7", True))
        self.assertEqual(got, [b"7", b"8"])
        one.say(acknowledgement(PUBREL, 7)).say(acknowledgement(PUBREL, 8))
        one.say(publish_2(7, b"new 7")).say(publish_2(8, b"new 8"))
        self.assertEqual(got, [b"7", b"8", b"new 7", b"new 8"])

    def test_fits_a_record_of_88_bytes(self):
        outbox = bench().outbox
        outbox.record_bytes = 88
        ExactlyOnceSession(outbox, b"d")
        outbox.record_bytes = 87
        with self.assertRaises(ValueError):
            ExactlyOnceSession(outbox, b"d")


class TestWindow(unittest.TestCase):
    """Which message an acknowledgement is of."""

    def test_a_released_message_counts_as_sent_after_a_reset(self):
        one = reset(put(bench(), (2, b"0")).poll(6).say(acknowledgement(PUBREC, 1)))
        self.assertEqual((one.session.base, one.session.next_send, one.session.high), (0, 1, 1))

    def test_of_two_kinds_in_flight_each_has_its_own(self):
        one = put(bench(), (2, b"0"), (1, b"1"), (2, b"2")).poll(6)
        one.say(puback(2))
        self.assertEqual((one.session.acknowledged, one.session.ignored), (1, 0))
        one.say(puback(1)).say(puback(3))
        self.assertEqual((one.session.acknowledged, one.session.ignored), (1, 2))

    def test_a_lost_message_leaves_no_kind_to_the_one_16_later(self):
        for answer, counts in ((puback(17), (1, 0)), (acknowledgement(PUBREC, 17), (0, 1))):
            one = put(bench(), (2, b"0")).poll(6)
            one.outbox.discard_through(0)
            one.session._restart_window(1)  # as when flash has lost it
            put(one, *[(1, b"%d" % seq) for seq in range(1, 17)]).poll(40)
            one.say(answer)
            self.assertEqual((one.session.acknowledged, one.session.ignored), counts)

    def test_numbers_that_begin_again_leave_no_kind_behind(self):
        session = bench().session
        session._bits_base = 32
        session._two = session._released = session._due = 0xFFFF
        session._follow_window()
        self.assertEqual((session._two, session._released, session._due), (0, 0, 0))

    def test_what_the_window_does_not_hold_is_asked_of_the_suspects(self):
        one = put(bench(), (2, b"0"), (2, b"1")).poll(6)
        one.say(acknowledgement(PUBREC, 2)).say(acknowledgement(PUBCOMP, 2))
        one.session.suspects = Suspects()
        for first, packet_id in ((PUBCOMP, 2), (PUBCOMP, 17), (PUBREC, 3)):
            one.session._on_progress(first, packet_id)
        one.session._on_puback(17)
        found = [(PUBCOMP, 2), (PUBCOMP, 17), (PUBREC, 3), (0x40, 17)]
        self.assertEqual((one.session.suspects.asked, one.session.ignored), (found, 0))

    def test_pubrec_before_the_message_goes_again_is_not_its_own(self):
        one = put(bench(), (2, b"0"), (2, b"1")).poll(6)
        one.say(acknowledgement(PUBREC, 1)).say(acknowledgement(PUBCOMP, 1)).drop()
        one.connect(PRESENT + acknowledgement(PUBREC, 2))
        self.assertEqual([found[:2] for found in one.early], [(2, True)])
        self.assertEqual(one.session.ignored, 1)

    def test_half_written_is_the_last_message_alone(self):
        """PUBREC of one before it; of one before a QoS 0 message; and before a PUBREL."""
        one = put(bench(), (2, b"0")).poll(6)
        one.stream.room = 0
        put(one, (2, b"1")).poll(2)
        one.say(acknowledgement(PUBREC, 2) + acknowledgement(PUBREC, 1))
        self.assertEqual((one.session._released, one.session.ignored), (1, 1))
        for retain in (False, True):
            one = put(bench(), (2, b"0")).poll(6)
            one.stream.room = 0
            self.assertEqual(one.client.publish(TOPIC, b"x", 0, retain), status.OK)
            one.say(acknowledgement(PUBREC, 1))
            self.assertEqual((one.session._released, one.session.ignored), (1, 0), retain)

    def test_pubcomp_is_taken_while_a_pubrel_is_half_written(self):
        one = put(bench(), (2, b"0"), (2, b"1")).poll(6)
        one.say(acknowledgement(PUBREC, 1) + acknowledgement(PUBREC, 2)).drop()
        for _ in range(8000):
            one.poll()
            if not one.stream.closed:
                break
        one.poll(2)
        one.stream.say(PRESENT)
        while not one.session.out_end:
            one.stream.room = 0
            one.poll()
        self.assertEqual(one.session.tx[0], PUBREL)
        one.say(acknowledgement(PUBCOMP, 1))
        self.assertEqual((one.session.acknowledged, one.session.ignored), (1, 0))


class Suspects:
    """In place of the session's: each acknowledgement that nobody else takes is of one aside."""

    def __init__(self):
        self.asked = []

    def takes(self, first, packet_id):
        self.asked.append((first, packet_id))
        return True


class TestIn(unittest.TestCase):
    def receiver(self):
        one, got = bench(), []
        one.session.on_message = lambda m: got.append(bytes(m.buffer[m.payload_at : m.length]))
        return one, got

    def test_retained_or_not_no_later_message_overtakes_one_that_was_passed_over(self):
        one, got = self.receiver()
        for packet_id in range(1, 34):
            one.say(publish_2(packet_id, b"%d" % packet_id))
        self.assertEqual(one.session.skipped, 1)
        one.say(acknowledgement(PUBREL, 1))
        retained = publish_2(34, b"34")
        one.say(b"\x35" + retained[1:])
        self.assertEqual((len(got), one.session.skipped), (32, 2))

    def test_a_message_that_fills_the_buffer_is_taken(self):
        one, got = self.receiver()
        payload = bytes(256 - 7)
        body = b"\x00\x03a/b\x00\x07" + payload
        one.say(b"\x34\x80\x02" + body)
        self.assertEqual((got, one.session.skipped), ([payload], 0))


if __name__ == "__main__":
    unittest.main()
