"""What the first append() after mount() makes sure of, and what tells a blank region from a foreign
one.
"""

import unittest

from fake_flash import image_of, looking
from faulty_flash import ERASE, FaultyFlash, faulty, formatted, publish
from outpost import status
from outpost.flash import settle
from outpost.outbox import Outbox
from outpost.state_note import NotedOutbox
from virtual.chip import Noise

COPY_AT = 4096 - 32


class Deaf(FaultyFlash):
    """Block `dead` takes no erase, and does not tell."""

    dead = -1

    def ioctl(self, op, arg):
        return 0 if (op, arg) == (ERASE, self.dead) else FaultyFlash.ioctl(self, op, arg)


class TestDoubts(unittest.TestCase):
    """The newest sector has one record, and no copy of its header."""

    def setUp(self):
        self.flash, outbox = formatted()
        while not outbox._head:
            publish(outbox)
        self.count = outbox.next_seq

    def mounted(self):
        outbox = looking(Outbox)(self.flash)
        self.assertEqual((outbox.mount(), outbox._head), (status.OK, 1))
        return outbox

    def check(self, outbox, head):
        """It takes a message, in that block, and nothing is lost."""
        publish(outbox)
        self.assertEqual((outbox._head, outbox.next_seq), (head, self.count + 1))
        self.flash.changed = -1
        again = Outbox(self.flash)
        self.assertEqual((again.mount(), again.next_seq), (status.OK, self.count + 1))

    def test_a_copy_of_the_header_is_made_and_records_end_before_it(self):
        outbox = self.mounted()
        self.check(outbox, 1)
        self.assertEqual((outbox._limit, outbox.storage_errors), (COPY_AT, 0))

    def test_a_copy_is_made_right_behind_the_last_record(self):
        flash = faulty(3)
        outbox = Outbox(flash, 4064)
        outbox.format(b"01234567")
        for _ in range(2):
            self.assertEqual(outbox.append(b"t", bytes(4032 - 17), 4032 - 17), status.OK)
        self.assertEqual((outbox._head, outbox._offset), (1, COPY_AT))
        again = Outbox(flash, 4064)
        self.assertEqual((again.mount(), again.append(b"t", b"", 0)), (status.OK, status.OK))
        self.assertEqual(image_of(flash)[4096 + COPY_AT : 8192], image_of(flash)[4096 : 4096 + 32])

    def test_no_copy_is_made_where_two_records_prove_the_header(self):
        outbox = self.mounted()
        while outbox._head != 2:
            publish(outbox)
        publish(outbox)
        again = looking(Outbox)(self.flash)
        self.assertEqual(again.mount(), status.OK)
        publish(again)
        self.assertEqual((again._head, again._limit), (2, 4096))

    def test_numbers_are_passed_over_where_a_sector_behind_it_may_have_used_them(self):
        """It may, unless the largest record still had room here."""
        for room, passed in ((512, 0), (508, 254)):
            self.setUp()
            outbox = Outbox(self.flash)
            outbox.mount()
            while outbox._head != 2:
                publish(outbox)
            while (rest := 4096 - outbox._offset - room) > 0:
                length = 400 if rest > 500 else rest - 17
                self.assertEqual(outbox.append(b"t", bytes(length), length), status.OK)
            self.assertEqual(4096 - outbox._offset, room)
            self.flash.put(3 * 4096, bytes(4096))
            again = looking(Outbox)(self.flash)
            self.assertEqual(again.mount(), status.OK)
            self.assertEqual(again.next_seq, outbox.next_seq + passed, room)
            self.assertEqual((again._doubt & 4) > 0, passed > 0)
            erases = again.erases
            self.assertEqual(again.erase_ahead(), not passed)
            self.assertEqual(again.erases - erases, 0 if passed else 1)

    def test_a_copy_that_was_not_taken_ends_the_sector(self):
        self.flash.programs_lost = 1
        outbox = self.mounted()
        self.check(outbox, 2)
        self.assertEqual(outbox.storage_errors, 1)

    def test_a_header_that_reads_differently_now_ends_the_sector(self):
        for header in (bytes(8), image_of(self.flash)[:32]):
            outbox = self.mounted()
            self.flash.changed, self.flash.changed_as = 1, header
            publish(outbox)
            self.assertEqual(outbox._head, 2)
            self.setUp()

    def test_a_rest_that_reads_differently_now_ends_the_sector(self):
        outbox = self.mounted()
        self.flash.put(4096 + 3000, b"\x00")
        self.check(outbox, 2)

    def test_a_torn_sector_behind_it_is_erased_before_the_next_record(self):
        for junk in (b"\x00" * 40, b"OB", b"O"):
            self.setUp()
            self.flash.put(2 * 4096, junk)
            outbox = self.mounted()
            erases = self.flash.block_erases[2]
            self.check(outbox, 1)
            self.assertEqual(self.flash.block_erases[2] - erases, 1)

    def test_one_that_takes_no_erase_is_left_out_and_a_sector_with_a_higher_number_follows(self):
        """Its header may read as valid later, and its number is higher than the head's."""
        self.flash.put(2 * 4096, b"OB")
        self.flash.erases_fail = 2  # it is tried twice
        outbox = self.mounted()
        number = outbox._sector_no
        self.check(outbox, 3)
        self.assertEqual((outbox.left_out, outbox._out), (1, (2,)))
        self.assertTrue(outbox._sector_no > number + 16)


class TestTornMessage(unittest.TestCase):
    """Two blocks with a message each, the second one torn: it is read at one start, not later."""

    def setUp(self):
        self.flash = faulty(2)
        outbox = Outbox(self.flash, 4032)
        outbox.format(b"01234567")
        for _ in range(2):
            self.assertEqual(outbox.append(b"t", bytes(4032 - 17), 4032 - 17), status.OK)
        outbox = self.mounted()  # there is room for the copy of the header alone
        self.assertEqual((outbox.load(1), outbox.loaded_seq), (status.OK, 1))
        outbox.discard(0)
        self.flash.put(4096 + 1000, b"\xff" * 2000)

    def mounted(self):
        outbox = Outbox(self.flash, 4032)
        self.assertEqual((outbox.mount(), outbox._head), (status.OK, 1))
        return outbox

    def test_its_sector_is_the_head_while_the_other_block_is_torn_in_its_erase(self):
        """Of which the copy of the header may be the last to go."""
        self.flash.put(0, b"\xff" * 2048)
        outbox = self.mounted()
        self.assertEqual(outbox.load(0), status.EMPTY)  # released, as no record says
        self.assertEqual((outbox.append(b"t", b"", 0), outbox._head), (status.OK, 0))

    def test_its_number_was_seen_and_is_not_given_again(self):
        for rest in (b"", b"\xff" * 2048, b"\xff" * 4096, b"\x00" * 4096):
            self.flash.put(0, rest)
            outbox = self.mounted()
            self.assertTrue(outbox.next_seq > 1, rest[:1])
            outbox.discard_through(outbox.next_seq - 1)
            self.assertEqual((outbox.append(b"t", b"", 0), outbox._head), (status.OK, 0))
            self.assertTrue(outbox.next_seq > 2)
            self.setUp()

    def test_its_number_is_passed_over_where_its_sector_has_no_room_for_a_proof(self):
        """In a full ring it may have been shown. With room it would have been proven first."""
        for kind, align, most in ((Outbox, 4, 4000), (Outbox, 32, 3968), (NotedOutbox, 4, 3928)):
            for record_bytes, passed in ((most, 0), (most + 1, 254), (most + align, 254)):
                flash = faulty(4)
                outbox = kind(flash, record_bytes, align)
                outbox.format(b"01234567")
                length = record_bytes - 17
                for _ in range(2):
                    self.assertEqual(outbox.append(b"t", bytes(length), length), status.OK)
                self.assertEqual(outbox._head, 1)
                flash.put(2 * 4096, b"\x00" * 100)
                again = kind(flash, record_bytes, align)
                self.assertEqual((again.mount(), again.next_seq), (status.OK, 2 + passed))


class TestBlankOrForeign(unittest.TestCase):
    def _status(self, *puts):
        flash = faulty(3)
        for at, data in puts:
            flash.put(at, data)
        return Outbox(flash).mount()

    def _mark(self, place):
        return 3 * 4096 - 32 * (place + 1), settle.MARK

    def test_one_byte_anywhere_is_foreign(self):
        self.assertEqual(self._status(), status.BLANK)
        for at in (0, 1, 4095, 4096, 8191, 8192, self._mark(7)[0] - 1):
            self.assertEqual(self._status((at, b"\x12")), status.FOREIGN, at)

    def test_after_one_mark_the_first_header_may_be_torn_and_no_more(self):
        torn = (5, b"\x00" * 20)
        self.assertEqual(self._status(self._mark(0)), status.BLANK)
        self.assertEqual(self._status(self._mark(0), torn), status.BLANK)
        for at in (32, 4095, 4096, 8192, self._mark(0)[0] - 33):
            self.assertEqual(self._status(self._mark(0), torn, (at, b"\x12")), status.FOREIGN, at)

    def test_after_two_marks_the_first_block_may_hold_anything(self):
        marks = self._mark(0), self._mark(1)
        self.assertEqual(self._status(*marks, (0, b"anything" * 500)), status.BLANK)
        for at in (4096, 8192):
            self.assertEqual(self._status(*marks, (at, b"\x12")), status.FOREIGN, at)

    def test_a_place_with_a_torn_mark_is_not_used_again(self):
        at, mark = self._mark(0)
        for length in (1, 31):
            flash = faulty(3)
            flash.put(at, mark[:length])
            outbox = Outbox(flash)
            self.assertEqual(outbox.format(b"01234567"), status.OK)
            image = image_of(flash)
            self.assertEqual(image[at : at + 32], mark[:length] + b"\xff" * (32 - length))
            self.assertEqual(image[at - 32 : at], mark)

    def test_a_mark_of_which_a_cut_cleared_more_bits_is_a_torn_one(self):
        """The way "extra bits" of the proof's chip: each bit that stays falls in one case of 8."""
        at, mark = self._mark(0)
        for seed in range(300):
            noise = Noise(seed)
            clear = noise.mask(32) & noise.mask(32) & noise.mask(32)
            data = bytes(byte & ~(clear >> 8 * i) & 255 for i, byte in enumerate(mark))
            self.assertEqual(self._status((at, data)), status.BLANK, seed)
            data = b"\xff" * 16 + bytes(noise.below(96) + 32 for _ in range(16))
            self.assertEqual(self._status((at, data)), status.FOREIGN, seed)

    def test_a_mark_with_up_to_eight_bits_that_fell_too_far_is_a_torn_one(self):
        """If as many others did not fall; else up to 64."""
        at, mark = self._mark(0)
        for fallen, unfallen, expected in (
            (8, 9, status.BLANK),
            (9, 9, status.FOREIGN),
            (64, 8, status.BLANK),
            (65, 8, status.FOREIGN),
        ):
            data, left = bytearray(mark), fallen
            for i in range(len(data)):
                for bit in range(8):
                    if unfallen and not data[i] >> bit & 1:
                        data[i] |= 1 << bit
                        unfallen -= 1
            for i in range(len(data)):
                for bit in range(8):
                    if left and mark[i] >> bit & 1:
                        data[i] ^= 1 << bit
                        left -= 1
            self.assertEqual(self._status((at, data)), expected, fallen)


class TestFormat(unittest.TestCase):
    def _marks(self, flash):
        return image_of(flash).count(settle.MARK)

    def test_one_mark_or_two_once_the_first_block_is_torn(self):
        """What a cut left: marks, torn ones in the next places, and block 0; the marks there
        are then."""
        torn_mark = bytes(byte | 0x0F for byte in settle.MARK)
        for whole, torn, block_0, expected in (
            (0, 0, b"", 1),
            (1, 0, b"", 1),
            (1, 0, b"\x00" * 20, 2),
            (1, 0, b"\x00", 2),
            (2, 0, b"\x00", 2),
            (0, 7, b"", 1),
        ):
            flash = faulty(3)
            for place in range(whole + torn):
                flash.put(3 * 4096 - 32 * (place + 1), settle.MARK if place < whole else torn_mark)
            flash.put(0, block_0)
            found = Outbox(flash).format(b"01234567"), self._marks(flash)
            self.assertEqual(found, (status.OK, expected), (whole, torn, block_0))

    def test_over_something_foreign_every_block_is_erased(self):
        flash = faulty(3)
        for at in (4095, 4096, 9000):
            flash.put(at, b"\x12")
        outbox = Outbox(flash)
        self.assertEqual(outbox.format(b"01234567"), status.FOREIGN)
        self.assertEqual(outbox.format(b"01234567", True), status.OK)
        self.assertEqual(image_of(flash)[4096:], b"\xff" * 8192)

    def test_over_an_outbox_what_it_used_is_erased_and_nothing_of_it_is_kept(self):
        flash, outbox = formatted(6)
        while outbox._head < 2:
            publish(outbox)
        outbox.discard(3)
        outbox.discard(0)
        publish(outbox)
        flash.put(4 * 4096, b"\x00")  # a header of which one byte was programmed
        erases = list(flash.block_erases)
        self.assertEqual(outbox.format(b"89abcdef", True), status.OK)
        erased = [after - before for after, before in zip(flash.block_erases, erases)]
        self.assertEqual(erased, [1, 1, 1, 1, 1, 0])
        self.assertEqual((outbox.oldest_seq, outbox.next_seq, outbox.acked), (0, 0, 0))
        self.assertEqual((outbox._head, outbox.boot), (3, 1))

    def test_its_number_is_above_those_that_any_start_may_have_used_up(self):
        """In a block that takes no erase, and whose sector was not found this time."""
        for blocks in (2, 3, 8):
            _, outbox = formatted(blocks)
            publish(outbox)
            before = outbox._sector_no
            self.assertEqual(outbox.format(b"89abcdef", True), status.OK)
            most = (blocks + 1) * settle.number_span(outbox)
            self.assertTrue(outbox._sector_no - before > most, blocks)

    def test_over_an_outbox_with_a_block_that_takes_no_erase_nothing_of_it_is_kept(self):
        """Its sector may follow the new header, which has no record yet."""
        for dead in range(6):
            flash, outbox = formatted(6, faulty(6, kind=Deaf))
            while outbox._head < 3:
                publish(outbox)
            flash.dead = dead
            self.assertEqual(outbox.format(b"89abcdef", True), status.OK, dead)
            again = Outbox(flash)
            self.assertEqual((again.mount(), again.stream), (status.OK, b"89abcdef"), dead)
            self.assertEqual((again.load(0), again.next_seq), (status.EMPTY, 0), dead)

    def test_the_first_block_that_takes_a_header_is_the_first_of_the_ring(self):
        flash = faulty(4)
        flash.lost, flash.programs_lost = 0, 1
        outbox = Outbox(flash)
        self.assertEqual(outbox.format(b"01234567"), status.OK)
        self.assertEqual((outbox._head, outbox.storage_errors), (1, 1))
        publish(outbox)
        self.assertEqual((Outbox(flash).mount(), outbox.load(0)), (status.OK, status.OK))

    def test_where_no_block_takes_a_header_it_is_a_fault_of_the_flash(self):
        flash = faulty(4)
        flash.programs_lost = 100
        outbox = Outbox(flash)
        self.assertEqual((outbox.format(b"01234567"), outbox.storage_errors), (status.STORAGE, 4))


if __name__ == "__main__":
    unittest.main()
