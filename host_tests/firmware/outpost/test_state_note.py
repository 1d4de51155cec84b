import unittest

import faulty_flash
from fake_flash import flash_in_ram, image_of
from nor_flash import BLOCK_BYTES, NorFlash
from outpost import status
from outpost.outbox import Outbox
from outpost.state_note import NotedOutbox


def made(blocks=3):
    flash = flash_in_ram(blocks, 256)
    outbox = NotedOutbox(flash)
    outbox.format(b"01234567")
    return flash, outbox


def note_in(blocks, image):
    """As after a reset, on a copy of the chip."""
    outbox = NotedOutbox(flash_in_ram(blocks, 256, image))
    assert outbox.mount() == status.OK
    return bytes(outbox.note[: outbox.note_length])


def note_of(flash):
    return note_in(flash.blocks, image_of(flash))


def without_note(image, block):
    """The image; the flash lost a byte of the note in this block."""
    at = image.index(b"remember", block * BLOCK_BYTES)
    assert at < (block + 1) * BLOCK_BYTES
    return image[:at] + b"\0" + image[at + 1 :]


def opened(outbox, head):
    """Store, and acknowledge, until this block is the head."""
    while outbox._head != head:
        assert outbox.append(b"t", bytes(300), 300) == status.OK
        outbox.discard(outbox.next_seq - 1)


class FailsOnce(NorFlash):
    """Raises at the read after `left` others."""

    left = -1

    def readblocks(self, block, buf, offset=0):
        self.left -= 1
        if self.left == -1:
            raise OSError(5)
        NorFlash.readblocks(self, block, buf, offset)


class TestNotes(unittest.TestCase):
    def test_a_note_survives_resets_messages_and_new_sectors(self):
        flash, outbox = made()
        self.assertEqual(note_of(flash), b"")
        self.assertEqual(outbox.set_note(b"remember", 8), status.OK)
        for _ in range(200):
            self.assertEqual(note_of(flash), b"remember")
            self.assertEqual(outbox.append(b"t", bytes(300), 300), status.OK)
            outbox.discard(outbox.next_seq - 1)
        outbox.set_note(b"other", 5)
        outbox.save_state()
        self.assertEqual(note_of(flash), b"other")
        outbox.set_note(b"", 0)
        self.assertEqual(note_of(flash), b"")

    def test_a_note_that_is_too_long_is_refused(self):
        flash, outbox = made()
        self.assertEqual(outbox.set_note(bytes(72), 72), status.OK)
        self.assertEqual(outbox.set_note(bytes(73), 73), status.TOO_BIG)
        self.assertEqual(note_of(flash), bytes(72))

    def test_the_largest_record_fits_behind_the_largest_note(self):
        self.assertEqual(made()[1].record_bytes, Outbox(flash_in_ram(4, 256)).record_bytes)
        for align, most in ((4, 3976), (16, 3968), (64, 3904), (256, 3584)):
            with self.assertRaises(ValueError):
                NotedOutbox(flash_in_ram(4, 256), most + 1, align, 256)
            flash = flash_in_ram(4, 256)
            outbox = NotedOutbox(flash, most, align, 256)
            outbox.format(b"01234567")
            self.assertEqual(outbox.set_note(b"x" * 72, 72), status.OK)
            for seq in range(9):
                self.assertEqual(outbox.append(b"t", bytes(most), most - 17), status.OK, align)
                self.assertEqual((outbox.load(seq), outbox.loaded_seq), (status.OK, seq))
                outbox.discard(seq)

    def test_one_program_each_and_one_more_for_a_message_that_opens_a_sector(self):
        flash, outbox = faulty_flash.formatted(4, outbox_class=NotedOutbox)
        self.assertEqual(outbox.set_note(b"remember", 8), status.OK)
        for is_message in (True, False):
            opened = 0
            while opened < 3:
                head, programs = outbox._head, flash.programs
                if is_message:
                    faulty_flash.publish(outbox, 1, 200)
                    outbox.discard(outbox.next_seq - 1)
                else:
                    self.assertEqual(outbox.set_note(b"remember", 8), status.OK)
                is_new = outbox._head != head
                opened += is_new
                self.assertEqual(flash.programs - programs, 1 + (is_new and is_message))
        self.assertEqual(outbox.storage_errors, 0)

    def test_a_note_that_the_flash_does_not_take_loses_nothing(self):
        flash, outbox = faulty_flash.formatted(4, outbox_class=NotedOutbox)
        self.assertEqual(outbox.set_note(b"remember", 8), status.OK)
        while outbox.reserve(400) == status.OK and outbox._has_header:
            faulty_flash.publish(outbox)
        flash.programs_lost = 1  # it opens a sector, with the note before the message
        faulty_flash.publish(outbox)
        self.assertEqual((outbox.storage_errors, note_of(flash)), (1, b"remember"))
        again = NotedOutbox(flash)
        newest = outbox.next_seq - 1
        self.assertEqual((again.mount(), again.load(newest)), (status.OK, status.OK))
        self.assertEqual(faulty_flash.loaded(again), faulty_flash.payload_of(newest))

    def test_a_plain_outbox_reads_the_messages_beside_it(self):
        flash, outbox = made()
        outbox.append(b"t", b"a", 1)
        outbox.set_note(b"remember", 8)
        outbox.append(b"t", b"b", 1)
        plain = Outbox(flash)
        self.assertEqual((plain.mount(), plain.next_seq), (status.OK, 2))


class TestNoteInDoubt(unittest.TestCase):
    def test_the_sector_before_has_one_that_the_head_lost(self):
        flash, outbox = made(4)
        outbox.set_note(b"remember", 8)
        for head in (1, 2, 3, 0, 1, 2):
            opened(outbox, head)
            lost = without_note(image_of(flash), head)
            self.assertEqual(note_in(4, lost), b"remember")
            self.assertEqual(note_in(4, without_note(lost, (head - 1) % 4)), b"")

    def test_a_block_that_is_left_out_has_none(self):
        """It takes no erase, so an old note is still in it."""
        flash = faulty_flash.faulty(4, kind=faulty_flash.Dying)
        outbox = NotedOutbox(flash)
        outbox.format(b"01234567")
        opened(outbox, 2)
        outbox.set_note(b"an older one", 12)
        opened(outbox, 3)
        flash.dead = (2,)
        outbox.set_note(b"remember", 8)
        opened(outbox, 1)
        opened(outbox, 3)
        self.assertEqual(outbox.left_out, 1)
        self.assertEqual(note_in(4, without_note(image_of(flash), 3)), b"remember")

    def test_an_earlier_outbox_has_none(self):
        flash, outbox = made()
        outbox.set_note(b"remember", 8)
        opened(outbox, 1)
        old = image_of(flash)[BLOCK_BYTES : 2 * BLOCK_BYTES]
        self.assertEqual(outbox.format(b"76543210", True), status.OK)
        self.assertEqual(outbox._head, 2)
        image = image_of(flash)  # in which block 1 took no erase
        image = image[:BLOCK_BYTES] + old + image[2 * BLOCK_BYTES :]
        self.assertEqual(note_in(3, image), b"")

    def test_a_start_makes_sure_of_it_once(self):
        flash, outbox = made()
        for note, programs in ((b"", 0), (b"remember", 2), (b"", 0)):
            if note:
                outbox.set_note(note, len(note))
            before = flash.programs
            for _ in range(3):
                again = NotedOutbox(flash)
                self.assertEqual((again.mount(), again.load(0)), (status.OK, status.EMPTY))
            self.assertEqual(flash.programs - before, programs, note)

    def test_each_message_is_found_after_it_was_read(self):
        flash, outbox = made()
        outbox.set_note(b"remember", 8)
        for _ in range(4):
            outbox.append(b"t", b"x", 1)
        for seq in (1, 0, 1, 2, 3):
            again = NotedOutbox(flash)
            self.assertEqual((again.mount(), again.load(seq)), (status.OK, status.OK))
            self.assertEqual(again.loaded_seq, seq)

    def test_a_read_that_fails_is_a_status_and_leaves_none(self):
        flash, outbox = made(4)
        outbox.set_note(b"remember", 8)
        outbox.append(b"t", b"x", 1)
        image, fails_at = image_of(flash), 0
        while True:
            flash = FailsOnce(flash_in_ram(4, 256, image)._file, 4, 256)
            flash.left, again = fails_at, NotedOutbox(flash)
            if again.mount() == status.OK:  # from here on it programs, and tries again
                break
            self.assertEqual((again.storage_errors, again.note_length), (1, 0), fails_at)
            self.assertEqual(again.append(b"t", b"y", 1), status.BUSY)
            self.assertEqual((again.mount(), again.note_length), (status.OK, 8), fails_at)
            fails_at += 1
        self.assertEqual((again.storage_errors, again.note_length), (1, 8))
        self.assertTrue(fails_at > 20)

    def test_a_region_without_an_outbox_has_none(self):
        outbox = NotedOutbox(flash_in_ram(3, 256))
        self.assertEqual((outbox.mount(), outbox.note_length), (status.BLANK, 0))

    def test_a_record_holds_a_note(self):
        flash = flash_in_ram(3, 256)
        with self.assertRaises(ValueError):
            NotedOutbox(flash, 87)
        outbox = NotedOutbox(flash, 88)
        outbox.format(b"01234567")
        self.assertEqual(outbox.set_note(b"x" * 72, 72), status.OK)


class TestEndOfNumbers(unittest.TestCase):
    def test_after_2_to_the_30_messages_a_new_stream_begins_once_the_old_one_is_empty(self):
        last = (1 << 30) - 1
        flash = flash_in_ram(3, 256)
        outbox = Outbox(flash)
        outbox.format(b"01234567", False, last - 2)
        outbox.append(b"t", b"a", 1)
        outbox.append(b"t", b"b", 1)
        self.assertEqual(outbox.append(b"t", b"c", 1), status.FULL)
        outbox.discard_through(last - 1)
        self.assertEqual(outbox.append(b"t", b"c", 1), status.OK)
        for one in (outbox, Outbox(flash)):
            if one is not outbox:
                self.assertEqual(one.mount(), status.OK)
            self.assertEqual(
                (one.load(0), one.loaded_seq, one.next_seq, one.oldest_seq), (status.OK, 0, 1, 0)
            )
            self.assertTrue(one.stream != b"01234567" and len(one.stream) == 8)

    def test_the_last_number_is_none_for_a_message(self):
        outbox = Outbox(flash_in_ram(3, 256))
        self.assertEqual(outbox.format(b"01234567", False, (1 << 30) - 1), status.OK)
        self.assertEqual(outbox.append(b"t", b"a", 1), status.OK)
        self.assertEqual((outbox.load(0), outbox.loaded_seq), (status.OK, 0))
        self.assertTrue(outbox.stream != b"01234567")


if __name__ == "__main__":
    unittest.main()
