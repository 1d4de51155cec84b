"""Records of the shelf that read differently later: what is set aside is in the ring or on the
shelf after every mount, and what release() has removed does not come back.
"""

import struct
import unittest

from fake_flash import PowerCut, flash_in_ram, image_of
from faulty_flash import ERASE, faulty
from nor_flash import NorFlash
from outpost import status
from outpost.outbox import Outbox
from test_shelf import STREAM, fill, formatted, mounted, on_shelf, payload_of
from test_shelf_faults import WeakFlash, crc


def without(flash):
    """The image of a WeakFlash, without the confirmation whose program was cut."""
    image, at = image_of(flash), flash.weak[0] - 14
    return image[:at] + b"\xff" * 16 + image[at + 16 :]


def release_of(seq):
    return struct.pack("<BBHII", 2, 0, 0, seq, crc(STREAM))


class Deaf(NorFlash):
    """A chip of which the blocks in `dead` take no erase and no program, and tell of neither."""

    dead = ()

    def ioctl(self, op, arg):
        if op == ERASE and arg in self.dead:
            return 0
        return NorFlash.ioctl(self, op, arg)

    def writeblocks(self, block, buf, offset=None):
        if block not in self.dead:
            NorFlash.writeblocks(self, block, buf, offset)


def aside(count=3, blocks=4, kind=WeakFlash):
    """(chip, outbox) with messages on the shelf, those before the last one not in the ring."""
    flash = faulty(blocks, kind=kind)
    outbox = Outbox(flash, 1024)
    assert outbox.format(STREAM) == status.OK
    fill(outbox, count + 3, 40)
    for seq in range(count):
        assert outbox.shelf().put(seq) == status.OK
    outbox.discard_through(count - 2)
    assert outbox.save_state() == status.OK
    return flash, outbox


class TestTornRelease(unittest.TestCase):
    def _cut_release(self, seq, is_gone):
        """A release of message `seq` that was cut, and reads as invalid now if `is_gone`."""
        flash, outbox = aside()
        flash.cut_record = release_of(seq)
        with self.assertRaises(PowerCut):
            outbox.shelf().release(seq)
        flash.is_gone = is_gone
        return flash

    def test_what_is_seen_in_ring_and_shelf_stays_on_the_shelf(self):
        flash = self._cut_release(2, True)
        outbox = mounted(flash)
        self.assertEqual((outbox.shelf().has(2), set(on_shelf(outbox))), (True, {0, 1, 2}))
        self.assertEqual(outbox.shelf().put(2), status.OK)
        outbox.discard(2)
        outbox.save_state()
        for flash.is_gone in (True, False):
            self.assertEqual(set(on_shelf(mounted(flash))) | {0, 1}, {0, 1, 2}, flash.is_gone)

    def test_what_is_seen_in_the_ring_alone_is_set_aside_again(self):
        flash = self._cut_release(2, False)
        outbox = mounted(flash)
        self.assertEqual((outbox.shelf().has(2), set(on_shelf(outbox))), (False, {0, 1}))
        self.assertEqual((outbox.load(2), outbox.loaded_seq), (status.OK, 2))
        self.assertEqual(outbox.shelf().put(2), status.OK)
        outbox.discard(2)
        outbox.save_state()
        for flash.is_gone in (True, False):
            self.assertTrue(2 in on_shelf(mounted(flash)), flash.is_gone)

    def test_a_start_settles_it_once(self):
        flash = self._cut_release(2, True)
        mounted(flash)
        programs = flash.operations
        for _ in range(3):
            mounted(flash)
        self.assertEqual(flash.operations, programs)

    def test_with_deep_sleep_a_start_programs_nothing(self):
        flash = self._cut_release(2, True)
        programs = flash.operations
        outbox = Outbox(flash, 1024)
        outbox.settles_later = True
        self.assertEqual((outbox.mount(), flash.operations), (status.OK, programs))
        self.assertEqual((outbox.shelf().has(2), set(on_shelf(outbox))), (False, {0, 1, 2}))
        self.assertEqual((outbox.shelf().put(2), outbox.shelf().has(2)), (status.OK, True))
        outbox.discard(2)
        outbox.save_state()
        flash.is_gone = False
        self.assertTrue(2 in on_shelf(mounted(flash)))

    def test_a_flipped_bit_in_a_message_makes_no_doubt(self):
        flash, outbox = aside()
        block = outbox._shelf._now.block
        flash.put(block * 4096 + 32 + 20, b"\0")  # in the first one
        self.assertEqual(set(on_shelf(mounted(flash))), {1, 2})


class TestTornInARow(unittest.TestCase):
    def test_a_record_is_found_whatever_is_read_before_it(self):
        """One is torn; the next one too, but reads well when the shelf goes on after it."""
        for is_release in (False, True):
            flash, outbox = aside()
            flash.cut_record = payload_of(3)[:40]
            with self.assertRaises(PowerCut):
                outbox.shelf().put(3)
            flash.put(flash.weak[0] - 12, b"\0\0\0\0")  # invalid for good
            flash.weak = None
            outbox = mounted(flash)
            flash.cut_record = payload_of(4)[:40]
            with self.assertRaises(PowerCut):
                outbox.shelf().put(4)
            outbox = mounted(flash)
            wanted = {0, 1, 4}
            if is_release:
                self.assertEqual(outbox.shelf().release(0), status.OK)
                wanted = {1, 4}
            else:
                self.assertEqual(outbox.shelf().put(4), status.OK)
            outbox.discard_through(5)
            outbox.save_state()
            for flash.is_gone in (False, True):
                found = set(on_shelf(mounted(flash)))
                self.assertEqual(found - {2}, wanted, (is_release, flash.is_gone))

    def test_a_release_that_is_not_taken_leaves_no_doubt_in_the_same_start(self):
        flash, outbox = aside()
        flash.programs_fail = 1
        self.assertEqual(outbox.shelf().release(0), status.OK)  # in another block
        self.assertTrue(outbox.shelf().has(2))
        self.assertEqual(set(on_shelf(mounted(flash))), {1, 2})


class TestNumbered(unittest.TestCase):
    def test_records_of_earlier_firmware(self):
        """They are numbered in their order: three messages, and the confirmation of each."""
        flash, outbox = aside(1, 8)
        block = outbox._shelf._now.block
        start = 4096 * block
        salt = struct.unpack("<I", image_of(flash)[start + 28 : start + 32])[0]
        data, place = b"", 0
        for seq in range(3):
            text = b"t/%d" % seq + payload_of(seq)[:40]
            for record in (struct.pack("<BBHII", 0x11, 3, 40, seq, crc(STREAM)) + text,
                           struct.pack("<BBHII", 2, 0, 0, 0x3FFFFFFF, 0)):  # fmt: skip
                record += struct.pack("<I", crc(record, salt ^ place))
                data += record + b"\xff" * (-len(record) % 4)
                place += 1
        flash.put(start + 32, data + b"\xff" * 200)
        outbox.discard_through(2)
        outbox.save_state()
        outbox = mounted(flash)
        self.assertEqual(set(on_shelf(outbox)), {0, 1, 2})
        self.assertEqual((outbox.shelf().put(3), outbox.shelf().release(1)), (status.OK, status.OK))
        self.assertEqual(set(on_shelf(mounted(flash))), {0, 2, 3})


class TestTwoBlocks(unittest.TestCase):
    def test_one_that_is_not_completed_does_not_count_over_later_releases(self):
        """A cut leaves its copies without their confirmation, and beside the block in use."""
        for is_bad in (False, True):
            flash, outbox = aside(4, 6)
            outbox.discard_through(3)
            outbox.save_state()
            while outbox._shelf._now.offset + 600 < 4096:  # room for releases alone
                outbox._shelf._now.confirm(outbox)
            flash.cut_record = struct.pack("<BBHII", 2, 0, 0, 0x3FFFFFFF, 0)
            fill(outbox, 1, 900)
            with self.assertRaises(PowerCut):
                outbox.shelf().put(outbox.next_seq - 1)
            flash = Deaf(flash_in_ram(6, 1, without(flash))._file, 6, 1)
            outbox = mounted(flash)
            rival = [block for block in outbox.lent if block != outbox._shelf._now.block]
            flash.dead = rival if is_bad else ()
            self.assertEqual((len(rival), outbox.shelf().release(0)), (1, status.OK))
            self.assertEqual(set(on_shelf(mounted(flash))), {1, 2, 3}, is_bad)


class TestBadBlock(unittest.TestCase):
    def _stays_empty(self, flash, record_bytes=1024):
        for number in range(12):
            outbox = Outbox(flash, record_bytes)
            self.assertEqual((outbox.mount(), outbox.aside), (status.OK, 0), number)
            for _ in range(10):
                fill(outbox, 1, 40)
                outbox.discard_through(outbox.next_seq - 1)
        return outbox

    def test_in_a_ring_of_three_it_brings_nothing_back(self):
        flash, outbox = aside(1, 3, Deaf)
        flash.dead = (outbox._shelf._now.block,)
        self.assertEqual(outbox.shelf().release(0), status.OK)
        self.assertEqual(outbox.left_out, 1)
        outbox = self._stays_empty(flash)
        self.assertEqual(outbox.left_out, 1)

    def test_it_brings_nothing_back_when_the_shelf_has_moved_since(self):
        for blocks in (4, 8):
            flash, outbox = aside(2, blocks, Deaf)
            outbox.discard_through(1)
            flash.dead = (outbox._shelf._now.block,)
            self.assertEqual(outbox.shelf().release(0), status.OK)  # in another block
            outbox.save_state()
            outbox = mounted(flash)
            self.assertEqual(set(on_shelf(outbox)), {1})
            self.assertEqual((outbox.shelf().release(0), outbox.lent), (status.OK, ()))
            self._stays_empty(flash)

    def test_no_message_is_passed_over_when_the_block_read_last_was_lent(self):
        """The ring says that a shelf is void while the empty one is in the block read last."""
        flash, outbox = aside(2, 4, Deaf)
        last = outbox.next_seq - 1
        self.assertEqual((outbox.load(last + 1), outbox._head), (status.EMPTY, 0))
        flash.dead = (outbox._shelf._now.block,)
        self.assertEqual(outbox.shelf().release(0), status.OK)  # in another block
        while outbox._head == 0:
            self.assertEqual(outbox.append(b"", b"", 0, 2), status.OK)
        outbox.discard_through(last)
        fill(outbox, 2, 40)
        self.assertEqual(outbox.shelf().release(0), status.OK)
        for seq in (last + 1, last + 2):
            self.assertEqual((outbox.load(seq), outbox.loaded_seq), (status.OK, seq))

    def test_a_shelf_after_that_counts(self):
        for is_same_start in (True, False):
            flash, outbox = aside(1, 6, Deaf)
            flash.dead = (outbox._shelf._now.block,)
            self.assertEqual(outbox.shelf().release(0), status.OK)
            if not is_same_start:
                outbox = mounted(flash)
            seq = outbox.next_seq
            fill(outbox, 1, 40)
            self.assertEqual(outbox.shelf().put(seq), status.OK)
            outbox.discard_through(seq)
            outbox.save_state()
            for _ in range(3):
                outbox = mounted(flash)
                self.assertEqual(set(on_shelf(outbox)), {seq})
                for _ in range(90):  # more than a sector
                    fill(outbox, 1, 40)
                    outbox.discard_through(outbox.next_seq - 1)
            self.assertEqual(outbox.shelf().release(0), status.OK)
            self._stays_empty(flash)

    def test_in_a_full_ring_an_empty_shelf_stays_until_there_is_room(self):
        flash, outbox = aside(1, 5, Deaf)
        flash.dead = (outbox._shelf._now.block,)
        outbox.shelf().release(0)
        flash, outbox = aside(1, 5, Deaf)
        own = outbox._shelf._now.block
        while len(outbox._out) and outbox._is_free(outbox._after(outbox._head)):
            after = outbox._after(outbox._head)
            if outbox._after(after) == outbox._tail:
                break  # one block is left
            fill(outbox, 1, 900)
        flash.dead = (own,)
        self.assertEqual((outbox.shelf().release(0), outbox.aside), (status.OK, 0))
        self.assertEqual(mounted(flash).aside, 0)
        outbox = mounted(flash)
        while outbox.oldest_seq < outbox.next_seq:
            outbox.discard(outbox.oldest_seq)
        fill(outbox, 1, 40)
        if outbox.lent:
            self.assertEqual(outbox.shelf().tidy(), status.OK)
        self.assertEqual((outbox._out, outbox.lent), ((own,), ()))
        self._stays_empty(flash)


class TestNothingHeld(unittest.TestCase):
    """The last message has left: its block, and the empty one that follows."""

    def cut(self, at, flash, outbox):
        """The chip and the outbox after a release of message 0 of the shelf that was cut before
        this operation. They are the release; an erase, the header and the confirmation of the empty
        one; the erases of both."""
        flash.on_cut = flash_in_ram(1).on_cut
        flash.cut_at, flash.cut_mode = flash.operations + at, "nothing"
        with self.assertRaises(PowerCut):
            outbox.shelf().release(0)
        flash.cut_at = 0
        return flash, mounted(flash)

    def moved(self, blocks):
        """(chip, outbox) with one message on the shelf, which has left a block that takes no
        erase."""
        flash, outbox = aside(2, blocks, Deaf)
        outbox.discard_through(outbox.next_seq - 1)
        assert outbox.save_state() == status.OK
        flash.dead = (outbox._shelf._now.block,)
        assert outbox.shelf().release(0) == status.OK
        return flash, outbox

    def test_one_whose_erase_was_cut_takes_no_message_before_it_is_erased(self):
        """It reads as before the erase for a while, and then as erased."""
        flash, outbox = self.cut(6, *aside(1))
        self.assertEqual((outbox.aside, len(outbox.lent)), (0, 1))
        start, erases = 4096 * outbox.lent[0], flash.block_erases[outbox.lent[0]]
        before = image_of(flash)[start : start + 4096]
        seq = outbox.next_seq - 1
        self.assertEqual(outbox.shelf().put(seq), status.OK)
        outbox.discard_through(seq)
        self.assertEqual(outbox.save_state(), status.OK)
        if flash.block_erases[start // 4096] == erases:
            for at in range(4096):
                if before[at] != 0xFF:
                    flash.put(start + at, b"\xff")
        self.assertEqual(set(on_shelf(mounted(flash))), {seq})

    def test_one_whose_confirmation_was_cut_stays_until_what_is_older_is_void(self):
        for at in range(2, 7):
            flash, outbox = self.cut(at, *self.moved(8))
            self.assertEqual(outbox.aside, 0)
            if outbox.lent:
                self.assertEqual(outbox.shelf().tidy(), status.OK)
            outbox = mounted(flash)
            self.assertEqual((outbox.aside, outbox.lent), (0, ()), at)
            self.assertEqual((outbox._out, outbox.left_out), (flash.dead, 1))

    def test_one_that_stays_in_a_full_ring_stays_until_there_is_room(self):
        flash, outbox = self.moved(7)
        outbox = mounted(flash)
        while fill(outbox, 1, 900)._offset + 1000 < 4096 or outbox._may_open(
            outbox._after(outbox._head)
        ):
            pass
        self.assertEqual((outbox.shelf().release(0), outbox.aside), (status.OK, 0))
        self.assertTrue(len(outbox.lent) > 0)
        for is_full in (True, True, False):
            if not is_full:
                outbox.discard_through(outbox.next_seq - 1)
                assert outbox.save_state() == status.OK
            if outbox.lent:
                self.assertEqual(outbox.shelf().tidy(), status.OK)
            copy = Deaf(flash_in_ram(7, 1, image_of(flash))._file, 7, 1)
            self.assertEqual(mounted(copy).aside, 0, is_full)
        outbox = mounted(flash)
        self.assertEqual((outbox._out, outbox.lent, outbox.left_out), (flash.dead, (), 1))


class TestForcedFormat(unittest.TestCase):
    def test_of_an_outbox_without_shelf(self):
        flash, outbox = formatted()
        self.assertEqual(outbox.format(STREAM, True), status.OK)
        self.assertEqual(mounted(flash).aside, 0)


if __name__ == "__main__":
    unittest.main()
