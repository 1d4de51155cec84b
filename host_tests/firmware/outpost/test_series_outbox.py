"""The record of a series in the outbox: its sector, its room, calls from inside a call, and what a
program that failed, or a buffer that is too small, leaves of it.
"""

import unittest

from fake_flash import image_of
from faulty_flash import FaultyFlash, faulty
from outpost.outbox import Outbox
from outpost.series import Series
from outpost.series_outbox import over
from outpost.status import BUSY, NEWER, OK, SHORT_RECORDS, STORAGE
from series_samples import COLUMNS, TOPIC, Clock, read_all, read_message


class Rig:
    """A series of one column on a chip with faults."""

    def __init__(self, blocks=4, image=None, kind=FaultyFlash, **options):
        self.flash = faulty(blocks, image, kind)
        self.outbox = over(Outbox)(self.flash, **options)
        self.status = self.outbox.mount() if image else self.outbox.format(b"3fa9c1d2")
        self.clock = Clock(20_413, 1000)
        self.series = Series(
            self.outbox, TOPIC, b"a board with a long name, number", COLUMNS[:1], max_age_s=86_400
        )

    def add(self, value):
        self.clock.pass_ms(10_000)
        return self.series.add(self.clock, (value,))

    def again(self, **options):
        """After a power cut."""
        image = image_of(self.flash)
        return Rig(len(image) // 4096, image, **options)

    def values(self):
        messages = read_all(self.outbox)
        return [values[0] for message in messages for _, values in message["samples"]]


class CallsBack(FaultyFlash):
    """Calls `called` once, in the midst of a program."""

    called = None

    def writeblocks(self, block, buf, offset=None):
        called, self.called = self.called, None
        if called:
            called()
        FaultyFlash.writeblocks(self, block, buf, offset)


def interrupt():
    raise KeyboardInterrupt


class TestSectors(unittest.TestCase):
    def test_a_record_goes_into_a_sector_that_says_so(self):
        """Else a firmware without series would take the record for damage."""
        flash = faulty(4)
        outbox = Outbox(flash)
        outbox.format(b"3fa9c1d2")
        outbox.append(TOPIC, b"old", 3)
        rig = Rig(image=image_of(flash))
        self.assertEqual((rig.status, rig.add(1)), (OK, OK))
        self.assertEqual(Outbox(rig.flash).mount(), NEWER)
        rig.series.close()
        rig.outbox.load(1)
        self.assertEqual(read_message(rig.outbox)["samples"][0][1], (1,))

    def test_the_header_is_looked_at_once(self):
        """A record costs one read, of what was programmed, besides."""
        rig = Rig()
        costs = []
        for _ in range(2):
            for _ in range(5):
                reads = rig.flash.reads
                self.assertEqual(rig.add(1), OK)
                rig.series.close()
                costs.append(rig.flash.reads - reads)
            del costs[-5]  # the first append() looks at more
            rig = rig.again()
        self.assertEqual(costs, [1] * 8)

    def test_a_fresh_sector_is_not_looked_at(self):
        rig = Rig()
        reads = []
        for _ in range(2):
            rig.outbox._offset = 4096  # the sector is full
            rig.outbox.erase_ahead()
            for _ in range(2):
                before = rig.flash.reads
                self.assertEqual(rig.add(1), OK)
                reads.append(rig.flash.reads - before)
                rig.series.close()
            rig = rig.again()
        self.assertEqual(reads, [1] * 4)

    def test_a_header_that_cannot_be_read_is_an_error_and_no_reason_to_stop(self):
        rig = Rig()
        rig.add(1)
        rig = rig.again()
        rig.outbox.append(TOPIC, b"next", 4)
        rig.flash.reads_fail = 1
        self.assertEqual((rig.add(2), rig.outbox.storage_errors), (OK, 1))
        self.assertEqual(rig.outbox._sector_no, 1)

    def test_a_state_record_that_needs_a_fresh_sector_closes_the_record(self):
        rig = Rig()
        rig.add(1)
        while rig.outbox._sector_no == 0:
            self.assertTrue(rig.series.is_open())
            self.assertEqual(rig.outbox.append(b"", b"note", 4, 2), OK)
        self.assertFalse(rig.series.is_open())
        self.assertEqual(rig.outbox.next_seq, 1)
        self.assertEqual(rig.add(2), OK)
        self.assertEqual(rig.again().values(), [1, 2])

    def test_reserve_closes_the_record_whose_number_is_used(self):
        rig = Rig()
        rig.add(1)
        self.assertEqual((rig.outbox.reserve(20), rig.outbox.next_seq), (OK, 1))


class TestCalls(unittest.TestCase):
    def test_a_call_from_inside_a_call_is_busy(self):
        rig = Rig(kind=CallsBack)
        found = []

        def call():
            found.append(rig.outbox.append(TOPIC, b"alarm", 5))
            found.append(rig.add(3))

        for value in (1, 2):
            rig.flash.called = call
            self.assertEqual(rig.add(value), OK)
        self.assertEqual((found, rig.series.refused), ([BUSY] * 4, 2))
        rig.series.close()
        self.assertEqual(rig.values(), [1, 2])

    def test_what_interrupts_a_call_leaves_nothing_busy(self):
        rig = Rig(kind=CallsBack)
        for value in (1, 2):
            rig.flash.called = interrupt
            with self.assertRaises(KeyboardInterrupt):
                rig.add(value)
            self.assertEqual(rig.add(value), OK)
        rig.series.close()
        self.assertEqual(rig.values(), [1, 2])

    def test_a_message_that_was_loaded_is_loaded_again_after_a_sample(self):
        rig = Rig()
        for text in (b"0", b"1"):
            rig.outbox.append(TOPIC, text, 1)
        for seq in (0, 1):
            for value in range(3):
                self.assertEqual((rig.outbox.load(seq), rig.add(value)), (OK, OK))
                self.assertEqual((rig.outbox.load(seq), rig.outbox.loaded_seq), (OK, seq))
                at = rig.outbox.topic_at + rig.outbox.topic_length
                self.assertEqual(rig.outbox.buffer[at], 0x30 + seq)
            rig.series.close()


class TestFaults(unittest.TestCase):
    def test_a_record_that_flash_did_not_take_is_tried_again(self):
        for lost in range(1, 6):
            rig = Rig(blocks=8)
            rig.outbox.append(TOPIC, b"old", 3)
            rig.flash.programs_lost = lost
            status = rig.add(7)
            self.assertEqual(status, OK if lost < 5 else STORAGE)
            self.assertEqual(rig.outbox.storage_errors, lost)
            self.assertEqual(rig.outbox.left_out, (lost - 1) // 2)  # two tries to open a sector
            later = rig.again()
            later.outbox.discard(0)
            self.assertEqual(later.values(), [7] if lost < 5 else [])

    def test_a_sample_that_flash_did_not_take_is_one_error(self):
        for fault in ("programs_lost", "programs_fail"):
            rig = Rig()
            rig.add(1)
            setattr(rig.flash, fault, 1)
            self.assertEqual((rig.add(2), rig.outbox.storage_errors), (STORAGE, 1))
            self.assertEqual((rig.add(3), rig.outbox.storage_errors), (OK, 1))
            self.assertEqual(rig.again().values(), [1, 3])

    def test_a_state_record_that_flash_did_not_take_is_written_elsewhere(self):
        rig = Rig()
        rig.outbox.append(TOPIC, b"old", 3)
        rig.add(1)
        rig.outbox.discard(0)
        rig.flash.programs_lost = 1
        self.assertEqual((rig.outbox.save_state(), rig.outbox.storage_errors), (OK, 1))
        self.assertEqual(rig.add(2), OK)
        self.assertEqual(rig.again().outbox.oldest_seq, 1)
        self.assertEqual(rig.again().values(), [1, 2])


class TestSmallBuffers(unittest.TestCase):
    """A record of a board that had larger ones, with buffers that end everywhere in it."""

    def test_no_sample_is_cut_off_unseen(self):
        """mount() refuses the outbox, or every sample is read."""
        rig = Rig(record_bytes=200, page_bytes=4)
        refused = 0
        for value in range(12):
            rig.add(value * 7 % 5)
            end, image = rig.outbox.where[0], image_of(rig.flash)
            for buffer_bytes in range((end & -4) - 44, (end & -4) - 20, 4):
                outbox = over(Outbox)(faulty(4, image), buffer_bytes - 32, 4, 4)
                if outbox.mount() == SHORT_RECORDS:
                    refused += 1
                    continue
                self.assertEqual(outbox.load(0), OK)
                self.assertEqual(len(read_message(outbox)["samples"]), value + 1)
        self.assertTrue(refused)


if __name__ == "__main__":
    unittest.main()
