"""What every outbox does, whichever it is: the contract in `ram_outbox.py`."""

import unittest

from fake_flash import flash_in_ram
from outpost import status
from outpost.outbox import Outbox
from outpost.policies import DropOldest, NewestPerTopic
from outpost.ram_outbox import RamOutbox
from outpost.state_note import NotedOutbox
from station.clock import Clock
from station.station import Station
from station.telemetry import Pack

FLASH = (Outbox, NotedOutbox, DropOldest, NewestPerTopic)
LONGEST = 200  # of topic and payload


def on_flash(outbox_class):
    options = {"topics": 4} if outbox_class is NewestPerTopic else {}
    outbox = outbox_class(flash_in_ram(8, 256), LONGEST + 16, **options)
    assert outbox.format(b"01234567") == status.OK
    return outbox


def all_outboxes():
    return [on_flash(outbox_class) for outbox_class in FLASH] + [RamOutbox(16, LONGEST)]


def loaded(outbox):
    middle = outbox.topic_at + outbox.topic_length
    topic = bytes(outbox.buffer[outbox.topic_at : middle])
    return topic, bytes(outbox.buffer[middle : middle + outbox.payload_length]), outbox.flags


class Publisher:
    """What a station needs of a client."""

    def __init__(self, outbox):
        self.session, self.outbox = self, outbox

    def publish(self, topic, payload, qos=1, retain=False, length=None):
        return self.outbox.append(topic, payload, length)


class Sensor:
    name, unit, exponent = b"t", b"Cel", -1

    def read(self):
        return 215


class TestContract(unittest.TestCase):
    def each(self):
        for outbox in all_outboxes():
            with self.subTest(outbox=type(outbox).__name__):
                yield outbox

    def test_a_new_one_is_empty_and_numbers_begin_at_0(self):
        for outbox in self.each():
            self.assertEqual((outbox.next_seq, outbox.oldest_seq, outbox.acked), (0, 0, 0))
            self.assertEqual((outbox.refused, outbox.unsaved()), (0, 0))
            self.assertEqual((outbox.load(0), outbox.discard(0)), (status.EMPTY, False))
            self.assertEqual(outbox.save_state(), status.OK)

    def test_what_was_appended_is_loaded(self):
        messages = [(b"a/b", b"payload", 0x10), (b"t", b"", 0x50)]
        messages += [(b"t" * 100, b"x" * 100, 0x20), (b"", b"y", 0x60)]
        for outbox in self.each():
            for topic, payload, flags in messages:
                answer = outbox.append(topic, payload + b"...", len(payload), flags)
                self.assertEqual(answer, status.OK)
            self.assertEqual(outbox.next_seq, len(messages))
            for seq in (3, 0, 1, 2, 0, 3):
                self.assertEqual((outbox.load(seq), outbox.loaded_seq), (status.OK, seq))
                self.assertEqual(loaded(outbox), messages[seq])
            self.assertEqual(outbox.load(4), status.EMPTY)

    def test_a_message_is_at_once_the_one_that_load_finds(self):
        for outbox in self.each():
            for seq in range(10):
                outbox.append(b"t", b"%d" % seq, 1)
                self.assertEqual((outbox.load(seq), loaded(outbox)[1]), (status.OK, b"%d" % seq))
                outbox.discard(seq)

    def test_freed_in_any_order_within_the_window(self):
        for outbox in self.each():
            for seq in range(8):
                outbox.append(b"t", b"%d" % seq, 1)
            steps = [(2, 0, 0b10), (1, 0, 0b11), (5, 0, 0b10011)]
            for seq, oldest_seq, acked in steps + [(0, 3, 0b10), (3, 4, 0b1), (4, 6, 0)]:
                self.assertTrue(outbox.discard(seq))
                self.assertEqual((outbox.oldest_seq, outbox.acked), (oldest_seq, acked))
            self.assertFalse(outbox.discard(5) or outbox.discard(8) or outbox.discard(-1))
            self.assertEqual((outbox.load(0), outbox.loaded_seq), (status.OK, 6))
            self.assertEqual(loaded(outbox)[1], b"6")
            self.assertTrue(outbox.discard(6) and outbox.discard(7))
            self.assertEqual((outbox.load(0), outbox.load(8)), (status.EMPTY, status.EMPTY))
            self.assertEqual((outbox.save_state(), outbox.unsaved()), (status.OK, 0))

    def test_the_largest_message_fits_and_a_larger_one_is_too_big(self):
        payload = bytes(20_000)
        for outbox in self.each():
            self.assertEqual(outbox.append(b"t" * 50, payload, LONGEST - 50), status.OK)
            self.assertEqual(outbox.reserve(LONGEST), status.OK)
            for length in (LONGEST - 49, 616, 17_000):
                self.assertEqual(outbox.append(b"t" * 50, payload, length), status.TOO_BIG)
                self.assertEqual(outbox.reserve(50 + length), status.TOO_BIG)
            self.assertEqual(outbox.append(b"t" * 256, payload, 0), status.TOO_BIG)
            self.assertEqual((outbox.next_seq, outbox.refused), (1, 0))
            self.assertTrue(outbox.record_bytes >= LONGEST)

    def test_what_is_no_bytes_is_stored_by_none(self):
        """The program that passed it is told; a broker must not be told as well."""
        for outbox in self.each():
            outbox.append(b"t", b"before", 6)
            for topic, payload, length in ((b"t", {}, 0), (b"t", object(), 1), (object(), b"", 0)):
                try:
                    outbox.append(topic, payload, length or 1)
                    raise AssertionError("it was taken")
                except (TypeError, KeyError):
                    pass
            self.assertEqual((outbox.next_seq, outbox.append(b"u", b"after", 5)), (1, status.OK))
            self.assertEqual((outbox.load(0), loaded(outbox)[:2]), (0, (b"t", b"before")))
            self.assertEqual((outbox.load(1), loaded(outbox)[:2]), (0, (b"u", b"after")))

    def test_full_refuses_and_counts_or_drops_and_counts(self):
        for outbox in self.each():
            answers = [outbox.append(b"t", bytes(190), 190) for _ in range(200)]
            if isinstance(outbox, (DropOldest, NewestPerTopic)):
                self.assertEqual(set(answers), {status.OK})
                self.assertTrue(outbox.dropped > 0 and outbox.oldest_seq > 0)
                continue
            held = answers.index(status.FULL)
            self.assertEqual(set(answers[held:]), {status.FULL})
            self.assertEqual((outbox.next_seq, outbox.oldest_seq), (held, 0))
            self.assertEqual(outbox.refused, 200 - held)
            self.assertEqual(outbox.reserve(LONGEST), status.FULL)
            self.assertEqual(outbox.refused, 200 - held)  # of messages
            for seq in range(held):
                outbox.discard(seq)
            outbox.erase_ahead()
            self.assertEqual(outbox.reserve(LONGEST), status.OK)
            self.assertEqual(outbox.append(b"t", b"", 0), status.OK)

    def test_a_station_measures_into_it(self):
        for outbox in self.each():
            client, pack = Publisher(outbox), Pack(b"board-1")
            station = Station(client, pack, Clock(0), [Sensor()], b"t", 10, 0)
            self.assertTrue(station.step(10))
            self.assertEqual((station.published, outbox.load(0)), (1, status.OK))
            self.assertTrue(b'"seq":0' in loaded(outbox)[1], loaded(outbox)[1])


class TestRamOutbox(unittest.TestCase):
    def test_impossible_sizes_are_refused(self):
        for slots, record_bytes in ((0, 128), (17, 128), (4, 0), (4, 16_384), (2, 20_000)):
            with self.assertRaises(ValueError):
                RamOutbox(slots, record_bytes)

    def test_the_largest_payload_comes_back_whole(self):
        outbox = RamOutbox(2, 16_383)
        payload = bytes(range(251)) * 66
        self.assertEqual(outbox.append(b"t", payload, 16_382), status.OK)
        self.assertEqual((outbox.load(0), loaded(outbox)[1]), (status.OK, payload[:16_382]))


if __name__ == "__main__":
    unittest.main()
