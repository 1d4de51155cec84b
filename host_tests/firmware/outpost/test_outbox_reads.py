"""What reading costs, and what an error of the driver in it leaves behind."""

import unittest

from fake_flash import flash_in_ram, image_of
from faulty_flash import FaultyFlash, formatted, loaded, payload_of, publish
from outpost import status
from outpost.outbox import Outbox
from outpost.policies import DropOldest
from outpost.state_note import NotedOutbox


class TestReads(unittest.TestCase):
    def test_one_a_message_in_order_also_after_what_was_just_appended(self):
        flash, outbox = formatted()
        self.assertEqual(outbox.load(0), status.EMPTY)
        publish(outbox, 1)
        reads = flash.reads
        self.assertEqual((outbox.load(0), flash.reads - reads), (status.OK, 0))
        publish(outbox, 3)
        for seq in (1, 2):
            reads = flash.reads
            self.assertEqual((outbox.load(seq), flash.reads - reads), (status.OK, 1))
            self.assertEqual(loaded(outbox), payload_of(seq))

    def test_few_to_a_message_anywhere_in_the_ring(self):
        """Headers by halves; then record by record, many of them in each read."""
        flash, outbox = formatted(8)
        publish(outbox, 400, 40)
        outbox.discard_through(3)
        most = 0
        for seq in range(4, 399):
            outbox.load(399)  # elsewhere
            reads = flash.reads
            self.assertEqual((outbox.load(seq), outbox.loaded_seq), (status.OK, seq))
            self.assertEqual(loaded(outbox), payload_of(seq, 40))
            most = max(most, flash.reads - reads)
        self.assertTrue(most <= 15, most)


class TestErrors(unittest.TestCase):
    def test_what_was_in_the_buffer_is_not_taken_for_a_message(self):
        for seq in range(4):
            flash, outbox = formatted()
            publish(outbox, 5)
            self.assertEqual(outbox.load(0), status.OK)
            flash.reads_fail = 1
            outbox.load(4)
            outbox.load(2)
            flash.reads_fail = 1
            outbox.load(0 if seq else 3)
            self.assertEqual(outbox.storage_errors, 2)
            self.assertEqual((outbox.load(seq), loaded(outbox)), (status.OK, payload_of(seq)))

    def test_what_flash_lost_at_the_old_end_is_counted_once(self):
        flash, outbox = formatted()
        publish(outbox, 20)
        outbox.discard_through(4)
        flash.put(32, bytes(4000))
        self.assertEqual(outbox.load(5), status.OK)
        self.assertEqual(outbox.unreadable, outbox.loaded_seq - 5)
        self.assertEqual(outbox.oldest_seq, outbox.loaded_seq)


class TestPrograms(unittest.TestCase):
    def test_six_attempts_are_enough(self):
        flash, outbox = formatted(16)
        publish(outbox, 1)
        flash.programs_lost, programs = 100, flash.programs
        self.assertEqual(outbox.append(b"t", b"", 0), status.STORAGE)
        self.assertEqual(flash.programs - programs, 6)

    def test_the_longest_topic_and_the_default_size(self):
        _, outbox = formatted()
        self.assertEqual(outbox.record_bytes, 512)
        self.assertEqual(outbox.append(bytes(255), b"", 0), status.OK)
        self.assertEqual(outbox.append(b"", bytes(512 - 16), 512 - 16), status.OK)


class FailingLater(FaultyFlash):
    """Raises at one read, the one after so many."""

    reads_before = -1

    def readblocks(self, block, buf, offset=0):
        self.reads_before -= 1
        if self.reads_before == -1:
            raise OSError(5)
        FaultyFlash.readblocks(self, block, buf, offset)


class TestUnproven(unittest.TestCase):
    """The newest message that mount() found is shown once a record behind it says its number."""

    def _started(self, flash, kind=Outbox, **fields):
        outbox = kind(flash)
        for name in fields:
            setattr(outbox, name, fields[name])
        self.assertEqual(outbox.mount(), status.OK)
        return outbox

    def test_a_start_that_stores_nothing_writes_at_most_once(self):
        for kind in (Outbox, NotedOutbox, DropOldest):
            flash, outbox = formatted(3, outbox_class=kind)
            publish(outbox, 3)
            before, counts = flash.programs, []
            for _ in range(5):
                outbox = self._started(flash, kind)
                self.assertEqual((outbox.load(2), loaded(outbox)), (status.OK, payload_of(2)))
                counts.append(flash.programs - before)
            self.assertEqual(counts, [2] * 5)
            publish(outbox, 1)
            self._started(flash, kind)
            self.assertEqual(flash.programs - before, 5)

    def test_load_programs_nothing(self):
        flash, outbox = formatted(3)
        publish(outbox, 20)
        for later in (False, True):
            outbox = self._started(flash, settles_later=later)
            before = flash.operations
            for seq in range(22):
                outbox.load(seq)
            self.assertEqual((flash.operations, outbox.oldest_seq), (before, 0))

    def test_whoever_settles_later_is_shown_it_after_the_next_record(self):
        acts = (lambda one: publish(one, 1), Outbox.save_state, Outbox.erase_ahead)
        for act in acts:
            flash, outbox = formatted(3)
            publish(outbox, 3)
            before = flash.operations
            outbox = self._started(flash, settles_later=True)
            self.assertEqual((flash.operations, outbox.load(2)), (before, status.EMPTY))
            self.assertEqual((outbox.load(0), outbox.load(1)), (status.OK, status.OK))
            act(outbox)
            self.assertEqual((outbox.load(2), loaded(outbox)), (status.OK, payload_of(2)))

    def test_a_program_that_fails_once_is_repeated(self):
        flash, outbox = formatted(3)
        publish(outbox, 3)
        for kind in ("programs_fail", "programs_lost"):
            setattr(flash, kind, 1)
            outbox = self._started(flash)
            self.assertEqual((outbox.load(2), loaded(outbox)), (status.OK, payload_of(2)))
            self.assertEqual(outbox.storage_errors, 1)
            publish(outbox, 1)

    def test_in_a_full_ring_it_is_shown_and_its_number_passed_over_when_it_is_gone(self):
        """From four blocks on a full ring has a free one, which is for the shelf."""
        for blocks, later in ((2, False), (3, False), (4, False), (4, True), (7, False)):
            flash, outbox = formatted(blocks)
            while outbox.append(b"t", bytes(491), 491) == status.OK:
                pass
            newest = outbox.next_seq - 1
            before = flash.operations
            again = self._started(flash, settles_later=later)
            found = again.load(newest), again.loaded_seq
            self.assertEqual(found, (status.OK, newest), (blocks, later))
            self.assertEqual(flash.operations, before)
            flash.put(outbox._head * 4096 + outbox._offset - 40, b"\xff" * 20)  # it was torn
            again = self._started(flash)
            self.assertTrue(again.next_seq > newest, blocks)

    def _filled(self, head, room):
        """(chip, outbox) of 3 blocks, none released, with so many bytes left in block `head`."""
        flash, outbox = formatted(3, FailingLater(flash_in_ram(3, 1)._file, 3, 1))
        while outbox._head != head:
            publish(outbox)
        rest = 4096 - outbox._offset - room
        while rest:
            publish(outbox, 1, 400 if rest > 500 else rest - 17)
            rest = 4096 - outbox._offset - room
        return flash, outbox.next_seq - 1

    def test_whoever_settles_later_is_shown_it_at_once_when_no_record_can_come_first(self):
        """Else it would wait until the ring is emptied. In the head, or in a free block, one can:
        then the start programs nothing."""
        for head, room, is_shown in ((2, 512, 0), (2, 508, 1), (2, 0, 1), (1, 512, 0), (1, 0, 0)):
            flash, newest = self._filled(head, room)
            before = flash.programs
            outbox = self._started(flash, settles_later=True)
            expected = status.OK if is_shown else status.EMPTY
            self.assertEqual(outbox.load(newest), expected, (head, room))
            if not is_shown:
                self.assertEqual(flash.programs, before, (head, room))

    def test_where_it_is_alone_in_its_sector_the_one_before_it_waits_too_and_no_other(self):
        flash, outbox = formatted(3)
        while not outbox._head:
            publish(outbox, 1)
        outbox = self._started(flash, settles_later=True)
        newest = outbox.next_seq - 1
        found = [outbox.load(seq) for seq in (newest - 2, newest - 1, newest)]
        self.assertEqual(found, [status.OK, status.EMPTY, status.EMPTY])

    def test_a_record_of_another_start_does_not_prove_it(self):
        for boot in (2, 257):  # the first start has 1
            flash, outbox = formatted(3)
            publish(outbox, 2)
            outbox = self._started(flash, settles_later=True)
            outbox._prefix[10:12] = boot.to_bytes(2, "little")
            publish(outbox, 1)
            outbox = self._started(flash, settles_later=True)
            found = [outbox.load(seq) for seq in range(3)]
            self.assertEqual(found, [status.OK, status.EMPTY, status.EMPTY], boot)

    def test_in_a_full_ring_it_is_shown_although_a_read_failed(self):
        flash, newest = self._filled(2, 0)
        for number in range(40):
            flash = FailingLater(flash_in_ram(3, 1, image_of(flash))._file, 3, 1)
            flash.reads_before = number
            outbox = Outbox(flash)
            outbox.settles_later = True
            if outbox.mount() == status.OK:
                flash.reads_before = -1
                self.assertEqual(outbox.load(newest), status.OK, number)

    def test_no_message_is_dropped_for_it(self):
        """Nor where the sector has 8 bytes left: a state record of 16 must not call for room."""
        flash, outbox = formatted(3, outbox_class=DropOldest)
        while not outbox.dropped:
            publish(outbox, 1)
        rest = 4096 - outbox._offset
        while rest != 8:
            publish(outbox, 1, 400 if rest > 500 else rest - 8 - 17)
            rest = 4096 - outbox._offset
        held = outbox.next_seq - outbox.oldest_seq
        again = DropOldest(flash)
        self.assertEqual(again.mount(), status.OK)
        again.load(again.next_seq - 1)
        self.assertEqual((again.dropped, again.next_seq - again.oldest_seq), (0, held))


if __name__ == "__main__":
    unittest.main()
